"""Recurrent models read one way or both: the state is the cache, padding is skipped, every cell is an option."""

import json
import subprocess
import sys
from threading import Thread

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    DynamicCache,
)
from transformers.generation.streamers import BaseStreamer

from twofold.models import DecoderConfig, RecurrentConfig, RecurrentForCausalLM, RecurrentModel, unit_activations
from twofold.models.recurrent_config import CELLS
from twofold.models.recurrent_layers import RecurrentCache

VOCABULARY = 50


def config(**changes):
    return RecurrentConfig(**{"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, **changes})


def model(auto=AutoModelForCausalLM, **changes):
    torch.manual_seed(0)
    return auto.from_config(config(**changes)).eval()


def tokens(B=2, T=9):
    return torch.randint(3, VOCABULARY, (B, T), generator=torch.Generator().manual_seed(1))


def padded(ids, left, right):
    rows = len(ids)
    ids = torch.cat([torch.zeros(rows, left, dtype=torch.long), ids, torch.zeros(rows, right, dtype=torch.long)], dim=1)
    return ids, (ids != 0).long()


each_cell = pytest.mark.parametrize("cell", CELLS)
each_residual = pytest.mark.parametrize("residual", [False, True])


@each_cell
@each_residual
@pytest.mark.parametrize("chunks", [(5, 4), (1,) * 9, (3, 1, 5)], ids=str)
@torch.no_grad()
def test_prefill_and_steps_are_the_full_pass(cell, residual, chunks):
    made, ids = model(cell=cell, residual=residual), tokens()
    full = made(ids, use_cache=False)
    assert full.past_key_values is None
    past, start, found = None, 0, []
    for chunk in chunks:
        out = made(ids[:, start : start + chunk], past_key_values=past)
        past, start = out.past_key_values, start + chunk
        assert (len(past), past.get_seq_length()) == (2, start)
        found.append(out.logits)
    torch.testing.assert_close(torch.cat(found, dim=1), full.logits, atol=1e-6, rtol=1e-5)


@each_cell
def test_outputs_do_not_depend_on_the_future(cell):
    made, ids = model(cell=cell), tokens()
    other = ids.clone()
    other[:, 6:] = 3
    plain, changed = made(ids).logits, made(other).logits
    torch.testing.assert_close(changed[:, :6], plain[:, :6], atol=1e-6, rtol=0)
    assert not torch.allclose(changed[:, 6:], plain[:, 6:], atol=1e-3)


@each_cell
@each_residual
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("left", "right"), [(3, 0), (0, 4), (2, 3)])
@torch.no_grad()
def test_padding_changes_nothing(cell, residual, bidirectional, left, right):
    made = model(AutoModel, cell=cell, residual=residual, bidirectional=bidirectional)
    ids = tokens(B=1, T=6)
    long, mask = padded(ids, left, right)
    # Beside a row without padding, as in a batch.
    both = torch.cat([long, tokens(B=1, T=long.shape[1])])
    found = made(both, attention_mask=torch.cat([mask, torch.ones_like(mask)]), output_hidden_states=True)
    plain = made(ids, output_hidden_states=True)
    for ours, theirs in zip(found.hidden_states[1:], plain.hidden_states[1:], strict=True):
        torch.testing.assert_close(ours[:1, left : left + 6], theirs, atol=1e-6, rtol=1e-5)
    alone = made(both[1:]).last_hidden_state
    torch.testing.assert_close(found.last_hidden_state[1:], alone, atol=1e-6, rtol=1e-5)
    if not bidirectional:
        for ours, theirs in zip(found.past_key_values.states, plain.past_key_values.states, strict=True):
            torch.testing.assert_close([part[:1] for part in ours], list(theirs), atol=1e-6, rtol=1e-5)


@each_cell
@torch.no_grad()
def test_holes_are_skipped_and_empty_rows_keep_their_state(cell):
    made = model(AutoModel, cell=cell)
    ids = torch.tensor([[5, 0, 6, 0, 0, 7], [0, 0, 0, 0, 0, 0]])
    found = made(ids, attention_mask=(ids != 0).long())
    plain = made(torch.tensor([[5, 6, 7]]))
    torch.testing.assert_close(found.last_hidden_state[:1, [0, 2, 5]], plain.last_hidden_state, atol=1e-6, rtol=1e-5)
    # What a skipped step shows is what was last known.
    assert torch.equal(found.last_hidden_state[0, 1], found.last_hidden_state[0, 0])
    assert (found.last_hidden_state[1] == 0).all()
    assert all((part[1] == 0).all() for state in found.past_key_values.states for part in state)
    before = [tuple(part.clone() for part in state) for state in found.past_key_values.states]
    made(ids[:, :2], attention_mask=torch.zeros(2, 8), past_key_values=found.past_key_values)
    assert all(
        torch.equal(old, new)
        for a, b in zip(before, found.past_key_values.states, strict=True)
        for old, new in zip(a, b, strict=True)
    )


@each_cell
@each_residual
@pytest.mark.parametrize("start", [1, 4, 5, 7])
@torch.no_grad()
def test_hidden_steps_show_the_latest_real_one_from_a_cache_too(cell, residual, start):
    """Row 0 has nothing hidden; row 1 ends early; row 2 begins late; row 3 has holes."""
    made, ids = model(cell=cell, residual=residual), tokens(B=4)
    mask = torch.tensor([[1] * 9, [1] * 5 + [0] * 4, [0] * 6 + [1] * 3, [0, 1, 1, 0, 0, 1, 0, 0, 1]])
    full = made(ids, attention_mask=mask, output_hidden_states=True)
    past = made(ids[:, :start], attention_mask=mask[:, :start], use_cache=True).past_key_values
    order = torch.tensor([3, 1, 0, 2])
    past.reorder_cache(order)
    for end in (start + 1, 9):
        new = slice(past.get_seq_length(), end)
        found = made(ids[order, new], attention_mask=mask[order, :end], past_key_values=past, output_hidden_states=True)
        torch.testing.assert_close(found.logits, full.logits[order, new], atol=1e-6, rtol=1e-5)
        for ours, theirs in zip(found.hidden_states, full.hidden_states, strict=True):
            torch.testing.assert_close(ours, theirs[order, new], atol=1e-6, rtol=1e-5)
    assert all(one.untyped_storage().nbytes() == 4 * 16 * 4 for one in past.shown)


@each_cell
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("side", ["left", "right", "none"])
def test_generation_is_the_same_with_a_cache_and_without(cell, beams, side):
    made, ids = model(cell=cell), tokens()
    if side != "none":
        ids[0, slice(0, 4) if side == "left" else slice(5, None)] = 0
    options = {"max_new_tokens": 6, "num_beams": beams, "do_sample": False, "eos_token_id": None}
    expected = made.generate(ids, attention_mask=(ids != 0).long(), use_cache=False, **options)
    found = made.generate(ids, attention_mask=(ids != 0).long(), **options)
    assert torch.equal(found, expected)
    # A row beside others is that row alone.
    alone = made.generate(ids[:1, ids[0] != 0], **options)
    assert torch.equal(found[0, 9:], alone[0, -6:])


@each_cell
def test_generation_goes_on_from_a_cache(cell):
    made, ids = model(cell=cell), tokens(B=1)
    options = {"do_sample": False, "eos_token_id": None, "return_dict_in_generate": True}
    whole = made.generate(ids, max_new_tokens=8, **options).sequences
    first = made.generate(ids, max_new_tokens=3, **options)
    again = made.generate(first.sequences, past_key_values=first.past_key_values, max_new_tokens=5, **options).sequences
    assert torch.equal(again, whole)


@each_cell
def test_sampling(cell):
    made, ids = model(cell=cell), tokens()

    def sampled(**options):
        torch.manual_seed(3)
        return made.generate(ids, max_new_tokens=8, do_sample=True, eos_token_id=None, **options)

    greedy = made.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=None)
    for options in ({"top_k": 1}, {"top_p": 1e-6, "top_k": 0}, {"min_p": 1.0, "top_k": 0}, {"temperature": 1e-4}):
        assert torch.equal(sampled(**options), greedy), options
    assert not torch.equal(sampled(temperature=5.0, top_k=0), greedy)
    assert torch.equal(sampled(temperature=2.0), sampled(temperature=2.0, use_cache=False))


