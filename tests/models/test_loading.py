"""What was saved comes back by its folder alone, and what cannot is refused in words."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSequenceClassification, BertConfig, BertModel

import twofold
from twofold.models import (
    CaptionerConfig,
    CaptionerForConditionalGeneration,
    DecoderConfig,
    DecoderForCausalLM,
    EmbeddingConfig,
    EncoderConfig,
    EncoderForGoal,
    EncoderForSentenceEmbedding,
    GoalConfig,
    RecurrentConfig,
    RecurrentForConditionalGeneration,
    Seq2SeqConfig,
    Seq2SeqForConditionalGeneration,
)
from twofold.models.loading import ARCHITECTURES

SIZES = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1}
HEADS = {**SIZES, "num_attention_heads": 2}
MODELS = {
    "decoder": lambda: DecoderForCausalLM(DecoderConfig(**HEADS)),
    "goal": lambda: EncoderForGoal(GoalConfig(**HEADS, num_slot_labels=3)),
    "embedding": lambda: EncoderForSentenceEmbedding(EmbeddingConfig(**HEADS)),
    "classifier": lambda: AutoModelForSequenceClassification.from_config(EncoderConfig(**HEADS)),
    "seq2seq": lambda: Seq2SeqForConditionalGeneration(Seq2SeqConfig(**HEADS)),
    "recurrent": lambda: RecurrentForConditionalGeneration(RecurrentConfig(**SIZES)),
    "captioner": lambda: CaptionerForConditionalGeneration(CaptionerConfig(channels=(4,), **HEADS)),
}


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    MODELS["decoder"]().save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_comes_back_as_it_was(name, tmp_path):
    torch.manual_seed(0)
    model = MODELS[name]()
    model.save_pretrained(tmp_path)
    for path in (tmp_path, str(tmp_path)):
        loaded = twofold.load(path)
        assert type(loaded) is type(model)
        assert not loaded.training
        torch.testing.assert_close(loaded.state_dict(), model.state_dict(), atol=0, rtol=0)


@pytest.mark.parametrize("name", ["goal", "embedding"])
def test_a_model_from_when_goals_and_embeddings_were_plain_encoders(name, tmp_path):
    model = MODELS[name]()
    model.save_pretrained(tmp_path)
    changed(tmp_path, model_type="twofold_encoder", similarity_temperature=0.1)
    loaded = twofold.load(tmp_path)
    assert type(loaded) is type(model)
    assert loaded.config.model_type == model.config.model_type
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), atol=0, rtol=0)


@pytest.mark.parametrize("name", ["goal", "embedding"])
def test_auto_model_opens_goals_and_embeddings(name, tmp_path):
    model = MODELS[name]()
    model.save_pretrained(tmp_path)
    assert type(AutoModel.from_pretrained(tmp_path)) is type(model)


def test_names_of_labels_are_no_counts(tmp_path):
    labels = {f"player_label_{number}": number for number in range(40)}
    config = EncoderConfig(**HEADS, label2id=labels, id2label={place: name for name, place in labels.items()})
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    assert twofold.load(tmp_path).config.label2id == labels


def test_weights_in_several_files(tmp_path):
    model = MODELS["decoder"]()
    model.save_pretrained(tmp_path, max_shard_size="1KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 1
    torch.testing.assert_close(twofold.load(tmp_path).state_dict(), model.state_dict(), atol=0, rtol=0)
    shards[0].unlink()
    with pytest.raises(ValueError, match=rf"has no {shards[0].name}, which its model.safetensors.index.json names"):
        twofold.load(tmp_path)


@pytest.mark.parametrize("elsewhere", ["../outside.safetensors", "/outside.safetensors", ["a"], 1])
def test_weights_outside_of_the_folder_are_refused(elsewhere, tmp_path):
    MODELS["decoder"]().save_pretrained(tmp_path, max_shard_size="1KB")
    index = tmp_path / "model.safetensors.index.json"
    told = json.loads(index.read_text())
    told["weight_map"] = dict.fromkeys(told["weight_map"], elsewhere)
    index.write_text(json.dumps(told))
    with pytest.raises(ValueError, match="must name files of its own folder, got"):
        twofold.load(tmp_path)


def test_loading_draws_no_bar(saved, capfd):
    twofold.load(saved)
    assert capfd.readouterr() == ("", "")


def test_every_architecture_is_ours():
    assert {model.__module__.partition(".")[0] for model in ARCHITECTURES.values()} == {"twofold"}


def changed(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def without(folder, name):
    path = folder / "model.safetensors"
    save_file({key: value for key, value in load_file(path).items() if name not in key}, path, {"format": "pt"})


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "holds no model: it has no config.json"),
        (lambda f: cut(f / "config.json", 20), "config.json is not readable"),
        (lambda f: (f / "config.json").write_text("[1]"), "config.json must hold a JSON object, got list"),
        (lambda f: changed(f, architectures=None), "architectures must name one of ours.*got None"),
        (lambda f: changed(f, architectures=["LlamaForCausalLM"]), r"got \['LlamaForCausalLM'\]"),
        (lambda f: changed(f, architectures=[{"a": 1}]), "architectures must name one of ours"),
        (lambda f: changed(f, architectures=["os.system"]), "architectures must name one of ours"),
        (lambda f: changed(f, attention="double"), "attention must be one of"),
        (lambda f: changed(f, vocab_size="many"), "holds no DecoderForCausalLM.*vocab_size"),
        (lambda f: changed(f, vocab_size=12), "holds no DecoderForCausalLM"),
        (lambda f: changed(f, dtype="banana"), "holds no DecoderForCausalLM"),
        (lambda f: changed(f, dtype=[1]), "holds no DecoderForCausalLM"),
        (lambda f: changed(f, attention="standard"), "has, beyond the model, model.layers.0.self_attn.self_key.weight"),
        (lambda f: (f / "model.safetensors").unlink(), "holds no weights: it has no model.safetensors"),
        (lambda f: cut(f / "model.safetensors", -9), "model.safetensors is damaged or cut off"),
        (lambda f: cut(f / "model.safetensors", 5), "model.safetensors is damaged or cut off"),
        (lambda f: cut(f / "model.safetensors", 0), "model.safetensors is damaged or cut off"),
        (lambda f: without(f, "feed_forward.up"), "lacks model.layers.0.feed_forward.up.weight"),
        (lambda f: without(f, "self_key"), "no weights for a token's own keys and values.*attention=.standard"),
        (lambda f: (f / "adapter_config.json").write_text("{}"), "holds an adapter .* merge it"),
        (lambda f: changed(f, attn_implementation="somebody/kernel"), "attn_implementation must be one of eager, sdpa"),
        (lambda f: changed(f, part={"_attn_implementation": "a/b"}), "attn_implementation must be one of eager, sdpa"),
        (lambda f: (f / "config.json").write_text("[" * 10**5), "config.json is not readable"),
        (lambda f: changed(f, layer_types=["chunked_attention"]), "layer_types must all be full_attention"),
        (lambda f: changed(f, num_hidden_layers=2**40), "num_hidden_layers must be at most"),
        (lambda f: changed(f, num_labels=10**9), "num_labels must be at most"),
        (lambda f: changed(f, part={"depths": [2, 10**9]}), "depths must be at most"),
        (lambda f: changed(f, vocab_size=2**40), "of a model of 87960930.* parameters, its weights are of 1016"),
        (lambda f: changed(f, hidden_size=2**62), "holds no DecoderForCausalLM"),
    ],
)
def test_what_cannot_be_loaded_is_refused(saved, harm, message):
    harm(saved)
    with pytest.raises(ValueError, match=message):
        twofold.load(saved)


def test_no_folder_and_a_foreign_model(tmp_path):
    with pytest.raises(ValueError, match=r"path must be a folder with a saved model, got .*nowhere, which is none"):
        twofold.load(tmp_path / "nowhere")
    BertModel(
        BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    ).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"architectures must name one of ours.*got \['BertModel'\]"):
        twofold.load(tmp_path)
