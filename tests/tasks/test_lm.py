"""Language models: learned, scored token by token exactly once, and going on with a text of any length and script."""

import json
import math
from itertools import chain
from pathlib import Path

import pytest
import torch

from tests.tasks.small import trained, unigram_nats
from twofold.cli import main
from twofold.data.embedded.lm import stories
from twofold.models.engine import TorchWriter
from twofold.tasks import lm
from twofold.tasks.lm import LanguageChoices, LanguageModelling
from twofold.tasks.options import ModelOptions
from twofold.tasks.runs import Run, open_run, record_of
from twofold_runtime.decoding import Decoding

STORIES = stories(train=200, dev=12, test=12)


def task_of(texts=STORIES.train, **choices):
    return LanguageModelling.prepared(texts, LanguageChoices(**choices))


def untrained(task):
    torch.manual_seed(0)
    return task.model_class(task.config(ModelOptions())).eval()


def run_of(task, model=None):
    return Run(Path("run"), record_of(task, ModelOptions()), task, model or untrained(task))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One long text, by characters."""
    folder = tmp_path_factory.mktemp("lm")
    (folder / "data").mkdir()
    for split in ("train", "dev", "test"):
        text = "\n".join(getattr(STORIES, split))
        (folder / "data" / f"{split}.txt").write_text(text, encoding="utf-8")
    choices = LanguageChoices(context_length=32)
    told = trained("lm", folder / "run", choices=choices, data=folder / "data", steps=80, batch_size=16)
    return open_run(folder / "run"), told


def test_it_learns_more_than_how_common_characters_are(run):
    _, told = run
    dev = "\n".join(STORIES.dev)
    assert told.scores["nats_per_character"] < 0.85 * unigram_nats("\n".join(STORIES.train), dev)
    assert told.scores["bits_per_character"] == pytest.approx(told.scores["nats_per_character"] / math.log(2))


def test_a_reopened_run_scores_and_predicts_the_same(run):
    opened, told = run
    assert opened.task.scores(opened.model, opened.examples().dev) == pytest.approx(told.scores)
    first = opened.predict("One morning, Tom")
    assert first == open_run(opened.folder).predict("One morning, Tom")
    assert len(first["continuation"]) > 50
    assert opened.task.codec.shown(first).startswith("One morning, Tom")


@pytest.mark.parametrize("context", [4, 5, 31, 32, 1000])
@pytest.mark.parametrize("texts", [1, 3])
def test_every_token_is_predicted_exactly_once(context, texts):
    task = task_of(context_length=context)
    stream = task._stream(STORIES.dev[:texts])
    found = [target for _, targets in task._windows(stream) for target in targets.flatten().tolist() if target >= 0]
    assert found == [token for token in stream if token != task.tokenizer.bos_token_id]


@pytest.mark.parametrize("context", [6, 17])
def test_every_token_has_half_a_context_behind_it(context):
    task = task_of(context_length=context)
    windows = torch.cat([targets for _, targets in task._windows(task._stream(STORIES.dev[:1]))])
    for targets in windows[1:]:
        assert int((targets >= 0).nonzero()[0]) >= context // 2


def test_scores_of_a_text_within_the_context_are_the_plain_sum():
    task = task_of(context_length=400)
    model, text = untrained(task), STORIES.dev[0]
    ids = torch.tensor([task._stream([text])])
    with torch.no_grad():
        loss = model(input_ids=ids, labels=ids).loss.item()
    scores = task.scores(model, [text])
    assert scores["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    # The end of the text counts as a character.
    assert scores["nats_per_character"] == pytest.approx(loss * (ids.shape[1] - 1) / (len(text) + 1), rel=1e-5)


def test_a_model_that_knows_nothing_is_as_perplexed_as_it_has_tokens():
    task = task_of(["ab ba", "b a"], context_length=8)
    model = untrained(task)
    torch.nn.init.zeros_(model.lm_head.weight)
    assert task.scores(model, ["abba"])["perplexity"] == pytest.approx(len(task.tokenizer), rel=1e-5)


def test_words_are_scored_by_perplexity_and_the_unknown_are_counted():
    task = task_of(["a b c", "a b d"], tokenization="word", context_length=8)
    scores = task.scores(untrained(task), ["a b zebra"])
    assert scores.keys() == {"perplexity", "nats_per_token", "unknown_words"}
    assert math.exp(scores["nats_per_token"]) == pytest.approx(scores["perplexity"])
    # Of three words and an end.
    assert scores["unknown_words"] == pytest.approx(100 / 4)


@pytest.mark.parametrize("tokenization", ["char", "bpe"])
def test_training_reads_the_whole_stream_cut_elsewhere_every_time(tokenization):
    task = task_of(tokenization=tokenization, context_length=64)
    rows, stream = task.rows(STORIES.train), task._stream(STORIES.train)
    assert [*chain(*(row["input_ids"][:64] for row in rows[:-1])), *rows[-1]["input_ids"]] == stream
    torch.manual_seed(0)
    first, second = task.collate(rows[:8]), task.collate(rows[:8])
    assert first["input_ids"].shape == (8, 64)
    assert torch.equal(first["input_ids"], first["labels"])
    assert not torch.equal(first["input_ids"], second["input_ids"])
    assert first.keys() == {"input_ids", "labels"}


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 40])
def test_pieces_are_what_a_stream_is_cut_into(length):
    """Held as an array or read piece by piece: the same rows."""
    task = task_of(["abc " * 20], context_length=8)
    text = "abc " * 20
    held, streamed = task.rows([text[: length - 1]]), list(task._pieces([text[: length - 1]]))
    assert len(held) == len(streamed)
    assert [row["input_ids"].tolist() for row in held] == [row["input_ids"] for row in streamed]
    assert held[-1]["input_ids"].tolist() == streamed[-1]["input_ids"]
    with pytest.raises(IndexError):
        held[len(held)]


def test_byte_pairs_are_learned_from_some_of_many_texts(monkeypatch):
    texts = [f"word{n} " * 10 for n in range(30)]
    monkeypatch.setattr("twofold.tasks.lm.CHARACTERS", sum(map(len, texts)) // 3 + 1)
    assert list(lm._some(texts)) == texts[::3]
    assert lm._some(texts[:3]) is not texts
    assert list(lm._some(texts[:3])) == texts[:3]


def test_a_text_shorter_than_the_context_is_one_row():
    task = task_of(["ab"], context_length=64)
    made = task.collate(task.rows(["ab"]))
    assert made["input_ids"].tolist() == [task._stream(["ab"])]


@pytest.mark.parametrize("prompt", ["", " ", "x", "猫は😀 مرحبا", "long " * 100, "</s><pad>"])
@pytest.mark.parametrize("tokenization", ["char", "word", "bpe"])
def test_any_prompt_goes_on(prompt, tokenization):
    task = task_of(tokenization=tokenization, context_length=16)
    said = []
    text = run_of(task).write(prompt, Decoding(max_new_tokens=5), said.append)
    assert "".join(said) == text


def test_prompts_of_several_lengths_go_on_together_by_transformers_too(run):
    opened, _ = run
    tokenizer, model = opened.task.tokenizer, opened.model
    made = [[tokenizer.bos_token_id, *tokenizer(prompt)["input_ids"]] for prompt in ("One morning", "A")]
    both = tokenizer.pad({"input_ids": made}, return_tensors="pt")
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None}
    found = model.generate(**both, **options)[:, -8:]
    for ids, ours in zip(made, found, strict=True):
        assert torch.equal(model.generate(torch.tensor([ids]), **options)[0, -8:], ours)


def test_a_text_may_be_longer_than_the_context(run):
    opened, _ = run
    said = []
    text = opened.write("The baker ", Decoding(max_new_tokens=100), said.append)
    assert len(text) == 100
    assert "".join(said) == text
    assert len(said) > 50


def test_a_seed_decides_what_is_drawn(run):
    opened, _ = run

    def text(seed):
        return opened.write("Tom", Decoding(temperature=1.0, seed=seed, max_new_tokens=40))

    before = torch.get_rng_state()
    assert text(1) == text(1) != text(2)
    assert torch.equal(before, torch.get_rng_state())


def test_pieces_of_a_long_text_are_not_drawn_alike():
    """Of a model to which all tokens are alike, nothing repeats but by chance."""
    task = task_of(["abab " * 9], context_length=8)
    model = untrained(task)
    torch.nn.init.zeros_(model.lm_head.weight)
    decoding = Decoding(temperature=1.0, max_new_tokens=40)
    (ids,) = task.codec.write(TorchWriter(model), [task.codec.encode("")], decoding)
    assert len(set(ids)) > 30


def test_texts_that_end_are_ended_and_one_long_text_never_is():
    for texts, written in ((["ab", "ab"], ""), (["abab"], "b" * 12)):
        task = task_of(texts, context_length=8)
        model = untrained(task)
        # So sure of the end that nothing else can come unless it is ruled out: then b does.
        scores = torch.zeros(len(task.tokenizer))
        scores[task.tokenizer.eos_token_id], scores[task.tokenizer.convert_tokens_to_ids("b")] = 9.0, 5.0
        model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
        model.lm_head.bias = torch.nn.Parameter(scores)
        assert run_of(task, model).write("a", Decoding(max_new_tokens=12)) == written


def test_a_context_has_a_least_length():
    with pytest.raises(ValueError, match=r"^context_length must be .*got 3$"):
        LanguageChoices(context_length=3)


def test_the_command_generates(run, capsys):
    opened, _ = run
    words = ["generate", str(opened.folder), "--prompt", "Tom", "--max-new-tokens", "12"]
    assert main([*words, "--json", "--beams", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["prompt"], told["decoding"]["beams"], len(told["text"])) == ("Tom", 2, 12)
    assert main([*words, "--json"]) == 0
    greedy = json.loads(capsys.readouterr().out)["text"]
    for more in ([], ["--stream"]):
        assert main([*words, *more]) == 0
        assert capsys.readouterr().out == f"{greedy}\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--stream", "--json"], "give one of --stream and --json"),
        (["--stream", "--beams", "3"], "stream must be off for 3 beams"),
        (["--beams", "2", "--top-k", "3"], "beams must be 1 where tokens are sampled, got 2"),
        (["--temperature", "0"], "temperature must be "),
    ],
)
def test_the_command_says_what_does_not_go_together(run, capsys, more, message):
    assert main(["generate", str(run[0].folder), "--prompt", "a", *more]) == 2
    assert message in capsys.readouterr().err


def test_the_command_wants_a_run_that_writes(goal_run, capsys):
    assert main(["generate", str(goal_run), "--prompt", "a"]) == 2
    assert "is a run of goals, which writes no text: see twofold predict" in capsys.readouterr().err
