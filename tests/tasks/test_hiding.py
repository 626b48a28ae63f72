"""What a training batch does not show, and what training learns of words."""

import torch

from twofold.data.vocabulary import train_tokenizer
from twofold.tasks.hiding import with_token_dropout, with_word_dropout
from twofold.tasks.task import tensors_of
from twofold.tasks.vocabulary import word_tokenizer
from twofold_runtime.tokens import BEGIN, PAD, SEPARATOR, UNKNOWN, WordVocabulary


def test_hides_a_share_of_ordinary_tokens():
    tokenizer = train_tokenizer(["dog"], "char", ends="both")
    special = torch.tensor(tokenizer.all_special_ids).repeat(100)
    ids = torch.cat([special, torch.full((4000,), tokenizer("d", add_special_tokens=False)["input_ids"][0])])
    shown = with_token_dropout(ids, 0.25)
    assert torch.equal(shown[: len(special)], special)
    assert 0.2 < (shown[len(special) :] == UNKNOWN).float().mean() < 0.3
    assert torch.equal(with_token_dropout(ids, 0.0), ids)


def test_hides_words_and_features_but_nothing_special():
    tokens = WordVocabulary(word_tokenizer(["dog", "dog"]).get_vocab())
    ids, features = tokens.encode(["dog"] * 2000)
    features = [[*row, 5] for row in features]
    ids[0], features[0] = BEGIN, [PAD] * 9
    batch = tensors_of([{"input_ids": ids, "cue_ids": features}, {"input_ids": ids[:9], "cue_ids": features[:9]}])
    shown = with_word_dropout(batch)
    unknown, left_out = shown["input_ids"] == UNKNOWN, shown["cue_ids"] == PAD
    wholly = left_out[0, 1:, 1:8].all(-1)
    assert 0.25 < unknown[0].float().mean() < 0.35
    assert 0.1 < wholly.float().mean() < 0.2
    assert unknown[0, 1:][wholly].all()
    assert 0.05 < left_out[0, 1:, [0, 8]].float().mean() < 0.15
    assert shown["input_ids"][0, 0] == BEGIN
    assert not unknown[1, 9:].any()
    assert torch.equal(batch["input_ids"][0], torch.tensor(ids))


def test_a_separator_is_no_word_where_a_task_has_one():
    batch = {"input_ids": torch.full((1, 500), SEPARATOR), "cue_ids": torch.ones(1, 500, 8, dtype=torch.long)}
    assert (with_word_dropout(batch, separator=True)["input_ids"] == SEPARATOR).all()
    assert (with_word_dropout(batch)["input_ids"] == UNKNOWN).any()


def test_a_vocabulary_has_the_words_and_features_that_occur_twice():
    tokenizer = word_tokenizer(["walking", "Walking", "talking", "once"], marks=("match:same",), extra=("sep",))
    vocabulary = tokenizer.get_vocab()
    assert {"word:walking", "end:king", "shape:xx", "match:same"} <= set(vocabulary)
    assert not {"word:talking", "begin:tal", "word:once"} & set(vocabulary)
    special = [tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token, tokenizer.sep_token]
    assert [vocabulary[token] for token in special] == [0, 1, 2, UNKNOWN, SEPARATOR]
