"""Copying from the source: the mixture is what the formula says, and training and generation take it as any logits."""

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from tests.models.test_decoder import VOCABULARY, tokens
from tests.models.test_seq2seq import answer, config
from twofold.models import Seq2SeqForConditionalGeneration
from twofold.models.copying import CopyHead, SourceOutput


def model(**changes):
    torch.manual_seed(0)
    made = Seq2SeqForConditionalGeneration(config(copies=True, **changes)).eval()
    for parameter in made.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return made


def head_and_inputs(B=2, T=3, S=5, C=8, dtype=torch.float64):
    torch.manual_seed(1)
    head = CopyHead(config(hidden_size=C)).to(dtype)
    x, source, logits = (torch.randn(B, size, width, dtype=dtype) for size, width in ((T, C), (S, C), (T, 12)))
    # Few tokens, so that the source repeats some.
    source_ids, last_ids = torch.randint(0, 6, (B, S)), torch.randint(0, 6, (B, T))
    last_ids[0, 0] = source_ids[0, 0]
    return head, x, logits, source, source_ids, last_ids


def by_the_formula(head, x, logits, source, source_ids, mask, last_ids):
    """The same, a probability at a time."""
    found = torch.zeros_like(logits)
    for b in range(len(x)):
        for t in range(x.shape[1]):
            gate = head.gate(x[b, t]).sigmoid()
            scores = []
            for s in range(source.shape[1]):
                score = head.query(x[b, t]) @ head.key(source[b, s]) / x.shape[-1] ** 0.5
                if last_ids is not None and s > 0 and source_ids[b, s - 1] == last_ids[b, t]:
                    score = score + head.follow(x[b, t])[0]
                scores.append(score if mask is None or mask[b, s] else score.new_tensor(-torch.inf))
            copied = torch.stack(scores).softmax(0)
            found[b, t] = (1 - gate) * logits[b, t].softmax(0)
            for s, token in enumerate(source_ids[b].tolist()):
                found[b, t, token] += gate[0] * copied[s]
    return found.log()


@pytest.mark.parametrize("S", [1, 2, 5])
@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("padding", ["none", "left", "right"])
def test_the_mixture_is_the_formula(S, follows, padding):
    head, x, logits, source, ids, last = head_and_inputs(S=S)
    mask = None if padding == "none" else torch.ones_like(ids)
    if mask is not None and S > 1:
        mask[0, 0 if padding == "left" else -1] = 0
    given = (head, x, logits, source, ids, mask, last if follows else None)
    found, expected = head(*given[1:]), by_the_formula(*given)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones_like(found[..., 0]))


