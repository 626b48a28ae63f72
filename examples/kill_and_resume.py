"""Kill a training again and again, resume it each time, and compare what comes out with a run that nobody killed.

    python examples/kill_and_resume.py --kills 200

Each life of a run is a process of its own, forked from this one so that it need not import torch again. It dies of
SIGKILL at a random moment, or of SIGTERM, upon which it saves and leaves by itself. A run that reaches its end is
compared, weights bit for bit and curve line by line, and the next one begins, until there were enough kills.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from safetensors.torch import load_file

from twofold.models import DecoderConfig, DecoderForCausalLM
from twofold.training import Settings, Stopped, fit, is_finished, prepare_folder, read_metrics

SETTINGS = Settings(
    steps=40,
    batch_size=8,
    learning_rate=0.01,
    evaluate_steps=7,
    patience=100,
    log_steps=3,
    save_steps=2,
    save_seconds=None,
    device="cpu",
)
WORDS, LONGEST = 32, 12


def sentences(count, seed):
    draw = random.Random(seed)  # noqa: S311
    return [{"input_ids": draw.choices(range(3, WORDS), k=draw.randint(2, LONGEST))} for _ in range(count)]


def collate(features):
    longest = max(len(one["input_ids"]) for one in features)
    ids = torch.tensor([one["input_ids"] + [0] * (longest - len(one["input_ids"])) for one in features])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids.masked_fill(ids == 0, -100)}


def evaluate(model):
    return {"loss": float(model(**collate(sentences(16, seed=2))).loss)}


def train(folder, resume):
    torch.manual_seed(0)
    config = DecoderConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, hidden_dropout=0.1
    )
    fit(
        DecoderForCausalLM(config),
        sentences(200, seed=1),
        collate,
        settings=SETTINGS,
        folder=folder,
        evaluate=evaluate,
        metric="loss",
        higher_is_better=False,
        resume=resume,
    )


def life(folder):
    """Begin or resume a run in a process of its own; its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        is_new = not (folder / "metrics.jsonl").exists()
        prepare_folder(folder, resume=not is_new)
        train(folder, resume=not is_new)
        code = 0
    except Stopped as stopped:
        code = stopped.exit_code
    finally:
        # As a child it must not go on with what its parent does after the fork.
        sys.stderr.flush()
        os._exit(code)


def ended(child):
    """How a process ended: its exit code, or the signal as a negative number."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def differences(folder, reference):
    """What is not as in the reference, bit for bit."""
    ours, theirs = (load_file(one / "model.safetensors") for one in (folder, reference))
    if ours.keys() != theirs.keys() or not all(torch.equal(ours[name], theirs[name]) for name in ours):
        yield "weights"
    ours, theirs = ([{**line, "seconds": 0} for line in read_metrics(one)] for one in (folder, reference))
    if ours != theirs:
        yield "curve"


def what_was_hit(folder):
    """What a kill interrupted, as far as its traces tell."""
    if is_finished(folder):
        return "after the end"
    if (folder / ".saving-model").exists():
        return "while the result was written"
    if any((folder / "checkpoints").glob(".saving-*")):
        return "while a checkpoint was written"
    if not any((folder / "checkpoints").glob("step-*")):
        return "before the first checkpoint"
    return "elsewhere"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="how often")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and signals")
    parser.add_argument("--longest", type=float, default=0.6, help="seconds that a life may last")
    options = parser.parse_args()
    # Processes that fork must not have threads.
    torch.set_num_threads(1)
    draw, began = random.Random(options.seed), time.monotonic()  # noqa: S311
    signals, hits, runs, different = Counter(), Counter(), 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        reference, folder = Path(temporary, "reference"), Path(temporary, "run")
        if ended(life(reference)):
            sys.exit("the run that nobody kills did not end well")
        while sum(signals.values()) < options.kills or folder.exists():
            child = life(folder)
            if sum(signals.values()) < options.kills:
                time.sleep(draw.uniform(0, options.longest))
                kind = signal.SIGTERM if draw.random() < 0.25 else signal.SIGKILL
                os.kill(child, kind)
                code = ended(child)
                # A process that was at its end already, or not yet ready to hear, is no kill.
                if code in (-kind, 128 + kind):
                    signals[kind.name] += 1
                if code == -signal.SIGKILL:
                    hits[what_was_hit(folder)] += 1
            else:
                code = ended(child)
            if code not in (0, -signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM):
                sys.exit(f"a life ended with {code}")
            if folder.exists() and is_finished(folder):
                runs += 1
                if wrong := list(differences(folder, reference)):
                    different += 1
                    print(f"run {runs} differs in its {' and '.join(wrong)}")
                shutil.rmtree(folder)
    seconds = time.monotonic() - began
    told = ", ".join(f"{count} {name}" for name, count in sorted(signals.items()))
    print(f"{sum(signals.values())} kills ({told}) in {runs} runs, {seconds:.0f} s")
    for where, count in hits.most_common():
        print(f"  SIGKILL {where}: {count}")
    print(f"{runs - different} of {runs} runs ended in the uninterrupted run's weights and curve, bit for bit")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
