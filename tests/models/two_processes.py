"""Run by test_parallel in two processes: a sharded decoder gives the logits, gradients and tokens of a whole one.

torchrun --nproc-per-node 2 tests/models/two_processes.py FOLDER tensor
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers.distributed import DistributedConfig

from twofold.models import DecoderForCausalLM


def main(folder, how):
    torch.set_num_threads(1)
    alone = DecoderForCausalLM.from_pretrained(folder)
    ids = torch.randint(3, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    expected = alone(ids, labels=ids, use_cache=False)
    expected.loss.backward()
    generated = alone.eval().generate(ids, max_new_tokens=5, do_sample=False)
    if how == "tensor":
        shared = DecoderForCausalLM.from_pretrained(folder, distributed_config=DistributedConfig(tp_size=2))
    else:
        dist.init_process_group("gloo")
        shared = DecoderForCausalLM.from_pretrained(folder)
        mesh = init_device_mesh("cpu", (2,))
        for part in (*shared.model.layers, shared):
            fully_shard(part, mesh=mesh)
    found = shared(ids, labels=ids, use_cache=False)
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-5, rtol=1e-5)
    found.loss.backward()
    if how == "fsdp":
        for ours, whole in zip(shared.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(ours.grad.full_tensor(), whole.grad, atol=1e-5, rtol=1e-4)
    else:
        check_shards(shared, alone)
    assert torch.equal(shared.eval().generate(ids, max_new_tokens=5, do_sample=False), generated)
    dist.barrier()
    # Without taking anything down: gloo's threads sometimes abort or wait for ever there, after all is well.
    time.sleep(1)
    os._exit(0)


def check_shards(shared, alone):
    """Gradients are equal once their parts are put together, and everything that should be in parts is."""
    whole, sharded = dict(alone.named_parameters()), set()
    for name, parameter in shared.named_parameters():
        grad = parameter.grad
        if isinstance(parameter, DTensor):
            grad = grad.full_tensor()
            if any(placement.is_shard() for placement in parameter.placements):
                sharded.add(name.split(".")[-2])
        torch.testing.assert_close(grad, whole[name].grad, atol=1e-5, rtol=1e-4)
    if missing := {"query", "key", "value", "self_key", "self_value", "output", "up", "down", "tokens"} - sharded:
        raise AssertionError(f"{sorted(missing)} are not shared between the processes")


if __name__ == "__main__":
    main(*sys.argv[1:])
