"""What an eager call can do without: torch.library's layers around an op, which take longer than a short call (LOG.md).

An `Op` is a torch.library op to compilers, exporters, torch.func and dispatch modes. Where none of them is at work its
function is called directly, by a plain autograd.Function if a gradient is wanted.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode


def is_eager(tensor: Tensor) -> bool:
    """Whether what is called now is computed now, on plain tensors: nothing compiles, traces or transforms."""
    return (
        not torch.compiler.is_compiling()
        and (type(tensor) is Tensor or type(tensor) is torch.nn.Parameter)
        and not torch._C._are_functorch_transforms_active()
        and not torch.jit.is_tracing()
        # A mode may turn real tensors into fake ones. There is no public way to ask.
        and _get_current_dispatch_mode() is None
    )


class Op:
    """A function on tensors as a torch.library op, `op`, that eager calls bypass."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.function = function
        self.op = torch.library.custom_op(name, function, mutates_args=())
        self.differentiable: Callable[..., Any] | None = None

    def __call__(self, *inputs: Any) -> Any:
        if not is_eager(inputs[0]):
            return self.op(*inputs)
        has_gradient = torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in inputs)
        if not has_gradient:
            return self.function(*inputs)
        # Without a formula, as in a backward pass under create_graph, torch.library refuses second derivatives.
        return self.op(*inputs) if self.differentiable is None else self.differentiable(*inputs)

    def register_fake(self, fake: Callable[..., Any]) -> None:
        self.op.register_fake(fake)

    def register_autograd(self, backward: Callable[..., Any], keep: Callable[..., None]) -> None:
        """backward(ctx, *grads) and keep(ctx, inputs, output), as torch.library.register_autograd takes them."""
        self.op.register_autograd(backward, setup_context=keep)
        function = self.function

        class Differentiable(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                output = function(*inputs)
                keep(ctx, inputs, output)
                return output

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return backward(ctx, *grads)

        self.differentiable = Differentiable.apply


def op(name: str) -> Callable[[Callable[..., Any]], Op]:
    """Decorator: the function as an `Op`."""
    return lambda function: Op(name, function)
