"""`twofold convert`: written whole and proved by a fresh process, or not at all."""

import json

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

import twofold
from tests.retrofit.families import FAMILIES, model_of
from tests.retrofit.test_families import output
from twofold.cli import main
from twofold.retrofit import proof
from twofold.retrofit.convert import split_modules
from twofold.retrofit.proof import convert_saved


@pytest.fixture
def source(tmp_path):
    model_of("llama").save_pretrained(tmp_path / "source")
    words = Tokenizer(WordLevel({"a": 0, "b": 1}))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path / "source")
    return tmp_path / "source"


@pytest.fixture
def here(monkeypatch):
    """The fresh process's part done in this one, which is quicker."""

    def read_back(folder, inputs, device, aside):
        model = twofold.load(folder).to(device)
        return proof.output_of(model, inputs).cpu(), len(split_modules(model))

    monkeypatch.setattr(proof, "_read_back", read_back)


def test_the_command_converts_and_proves(source, tmp_path, capsys):
    target = tmp_path / "deep" / "target"
    assert main(["convert", str(source), str(target), "--attention", "split_key", "--layers", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["modules"], told["own_parameters"]) == (1, 32 * 16)
    assert (told["top_1"], told["top_10"]) == (1, 1)
    assert told["cosine"] == pytest.approx(1)
    model = AutoModelForCausalLM.from_pretrained(target)
    assert [module.self_value for module in split_modules(model)] == [None]
    torch.testing.assert_close(output(model), output(model_of("llama")), atol=1e-5, rtol=1e-5)
    assert AutoTokenizer.from_pretrained(target)("b").input_ids == [1]
    assert [file.name for file in target.parent.iterdir()] == ["target"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_proved(name, tmp_path):
    model_of(name).save_pretrained(tmp_path / "source")
    found = convert_saved(tmp_path / "source", tmp_path / "target")
    assert found.modules >= 2
    assert found.top_1 == 1
    assert found.cosine == pytest.approx(1)


@pytest.mark.usefixtures("here")
def test_what_the_command_says(source, tmp_path, capsys):
    assert main(["convert", str(source), str(tmp_path / "target")]) == 0
    told = capsys.readouterr().out
    assert "2 attention modules" in told
    assert "top 1 100.0%" in told


def test_a_model_that_comes_back_another_is_refused(source, tmp_path, monkeypatch):
    def read_back(folder, inputs, device, aside):
        model = twofold.load(folder).to(device)
        torch.nn.init.normal_(split_modules(model)[0].self_value.weight)
        return proof.output_of(model, inputs).cpu(), 2

    monkeypatch.setattr(proof, "_read_back", read_back)
    with pytest.raises(ValueError, match="answers otherwise than the original"):
        convert_saved(source, tmp_path / "target")
    monkeypatch.setattr(proof, "_read_back", lambda *_: (torch.zeros(1), 1))
    with pytest.raises(ValueError, match="2 attention modules were converted, 1 were read back"):
        convert_saved(source, tmp_path / "target")
    monkeypatch.setattr(proof, "_read_back", lambda *_: (torch.zeros(1), 2))
    with pytest.raises(ValueError, match="shape"):
        convert_saved(source, tmp_path / "target")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["source"]


def test_a_model_that_does_not_open_again_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "__name__", "twofold.retrofit.nowhere")
    with pytest.raises(ValueError, match=r"does not open in a fresh process: .*nowhere"):
        convert_saved(source, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def changed(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "source must be a model that transformers opens"),
        (lambda folder: changed(folder, architectures=["Evil"]), "must name a class of transformers, got 'Evil'"),
        (lambda folder: changed(folder, architectures=["AutoConfig"]), "must name a class of transformers"),
        (lambda folder: changed(folder, num_hidden_layers=3), "lacks weights of a LlamaForCausalLM, as model.layers.2"),
        (lambda folder: (folder / "model.safetensors").unlink(), "holds no LlamaForCausalLM"),
    ],
)
def test_sources_that_are_no_models_are_refused(harm, message, source, tmp_path):
    harm(source)
    with pytest.raises(ValueError, match=message):
        convert_saved(source, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_target_that_is_there_is_kept(source, tmp_path, capsys):
    assert main(["convert", str(source), str(source)]) == 2
    assert "target must be a folder that is not there yet" in capsys.readouterr().err
