"""The captioner, with every decoder and both kinds of eye: a small world of shapes is described right."""

import itertools
import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageTextToText, ConvNextConfig, ViTConfig

from twofold.attention import Kind
from twofold.models import CaptionerConfig, CaptionerForConditionalGeneration, RecurrentConfig, Seq2SeqConfig

SIDE = 24
WORDS = ["<pad>", "<start>", "<end>", "a", "red", "green", "blue", "square", "ring", "cross"]
COLOURS, SHAPES = WORDS[4:7], WORDS[7:]

SIZES = {"vocab_size": len(WORDS), "hidden_size": 32, "num_hidden_layers": 2}
VISION = {
    "convolutions": None,
    "vit": ViTConfig(
        image_size=SIDE, patch_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    ),
    "convnext": ConvNextConfig(hidden_sizes=[8, 12], depths=[1, 1], num_stages=2, patch_size=4),
}
DECODERS = {
    **{
        f"{kind} {recipe}": Seq2SeqConfig(
            **SIZES, num_attention_heads=4, num_key_value_heads=2, attention=kind, recipe=recipe, init="independent"
        )
        for kind, recipe in itertools.product(Kind, ("modern", "classic"))
    },
    **{
        f"{cell} {attention}": RecurrentConfig(**SIZES, cell=cell, attention=attention)
        for cell, attention in (("rnn", "dot"), ("gru", "none"), ("lstm", "additive"), ("lstm", "scaled_dot"))
    },
}
each_decoder = pytest.mark.parametrize("decoder", DECODERS)
# Every decoder with the small network, and one of each kind with everything else that looks.
each_pair = pytest.mark.parametrize(
    ("decoder", "vision"),
    [(decoder, "convolutions") for decoder in DECODERS]
    + list(itertools.product(("split_kv modern", "lstm additive"), ("vit", "convnext"))),
)


def built(decoder="split_kv modern", vision="convolutions"):
    torch.manual_seed(0)
    config = CaptionerConfig(decoder=DECODERS[decoder], vision_config=VISION[vision], channels=(8, 16, 16))
    model = CaptionerForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model


def images(B=2):
    return torch.randn(B, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))


def caption(B=2):
    return torch.randint(3, len(WORDS), (B, 5), generator=torch.Generator().manual_seed(1))


@each_pair
def test_steps_are_the_full_pass_and_see_no_future(decoder, vision):
    model, words = built(decoder, vision), caption()
    with torch.no_grad():
        full = model(images(), decoder_input_ids=words, use_cache=False).logits
        first = model(images(), decoder_input_ids=words[:, :2], use_cache=True)
        past, found = first.past_key_values, [first.logits]
        for place in range(2, 5):
            step = model(
                encoder_outputs=(first.encoder_last_hidden_state,),
                decoder_input_ids=words[:, place : place + 1],
                past_key_values=past,
                use_cache=True,
            )
            past = step.past_key_values
            found.append(step.logits)
        torch.testing.assert_close(torch.cat(found, dim=1), full, atol=2e-4, rtol=0)
        other = words.clone()
        other[:, 3:] = 3
        changed = model(images(), decoder_input_ids=other, use_cache=False).logits
    torch.testing.assert_close(changed[:, :3], full[:, :3], atol=1e-5, rtol=0)


@each_decoder
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_is_the_same_with_a_cache_and_without(decoder, beams):
    model = built(decoder)
    options = {"pixel_values": images(), "max_new_tokens": 5, "num_beams": beams, "do_sample": False}
    expected = model.generate(use_cache=False, **options)
    assert (expected[:, 0] == 1).all()
    assert torch.equal(model.generate(**options), expected)


@each_pair
def test_a_saved_model_is_the_same_model(decoder, vision, tmp_path):
    model = built(decoder, vision)
    model.save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    loaded = AutoModelForImageTextToText.from_pretrained(tmp_path).eval()
    assert type(loaded) is CaptionerForConditionalGeneration
    for part in ("decoder", "vision_config"):
        assert type(getattr(loaded.config, part)) is type(getattr(model.config, part))
    assert loaded.config.decoder.attention == model.config.decoder.attention
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), atol=0, rtol=0)
    given = {"pixel_values": images(), "decoder_input_ids": caption()}
    # Convolutions round by where their memory lies.
    torch.testing.assert_close(loaded(**given).logits, model(**given).logits, atol=1e-6, rtol=0)
    options = {"pixel_values": images(), "max_new_tokens": 4, "do_sample": False}
    assert torch.equal(loaded.generate(**options), model.generate(**options))


