"""A converted model in the hands of transformers' Trainer: the new weights learn, the others stay; it comes back."""

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

import twofold
from tests.retrofit.families import model_of
from tests.retrofit.test_families import output
from twofold import convert
from twofold.retrofit import freeze_all_but_self


class Repeated(Dataset):
    """Texts in which every token is followed by itself: what a token keeps of itself is the answer."""

    def __len__(self):
        return 32

    def __getitem__(self, place):
        ids = torch.randint(3, 99, (6,), generator=torch.Generator().manual_seed(place)).repeat_interleave(2)
        return {"input_ids": ids, "labels": ids}


def test_only_new_weights_learn_and_they_come_back(tmp_path):
    model = freeze_all_but_self(convert(model_of("llama")))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    options = TrainingArguments(
        str(tmp_path / "runs"),
        num_train_epochs=10,
        per_device_train_batch_size=16,
        learning_rate=1e-2,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model, options, train_dataset=Repeated())
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < 0.95 * losses[0]
    for name, parameter in model.named_parameters():
        is_own = ".self_key." in name or ".self_value." in name
        assert torch.equal(parameter, before[name]) != is_own
    trainer.save_model(str(tmp_path / "model"))
    torch.testing.assert_close(output(twofold.load(tmp_path / "model")), output(model.eval()), atol=0, rtol=0)
