"""Tasks whose answer is text, written token by token, and how that text is handed out while it is written."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation.streamers import BaseStreamer

from twofold.tasks.decoding import Decoding
from twofold.tasks.task import Task

Example = TypeVar("Example")
Say = Callable[[str], None]


class WritingTask(Task[Example]):
    """A task whose model writes."""

    @abstractmethod
    def write(
        self, model: PreTrainedModel, prompt: str, decoding: Decoding | None = None, say: Say | None = None
    ) -> str:
        """The text that answers a prompt, or goes on with it. `say` is given every piece as soon as it is written.

        Without `decoding` it is done in the task's own way, as in `predict`.
        """

    def arguments(self, decoding: Decoding, *, ends: bool = True) -> dict[str, Any]:
        """For `generate` of transformers: how to choose, and what is no text. Without `ends` it writes on and on."""
        tokenizer = self.tokenizer
        never = [tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.unk_token_id]
        never += [] if ends else [tokenizer.eos_token_id]
        return decoding.as_arguments() | {"suppress_tokens": never}


# torch has one generator a process: of several threads, one draws at a time.
_DRAWING = RLock()


@contextmanager
def chance(decoding: Decoding, model: PreTrainedModel) -> Iterator[None]:
    """Random numbers of their own, so that a seed always gives the same text and nobody else notices.

    Whoever draws holds up others that draw, also while its listener is slow; where nothing is drawn, nobody waits.
    """
    if not decoding.is_random:
        yield
        return
    devices = [model.device] if model.device.type == "cuda" else []
    with _DRAWING, torch.random.fork_rng(devices=devices):
        # Not torch.manual_seed, which would seed every GPU as well.
        torch.default_generator.manual_seed(decoding.seed)
        for device in devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(decoding.seed)
        yield


class Aloud(BaseStreamer):
    """Says what `generate` writes. Half of a character waits for its other half."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, say: Say) -> None:
        self.tokenizer, self.say = tokenizer, say
        self.ids: list[int] = []
        self.said = 0
        self.is_prompt = True

    def put(self, value: Tensor) -> None:
        if self.is_prompt:
            self.is_prompt = False
            return
        self.ids += value.flatten().tolist()
        text = decoded(self.tokenizer, self.ids)
        if not text.endswith("\ufffd"):
            self._say(text)

    def end(self) -> None:
        """Of one call of `generate`; another may go on with the text."""
        self.is_prompt = True
        self._say(decoded(self.tokenizer, self.ids))

    def _say(self, text: str) -> None:
        if len(text) > self.said:
            self.say(text[self.said :])
            self.said = len(text)


def decoded(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    text: Any = tokenizer.decode(ids, skip_special_tokens=True)
    return text