@each_pair
def test_a_model_in_half_precision_takes_what_a_processor_gives(decoder, vision):
    model, given = built(decoder, vision), {"pixel_values": images(), "decoder_input_ids": caption()}
    expected = model(**given).logits
    found = model.to(torch.bfloat16)(**given).logits
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.1 * expected.abs().max().item(), rtol=0)
    assert model.generate(images(), max_new_tokens=3, do_sample=False).shape[0] == 2
    assert model.get_encoder() is model.get_encoder(modality="image") is model.encoder


def test_a_checkpoint_without_own_weights_is_refused(tmp_path):
    built("standard modern").save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    config.decoder.attention = "split_kv"
    with pytest.raises(ValueError, match="no weights for a token's own keys and values"):
        CaptionerForConditionalGeneration.from_pretrained(tmp_path, config=config)


@pytest.mark.parametrize(("vision", "places"), [("convolutions", 9), ("vit", 1 + 9), ("convnext", 9)])
@pytest.mark.parametrize("decoder", ["split_kv modern", "standard classic", "lstm additive"])
def test_maps_lie_over_the_image(decoder, vision, places):
    model = built(decoder, vision)
    found = model(images(), decoder_input_ids=caption(), output_attentions=True, use_cache=False)
    layers, heads = (1, 1) if "lstm" in decoder else (2, 4)
    assert len(found.cross_attentions) == layers
    for weights in found.cross_attentions:
        assert tuple(weights.shape) == (2, heads, 5, places)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, heads, 5))
    if heads == 4:
        assert tuple(found.decoder_attentions[0].shape) == (2, 4, 5, 5)


@pytest.mark.parametrize("decoder", ["split_kv modern", "split_kv classic", "lstm additive", "gru none"])
def test_padding_of_a_caption_is_nothing(decoder):
    model, words = built(decoder), caption()
    padded = torch.cat([words, torch.zeros(2, 2, dtype=torch.long)], dim=1)
    found = model(images(), decoder_input_ids=padded, decoder_attention_mask=(padded != 0).long()).logits[:, :5]
    torch.testing.assert_close(found, model(images(), decoder_input_ids=words).logits, atol=1e-5, rtol=1e-5)
    labels = torch.tensor([[4, 7, 2, -100, -100]] * 2)
    shorter = model(images(), labels=labels[:, :3]).loss
    torch.testing.assert_close(model(images(), labels=labels).loss, shorter)


def test_copied_own_weights_are_the_standard_model():
    torch.manual_seed(0)
    sizes = {**SIZES, "num_attention_heads": 4}
    split, standard = (
        CaptionerForConditionalGeneration(CaptionerConfig(decoder="transformer", attention=kind, **sizes)).double()
        for kind in ("split_kv", "standard")
    )
    lost = standard.load_state_dict(split.state_dict(), strict=False)
    assert not lost.missing_keys
    given = {"pixel_values": images().double(), "decoder_input_ids": caption()}
    torch.testing.assert_close(split(**given).logits, standard(**given).logits, atol=1e-12, rtol=0)


def test_parts_begin_as_their_own_recipes_say():
    torch.manual_seed(0)
    model = CaptionerForConditionalGeneration(CaptionerConfig(decoder=Seq2SeqConfig(**SIZES, num_attention_heads=4)))
    attention = model.decoder.layers[0].self_attn
    assert torch.equal(attention.self_key.weight, attention.key.weight)
    convolution = model.encoder.grid[1][0].weight
    assert abs(convolution.std().item() - (2 / (32 * 9)) ** 0.5) < 0.005
    assert model.lm_head.weight is model.get_input_embeddings().weight


def test_sizes_beside_the_decoders_name():
    config = CaptionerConfig(decoder="recurrent", cell="gru", vocab_size=40, hidden_size=16, eos_token_id=5)
    assert isinstance(config.decoder, RecurrentConfig)
    assert (config.decoder.cell, config.decoder.vocab_size, config.decoder.hidden_size) == ("gru", 40, 16)
    assert config.decoder.eos_token_id == 5
    untied = CaptionerConfig(tie_word_embeddings=False, initializer_range=0.3)
    assert (untied.tie_word_embeddings, untied.decoder.tie_word_embeddings) == (False, False)
    assert untied.decoder.initializer_range == 0.3
    assert isinstance(CaptionerConfig().decoder, Seq2SeqConfig)
    told = json.loads(config.to_json_string())
    assert told["decoder"]["model_type"] == "twofold_recurrent"
    assert "vocab_size" not in told


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder": "painter"}, "decoder must be one of transformer, recurrent or a config, got 'painter'"),
        ({"decoder": ViTConfig()}, "decoder must be a Seq2SeqConfig or a RecurrentConfig, got ViTConfig"),
        ({"decoder": Seq2SeqConfig(), "vocab_size": 9}, "vocab_size must be given to the decoder's configuration"),
        ({"decoder": Seq2SeqConfig(), "tie_word_embeddings": False}, "tie_word_embeddings must be given to the dec"),
        ({"decoder": RecurrentConfig(teacher_forcing=0.5)}, "teacher_forcing must be 1 in a captioner, got 0.5"),
        ({"decoder": Seq2SeqConfig(copies=True)}, "copies must be False in a captioner"),
        ({"channels": ()}, r"channels must be positive and at least one, got \(\)"),
        ({"num_channels": 0}, "num_channels must be at least 1, got 0"),
        ({"decoder": RecurrentConfig(hidden_size=7)}, "hidden_size must be even without vision_config, .* got 7"),
        ({"attention": "double"}, "attention must be one of standard"),
    ],
)
def test_bad_configurations(changes, message):
    with pytest.raises(ValueError, match=message):
        CaptionerConfig(**changes)