class Collector(BaseStreamer):
    def __init__(self):
        self.seen, self.ended = [], False

    def put(self, value):
        self.seen += value.flatten().tolist()

    def end(self):
        self.ended = True


def test_streaming():
    made, ids, streamer = model(), tokens(B=1), Collector()
    options = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None}
    thread = Thread(target=made.generate, args=(ids,), kwargs={**options, "streamer": streamer})
    thread.start()
    thread.join()
    assert streamer.ended
    assert streamer.seen == made.generate(ids, **options)[0].tolist()


def test_assisted_generation_is_refused():
    made = model()
    with pytest.raises(ValueError, match="not supported with stateful models"):
        made.generate(tokens(B=1), assistant_model=made, max_new_tokens=3)


def test_reordering_and_resetting_the_state():
    state = torch.arange(6.0).reshape(3, 2)
    cache = RecurrentCache([(state, -state)], seen=4)
    cache.reorder_cache(torch.tensor([2, 2, 0]))
    assert [part.tolist() for part in cache.states[0]] == [[[4, 5], [4, 5], [0, 1]], [[-4, -5], [-4, -5], [0, -1]]]
    cache.update(cache.states, [torch.arange(6.0).reshape(3, 2, 1)])
    cache.reorder_cache(torch.tensor([2, 2, 0]))
    assert (cache.get_seq_length(), cache.shown[0].tolist()) == (6, [[[5]], [[5]], [[1]]])
    cache.reset()
    assert (len(cache), cache.get_seq_length(), cache.shown) == (0, 0, [])


