"""cuDNN's attention with options that torch does not offer, through NVIDIA's Python frontend (the extra `gpu`).

torch calls cuDNN for causal attention, with outputs in layouts of its own choice. Graphs built here add
- two patterns: a token sees only later tokens, or all but itself, for bidirectional split attention;
- the layout of every tensor, outputs included, so that views such as rows 1.. of a tensor need no copy.

cuDNN compiles a graph for each combination of sizes and layouts, in a fraction of a second. They are cached per thread,
because a cuDNN execution plan may be used by one thread at a time.
"""

import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from twofold.kernels import self_test
from twofold.kernels.installed import is_installed

# Which columns a row sees, both counted from 0 in the given tensors: those up to its own number, those from it on, or
# all but it. The first two skip hidden tiles; the last computes every score.
Pattern = Literal["up to", "from", "all but"]

# The score of a hidden pair: its weight is 0, and times log2(e) it is still finite.
HIDDEN = -1.0e38

# (forward, backward) patterns of the self-test, all of which must pass before any graph is used.
SELF_TESTS: list[tuple[Pattern, Pattern]] = [("up to", "up to"), ("from", "all but"), ("all but", "all but")]

DTYPES = {torch.bfloat16: "BFLOAT16", torch.float16: "HALF"}

# Looked up at import: a compiled graph cannot do it.
INSTALLED = is_installed("cudnn")


def why_not(device: torch.device) -> str | None:
    if not INSTALLED:
        return "nvidia-cudnn-frontend is not installed (the extra gpu brings it)"
    if device.type != "cuda":
        return f"cuDNN's graphs need a GPU, got {device}"
    # Neither a graph that is being traced nor one that is being captured can run the self-test.
    usable = _is_promising if torch.compiler.is_compiling() else _is_usable
    return None if usable(device.index or 0) else f"cuDNN's graphs do not serve on {device}"


# Results of the self-test by device index.
_tested: dict[int, bool] = {}


@torch.compiler.assume_constant_result
def _is_promising(device_index: int) -> bool:
    """The self-test's result if it has run, else whether the device is of a generation that passes it."""
    is_new_enough = torch.version.hip is None and torch.cuda.get_device_capability(device_index) >= (9, 0)
    return _tested.get(device_index, is_new_enough)


def _is_usable(device_index: int) -> bool:
    if device_index not in _tested:
        if torch.cuda.is_current_stream_capturing():
            return False
        device = torch.device("cuda", device_index)

        def errors() -> list[float]:
            return [error for patterns in SELF_TESTS for error in _errors(device, *patterns)]

        _tested[device_index] = _is_promising(device_index) and self_test.passes(f"cuDNN's graphs on {device}", errors)
    return _tested[device_index]


def forward(
    query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, pattern: Pattern, scale: float
) -> None:
    """Write attention into `out` (B, Hq, T, D) and its log-sum-exp into `lse` (B, Hq, T), contiguous."""
    _run(_build_forward, (query, key, value, out, lse[..., None]), pattern, scale)


def backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    grad: Tensor,
    lse: Tensor,
    grad_query: Tensor,
    grad_key: Tensor,
    grad_value: Tensor,
    pattern: Pattern,
    scale: float,
) -> None:
    """Write the gradients. `out` and `lse` may belong to a larger softmax of which this is one part."""
    tensors = (query, key, value, out, grad, lse[..., None], grad_query, grad_key, grad_value)
    _run(_build_backward, tensors, pattern, scale)


class _Graph(NamedTuple):
    graph: Any
    tensors: list[Any]  # the graph's symbols for its inputs and outputs, in order
    constants: dict[Any, Tensor]
    workspace: int  # bytes


class _Thread(threading.local):
    def __init__(self) -> None:
        self.handles: dict[int, Any] = {}
        self.graphs: dict[tuple, _Graph] = {}


_thread = _Thread()


def _run(build: Callable[..., _Graph], tensors: tuple[Tensor, ...], pattern: Pattern, scale: float) -> None:
    frontend, device = _frontend(), tensors[0].device
    with torch.cuda.device(device):
        index = torch.cuda.current_device()
        if index not in _thread.handles:
            _thread.handles[index] = frontend.create_handle()
        handle = _thread.handles[index]
        layouts = tuple((tensor.shape, tensor.stride()) for tensor in tensors)
        key = (build, index, tensors[0].dtype, layouts, pattern, scale)
        # Never evicted, like torch's own: a captured CUDA graph may use a plan's kernels.
        if key not in _thread.graphs:
            _thread.graphs[key] = build(frontend, handle, tensors, pattern, scale)
        built = _thread.graphs[key]
        workspace = torch.empty(max(built.workspace, 1), dtype=torch.uint8, device=device)
        frontend.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
        pack = dict(zip(built.tensors, tensors, strict=True)) | built.constants
        built.graph.execute(pack, workspace, handle=handle)


@cache
def _frontend() -> ModuleType:
    return import_module("cudnn")


