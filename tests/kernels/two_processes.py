"""Run by test_parallel in two processes: layers under DDP and FSDP2 give the loss and gradients of one process.

torchrun --nproc-per-node 2 tests/kernels/two_processes.py ddp
"""

import os
import sys
import time
from copy import deepcopy

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from twofold.attention import Rotary, SplitSelfAttention


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        options = {"kv_heads": 1, "qk_norm": True, "rotary": Rotary(width=8), "dtype": torch.float64}
        self.layers = nn.ModuleList(SplitSelfAttention(16, 2, **options) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x, is_causal=True)[0]
        return x.square().mean()


def main(how):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    alone = Stack()
    # 2400 tokens a process: long enough for the library's attention and for the projections in one product.
    x = torch.randn(16, 300, 16, dtype=torch.float64)
    loss_alone = alone(x)
    loss_alone.backward()
    shared = deepcopy(alone)
    shared.zero_grad()
    if how == "ddp":
        wrapped = DistributedDataParallel(shared)
    else:
        mesh = init_device_mesh("cpu", (2,))
        for part in (*shared.layers, shared):
            fully_shard(part, mesh=mesh)
        wrapped = shared
    loss = wrapped(x.chunk(2)[dist.get_rank()])
    loss.backward()
    total = loss.detach().clone()
    dist.all_reduce(total)
    torch.testing.assert_close(total / 2, loss_alone.detach())
    for found, expected in zip(shared.parameters(), alone.parameters(), strict=True):
        grad = found.grad.full_tensor() if how == "fsdp" else found.grad
        torch.testing.assert_close(grad, expected.grad, atol=1e-12, rtol=1e-9)
    dist.barrier()
    # Without taking anything down: gloo's threads sometimes abort or wait for ever there, after all is well.
    time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
