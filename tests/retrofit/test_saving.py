"""What was converted comes back from its folder, by `load` and by the Auto classes, and nowhere as a standard model."""

import copy
import json
import subprocess
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import twofold
from tests.retrofit.families import FAMILIES, GROUPED, OTHERS, known, model_of, strengthened
from tests.retrofit.test_families import output
from twofold import convert
from twofold.retrofit import freeze_all_but_self, report, revert
from twofold.retrofit.attend import EAGER, SPLIT
from twofold.retrofit.convert import split_modules
from twofold.retrofit.inputs import small_inputs

AUTOS = {
    "llama": "AutoModelForCausalLM",
    "gemma2": "AutoModelForCausalLM",
    "gpt_oss": "AutoModelForCausalLM",
    "gpt2": "AutoModelForCausalLM",
    "bert": "AutoModelForMaskedLM",
    "modernbert": "AutoModelForMaskedLM",
    "t5": "AutoModelForSeq2SeqLM",
    "marian": "AutoModelForSeq2SeqLM",
    "whisper": "AutoModelForSpeechSeq2Seq",
    "vit": "AutoModelForImageClassification",
}


@pytest.mark.parametrize("name", FAMILIES | OTHERS)
def test_a_saved_model_is_the_same_model(name, tmp_path):
    model = strengthened(convert(model_of(name)), seed=2)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    loaded = [twofold.load(tmp_path)]
    if name in AUTOS:
        loaded.append(getattr(transformers, AUTOS[name]).from_pretrained(tmp_path))
    for found in loaded:
        assert type(found) is type(model)
        assert len(split_modules(found)) == len(split_modules(model))
        assert report(found).own_parameters == report(model).own_parameters
        torch.testing.assert_close(found.state_dict(), model.state_dict(), atol=0, rtol=0)
        # Experts are summed in another order now and then.
        torch.testing.assert_close(output(found), output(model), atol=2e-6 if name == "mixtral" else 0, rtol=0)


@pytest.mark.parametrize("name", known("llama", "gpt_oss", "modernbert", "t5"))
def test_half_precision_stays_half_precision(name, tmp_path):
    model = strengthened(convert(model_of(name)), seed=2)
    expected = output(model)
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    loaded = twofold.load(tmp_path)
    assert loaded.dtype == torch.bfloat16
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), atol=0, rtol=0)
    assert (output(loaded).float() - expected).norm() < 0.05 * expected.norm()


@pytest.mark.parametrize("name", ["llama", "bert", "vit", "bart"])
def test_the_base_model_opens_from_one_with_a_head(name, tmp_path):
    model = strengthened(convert(model_of(name)), seed=2)
    model.save_pretrained(tmp_path)
    base = transformers.AutoModel.from_pretrained(tmp_path)
    own = {key: value for key, value in base.state_dict().items() if ".self_key." in key or ".self_value." in key}
    assert own
    for key, value in own.items():
        assert torch.equal(value, model.base_model.state_dict()[key])


FRESH = """
import sys, torch, transformers
from safetensors.torch import load_file, save_file
if sys.argv[2]:
    import twofold.retrofit
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])
torch.save(model(torch.arange(3, 12)[None]).logits, sys.argv[1] + "/logits.pt")
"""


def fresh(folder, imports):
    return subprocess.run([sys.executable, "-c", FRESH, str(folder), imports], capture_output=True, text=True)


def test_without_this_package_it_does_not_open(tmp_path):
    model = strengthened(convert(model_of("llama")), seed=2)
    model.save_pretrained(tmp_path)
    refused = fresh(tmp_path, "")
    assert refused.returncode != 0
    assert "twofold_split" in refused.stderr
    opened = fresh(tmp_path, "yes")
    assert opened.returncode == 0, opened.stderr
    with torch.no_grad():
        expected = model(torch.arange(3, 12)[None]).logits
    torch.testing.assert_close(torch.load(tmp_path / "logits.pt"), expected, atol=1e-5, rtol=1e-5)


def test_the_way_of_attention_may_be_chosen_when_loading(tmp_path):
    convert(model_of("llama")).save_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    assert model.config._attn_implementation == EAGER
    assert output(model).isfinite().all()


def changed(folder, change):
    path = folder / "config.json"
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.pop("split_attention"), "split_attention must name the original's model_type"),
        (lambda f: f["split_attention"].update(model_type="evil"), "model_type, one of transformers', got 'evil'"),
        (lambda f: f["split_attention"].update(model_type=["a"]), "split_attention must name"),
        (lambda f: f["split_attention"].update(model_type="twofold_split"), "split_attention must name"),
        (lambda f: f["split_attention"].update(model_type="twofold_decoder"), "split_attention must name"),
        (lambda f: f["split_attention"].update(kind="double"), "kind"),
        (lambda f: f["split_attention"].update(kind="standard"), "kind"),
        (lambda f: f["split_attention"].pop("modules"), "config must be a converted model's"),
        (
            lambda f: f["split_attention"].update(modules={"layers.9": [[4, 2, 8, 8], ["k_proj", "v_proj", "apart"]]}),
            "9",
        ),
        (lambda f: f["split_attention"]["modules"].popitem(), "has, beyond the model"),
        (
            lambda f: f["split_attention"].update(
                modules={"layers.0.self_attn": [[4, 2, 8, 8], ["o_proj", "v_proj", "apart"]]}
            ),
            "split_attention does not fit layers.0.self_attn",
        ),
        (
            lambda f: f.update(architectures=["SplitBertModel"]),
            "architectures must name a converted model of LlamaConfig",
        ),
        (lambda f: f.update(architectures=["LlamaForCausalLM"]), "architectures must name a converted model"),
        (lambda f: f.update(architectures=None), "architectures must name a converted model"),
        (lambda f: f.update(num_hidden_layers=2**40), "num_hidden_layers must be at most"),
    ],
)
def test_files_that_do_not_fit_are_refused(change, message, tmp_path):
    convert(model_of("llama")).save_pretrained(tmp_path)
    changed(tmp_path, change)
    with pytest.raises(ValueError, match=message):
        twofold.load(tmp_path)