def _build_forward(
    frontend: ModuleType, handle: Any, tensors: tuple[Tensor, ...], pattern: Pattern, scale: float
) -> _Graph:
    graph = _empty(frontend, handle, tensors[0].dtype)
    query, key, value = (_input(frontend, graph, tensor) for tensor in tensors[:3])
    mask, constants = _mask(frontend, graph, pattern)
    out, lse = graph.sdpa(q=query, k=key, v=value, generate_stats=True, attn_scale=scale, **mask)
    results = [_output(name, tensor) for name, tensor in zip((out, lse), tensors[3:], strict=True)]
    lse.set_data_type(frontend.data_type.FLOAT)
    return _built(frontend, graph, [query, key, value, *results], constants)


def _build_backward(
    frontend: ModuleType, handle: Any, tensors: tuple[Tensor, ...], pattern: Pattern, scale: float
) -> _Graph:
    graph = _empty(frontend, handle, tensors[0].dtype)
    query, key, value, out, grad, lse = (_input(frontend, graph, tensor) for tensor in tensors[:6])
    # The gradient of a hidden score needs no mask of its own: its weight is 0.
    mask, constants = _mask(frontend, graph, pattern)
    grads = graph.sdpa_backward(q=query, k=key, v=value, o=out, dO=grad, stats=lse, attn_scale=scale, **mask)
    results = [_output(name, tensor) for name, tensor in zip(grads, tensors[6:], strict=True)]
    return _built(frontend, graph, [query, key, value, out, grad, lse, *results], constants)


def _empty(frontend: ModuleType, handle: Any, dtype: torch.dtype) -> Any:
    single = frontend.data_type.FLOAT
    return frontend.pygraph(
        io_data_type=getattr(frontend.data_type, DTYPES[dtype]),
        intermediate_data_type=single,
        compute_data_type=single,
        handle=handle,
    )


def _input(frontend: ModuleType, graph: Any, tensor: Tensor) -> Any:
    dtype = getattr(frontend.data_type, DTYPES.get(tensor.dtype, "FLOAT"))
    return graph.tensor(dim=list(tensor.shape), stride=list(tensor.stride()), data_type=dtype)


def _output(name: Any, tensor: Tensor) -> Any:
    return name.set_output(True).set_dim(list(tensor.shape)).set_stride(list(tensor.stride()))


def _mask(frontend: ModuleType, graph: Any, pattern: Pattern) -> tuple[dict[str, object], dict[Any, Tensor]]:
    """The arguments of cuDNN's attention for a pattern, and the constants that they need."""
    if pattern == "up to":
        return {"use_causal_mask": True}, {}
    if pattern == "from":
        return {"diagonal_alignment": frontend.diagonal_alignment.TOP_LEFT, "diagonal_band_left_bound": 1}, {}
    number = torch.full((1, 1, 1, 1), HIDDEN)
    hidden = graph.tensor(
        dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], is_pass_by_value=True, data_type=frontend.data_type.FLOAT
    )

    def hide_own(graph: Any, scores: Any) -> Any:
        rows, columns = (graph.gen_index(input=scores, axis=axis) for axis in (2, 3))
        for index in (rows, columns):
            index.set_data_type(frontend.data_type.INT32)
        may = graph.cmp_neq(input=rows, comparison=columns, compute_data_type=frontend.data_type.BOOLEAN)
        may.set_data_type(frontend.data_type.BOOLEAN)
        return graph.binary_select(input0=scores, input1=hidden, mask=may)

    return {"score_mod": hide_own}, {hidden: number}


def _built(frontend: ModuleType, graph: Any, tensors: list[Any], constants: dict[Any, Tensor]) -> _Graph:
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([frontend.heur_mode.A, frontend.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans(frontend.build_plan_policy.HEURISTICS_CHOICE)
    return _Graph(graph, tensors, constants, graph.get_workspace_size())


def _errors(device: torch.device, forwards: Pattern, backwards: Pattern) -> list[float]:
    """Relative errors of output, log-sum-exp and gradients, over views without the first row.

    "up to" is tested as it is used: with one query fewer than keys.
    """
    views = [tensor[:, :, 1:] for tensor in self_test.drawn(8, 131, device)]
    first = 1 if forwards == "up to" else 0
    query, grad, out, grad_query = (tensor[:, :, first:] for tensor in views[:4])
    key, value, grad_key, grad_value = views[4:]
    lse = torch.empty(query.shape[:3], device=device)
    forward(query, key, value, out, lse, forwards, 0.125)
    expected = self_test.exact(query, key, value, grad, _allowed(query, key, forwards), 0.125)
    errors = self_test.errors_of((out, lse), expected[:2])
    expected = self_test.exact(query, key, value, grad, _allowed(query, key, backwards), 0.125)
    out.copy_(expected.out)
    lse.copy_(expected.lse)
    backward(query, key, value, out, grad, lse, grad_query, grad_key, grad_value, backwards, 0.125)
    return errors + self_test.errors_of((grad_query, grad_key, grad_value), expected[2:])


def _allowed(query: Tensor, key: Tensor, pattern: Pattern) -> Tensor:
    columns = torch.arange(key.shape[2], device=key.device)
    rows = columns[: query.shape[2], None]
    return {"up to": columns <= rows, "from": columns >= rows, "all but": columns != rows}[pattern]