def test_gradients_are_those_of_the_formula():
    head, x, logits, source, ids, last = head_and_inputs()
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    leaves = [x.requires_grad_(), logits.requires_grad_(), source.requires_grad_(), *head.parameters()]
    weight = torch.randn(2, 3, 12, dtype=torch.float64)
    ours = torch.autograd.grad((head(x, logits, source, ids, mask, last) * weight).sum(), leaves)
    plain = torch.autograd.grad((by_the_formula(head, x, logits, source, ids, mask, last) * weight).sum(), leaves)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other)
    assert (ours[2][1, 3:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_extremes_stay_finite(dtype):
    head, x, logits, source, ids, last = head_and_inputs(dtype=dtype)
    logits[..., 0], logits[..., 1] = 3e4, -3e4
    found = head((x * 50).requires_grad_(), logits, source * 50, ids, torch.ones_like(ids), last)
    assert found.dtype == torch.float32
    assert found.isfinite().all()
    found.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


def test_off_unless_asked_for():
    made = Seq2SeqForConditionalGeneration(config())
    assert not any("copying" in name for name in made.state_dict())
    assert not isinstance(made.get_encoder()(tokens()), SourceOutput)


@pytest.mark.parametrize("recipe", ["modern", "classic"])
def test_steps_by_the_cache_are_the_full_pass(recipe):
    made, ids, out = model(recipe=recipe), tokens(), answer()
    with torch.no_grad():
        full = made(ids, decoder_input_ids=out, use_cache=False).logits
        read = made.get_encoder()(ids)
        assert torch.equal(read.source_ids, ids)
        past, found = None, []
        for position in range(out.shape[1]):
            told = {"decoder_input_ids": out[:, position : position + 1], "past_key_values": past, "use_cache": True}
            step = made(encoder_outputs=read, **told)
            past = step.past_key_values
            found.append(step.logits)
    torch.testing.assert_close(torch.cat(found, dim=1), full, atol=2e-4, rtol=0)
    torch.testing.assert_close(full.exp().sum(-1), torch.ones(2, 6))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_is_generated_as_its_texts_alone(beams, side):
    made = model(positions="none")
    texts = [tokens(B=1, T=length) for length in (9, 4, 1)]
    blank = [torch.zeros(1, 9 - text.shape[1], dtype=torch.long) for text in texts]
    rows = [
        torch.cat([pad, text] if side == "left" else [text, pad], 1) for text, pad in zip(texts, blank, strict=True)
    ]
    ids = torch.cat(rows)
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "num_beams": beams, "do_sample": False}
    together = made.generate(ids, attention_mask=(ids != 0).long(), **options)
    for text, found in zip(texts, together, strict=True):
        assert torch.equal(made.generate(text, **options)[0], found)
    for cache in ({"use_cache": False}, {"cache_implementation": "static"}):
        assert torch.equal(made.generate(ids, attention_mask=(ids != 0).long(), **cache, **options), together)


def test_what_is_drawn_by_chance_is_a_token():
    torch.manual_seed(0)
    found = model().generate(tokens(), do_sample=True, num_return_sequences=3, max_new_tokens=4)
    assert found.shape[0] == 6
    assert int(found.max()) < VOCABULARY


def test_a_saved_model_is_the_same_model(tmp_path):
    made = model()
    made.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert loaded.config.copies
    options = {"decoder_input_ids": answer()}
    assert torch.equal(loaded(tokens(), **options).logits, made(tokens(), **options).logits)
    assert torch.equal(loaded.generate(tokens(), max_new_tokens=5), made.generate(tokens(), max_new_tokens=5))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_of_the_mixture(smoothing):
    made, labels = model(), answer()
    labels[1, 4:] = -100
    found = made(tokens(), labels=labels, smoothing=smoothing)
    scores = found.logits.flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(scores, labels.flatten(), label_smoothing=smoothing)
    torch.testing.assert_close(found.loss, expected)


def test_tokens_never_taught_are_copied():
    """The answer is the source. Half of the vocabulary is in no text that was taught, and comes out all the same."""
    torch.manual_seed(0)
    made = Seq2SeqForConditionalGeneration(config(copies=True, vocab_size=60, init="copy")).train()
    optimiser = torch.optim.AdamW(made.parameters(), lr=1e-2, weight_decay=0.0)
    ends = torch.ones(16, 1, dtype=torch.long)
    for _ in range(60):
        ids = torch.cat([torch.stack([torch.randperm(27)[:4] + 3 for _ in range(16)]), 2 * ends], dim=1)
        optimiser.zero_grad()
        made(torch.cat([ends, ids], dim=1), labels=ids).loss.backward()
        optimiser.step()
    new = torch.cat([ends, torch.stack([torch.randperm(30)[:4] + 30 for _ in range(16)]), 2 * ends], dim=1)
    found = made.eval().generate(new, max_new_tokens=5, min_new_tokens=4, do_sample=False)
    assert (found[:, :5] == new[:, :5]).float().mean() > 0.9


def test_a_source_without_tokens_cannot_be_copied():
    made = model()
    with pytest.raises(ValueError, match="copies needs the source's tokens: give input_ids, or encoder_outputs with"):
        made(inputs_embeds=torch.randn(2, 4, 32), decoder_input_ids=answer())


def test_copies_need_the_tokens_that_the_decoder_reads():
    made, ids = model(), tokens()
    with pytest.raises(ValueError, match="copies needs the tokens that the decoder reads"):
        made(ids, decoder_inputs_embeds=made.get_input_embeddings()(ids))