AUTOS = (AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoModelForTokenClassification)


@each_cell
@pytest.mark.parametrize("auto", AUTOS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_is_the_same_model(cell, auto, tied, tmp_path):
    made, ids = model(auto, cell=cell, tie_word_embeddings=tied), tokens()
    made.save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    loaded = auto.from_pretrained(tmp_path).eval()
    assert type(loaded) is type(made)
    assert torch.equal(loaded(ids)[0], made(ids)[0])
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "twofold_recurrent"
    assert AutoConfig.from_pretrained(tmp_path).cell == cell


@each_cell
def test_a_loaded_model_goes_on_learning(cell, tmp_path):
    """torch's cells keep a second list of their weights: it must be the same weights still."""
    model(cell=cell).save_pretrained(tmp_path)
    made, ids = AutoModelForCausalLM.from_pretrained(tmp_path).train(), tokens()
    before = made(ids, labels=ids).loss
    before.backward()
    torch.optim.SGD(made.parameters(), lr=0.5).step()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in made.parameters())
    assert made(ids, labels=ids).loss < before


def test_one_configuration_serves_both_kinds_of_model():
    shared = config()
    made = [auto.from_config(shared) for auto in (AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForCausalLM)]
    assert [one.config.is_encoder_decoder for one in made] == [False, True, False]
    assert [one.generation_config.eos_token_id for one in made] == [2, 2, 2]
    assert shared.is_encoder_decoder is False
    assert AutoModelForCausalLM.from_config(made[1].config).config.is_encoder_decoder is False


def test_a_checkpoint_of_another_kind_is_refused(tmp_path):
    model().save_pretrained(tmp_path / "lm")
    model(AutoModelForSeq2SeqLM).save_pretrained(tmp_path / "answers")
    with pytest.raises(ValueError, match=r"no weights for decoder\.\S+ and \d+ more of RecurrentForConditionalGen"):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "lm")
    with pytest.raises(ValueError, match=r"no weights for \S+ and \d+ more of RecurrentForCausalLM"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "answers")
    # A head is trained anew, on a language model's stack.
    tagger = AutoModelForTokenClassification.from_pretrained(tmp_path / "lm")
    assert torch.equal(tagger.model.embedding.weight, model().model.embedding.weight)


