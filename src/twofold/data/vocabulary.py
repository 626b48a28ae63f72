"""Trains small tokenizers from texts: characters, words, or byte pairs. The result is a transformers tokenizer.

Ids: pad 0, bos 1, eos 2, unk 3, then sep and mask if asked for. The spelling of a special token inside a text is text:
"</s>" does not end a sentence. Characters and byte pairs give every text back exactly, except that white space becomes
single spaces with `alike`.
"""

from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from twofold_runtime.checked import shown
from twofold_runtime.limits import why_too_many

KINDS = ("char", "word", "bpe")
ENDS = ("none", "eos", "both")
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
ON_REQUEST = {"sep": "<sep>", "mask": "<mask>"}


def check_vocabulary(kind: str, size: int, special: int = len(SPECIAL)) -> None:
    """Raise ValueError if a vocabulary has no room for the special tokens and the least that a kind needs."""
    least, what = (special + 256, "all bytes") if kind == "bpe" else (special + 1, "one other")
    if kind != "char" and size < least:
        raise ValueError(f"vocabulary must be at least {least} for {kind}, special tokens and {what}, got {size}")


def train_tokenizer(
    texts: Iterable[str],
    kind: str = "bpe",
    *,
    size: int = 4096,
    lowercase: bool = False,
    min_count: int = 1,
    fallback: bool = True,
    alike: bool = False,
    ends: str = "none",
    extra: tuple[str, ...] = (),
    padding_side: str = "right",
) -> PreTrainedTokenizerFast:
    """A tokenizer of a kind from texts; the same texts always give the same one.

    - "char": every character that occurs `min_count` times. Others are spelt in bytes, or are unk without `fallback`.
    - "word": words and signs that occur `min_count` times, the `size` most common. Others are unk.
    - "bpe": byte pairs up to a vocabulary of `size`.

    `lowercase` maps A to a. `alike` is for byte pairs: a word has the same tokens after a space, after a new line
    and at the beginning of a text, so that a model can copy it; all white space is then a single space. `ends` adds
    nothing, eos, or bos and eos. `extra` may name "sep" and "mask"; sep then stands between two texts given together.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {shown(kind)}")
    if ends not in ENDS:
        raise ValueError(f"ends must be one of {', '.join(ENDS)}, got {shown(ends)}")
    if min_count < 1:
        raise ValueError(f"min_count must be 1 or more, got {min_count}")
    for name in extra:
        if name not in ON_REQUEST:
            raise ValueError(f"extra must name only {', '.join(ON_REQUEST)}, got {shown(name)}")
    special = SPECIAL | {f"{name}_token": sign for name, sign in ON_REQUEST.items() if name in extra}
    check_vocabulary(kind, size, len(special))
    if alike and kind != "bpe":
        raise ValueError(f"alike must be False unless kind is bpe, got {kind!r}")
    signs = list(special.values())
    lower = normalizers.Lowercase() if lowercase else None
    match kind:
        case "char":
            tokenizer = _characters(
                (text.lower() for text in texts) if lowercase else texts, signs, min_count, fallback
            )
            if lower is not None:
                tokenizer.normalizer = lower
        case "word":
            tokenizer = _words(texts, signs, min_count, size, lower)
        case _:
            tokenizer = _byte_pairs(texts, signs, min_count, size, lower, alike)
    _frame(tokenizer, ends, "sep" in extra, trim=kind == "bpe")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
        padding_side=padding_side,
        **special,
    )


def listed_tokenizer(tokens: Iterable[str], extra: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """A tokenizer of exactly these tokens. It splits nothing: a text is one token, or unk."""
    special = SPECIAL | {f"{name}_token": ON_REQUEST[name] for name in extra}
    vocabulary = {token: place for place, token in enumerate([*special.values(), *sorted(set(tokens))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unk_token"]))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, split_special_tokens=True, **special
    )


def _characters(texts: Iterable[str], signs: list[str], min_count: int, fallback: bool) -> Tokenizer:
    """A byte-pair model without pairs: every character is a token, an unknown one is spelt in bytes."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    known = sorted(character for character, count in counts.items() if count >= min_count)
    if problem := why_too_many("CHARACTERS", len(known), "different characters in the texts"):
        raise ValueError(f"{problem}; a tokenizer of kind bpe needs none of them")
    spelt = [f"<0x{byte:02X}>" for byte in range(256)] if fallback else []
    vocabulary = {token: place for place, token in enumerate([*signs, *spelt, *known])}
    model = models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIAL["unk_token"], byte_fallback=fallback)
    tokenizer = Tokenizer(model)
    tokenizer.add_special_tokens(signs)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _words(
    texts: Iterable[str], signs: list[str], min_count: int, size: int, lower: normalizers.Normalizer | None
) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if lower is not None:
        tokenizer.normalizer = lower
    trainer = trainers.WordLevelTrainer(
        vocab_size=size, min_frequency=min_count, special_tokens=signs, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _byte_pairs(
    texts: Iterable[str],
    signs: list[str],
    min_count: int,
    size: int,
    lower: normalizers.Normalizer | None,
    alike: bool,
) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=alike)
    tokenizer.decoder = decoders.ByteLevel()
    steps: list[normalizers.Normalizer] = [] if lower is None else [lower]
    if alike:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")]
        tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=max(2, min_count),
        special_tokens=signs,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _frame(tokenizer: Tokenizer, ends: str, sep: bool, *, trim: bool) -> None:
    """Set what is put around a text, and offsets that leave out the space a byte pair begins with."""
    first = "<s> " if ends == "both" else ""
    last = " </s>" if ends != "none" else ""
    between = " <sep>" if sep else ""
    used = [(sign, tokenizer.token_to_id(sign)) for sign in f"{first}{between}{last}".split()]
    steps: list[processors.PostProcessor] = [processors.ByteLevel(trim_offsets=True)] if trim else []
    if used:
        pair = f"{first}$A{between} $B:1{last + ':1' if last else ''}"
        steps.append(processors.TemplateProcessing(single=f"{first}$A{last}", pair=pair, special_tokens=used))
    if steps:
        tokenizer.post_processor = processors.Sequence(steps)