def test_nothing_to_see_is_an_error():
    with pytest.raises(ValueError, match="give pixel_values or encoder_outputs"):
        built()(decoder_input_ids=caption())


def drawn(colour, shape, row, column):
    """An image of 24 x 24 points with one shape, 9 wide, its corner at (row, column)."""
    y, x = torch.meshgrid(torch.arange(9) - 4, torch.arange(9) - 4, indexing="ij")
    inside = {
        "square": torch.ones(9, 9, dtype=torch.bool),
        "ring": (x.abs() > 2) | (y.abs() > 2),
        "cross": (x.abs() <= 1) | (y.abs() <= 1),
    }[shape]
    image = torch.zeros(3, SIDE, SIDE)
    image[COLOURS.index(colour), row : row + 9, column : column + 9] = inside.float()
    return image


def world(places):
    """Every colour and shape at every place, with captions."""
    cases = list(itertools.product(COLOURS, SHAPES, places))
    seen = torch.stack([drawn(colour, shape, *place) for colour, shape, place in cases])
    said = torch.tensor([[3, WORDS.index(colour), WORDS.index(shape), 2] for colour, shape, _ in cases])
    return seen, said


@pytest.mark.parametrize("decoder", ["transformer", "recurrent"])
def test_shapes_are_described_at_places_never_seen(decoder):
    torch.manual_seed(0)
    sizes = {**SIZES, **({"num_attention_heads": 4, "initializer_range": 0.1} if decoder == "transformer" else {})}
    model = CaptionerForConditionalGeneration(CaptionerConfig(decoder=decoder, channels=(16, 32, 32), **sizes)).train()
    places = list(itertools.product(range(SIDE - 8), repeat=2))
    held = places[::5]
    seen, said = world([place for place in places if place not in held])
    steps = 160 if decoder == "transformer" else 240
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    slower = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.1, steps)
    for _ in range(steps):
        batch = torch.randint(len(seen), (48,))
        optimiser.zero_grad()
        model(seen[batch], labels=said[batch]).loss.backward()
        optimiser.step()
        slower.step()
    unseen, expected = world(held)
    found = model.eval().generate(pixel_values=unseen, max_new_tokens=4, do_sample=False)
    right = (found[:, 1:] == expected).all(1).float().mean()
    assert right >= 0.98, f"{right:.3f} of {len(unseen)} captions are right"


@pytest.mark.parametrize("decoder", ["split_kv modern", "lstm additive"])
def test_what_is_asked_of_the_whole_reaches_the_decoder(decoder, tmp_path):
    model = built(decoder)
    assert model.config.pad_token_id == model.config.decoder.pad_token_id
    # As the Trainer does.
    model.config.pad_token_id, model.config.use_cache = 3, False
    assert (model.config.decoder.pad_token_id, model.config.decoder.use_cache) == (3, False)
    model.save_pretrained(tmp_path)
    again = CaptionerForConditionalGeneration.from_pretrained(
        tmp_path, output_attentions=True, output_hidden_states=True, attn_implementation="eager"
    )
    assert (again.config.decoder.pad_token_id, again.config.decoder.use_cache) == (3, False)
    found = again(images(), decoder_input_ids=caption(), use_cache=False)
    assert found.cross_attentions is not None
    assert found.decoder_hidden_states is not None
    torch.testing.assert_close(found.logits, model(images(), decoder_input_ids=caption()).logits)


def test_a_single_small_image_can_be_learned_from():
    """Its last layers see one place, which has no spread to be divided by."""
    sees = built().train()
    found = sees(pixel_values=torch.rand(1, 3, 8, 8), labels=caption()[:1])
    found.loss.backward()
    assert all(one.grad.isfinite().all() for one in sees.encoder.parameters())
    assert sees.encoder.grid[-1][1].num_batches_tracked == 0
    sees(pixel_values=torch.rand(2, 3, 8, 8), labels=caption())
    assert sees.encoder.grid[-1][1].num_batches_tracked == 1
