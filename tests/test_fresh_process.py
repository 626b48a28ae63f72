"""What a fresh interpreter imports, how long that takes, and that nothing hangs on optional packages or asserts."""

import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest

ROOT = Path(__file__).parents[1]


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["twofold", "twofold.cli"])
def test_importing_loads_neither_torch_nor_transformers(module):
    loaded = run(f"import sys, {module}; print([m for m in ('torch', 'transformers', 'numpy') if m in sys.modules])")
    assert loaded == "[]"


def test_importing_is_quick():
    """Under 50 ms of a core; the best of several, because a busy machine only adds."""

    def best(code):
        found = []
        for _ in range(5):
            before = getrusage(RUSAGE_CHILDREN)
            run(code)
            after = getrusage(RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(found)

    assert best("import twofold") - best("pass") < 0.050


def test_public_names_are_listed_and_unknown_ones_refused():
    code = "import twofold; print(set(twofold.__all__) <= set(dir(twofold)), hasattr(twofold, 'nonsense'))"
    assert run(code) == "True False"


@pytest.mark.parametrize(("name", "extra"), [("convert", "models"), ("load", "models"), ("open_run", "train")])
def test_a_name_whose_extra_is_missing_names_it(name, extra):
    code = f"""
import sys
sys.modules["transformers"] = None
try:
    from twofold import {name}
except ImportError as error:
    print(error)
"""
    assert run(code) == f"transformers is not installed: pip install '.[{extra}]' in Twofold's sources"


def test_a_folder_that_is_none_is_told_through_the_public_names():
    code = """
import twofold
for open_it in (twofold.load, twofold.open_run):
    try:
        open_it("no/such/folder")
    except ValueError as error:
        print(error)
"""
    told = run(code).splitlines()
    assert "no/such/folder, which is none" in told[0]
    assert told[1] == "no/such/folder is no run: there is no such folder"


BLOCKED = "import sys; sys.modules.update(dict.fromkeys(['triton', 'transformers', 'tyro', 'rich', 'numpy']))\n"

USE = """
import torch
from twofold import SplitSelfAttention, self_weight, split_attention, split_attention_weights
from twofold.attention import AdditiveAttention, CrossAttention, KeyValues, Rotary
tensors = [torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(5)]
for backend in ("reference", "columns", "dense", "shifted"):
    split_attention(*tensors, is_causal=True, backend=backend).sum().backward()
self_weight(*tensors[:3]), split_attention_weights(*tensors[:3])
layer = SplitSelfAttention(8, 2, rotary=Rotary(width=4), qk_norm=True)
y, past = layer(torch.randn(1, 3, 8), is_causal=True)
CrossAttention(8, 2)(y, y), AdditiveAttention(8, 8, 4)(y, y)
print(tuple(layer(torch.randn(1, 1, 8), past)[0].shape))
"""


def test_the_library_works_with_every_optional_package_absent():
    assert run(BLOCKED + USE) == "(1, 1, 8)"


def test_a_missing_extra_is_named():
    code = """
import sys
sys.modules["tyro"] = None
from twofold.cli import main
sys.exit(main(["bench", "attention"]) - 2)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "pip install '.[cli]' in Twofold's sources" in done.stderr
