"""When cuDNN's graphs are used at all; what they compute is tested with `triton/one_pass` in test_triton."""

import math

import pytest
import torch

from twofold.kernels import cudnn

GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _a_new_gpu(monkeypatch):
    monkeypatch.setattr(cudnn, "INSTALLED", True)
    monkeypatch.setattr(cudnn, "_tested", {})
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)


def results(monkeypatch, *errors):
    monkeypatch.setattr(cudnn, "_errors", lambda *_: errors)


def test_a_device_that_passes_is_used_and_tested_once(monkeypatch):
    results(monkeypatch, 0.001, 0.002)
    assert cudnn.why_not(GPU) is None
    results(monkeypatch, 1.0)
    assert cudnn.why_not(GPU) is None


@pytest.mark.parametrize("errors", [(0.001, math.nan), (math.nan, 0.001), (0.5,)], ids=str)
def test_a_device_that_fails_is_not_used(monkeypatch, errors):
    results(monkeypatch, *errors)
    with pytest.warns(RuntimeWarning, match="fails its self-test"):
        assert "do not serve" in cudnn.why_not(GPU)


def test_whatever_the_library_raises_it_is_not_used(monkeypatch):
    def fail(*_):
        raise RuntimeError("no such engine")

    monkeypatch.setattr(cudnn, "_errors", fail)
    with pytest.warns(RuntimeWarning, match="RuntimeError: no such engine"):
        assert cudnn.why_not(GPU) is not None


def test_an_older_device_is_not_tried(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert "do not serve" in cudnn.why_not(GPU)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert "do not serve" in cudnn.why_not(GPU)


def test_inside_a_capture_nothing_is_tested_and_nothing_is_concluded(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert cudnn.why_not(GPU) is not None
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    results(monkeypatch, 0.001)
    assert cudnn.why_not(GPU) is None


def test_a_traced_graph_takes_the_result_that_is_known(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert cudnn.why_not(GPU) is None
    cudnn._tested[0] = False
    assert cudnn.why_not(GPU) is not None


def test_without_the_extra_or_a_gpu_the_reason_says_so(monkeypatch):
    assert "need a GPU" in cudnn.why_not(torch.device("cpu"))
    monkeypatch.setattr(cudnn, "INSTALLED", False)
    assert "the extra gpu brings it" in cudnn.why_not(GPU)
