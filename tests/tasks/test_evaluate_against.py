"""`twofold evaluate RUN --against OTHER` as a user types it."""

import json
import shutil
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from tests.tasks.small import trained
from twofold.cli import main
from twofold.data.embedded.lm import stories
from twofold.tasks.lm import LanguageChoices, LanguageModelling
from twofold.tasks.translation import TranslationChoices
from twofold_runtime.folder import read_run, write_run

# Of every comparison, and of every score of it.
FIELDS = {
    "run", "against", "task", "split", "examples", "resamples", "seed", "confidence", "scores", "left_out", "metric",
    "verdict",
}  # fmt: skip
SCORE_FIELDS = {"run", "against", "difference", "low", "high", "p", "test", "drawn"}
QUICK = ("--resamples", "200", "--device", "cpu")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    found = stories(train=60, dev=2, test=52)
    for split in ("train", "dev", "test"):
        lines = [json.dumps({"text": text[:60]}) for text in getattr(found, split)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def language(texts, tmp_path_factory):
    """Runs of a language model by tokenization and steps, trained when asked for."""

    @cache
    def run(kind, steps=2, context=32):
        folder = tmp_path_factory.mktemp("lm") / f"{kind}-{steps}"
        choices = LanguageChoices(tokenization=kind, vocabulary=300, context_length=context)
        trained("lm", folder, choices=choices, data=texts, steps=steps, batch_size=16)
        return folder

    return run


@pytest.fixture(scope="module")
def translation(tmp_path_factory):
    """Two runs that read the same files, and one that reads them the other way round."""
    folder = tmp_path_factory.mktemp("pairs")
    lines = {
        "en": ["good morning", "good night", "a red house"],
        "de": ["guten Morgen", "gute Nacht", "ein rotes Haus"],
    }
    for split in ("train", "dev", "test"):
        for language, said in lines.items():
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in said * 4), encoding="utf-8")
    runs = []
    for name, source, target, steps in (("long", "en", "de", 15), ("short", "en", "de", 1), ("back", "de", "en", 1)):
        choices = TranslationChoices(source=source, target=target, vocabulary=300)
        trained("translation", folder / name, choices=choices, data=folder, steps=steps, batch_size=12)
        runs.append(folder / name)
    return runs


def said(capsys, *words, code=0):
    capsys.readouterr()
    assert main(["evaluate", *map(str, words), *QUICK]) == code
    return capsys.readouterr()


def told(capsys, *words):
    return json.loads(said(capsys, *words, "--json").out)


def refused(capsys, *words):
    out, err = said(capsys, *words, code=2)
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_goals_have_mcnemars_test(goal_run, goal_files, tmp_path, capsys):
    other = tmp_path / "other"
    trained("goals", other, data=goal_files, steps=2, batch_size=8)
    found = told(capsys, goal_run, "--against", other)
    assert set(found) == FIELDS
    assert (found["task"], found["split"], found["examples"]) == ("goals", "test", 80)
    assert (found["metric"], found["verdict"], found["left_out"]) == ("exact_match", "better", [])
    exact = found["scores"]["exact_match"]
    assert set(exact) == SCORE_FIELDS | {"only_run_right", "only_against_right"}
    assert exact["test"] == "McNemar"
    assert exact["difference"] == pytest.approx(exact["run"] - exact["against"])
    assert exact["difference"] == pytest.approx(100 * (exact["only_run_right"] - exact["only_against_right"]) / 80)
    assert exact["low"] <= exact["difference"] <= exact["high"]
    assert found["scores"]["slot_f1"]["test"] == "bootstrap"
    # What evaluate says of each alone.
    for key, run in (("run", goal_run), ("against", other)):
        alone = json.loads(said_alone(capsys, run))["scores"]
        assert {name: one[key] for name, one in found["scores"].items()} == pytest.approx(
            {name: alone[name] for name in found["scores"]}
        )
    assert told(capsys, other, "--against", goal_run)["verdict"] == "worse"
    out = said(capsys, goal_run, "--against", other).out
    assert f"exact match: only A right {exact['only_run_right']}, only B {exact['only_against_right']}\n" in out


def test_runs_of_other_states_of_the_same_files_are_told(goal_run, tmp_path, capsys):
    other = shutil.copytree(goal_run, tmp_path / "other")
    record = read_run(other)
    write_run(other, replace(record, training={**record.training, "digest": "0" * 16}))
    assert "were trained on different states of" in said(capsys, goal_run, "--against", other).err


def said_alone(capsys, run):
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json"]) == 0
    return capsys.readouterr().out


def test_people_get_a_table_and_a_warning(language, capsys):
    out, err = said(capsys, language("char", 12), "--against", language("char"))
    assert "52 examples of the test split" in out
    assert "95% interval" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("nats per token")]
    assert [row[-1] for row in rows] == ["bootstrap"]
    assert out.endswith("By perplexity A does better than B, by more than chance among such examples would give.\n")
    assert "one pair of runs says nothing of luck in training" in err
    assert "twofold compare" in err


def test_the_same_words_give_the_same_numbers(language, capsys):
    words = (language("char", 12), "--against", language("char"))
    first, again, other = (told(capsys, *words, "--seed", seed) for seed in (1, 1, 2))
    assert first == again
    assert first["scores"] != other["scores"]
    assert (first["seed"], first["resamples"]) == (1, 200)