def test_without_this_package_a_checkpoint_does_not_open(tmp_path):
    model().save_pretrained(tmp_path)
    code = f"from transformers import AutoModelForCausalLM; AutoModelForCausalLM.from_pretrained({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "twofold_recurrent" in done.stderr


@each_cell
@pytest.mark.parametrize("bidirectional", [False, True])
def test_learns_to_classify_and_to_tag(cell, bidirectional):
    """A sentence's label is its first letter. A letter's is its neighbour: the next where that can be known."""
    torch.manual_seed(0)
    ids = torch.randint(3, 7, (64, 6))
    changes = {"cell": cell, "bidirectional": bidirectional, "num_hidden_layers": 1, "hidden_size": 32}
    tags = ids.roll(-1 if bidirectional else 1, dims=1) - 3
    tags[:, 5 if bidirectional else 0] = -100
    for auto, labels in ((AutoModelForSequenceClassification, ids[:, 0] - 3), (AutoModelForTokenClassification, tags)):
        made = auto.from_config(config(num_labels=4, vocab_size=8, **changes)).train()
        optimiser = torch.optim.Adam(made.parameters(), lr=1e-2)
        for _ in range(80):
            optimiser.zero_grad()
            made(ids, labels=labels).loss.backward()
            optimiser.step()
        found = made.eval()(ids).logits.argmax(-1)
        assert (found == labels)[labels != -100].float().mean() > 0.95


