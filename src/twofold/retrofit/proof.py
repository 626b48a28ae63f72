"""From a model's folder to a converted one's, proved: a fresh process opens what was written and must answer the same.

Weights alone prove nothing: a model can be saved whole and come back as another. So answers are compared, the
original's with those of the converted model as it was read back.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, PreTrainedModel

from twofold.models.loading import UNREADABLE, device_named, without_bars
from twofold.retrofit.convert import convert, output_of, report, room_for
from twofold.retrofit.inputs import small_inputs
from twofold.retrofit.loading import load

# What goes along with a model's weights. Both lists are names of files in its folder.
BESIDES = ("*.model", "*.txt", "tokenizer*.json", "vocab*.json", "special_tokens_map.json", "added_tokens.json")
PROCESSORS = ("preprocessor_config.json", "processor_config.json", "chat_template*", "normalizer.json")


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was converted, and how near the answers of the model that was read back are to the original's."""

    modules: int
    own_parameters: int
    parameters: int
    top_1: float  # share of places with the same likeliest answer
    top_10: float  # share of the ten likeliest answers (or of all, where there are fewer) that are the same
    cosine: float  # of answers at the worst place
    error: float  # relative, over all


def convert_saved(
    source: Path | str,
    target: Path | str,
    kind: str = "split_kv",
    *,
    layers: Sequence[int] | None = None,
    device: str = "auto",
) -> Proof:
    """Convert a saved transformers model into a folder, which is written whole or not at all.

    Args:
        source: a folder, or a name that transformers knows how to fetch.
        target: where to write; a folder that is not there yet.
        kind, layers: as in `convert`.
        device: "cpu", "cuda" or "auto", where to compute.
    """
    place, folder = device_named(device), Path(target)
    if folder.exists():
        raise ValueError(f"target must be a folder that is not there yet, got {folder}")
    model = original_model(source).to(place)  # type: ignore[arg-type]
    inputs = small_inputs(model)
    expected = output_of(model, inputs)
    convert(model, kind, layers=layers, inputs=inputs)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as aside:
        written = Path(aside) / "model"
        with without_bars():
            model.save_pretrained(written)
        _copy_others(Path(source), written)
        found = report(model)
        output, modules = _read_back(written, inputs, str(place), Path(aside))
        if modules != found.modules:
            raise ValueError(f"{found.modules} attention modules were converted, {modules} were read back")
        proof = Proof(
            modules=modules,
            own_parameters=found.own_parameters,
            parameters=found.parameters,
            **_compare(expected.cpu().double(), output.double()),
        )
        if not proof.error <= room_for(expected.dtype):
            raise ValueError(f"read back, the converted model answers otherwise than the original: {proof}")
        written.rename(folder)
    return proof


def original_model(source: Path | str) -> PreTrainedModel:
    """A saved model of transformers' own, as the class that its configuration names."""
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except (*UNREADABLE, ValueError) as error:
        raise ValueError(f"source must be a model that transformers opens, got {source}: {error}") from error
    names = config.architectures or [""]
    model_class: Any = getattr(transformers, names[0], None)
    if not isinstance(model_class, type) or not issubclass(model_class, PreTrainedModel):
        raise ValueError(f"architectures of {source} must name a class of transformers, got {names[0]!r}")
    try:
        with without_bars():
            loaded: Any = model_class.from_pretrained(
                source, config=config, dtype="auto", use_safetensors=True, output_loading_info=True
            )
    except UNREADABLE as error:
        raise ValueError(f"{source} holds no {names[0]}: {error}") from error
    model, info = loaded
    if info["missing_keys"]:
        raise ValueError(f"{source} lacks weights of a {names[0]}, as {sorted(info['missing_keys'])[0]}")
    return model.eval()


def _copy_others(source: Path, folder: Path) -> None:
    """Tokenizer and processor go along, where the source is a folder."""
    for pattern in (*BESIDES, *PROCESSORS):
        for file in sorted(source.glob(pattern)) if source.is_dir() else ():
            if file.is_file() and not (folder / file.name).exists():
                shutil.copy(file, folder / file.name)


def _read_back(folder: Path, inputs: dict[str, Tensor], device: str, aside: Path) -> tuple[Tensor, int]:
    """The answer of a fresh process that opens the folder, and how many converted modules it found."""
    given, answer = aside / "inputs.safetensors", aside / "answer.safetensors"
    save_file({name: tensor.cpu().contiguous() for name, tensor in inputs.items()}, given)
    words = [sys.executable, "-m", __name__, str(folder), device, str(given), str(answer)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        last = (done.stderr.strip() or "nothing was said").splitlines()[-1]
        raise ValueError(f"the converted model does not open in a fresh process: {last}")
    tensors = load_file(answer)
    return tensors["output"], int(tensors["modules"])


def _compare(expected: Tensor, output: Tensor) -> dict[str, float]:
    if output.shape != expected.shape:
        raise ValueError(f"the answer read back must have shape {tuple(expected.shape)}, got {tuple(output.shape)}")
    rows, others = expected.flatten(0, -2), output.flatten(0, -2)
    count = min(10, rows.shape[-1])
    best, found = rows.topk(count).indices, others.topk(count).indices
    same = (best[:, :, None] == found[:, None, :]).any(-1)
    return {
        "top_1": float((best[:, 0] == found[:, 0]).double().mean()),
        "top_10": float(same.double().mean()),
        "cosine": float(torch.cosine_similarity(rows, others, dim=-1).min()),
        "error": float((output - expected).norm() / expected.norm().clamp(min=1e-30)),
    }


def _answer(folder: str, device: str, given: str, answer: str) -> None:
    """In the fresh process."""
    model: Any = load(folder).to(device)  # type: ignore[arg-type]
    inputs = {name: tensor.to(device) for name, tensor in load_file(given).items()}
    output = output_of(model, inputs).cpu().contiguous()
    save_file({"output": output, "modules": torch.tensor(report(model).modules)}, answer)


if __name__ == "__main__":
    _answer(*sys.argv[1:])
