"""The ladder from a hash table to split attention: what is said of every rung and step is so."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from twofold import split_attention

SCRIPT = Path(__file__).parents[2] / "examples" / "from_lookup_to_attention.py"
KEYS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
VALUES = torch.tensor([[1.0], [2.0], [4.0]])


@pytest.fixture(scope="module")
def road():
    spec = importlib.util.spec_from_file_location("from_lookup_to_attention", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_rung_finds_what_it_says(road):
    query = torch.tensor([[0.0, 1.0], [0.6, 0.8]])
    assert road.exact(query, KEYS, VALUES).tolist() == [[2.0], [0.0]]
    assert road.nearest(query, KEYS, VALUES).tolist() == [[2.0], [2.0]]
    assert road.mean_of_top(query[1:], KEYS, VALUES, top=2).tolist() == [[1.5]]
    assert road.weighted_top(query[1:], KEYS, VALUES, top=2).item() == pytest.approx(0.6 * 1 + 0.8 * 2)
    expected = torch.tensor([0.6, 0.8, -0.6]).exp() @ VALUES[:, 0] / torch.tensor([0.6, 0.8, -0.6]).exp().sum()
    assert road.softmax(query[1:], KEYS, VALUES).item() == pytest.approx(expected.item())


def test_the_split_by_hand_is_the_packages(road):
    x, *W = torch.randn(6, 7, 7, dtype=torch.float64)
    query, key, value, self_key, self_value = ((x @ weight)[None, None] for weight in W)
    for is_causal in (True, False):
        expected = split_attention(query, key, value, self_key, self_value, is_causal=is_causal)[0, 0]
        torch.testing.assert_close(road.split(x, *W, is_causal=is_causal), expected)


def test_from_the_command_line(tmp_path):
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", "--seeds", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ladder = {name: runs[0] for name, runs in found["ladder"].items()}
    assert [run["gradient"] for run in ladder.values()] == [False, False, False, True, True]
    assert all(run["before"] < 0.15 for run in ladder.values())
    assert [run["after"] > 0.6 for run in ladder.values()] == [False, False, False, True, True]
    raw, scaled = zip(*found["sharpness"].values(), strict=True)
    assert raw[0] < 0.4 < 0.9 < raw[-1]
    assert max(scaled) - min(scaled) < 0.05
    gaps = [step["off"] for step in found["layer"] if step["off"] is not None]
    assert len(gaps) == 9
    assert max(gaps) < 1e-14


def test_the_picture(tmp_path):
    path = tmp_path / "lookups.svg"
    subprocess.run([sys.executable, SCRIPT, "--picture", path], check=True)
    assert path.read_text().startswith("<?xml")
    assert "softmax over all" in path.read_text()
