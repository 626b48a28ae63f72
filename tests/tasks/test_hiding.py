"""What a training batch does not show."""

import torch

from twofold.data.vocabulary import train_tokenizer
from twofold.tasks.hiding import some_hidden


def test_hides_a_share_of_ordinary_tokens():
    tokenizer = train_tokenizer(["dog"], "char", ends="both", extra=("sep",))
    special = torch.tensor(tokenizer.all_special_ids).repeat(100)
    ids = torch.cat([special, torch.full((4000,), tokenizer("d", add_special_tokens=False)["input_ids"][0])])
    shown = some_hidden(ids, tokenizer, 0.25)
    assert torch.equal(shown[: len(special)], special)
    assert 0.2 < (shown[len(special) :] == tokenizer.unk_token_id).float().mean() < 0.3
    assert torch.equal(some_hidden(ids, tokenizer, 0.0), ids)
