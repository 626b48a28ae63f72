"""cuDNN's attention as torch does not offer it, through NVIDIA's frontend for Python (the extra `gpu`).

torch can ask cuDNN for causal attention over tensors that torch lays out itself. A graph of our own says besides
- that a token sees only those after it, or everyone but itself: the bidirectional case of split attention;
- where every tensor lies, results included, so that rows 1.. of a tensor serve as they are and nothing is copied.

cuDNN compiles a graph for each combination of sizes and layouts, in a fraction of a second; they are kept per thread,
because cuDNN's plans belong to one thread at a time.
"""

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

# Who a query sees, rows and columns counted from 0 in the tensors given: the columns up to its row, those from its row
# on, or all but the one of its row. The first two skip what they hide; the last looks at every score.
Pattern = Literal["up to", "from", "all but"]

# The score of a pair that may not meet: its weight is 0, and times log2(e) it is still a number.
HIDDEN = -1.0e38
# Graphs kept per thread: enough for a few dozen lengths, forward and backward.
MOST_GRAPHS = 128

# Patterns of a forward and of a backward that must be right before any is used.
SELF_TESTS: list[tuple[Pattern, Pattern]] = [("up to", "up to"), ("from", "all but"), ("all but", "all but")]

DTYPES = {torch.bfloat16: "BFLOAT16", torch.float16: "HALF"}


def _is_installed() -> bool:
    try:
        return find_spec("cudnn") is not None
    except ValueError:  # somebody has put something else in its place
        return False


# Asked once: a compiled graph cannot ask.
INSTALLED = _is_installed()


def why_not(device: torch.device) -> str | None:
    if not INSTALLED:
        return "nvidia-cudnn-frontend is not installed (the extra gpu brings it)"
    # A graph that is being traced cannot run the self-test.
    if device.type != "cuda" or not (torch.compiler.is_compiling() or _is_trustworthy(device.index or 0)):
        return f"cuDNN's graphs do not serve on {device}"
    return None


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
    """Write the gradients. `out` and `lse` may be those of a larger softmax that this is a part of."""
    tensors = (query, key, value, out, grad, lse[..., None], grad_query, grad_key, grad_value)
    _run(_build_backward, tensors, pattern, scale)


class _Graph(NamedTuple):
    graph: Any
    tensors: list[Any]  # the graph's names of the tensors it is run on
    constants: dict[Any, Tensor]
    workspace: int  # bytes


class _Thread(threading.local):
    def __init__(self) -> None:
        self.handles: dict[int, Any] = {}
        self.graphs: OrderedDict[tuple, _Graph] = OrderedDict()


_thread = _Thread()


def _run(build: Callable[..., _Graph], tensors: tuple[Tensor, ...], pattern: Pattern, scale: float) -> None:
    cudnn, device = _cudnn(), tensors[0].device
    with torch.cuda.device(device):
        index = torch.cuda.current_device()
        if index not in _thread.handles:
            _thread.handles[index] = cudnn.create_handle()
        handle = _thread.handles[index]
        layouts = tuple((tensor.shape, tensor.stride()) for tensor in tensors)
        key = (build, index, tensors[0].dtype, layouts, pattern, scale)
        if key not in _thread.graphs:
            _thread.graphs[key] = build(cudnn, handle, tensors, pattern, scale)
            if len(_thread.graphs) > MOST_GRAPHS:
                _thread.graphs.popitem(last=False)
        _thread.graphs.move_to_end(key)
        found = _thread.graphs[key]
        workspace = torch.empty(max(found.workspace, 1), dtype=torch.uint8, device=device)
        cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
        pack = dict(zip(found.tensors, tensors, strict=True)) | found.constants
        found.graph.execute(pack, workspace, handle=handle)


@cache
def _cudnn() -> ModuleType:
    return import_module("cudnn")


def _build_forward(
    cudnn: ModuleType, handle: Any, tensors: tuple[Tensor, ...], pattern: Pattern, scale: float
) -> _Graph:
    graph = _empty(cudnn, handle, tensors[0].dtype)
    query, key, value = (_input(cudnn, graph, tensor) for tensor in tensors[:3])
    mask, constants = _mask(cudnn, graph, pattern)
    out, lse = graph.sdpa(q=query, k=key, v=value, generate_stats=True, attn_scale=scale, **mask)
    results = [_output(name, tensor) for name, tensor in zip((out, lse), tensors[3:], strict=True)]
    lse.set_data_type(cudnn.data_type.FLOAT)
    return _built(cudnn, graph, [query, key, value, *results], constants)


def _build_backward(
    cudnn: ModuleType, handle: Any, tensors: tuple[Tensor, ...], pattern: Pattern, scale: float
) -> _Graph:
    graph = _empty(cudnn, handle, tensors[0].dtype)
    query, key, value, out, grad, lse = (_input(cudnn, graph, tensor) for tensor in tensors[:6])
    # The gradient of a hidden score needs no mask of its own: its weight is 0.
    mask, constants = _mask(cudnn, graph, pattern)
    grads = graph.sdpa_backward(q=query, k=key, v=value, o=out, dO=grad, stats=lse, attn_scale=scale, **mask)
    results = [_output(name, tensor) for name, tensor in zip(grads, tensors[6:], strict=True)]
    return _built(cudnn, graph, [query, key, value, out, grad, lse, *results], constants)