@each_cell
@torch.no_grad()
def test_hidden_states_and_units(cell):
    made, ids = model(cell=cell), tokens()
    ids, mask = padded(ids, 2, 0)
    states = made(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    assert [tuple(state.shape) for state in states] == [(2, 11, 16)] * 3
    units = unit_activations(made, ids, mask)
    torch.testing.assert_close(units, torch.cat(states[1:], dim=-1), atol=1e-6, rtol=1e-5)
    assert made(ids).hidden_states is None
    if cell == "lstm":
        memory = unit_activations(made.model, ids, mask, part="cell")
        torch.testing.assert_close(memory[:, -1, 16:], made(ids, attention_mask=mask).past_key_values.states[1][1])
    else:
        with pytest.raises(ValueError, match=f"part must be hidden, or cell for an LSTM, got 'cell' for cell '{cell}'"):
            unit_activations(made, ids, part="cell")


def test_units_of_what_reads_both_ways():
    with pytest.raises(ValueError, match="model must be a recurrent stack read one way, or stand on one"):
        unit_activations(model(AutoModel, bidirectional=True), tokens())


@pytest.mark.parametrize("family", [*CELLS, "decoder"])
def test_learns_hello(family):
    """The example of source 004: vocabulary [h, e, l, o]."""
    torch.manual_seed(0)
    letters = "helo"
    sizes = {"vocab_size": 7, "hidden_size": 32, "num_hidden_layers": 1}
    made_of = DecoderConfig(num_attention_heads=4, **sizes) if family == "decoder" else config(cell=family, **sizes)
    made = AutoModelForCausalLM.from_config(made_of).train()
    word = torch.tensor([[letters.index(letter) + 3 for letter in "hello"] + [2]])
    optimiser = torch.optim.Adam(made.parameters(), lr=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        made(word, labels=word).loss.backward()
        optimiser.step()
    found = made.eval().generate(word[:, :1], max_new_tokens=5, do_sample=False)[0].tolist()
    assert "".join(letters[i - 3] for i in found[1:-1]) == "ello"
    assert found[-1] == 2


def test_dropout_is_for_training_alone():
    made, ids = model(hidden_dropout=0.5), tokens()
    assert torch.equal(made(ids).logits, made(ids).logits)
    made.train()
    assert not torch.equal(made(ids).logits, made(ids).logits)


def test_the_loss_reads_one_ahead():
    made, ids = model(), tokens()
    out = made(ids, labels=ids)
    expected = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    torch.testing.assert_close(out.loss, expected)


def test_an_lstm_remembers_at_the_start():
    cell = RecurrentModel(config(cell="lstm")).layers[0].cell
    assert cell.bias_ih_l0.unflatten(0, (4, 16)).mean(1).tolist() == [0, 1, 0, 0]
    gate = cell.weight_hh_l0[:16].detach()
    torch.testing.assert_close(gate @ gate.T, torch.eye(16), atol=1e-5, rtol=0)


def test_it_claims_no_gradient_checkpointing():
    with pytest.raises(ValueError, match="does not support gradient checkpointing"):
        model().gradient_checkpointing_enable()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "qrnn"}, "cell must be one of rnn, lstm, gru, got 'qrnn'"),
        ({"attention": "split_kv"}, "attention must be one of none, additive, dot, scaled_dot, got 'split_kv'"),
        ({"context": "twice"}, "context must be one of once, every, got 'twice'"),
        ({"pooling": "max"}, "pooling must be one of mean, first, last, got 'max'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1, got 0"),
        ({"teacher_forcing": 1.5}, "teacher_forcing must lie between 0 and 1, got 1.5"),
        ({"bidirectional": True, "hidden_size": 5}, "hidden_size must be even where bidirectional, got 5"),
        ({"initializer_range": -1.0}, "initializer_range must be a finite number of at least 0, got -1.0"),
        ({"pad_token_id": 9999}, "pad_token_id must be a token of vocab_size .*, got 9999"),
        ({"decoder_start_token_id": 99}, "decoder_start_token_id must be a token of vocab_size 50, got 99"),
        ({"decoder_start_token_id": -1}, "decoder_start_token_id must be a token of vocab_size 50, got -1"),
    ],
)
def test_bad_configurations(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


def test_bad_inputs():
    made, ids = model(), tokens()
    for given in ({}, {"input_ids": ids, "inputs_embeds": made.get_input_embeddings()(ids)}):
        with pytest.raises(ValueError, match="give exactly one of input_ids and inputs_embeds"):
            made(**given)
    with pytest.raises(ValueError, match=r"attention_mask must have shape \(2, 9\), or more columns .*got \(2, 3\)"):
        made(ids, attention_mask=torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"input must have at least one step, got shape \(2, 0, 16\)"):
        made(ids[:, :0])
    with pytest.raises(ValueError, match="bidirectional must be False for a language model"):
        RecurrentForCausalLM(config(bidirectional=True))
    with pytest.raises(ValueError, match="past_key_values must be None where bidirectional"):
        model(AutoModel, bidirectional=True)(ids, past_key_values=RecurrentCache())


def test_sizes_alone_suffice():
    made = RecurrentConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1)
    assert (made.pad_token_id, made.bos_token_id, made.eos_token_id, made.decoder_start_token_id) == (0, 1, 2, 1)
    assert (made.attention, made.pooling, made.teacher_forcing) == ("additive", "last", 1.0)
    assert RecurrentConfig(bidirectional=True).pooling == "mean"


def test_several_texts_in_a_row_are_refused():
    made, ids = model(), tokens()
    packed = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3]])
    with pytest.raises(ValueError, match="position_ids must not start anew within a row"):
        made(ids, position_ids=packed)
    # Positions of padding mean nothing, left or right.
    for hidden in (slice(None, 5), slice(5, None)):
        mask = torch.ones_like(ids)
        mask[:, hidden] = 0
        torch.testing.assert_close(
            made(ids, position_ids=packed, attention_mask=mask).logits, made(ids, attention_mask=mask).logits
        )
    with pytest.raises(ValueError, match="attention_mask must have shape"):
        made(ids, position_ids=packed, attention_mask=mask[:, :3])


def test_a_cache_of_keys_and_values_is_refused():
    with pytest.raises(ValueError, match="past_key_values must be a RecurrentCache for a recurrent model, got Dynamic"):
        model()(tokens(), past_key_values=DynamicCache())
