"""On a GPU: bfloat16, its random numbers, the fused optimizer, a compiled model."""

import pytest

from tests.training import tiny
from tests.training.test_resume import At, Crash, crash

pytestmark = pytest.mark.gpu


def losses(folder):
    return [line["loss"] for line in tiny.curve(folder)]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_gpu_learns_what_a_cpu_learns(precision, tmp_path):
    for device in ("cpu", "cuda"):
        changes = {"device": device, "precision": "fp32" if device == "cpu" else precision}
        tiny.train(tmp_path / device, model=tiny.model(hidden_dropout=0.0), changes=changes)
    assert losses(tmp_path / "cuda") == pytest.approx(
        losses(tmp_path / "cpu"), abs=1e-3 if precision == "fp32" else 5e-2
    )


def test_resumed_runs_are_the_same(tmp_path):
    """Dropout included. Sums on a GPU may come in another order, so not bit for bit."""
    changes = {"device": "auto", "precision": "fp32"}
    tiny.train(tmp_path / "whole", changes=changes)
    with pytest.raises(Crash):
        tiny.train(tmp_path / "resumed", changes=changes, progress=At(5, crash))
    tiny.train(tmp_path / "resumed", changes=changes, resume=True)
    assert losses(tmp_path / "resumed") == pytest.approx(losses(tmp_path / "whole"), abs=1e-5)


def test_a_checkpoint_changes_devices(tmp_path):
    model = {"hidden_dropout": 0.0}
    tiny.train(tmp_path / "whole", model=tiny.model(**model))
    for step, device in ((3, "cpu"), (7, "cuda")):
        with pytest.raises(Crash):
            tiny.train(
                tmp_path / "moved",
                model=tiny.model(**model),
                changes={"device": device, "precision": "fp32"},
                progress=At(step, crash),
                resume=step > 3,
            )
    tiny.train(tmp_path / "moved", model=tiny.model(**model), resume=True)
    assert losses(tmp_path / "moved") == pytest.approx(losses(tmp_path / "whole"), abs=1e-3)


def test_compiled_training(tmp_path):
    for name, compiled in (("plain", False), ("compiled", True)):
        changes = {"device": "cuda", "precision": "fp32", "compile": compiled}
        tiny.train(tmp_path / name, model=tiny.model(hidden_dropout=0.0), changes=changes)
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "plain"), abs=1e-3)
