"""Everything that transformers' generate offers works with our models: sampling, streaming, caches, packed batches."""

import pytest
import torch
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.streamers import BaseStreamer

from tests.models import test_decoder, test_seq2seq
from tests.models.test_decoder import tokens
from twofold.attention import Kind

FAMILIES = {"decoder": test_decoder.model, "seq2seq": test_seq2seq.model}


def next_logits(made, prompt, written):
    """Logits of the token after `written`, by a full pass without any cache."""
    with torch.no_grad():
        if made.config.is_encoder_decoder:
            return made(prompt, decoder_input_ids=written, use_cache=False).logits[:, -1]
        return made(written, use_cache=False).logits[:, -1]


def allowed(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    """Which tokens a sampler may choose, (B, V), from the definitions."""
    p = (logits.double() / temperature).softmax(-1)
    if top_k is not None:
        return p >= p.topk(top_k).values[:, -1:]
    if top_p is not None:
        # The mass of everything likelier: the nucleus ends with the token that reaches top_p.
        likelier = (p[:, None, :] * (p[:, None, :] > p[:, :, None])).sum(-1)
        return likelier < top_p
    if min_p is not None:
        return p >= min_p * p.amax(-1, keepdim=True)
    return p > 0


SAMPLERS = [
    {"temperature": 0.7},
    {"top_k": 3},
    {"temperature": 1.5, "top_k": 5},
    {"top_p": 0.6},
    {"temperature": 2.0, "top_p": 0.8},
    {"min_p": 0.3},
    {"temperature": 3.0, "min_p": 0.5},
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("options", SAMPLERS, ids=str)
def test_sampling_keeps_to_its_set_and_to_its_seed(family, options):
    made, ids = FAMILIES[family](), tokens(B=4, T=5)

    def sampled(seed):
        torch.manual_seed(seed)
        # transformers' own top-k of 50 would be the whole vocabulary here; 0 says so.
        return made.generate(ids, max_new_tokens=6, do_sample=True, eos_token_id=None, **{"top_k": 0, **options})

    found = sampled(0)
    assert torch.equal(sampled(0), found)
    assert not torch.equal(sampled(1), found)
    start = 1 if made.config.is_encoder_decoder else ids.shape[1]
    for place in range(start, found.shape[1]):
        may = allowed(next_logits(made, ids, found[:, :place]), **options)
        assert may.gather(1, found[:, place : place + 1]).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_sampling_at_zero_warmth_is_greedy(family):
    made, ids = FAMILIES[family](), tokens()
    greedy = made.generate(ids, max_new_tokens=6, do_sample=False)
    assert torch.equal(made.generate(ids, max_new_tokens=6, do_sample=True, temperature=1e-5), greedy)
    assert torch.equal(made.generate(ids, max_new_tokens=6, do_sample=True, top_k=1), greedy)


def test_samples_follow_the_models_probabilities():
    made, draws = test_decoder.model(), 4000
    ids = tokens(B=1, T=5)
    expected = next_logits(made, None, ids).softmax(-1)[0]
    found = made.generate(ids.expand(draws, -1), max_new_tokens=1, do_sample=True, top_k=0)[:, -1]
    share = found.bincount(minlength=expected.numel()) / draws
    # Four standard deviations of the likeliest token's share.
    assert (share - expected).abs().max() < 4 * (0.25 / draws) ** 0.5


class Collected(BaseStreamer):
    """What a streamer is handed, piece by piece."""

    def __init__(self):
        self.pieces, self.ended = [], False

    def put(self, value):
        self.pieces.append(value.flatten())

    def end(self):
        self.ended = True


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sampled", [False, True])
def test_a_stream_brings_the_tokens_of_generate(family, sampled):
    made, ids, stream = FAMILIES[family](), tokens(B=1), Collected()
    torch.manual_seed(0)
    found = made.generate(ids, max_new_tokens=6, do_sample=sampled, streamer=stream)
    assert stream.ended
    assert torch.equal(torch.cat(stream.pieces), found[0])
    # The prompt, then token by token.
    assert [piece.numel() for piece in stream.pieces[1:]] == [1] * (len(stream.pieces) - 1)
    assert len(stream.pieces) > 2


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("beams", [1, 3])
def test_a_sliding_cache_generates_what_no_cache_does(kind, beams):
    made, ids = test_decoder.model(attention=kind, sliding_window=3), tokens()
    ids[0, :4] = 0
    options = {"max_new_tokens": 7, "num_beams": beams, "do_sample": False, "attention_mask": (ids != 0).long()}
    expected = made.generate(ids, use_cache=False, **options)
    assert torch.equal(made.generate(ids, **options), expected)
    assert torch.equal(made.generate(ids, cache_implementation="static", **options), expected)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("beams", [1, 3])
def test_padded_prompts_generate_as_if_alone(family, kind, beams):
    """Left padding for a decoder, either side for a question that an encoder reads."""
    made, lengths = FAMILIES[family](attention=kind), (2, 5, 7)
    prompts = [tokens(B=1, T=length)[0] for length in lengths]
    options = {"max_new_tokens": 5, "num_beams": beams, "do_sample": False, "eos_token_id": None}
    new = 1 if made.config.is_encoder_decoder else max(lengths)
    alone = [made.generate(prompt[None], **options)[0, -5:] for prompt in prompts]
    for side in ("left", "right") if made.config.is_encoder_decoder else ("left",):
        ids = torch.zeros(3, max(lengths), dtype=torch.long)
        for row, prompt in zip(ids, prompts, strict=True):
            part = row[-len(prompt) :] if side == "left" else row[: len(prompt)]
            part.copy_(prompt)
        told = {"attention_mask": (ids != 0).long()}
        if made.config.is_encoder_decoder and side == "left":
            told["position_ids"] = (told["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        assert torch.equal(made.generate(ids, **told, **options)[:, new:], torch.stack(alone))


# It warns that a CPU is slow.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("kind", "lengths"), [*((kind, (6, 3, 9, 1)) for kind in Kind), (Kind.SPLIT_KV, (1, 3, 6, 9))], ids=str
)
def test_continuous_batching_generates_the_same(kind, lengths):
    """Prompts of several lengths in one row of a paged cache, each as if it were alone."""
    made = test_decoder.model(attention=kind)
    prompts = [tokens(B=1, T=length)[0].tolist() for length in lengths]
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    found = made.generate_batch(
        inputs=prompts,
        generation_config=GenerationConfig(**options, eos_token_id=-1),
        # Small, for the default fills half the memory with masks.
        continuous_batching_config=ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=64),
        progress_bar=False,
    )
    for prompt, request in zip(prompts, sorted(found, key=lambda name: int(name.split("_")[-1])), strict=True):
        alone = made.generate(torch.tensor([prompt]), eos_token_id=None, **options)[0, len(prompt) :]
        assert found[request].generated_tokens == alone.tolist()