def test_lacking_own_weights_are_an_error(tmp_path):
    model = convert(model_of("llama"))
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    kept = {key: value for key, value in load_file(path).items() if "layers.1.self_attn.self_key" not in key}
    save_file(kept, path, {"format": "pt"})
    for load in (twofold.load, transformers.AutoModelForCausalLM.from_pretrained):
        with pytest.raises(ValueError, match=r"no weights for own keys and values \(.*layers.1.self_attn.self_key"):
            load(tmp_path)


def test_a_standard_checkpoint_is_no_converted_one(tmp_path):
    model = model_of("llama")
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="config must be a converted model's"):
        type(convert(model)).from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("layers", "converted"), [(None, [0, 1]), ([1], [1]), ([0, 1], [0, 1]), (range(1), [0])], ids=str
)
def test_layers_may_be_chosen(layers, converted, tmp_path):
    model, expected = model_of("llama"), output(model_of("llama"))
    convert(model, layers=layers)
    names = [name for name, module in model.named_modules() if module in split_modules(model)]
    assert names == [f"model.layers.{number}.self_attn" for number in converted]
    torch.testing.assert_close(output(model), expected, atol=1e-5, rtol=1e-5)
    strengthened(model, seed=2).save_pretrained(tmp_path)
    assert torch.equal(output(twofold.load(tmp_path)), output(model))


def test_models_that_share_a_configuration_or_are_copied_stay_apart():
    config = transformers.LlamaConfig(**GROUPED)
    one, other = (transformers.LlamaForCausalLM(config).eval() for _ in range(2))
    expected, standard = output(other), output(one)
    convert(one)
    assert other.config is config
    assert torch.equal(output(other), expected)
    twin = copy.deepcopy(one)
    assert torch.equal(output(twin), output(one))
    strengthened(twin, seed=3)
    assert torch.equal(output(revert(one)), standard)
    assert len(split_modules(twin)) == 2


def test_what_was_converted_is_reported():
    model = convert(model_of("llama"))
    found = report(model)
    # Two layers, each k' and v' of 32 to 2 heads of 8.
    assert (found.modules, found.own_parameters) == (2, 2 * 2 * 32 * 16)
    assert found.parameters == found.trainable == model.num_parameters()
    assert "2 attention modules" in str(found)
    freeze_all_but_self(model)
    assert report(model).trainable == found.own_parameters


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "standard"}, "kind must be one of split_key, split_value, split_kv, got 'standard'"),
        ({"kind": "double"}, "kind"),
        ({"init": "patent"}, "init must be"),
        ({"layers": [7]}, "layers must be numbers of layers that attend to themselves, got 7"),
        ({"layers": []}, "none of its layers attends to itself"),
        ({"inputs": {"pixels": torch.zeros(1)}}, "cannot be converted"),
    ],
)
def test_arguments_are_checked(change, message):
    model = model_of("llama")
    with pytest.raises(ValueError, match=message):
        convert(model, **change)
    assert type(model) is transformers.LlamaForCausalLM


def test_what_is_no_plain_model_of_transformers_is_refused():
    model = model_of("llama")
    for wrong in (torch.nn.Linear(2, 2), "llama", convert(model_of("llama"))):
        with pytest.raises(ValueError, match="model must be"):
            convert(wrong)
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(ValueError, match="attn_implementation must be one of sdpa, eager, got 'flex_attention'"):
        convert(model)
    for needs_converted in (revert, freeze_all_but_self):
        with pytest.raises(ValueError, match="model must be a converted one"):
            needs_converted(model_of("llama"))


class Quantised(torch.nn.Linear):
    pass


def test_projections_that_are_not_plain_are_refused():
    model = model_of("llama")
    model.model.layers[1].self_attn.k_proj = Quantised(32, 16, bias=False)
    with pytest.raises(ValueError, match="LlamaAttention has no plain projections of keys and values"):
        convert(model)
    assert not split_modules(model)


def test_another_way_of_attention_is_an_error_and_no_standard_attention():
    model = convert(model_of("llama"))
    model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match=f'attn_implementation of a converted model must be "{SPLIT}"'):
        output(model)


def test_modes_and_gradients_are_as_they_were():
    model = model_of("bert").train()
    model.bert.encoder.layer[0].eval()
    convert(model)
    assert model.training
    assert not model.bert.encoder.layer[0].training
    assert torch.is_grad_enabled()
    model(**small_inputs(model)).logits.sum().backward()
    assert model.bert.encoder.layer[1].attention.self.self_key.weight.grad is not None


def test_continuous_batching_is_refused():
    model = convert(model_of("llama"))
    with pytest.raises(ValueError, match="continuous batching"):
        model(**small_inputs(model), cache=object(), use_cache=False)
