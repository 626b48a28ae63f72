"""Run by test_parallel in two processes: shared models give the logits, gradients and tokens of whole ones.

torchrun --nproc-per-node 2 tests/models/two_processes.py FOLDER tensor
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from transformers.distributed import DistributedConfig

from twofold.models import DecoderForCausalLM, EncoderForMaskedLM, Seq2SeqForConditionalGeneration

FAMILIES = {"decoder": DecoderForCausalLM, "encoder": EncoderForMaskedLM, "seq2seq": Seq2SeqForConditionalGeneration}
# What tensor parallelism must have cut in two.
CUT = {"query", "key", "value", "self_key", "self_value", "output", "up", "down", "tokens"}


def main(folder, how):
    torch.set_num_threads(1)
    if how == "fsdp":
        dist.init_process_group("gloo")
    for family, cls in FAMILIES.items():
        check(f"{folder}/{family}", cls, how)
    dist.barrier()
    # Without taking anything down: gloo's threads sometimes abort or wait for ever there, after all is well.
    time.sleep(1)
    os._exit(0)


def check(folder, cls, how):
    alone = cls.from_pretrained(folder)
    ids = torch.randint(3, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    given = {"input_ids": ids, "labels": ids[:, :6] if alone.config.is_encoder_decoder else ids}
    expected = alone(**given)
    expected.loss.backward()
    shared = tensor_parallel(cls, folder) if how == "tensor" else fully_sharded(cls, folder)
    found = shared(**given)
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-5, rtol=1e-5)
    found.loss.backward()
    check_gradients(shared, alone)
    if how == "tensor" and (missing := CUT - cut_parts(shared)):
        raise AssertionError(f"{sorted(missing)} of {cls.__name__} are not shared between the processes")
    if alone.can_generate():
        for beams in (1, 3):
            options = {"max_new_tokens": 5, "do_sample": False, "num_beams": beams}
            tokens = alone.eval().generate(ids, **options)
            assert torch.equal(shared.eval().generate(ids, **options), tokens)


def tensor_parallel(cls, folder):
    return cls.from_pretrained(folder, distributed_config=DistributedConfig(tp_size=2))


def fully_sharded(cls, folder):
    shared, mesh = cls.from_pretrained(folder), init_device_mesh("cpu", (2,))
    layers = [part for part in shared.modules() if type(part).__name__ in shared._no_split_modules]
    for part in (*layers, shared):
        fully_shard(part, mesh=mesh)
    if shared.can_generate():
        # It calls an encoder by itself, whose embedding lies with the whole model.
        register_fsdp_forward_method(shared, "generate")
    if not all(isinstance(parameter, DTensor) for parameter in shared.parameters()):
        raise AssertionError(f"{cls.__name__} has parameters that are not sharded")
    return shared


def check_gradients(shared, alone):
    """Equal, once their parts are put together."""
    whole = dict(alone.named_parameters())
    for name, parameter in shared.named_parameters():
        grad = parameter.grad.full_tensor() if isinstance(parameter, DTensor) else parameter.grad
        torch.testing.assert_close(grad, whole[name].grad, atol=1e-5, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def cut_parts(shared):
    return {
        name.split(".")[-2]
        for name, parameter in shared.named_parameters()
        if isinstance(parameter, DTensor) and any(placement.is_shard() for placement in parameter.placements)
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
