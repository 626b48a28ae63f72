"""What users bring from transformers works on our models: the Trainer and pipelines."""

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    TextIteratorStreamer,
    Trainer,
    TrainingArguments,
    pipeline,
)

from tests.models.test_every_family import CASES, FAMILIES
from tests.models.test_recurrent import model as recurrent_model
from twofold.models import DecoderConfig, EncoderConfig
from twofold.models.decoder import DecoderForSequenceClassification, DecoderForTokenClassification
from twofold.models.encoder import EncoderForSequenceClassification, EncoderForTokenClassification

SENTENCES = ["turn the lights off", "play some Müsik", "включи свет", "灯 を 消す"]
WORDS = ["<pad>", "<s>", "</s>", "<unk>", *sorted({word for line in SENTENCES for word in line.split()})]


def tokenizer():
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))  # noqa: S106
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    # pipelines give whatever else the tokenizer makes to the model.
    return PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=["input_ids", "attention_mask"], **names)


def sized(cls, **changes):
    sizes = {"vocab_size": len(WORDS), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return cls(**{**sizes, **changes})


def test_text_is_generated_and_streamed():
    torch.manual_seed(0)
    model, reader = FAMILIES["decoder"](vocab_size=len(WORDS)), tokenizer()
    write = pipeline("text-generation", model=model, tokenizer=reader)
    options = {"max_new_tokens": 5, "do_sample": False}
    found = write("turn the", return_full_text=False, **options)[0]["generated_text"]
    ids = reader("turn the", return_tensors="pt")
    expected = model.generate(**ids, **options)[0, 2:]
    assert found.split() == reader.decode(expected, skip_special_tokens=True).split()
    # Prompts of two lengths: the pipeline pads on the left, and each is as if alone.
    reader.padding_side = "left"
    both = write(["turn the", "play some Müsik"], batch_size=2, return_full_text=False, **options)
    assert both[0][0]["generated_text"] == found
    stream = TextIteratorStreamer(reader, skip_prompt=True, skip_special_tokens=True)
    model.generate(**ids, streamer=stream, **options)
    assert "".join(stream).split() == found.split()


@pytest.mark.parametrize(
    ("task", "cls", "config"),
    [
        ("text-classification", EncoderForSequenceClassification, EncoderConfig),
        ("text-classification", DecoderForSequenceClassification, DecoderConfig),
        ("token-classification", EncoderForTokenClassification, EncoderConfig),
        ("token-classification", DecoderForTokenClassification, DecoderConfig),
    ],
)
def test_labels_come_out_of_pipelines(task, cls, config):
    names = {0: "ON", 1: "OFF", 2: "OTHER"}
    model = cls(sized(config, id2label=names, label2id={name: number for number, name in names.items()})).eval()
    reader = tokenizer()
    label = pipeline(task, model=model, tokenizer=reader)
    for sentence, found in zip(SENTENCES, label(SENTENCES), strict=True):
        logits = model(**reader(sentence, return_tensors="pt")).logits[0]
        best, scores = logits.argmax(-1), logits.softmax(-1)
        if task == "text-classification":
            assert found["label"] == names[best.item()]
            assert abs(found["score"] - scores.max().item()) < 1e-5
        else:
            assert [part["entity"] for part in found] == [names[number] for number in best.tolist()]
            assert [sentence[part["start"] : part["end"]] for part in found] == sentence.split()


def trained(model, rows, folder, **changes):
    """One epoch by the Trainer, in the order of `rows`."""
    options = {"learning_rate": 1e-2, "max_grad_norm": 0.0, "lr_scheduler_type": "constant", "optim": "sgd"}
    arguments = TrainingArguments(
        output_dir=folder, num_train_epochs=1, use_cpu=True, report_to=[], save_strategy="no", logging_steps=1,
        disable_tqdm=True, dataloader_pin_memory=False, train_sampling_strategy="sequential", **{**options, **changes},
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def rows_of(family, count):
    drawn = torch.randint(3, 50, (count, 7), generator=torch.Generator().manual_seed(0))
    rows = [{"input_ids": ids, "labels": ids.flip(0) if family == "seq2seq" else ids.clone()} for ids in drawn]
    # Labels of unequal number: a mean of means is not the mean.
    for row in rows[::2]:
        row["labels"][3:] = -100
    return rows


@pytest.mark.parametrize(("family", "recipe"), CASES)
def test_the_trainer_lowers_the_loss(family, recipe, tmp_path):
    rows = rows_of(family, 4) * 8
    losses = trained(
        FAMILIES[family](recipe=recipe), rows, tmp_path, optim="adamw_torch", per_device_train_batch_size=4
    )
    assert len(losses) == 8
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_accumulated_batches_are_one_batch(family, tmp_path):
    """The Trainer leaves the division by the number of labels to models that take it; ours must do it."""
    rows, found = rows_of(family, 4), []
    for size, steps in ((4, 1), (1, 4)):
        model = FAMILIES[family]().train()
        trained(model, rows, tmp_path, per_device_train_batch_size=size, gradient_accumulation_steps=steps)
        found.append({name: parameter.detach() for name, parameter in model.named_parameters()})
    untouched = dict(FAMILIES[family]().named_parameters())
    assert any(not torch.equal(found[0][name], untouched[name]) for name in untouched)
    torch.testing.assert_close(found[1], found[0], atol=1e-6, rtol=1e-5)


def test_accumulated_batches_of_a_classifier_are_their_mean(tmp_path):
    ids = torch.randint(3, 20, (4, 5), generator=torch.Generator().manual_seed(0))
    rows, found = [{"input_ids": row, "labels": row[0] % 2} for row in ids], []
    for size, steps in ((4, 1), (1, 4)):
        torch.manual_seed(0)
        model = EncoderForSequenceClassification(sized(EncoderConfig, vocab_size=20))
        trained(model, rows, tmp_path, per_device_train_batch_size=size, gradient_accumulation_steps=steps)
        found.append({name: parameter.detach() for name, parameter in model.named_parameters()})
    torch.testing.assert_close(found[1], found[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("model", [FAMILIES["decoder"], recurrent_model], ids=["decoder", "recurrent"])
def test_smoothed_labels_are_those_of_next_tokens(model, tmp_path):
    """The Trainer shifts labels for the language models that it knows."""
    made, rows = model(), rows_of("decoder", 4)
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    expected = torch.nn.functional.cross_entropy(
        made(batch["input_ids"]).logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten(), label_smoothing=0.1
    )
    (loss,) = trained(made, rows, tmp_path, label_smoothing_factor=0.1, per_device_train_batch_size=4)
    assert loss == pytest.approx(expected.item(), rel=1e-3)