def test_tokenizations_are_compared_by_characters(language, capsys):
    found = told(capsys, language("char", 12), "--against", language("bpe"))
    assert set(found["scores"]) == {"nats_per_character", "bits_per_character"}
    assert found["metric"] == "nats_per_character"
    assert found["left_out"] == ["perplexity", "nats_per_token"]
    assert found["scores"]["nats_per_character"]["drawn"] == 52
    out = said(capsys, language("char", 12), "--against", language("bpe")).out
    assert "left out, for it does not mean the same in both: perplexity, nats_per_token" in out
    assert "these runs have no score that means the same in both" in refused(
        capsys, language("char"), "--against", language("word")
    )


def test_one_long_text_is_cut_into_pieces(language, tmp_path, capsys):
    (tmp_path / "test.txt").write_text(" ".join(stories(train=1, dev=1, test=20).test)[:4500], encoding="utf-8")
    words = (language("char", 12), "--against", language("char"), "--data", tmp_path)
    assert "lm: 1 example of the test split, in 5 pieces\n" in said(capsys, *words).out


def test_another_context_is_no_other_score(language, capsys):
    found = told(capsys, language("char"), "--against", language("char", context=16))
    assert found["left_out"] == []


def test_translations_have_sacrebleus_test_besides(translation, capsys, monkeypatch):
    long, short, back = translation
    found = told(capsys, long, "--against", short)
    for name in ("bleu", "chrf"):
        one = found["scores"][name]
        assert set(one) == SCORE_FIELDS | {"sacrebleu"}
        assert set(one["sacrebleu"]) == {"p", "signature"}
        assert one["sacrebleu"]["signature"].lower().startswith(name)
        assert "bs:1000|seed:12345" in one["sacrebleu"]["signature"]
    assert found["scores"]["exact_match"]["test"] == "McNemar"
    assert (
        "sacreBLEU's own paired bootstrap, which looks at one side: p 0." in said(capsys, long, "--against", short).out
    )
    assert "read the test split" in refused(capsys, long, "--against", back)


class TestMistakes:
    def test_the_same_run(self, goal_run, capsys):
        same = goal_run / ".." / goal_run.name
        assert "against must be another run than" in refused(capsys, goal_run, "--against", same)

    def test_another_task(self, goal_run, language, capsys):
        err = refused(capsys, goal_run, "--against", language("char"))
        assert "both must be runs of one task" in err
        assert "is of goals, and" in err
        assert err.endswith("of lm\n")

    def test_other_data(self, language, texts, tmp_path, capsys):
        for split in ("train", "dev", "test"):
            (tmp_path / f"{split}.jsonl").write_bytes((texts / f"{split}.jsonl").read_bytes())
        trained("lm", tmp_path / "run", choices=LanguageChoices(context_length=32), data=tmp_path, steps=1)
        err = refused(capsys, language("char"), "--against", tmp_path / "run")
        assert f"was trained on {texts}, and {tmp_path / 'run'} on {tmp_path}: say with --data" in err
        found = told(capsys, language("char"), "--against", tmp_path / "run", "--data", texts)
        assert found["left_out"] == []

    def test_a_split_that_is_not_there(self, language, tmp_path, capsys):
        (tmp_path / "dev.txt").write_text("a text")
        words = (language("char"), "--against", language("char", 12), "--data", tmp_path)
        assert f"{tmp_path} has no test split" in refused(capsys, *words)

    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            (("--against", "nowhere"), "nowhere is no run"),
            (("--against", "nowhere", "--resamples", "5"), "resamples must be from 100 to 1,000,000, got 5"),
            (("--against", "nowhere", "--seed", "-1"), "seed must be at least 0, got -1"),
        ],
    )
    def test_what_is_not_there_or_too_little(self, language, words, complaint, capsys):
        assert main(["evaluate", str(language("char")), *words]) == 2
        assert complaint in capsys.readouterr().err

    def test_a_task_without_sums(self, language, capsys, monkeypatch):
        # Trained before: training goes by the same scores.
        runs = language("char"), "--against", language("bpe")
        monkeypatch.setattr(LanguageModelling, "tallies", lambda *_: {})
        assert "runs of lm cannot be compared so" in refused(capsys, *runs)


def test_one_example_has_an_endless_interval(language, tmp_path, capsys):
    (tmp_path / "test.jsonl").write_text('{"text": "Once."}\n')
    words = (language("char"), "--against", language("char", 12), "--data", tmp_path)
    one = told(capsys, *words)["scores"]["perplexity"]
    assert (one["low"], one["high"], one["p"]) == (None, None, 1.0)
    assert "endless to endless" in said(capsys, *words).out


def test_the_help_says_which_tests(capsys):
    assert main(["evaluate", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    places = [told.index(word) for word in ("--against", "bootstrap", "McNemar", "sacreBLEU", "runs/standard")]
    assert all(one < two for one, two in pairwise(places))


@pytest.mark.parametrize("words", [("--seed", "3"), ("--resamples", "500")])
def test_what_is_for_two_runs_is_refused_for_one(words, capsys):
    assert main(["evaluate", "runs/anything", *words]) == 2
    assert f"{words[0][2:]} is for --against" in capsys.readouterr().err
