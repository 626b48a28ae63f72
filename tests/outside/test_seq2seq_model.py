"""The classic encoder-decoder with attention="standard" against torch.nn.Transformer, weights copied."""

import pytest
import torch
from torch import nn

from twofold.models import Seq2SeqConfig, Seq2SeqModel

WIDTH, HEADS, INNER, LAYERS = 32, 4, 48, 2


def copy_attention(ours, theirs):
    for part, rows in zip((ours.query, ours.key, ours.value), theirs.in_proj_weight.chunk(3), strict=True):
        part.weight.copy_(rows)
    for part, entries in zip((ours.query, ours.key, ours.value), theirs.in_proj_bias.chunk(3), strict=True):
        part.bias.copy_(entries)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_layer(ours, theirs):
    copy_attention(ours.self_attn, theirs.self_attn)
    norms = [ours.attention_norm, ours.feed_forward_norm]
    if ours.cross_attn is not None:
        copy_attention(ours.cross_attn, theirs.multihead_attn)
        norms.insert(1, ours.cross_norm)
    ours.feed_forward.up.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.down.load_state_dict(theirs.linear2.state_dict())
    for number, norm in enumerate(norms, 1):
        norm.load_state_dict(getattr(theirs, f"norm{number}").state_dict())


# torch tells that its encoder would be faster with nested tensors.
@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning", "ignore:The PyTorch API of nested:UserWarning")
def test_equal_hidden_states():
    torch.manual_seed(0)
    theirs = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, INNER, dropout=0.0, batch_first=True).eval()
    # It ends each side with one LayerNorm more than the model of 2017.
    theirs.encoder.norm = theirs.decoder.norm = None
    config = Seq2SeqConfig(
        vocab_size=50, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        attention="standard", recipe="classic", norm_eps=1e-5,
    )  # fmt: skip
    ours = Seq2SeqModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2)
        for side in ("encoder", "decoder"):
            for layer, other in zip(getattr(ours, side).layers, getattr(theirs, side).layers, strict=True):
                copy_layer(layer, other)
        source, target = torch.randint(1, 50, (2, 9)), torch.randint(1, 50, (2, 7))
        padding = torch.arange(9) >= torch.tensor([[9], [6]])
        place = torch.arange
        x, _ = ours.encoder.embedding(source, None, place(9)[None])
        y, _ = ours.decoder.embedding(target, None, place(7)[None])
        future = torch.ones(7, 7, dtype=torch.bool).triu(1)
        expected = theirs(
            x, y, tgt_mask=future, src_key_padding_mask=padding, memory_key_padding_mask=padding, tgt_is_causal=False
        )
        found = ours(source, attention_mask=(~padding).long(), decoder_input_ids=target).last_hidden_state
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