def _empty(cudnn: ModuleType, handle: Any, dtype: torch.dtype) -> Any:
    single = cudnn.data_type.FLOAT
    return cudnn.pygraph(
        io_data_type=getattr(cudnn.data_type, DTYPES[dtype]),
        intermediate_data_type=single,
        compute_data_type=single,
        handle=handle,
    )


def _input(cudnn: ModuleType, graph: Any, tensor: Tensor) -> Any:
    dtype = getattr(cudnn.data_type, DTYPES.get(tensor.dtype, "FLOAT"))
    return graph.tensor(dim=list(tensor.shape), stride=list(tensor.stride()), data_type=dtype)


def _output(name: Any, tensor: Tensor) -> Any:
    return name.set_output(True).set_dim(list(tensor.shape)).set_stride(list(tensor.stride()))


def _mask(cudnn: ModuleType, graph: Any, pattern: Pattern) -> tuple[dict[str, object], dict[Any, Tensor]]:
    """Arguments of cuDNN's attention that say who sees whom, and the constants that they bring."""
    if pattern == "up to":
        return {"use_causal_mask": True}, {}
    if pattern == "from":
        return {"diagonal_alignment": cudnn.diagonal_alignment.TOP_LEFT, "diagonal_band_left_bound": 1}, {}
    number = torch.full((1, 1, 1, 1), HIDDEN)
    hidden = graph.tensor(dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], is_pass_by_value=True, data_type=cudnn.data_type.FLOAT)

    def hide_own(graph: Any, scores: Any) -> Any:
        rows, columns = (graph.gen_index(input=scores, axis=axis) for axis in (2, 3))
        for index in (rows, columns):
            index.set_data_type(cudnn.data_type.INT32)
        may = graph.cmp_neq(input=rows, comparison=columns, compute_data_type=cudnn.data_type.BOOLEAN)
        may.set_data_type(cudnn.data_type.BOOLEAN)
        return graph.binary_select(input0=scores, input1=hidden, mask=may)

    return {"score_mod": hide_own}, {hidden: number}


def _built(cudnn: ModuleType, graph: Any, tensors: list[Any], constants: dict[Any, Tensor]) -> _Graph:
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans(cudnn.build_plan_policy.HEURISTICS_CHOICE)
    return _Graph(graph, tensors, constants, graph.get_workspace_size())


@cache
def _is_trustworthy(device_index: int) -> bool:
    """Every pattern that is used, forward and backward, against float64 once per process: what fails is not used."""
    device = torch.device("cuda", device_index)
    if torch.version.hip is not None or torch.cuda.get_device_capability(device) < (9, 0):
        return False
    try:
        worst = max(_error(device, *patterns) for patterns in SELF_TESTS)
    except Exception as error:  # whatever a foreign library raises, there is another way
        worst, why = float("inf"), f"{type(error).__name__}: {error}"
    else:
        why = f"relative error {worst:.2g}"
    if not worst < 0.02:
        warnings.warn(
            f"cuDNN's graphs fail their self-test on {device} ({why:.200}); not used", RuntimeWarning, stacklevel=2
        )
        return False
    return True


def _error(device: torch.device, forwards: Pattern, backwards: Pattern) -> float:
    """The greatest relative error of an output and of gradients, over views that leave the first row out."""
    maker = torch.Generator(device).manual_seed(0)

    def draw() -> Tensor:
        made = torch.randn(2, 131, 2, 64, generator=maker, device=device, dtype=torch.bfloat16)
        return made.transpose(1, 2)[:, :, 1:]

    query, key, value, grad, out, grad_query, grad_key, grad_value = (draw() for _ in range(8))
    lse = torch.empty(query.shape[:3], device=device)
    forward(query, key, value, out, lse, forwards, 0.125)
    # By hand, because this may be asked inside an op, where there is no autograd.
    q, k, v, do = (tensor.double() for tensor in (query, key, value, grad))
    weights = _scores(q, k, forwards).softmax(-1)
    errors = [_relative(out, weights @ v)]
    scores = _scores(q, k, backwards)
    weights = scores.softmax(-1)
    out.copy_(weights @ v)
    lse.copy_(scores.logsumexp(-1))
    backward(query, key, value, out, grad, lse, grad_query, grad_key, grad_value, backwards, 0.125)
    grad_weights = do @ v.mT
    grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, keepdim=True)) * 0.125
    errors += [_relative(grad_query, grad_scores @ k), _relative(grad_key, grad_scores.mT @ q)]
    return max(*errors, _relative(grad_value, weights.mT @ do))


def _scores(query: Tensor, key: Tensor, pattern: Pattern) -> Tensor:
    columns = torch.arange(key.shape[2], device=key.device)
    rows = columns[: query.shape[2], None]
    may = {"up to": columns <= rows, "from": columns >= rows, "all but": columns != rows}[pattern]
    return (query @ key.mT * 0.125).masked_fill(~may, -torch.inf)


def _relative(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()
