"""The recurrent encoder-decoder: every cell, attention and context, taught by the truth or by its own answers."""

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, Trainer, TrainerCallback, TrainingArguments

from tests.models.test_recurrent import VOCABULARY, config, padded, tokens
from twofold.models import RecurrentForConditionalGeneration
from twofold.models.recurrent_config import ASKS, CELLS, CONTEXTS
from twofold.models.recurrent_seq2seq import RecurrentDecoder

WITH_ATTENTION = ("additive", "dot", "scaled_dot")
LOOKS = [{"attention": "none", "context": context} for context in CONTEXTS] + [
    {"attention": attention, "asks": asks} for attention in WITH_ATTENTION for asks in ASKS
]


def model(**changes):
    torch.manual_seed(0)
    return AutoModelForSeq2SeqLM.from_config(config(**{"hidden_size": 16, **changes})).eval()


def answer():
    return torch.randint(3, VOCABULARY, (2, 6), generator=torch.Generator().manual_seed(2))


# Every look with one cell, whose state has two parts, and every cell with one look.
CELLS_AND_LOOKS = [*(("lstm", look) for look in LOOKS), *((cell, LOOKS[0]) for cell in CELLS if cell != "lstm")]
for_each = pytest.mark.parametrize(
    ("cell", "look"), CELLS_AND_LOOKS, ids=["-".join((cell, *look.values())) for cell, look in CELLS_AND_LOOKS]
)


@for_each
@pytest.mark.parametrize("bidirectional", [False, True])
@torch.no_grad()
def test_prefill_and_steps_are_the_full_pass(cell, look, bidirectional):
    made = model(cell=cell, **look, bidirectional=bidirectional, residual=True)
    ids, out = tokens(), answer()
    full = made(ids, decoder_input_ids=out, use_cache=False).logits
    encoded = made.get_encoder()(ids)
    past, found = None, []
    for start, end in ((0, 3), (3, 4), (4, 5), (5, 6)):
        step = made(encoder_outputs=encoded, decoder_input_ids=out[:, start:end], past_key_values=past)
        past = step.past_key_values
        found.append(step.logits)
    assert past.get_seq_length() == 6
    torch.testing.assert_close(torch.cat(found, dim=1), full, atol=1e-6, rtol=1e-5)


@for_each
@torch.no_grad()
def test_the_answer_does_not_see_its_future_and_depends_on_the_question(cell, look):
    made, ids, out = model(cell=cell, **look), tokens(), answer()
    other = out.clone()
    other[:, 4:] = 3
    plain = made(ids, decoder_input_ids=out).logits
    torch.testing.assert_close(made(ids, decoder_input_ids=other).logits[:, :4], plain[:, :4], atol=1e-6, rtol=0)
    assert not torch.allclose(made(ids.flip(1), decoder_input_ids=out).logits, plain, atol=1e-3)


@for_each
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("left", "right"), [(3, 0), (0, 4)])
@torch.no_grad()
def test_padding_changes_nothing(cell, look, bidirectional, left, right):
    made = model(cell=cell, **look, bidirectional=bidirectional)
    ids, out = tokens(), answer()
    plain = made(ids, decoder_input_ids=out).logits
    long, mask = padded(ids, left, right)
    found = made(long, attention_mask=mask, decoder_input_ids=out).logits
    torch.testing.assert_close(found, plain, atol=1e-6, rtol=1e-5)
    out, mask = padded(out, left, right)
    found = made(ids, decoder_input_ids=out, decoder_attention_mask=mask).logits[:, left : left + 6]
    torch.testing.assert_close(found, plain, atol=1e-6, rtol=1e-5)


@for_each
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("start", [1, 3, 4])
@torch.no_grad()
def test_hidden_steps_show_the_latest_real_one_from_a_cache_too(cell, look, residual, start):
    made = model(cell=cell, **look, residual=residual)
    ids, out = tokens(B=3), torch.cat([answer(), answer()[:1]])
    mask = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1], [0, 1, 1, 0, 1, 0]])
    asked = {"output_attentions": True, "attention_mask": torch.ones_like(ids)}
    full = made(ids, decoder_input_ids=out, decoder_attention_mask=mask, **asked)
    for row, (hidden, shown) in ((0, (5, 2)), (2, (3, 2)), (2, (5, 4))):
        torch.testing.assert_close(full.logits[row, hidden], full.logits[row, shown])
    encoded, past, end = made.get_encoder()(ids), None, 0
    for size in (start, 1, 5 - start):
        new, end = slice(end, end + size), end + size
        if size == 0:
            continue
        step = made(
            encoder_outputs=encoded, decoder_input_ids=out[:, new], decoder_attention_mask=mask[:, :end],
            past_key_values=past, **asked,
        )  # fmt: skip
        past = step.past_key_values
        torch.testing.assert_close(step.logits, full.logits[:, new], atol=1e-6, rtol=1e-5)
        if full.cross_attentions is not None:
            theirs = full.cross_attentions[0][:, :, new]
            torch.testing.assert_close(step.cross_attentions[0], theirs, atol=1e-6, rtol=1e-5)


@for_each
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_is_the_same_with_a_cache_and_without(cell, look, beams):
    made, ids = model(cell=cell, **look), tokens()
    ids[0, 5:] = 0
    options = {"max_new_tokens": 6, "num_beams": beams, "do_sample": False}
    mask = (ids != 0).long()
    expected = made.generate(ids, attention_mask=mask, use_cache=False, **options)
    assert (expected[:, 0] == 1).all()
    assert torch.equal(made.generate(ids, attention_mask=mask, **options), expected)
    alone = made.generate(ids[:1, :5], **options)
    assert torch.equal(expected[:1, : alone.shape[1]], alone)


@for_each
def test_one_token_and_an_empty_question(cell, look):
    made = model(cell=cell, **look)
    ids = torch.tensor([[7, 0], [0, 0]])
    mask = (ids != 0).long()
    found = made(ids, attention_mask=mask, decoder_input_ids=torch.tensor([[1], [1]])).logits
    assert found.isfinite().all()
    alone = made(ids[:1, :1], decoder_input_ids=torch.tensor([[1]])).logits
    torch.testing.assert_close(found[:1], alone, atol=1e-6, rtol=1e-5)
    said = made.generate(ids, attention_mask=mask, max_new_tokens=3, do_sample=False, eos_token_id=None)
    assert torch.equal(said[:1], made.generate(ids[:1, :1], max_new_tokens=3, do_sample=False, eos_token_id=None))


def test_a_larger_vocabulary():
    made = model()
    made.resize_token_embeddings(VOCABULARY + 5)
    assert made.lm_head.weight is made.encoder.embedding.weight is made.decoder.embedding.weight
    ids = tokens()
    ids[0, 0] = VOCABULARY + 4
    assert made(ids, labels=ids).logits.shape[-1] == VOCABULARY + 5


def test_sampling():
    made, ids = model(), tokens()
    options = {"max_new_tokens": 6, "eos_token_id": None}
    greedy = made.generate(ids, do_sample=False, **options)
    assert torch.equal(made.generate(ids, do_sample=True, top_k=1, **options), greedy)
    assert not torch.equal(made.generate(ids, do_sample=True, temperature=5.0, top_k=0, **options), greedy)


@for_each
@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_is_the_same_model(cell, look, tied, tmp_path):
    made = model(cell=cell, **look, tie_word_embeddings=tied)
    shared = made.encoder.embedding.weight is made.lm_head.weight is made.decoder.embedding.weight
    assert shared is tied
    made.save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert loaded.config.is_encoder_decoder
    options = {"decoder_input_ids": answer()}
    assert torch.equal(loaded(tokens(), **options).logits, made(tokens(), **options).logits)
    assert torch.equal(loaded.generate(tokens(), max_new_tokens=4), made.generate(tokens(), max_new_tokens=4))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("attention", WITH_ATTENTION)
@torch.no_grad()
def test_alignments(cell, attention):
    made, (ids, mask) = model(cell=cell, attention=attention), padded(tokens(), 2, 1)
    found = made(
        ids, attention_mask=mask, decoder_input_ids=answer(), output_attentions=True, output_hidden_states=True
    )
    (weights,) = found.cross_attentions
    assert tuple(weights.shape) == (2, 1, 6, 12)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 6))
    assert (weights[..., [0, 1, 11]] == 0).all()
    # True weights: with them the output is what the decoder says it is.
    state, memory = found.decoder_hidden_states[-1], found.encoder_last_hidden_state
    both = torch.cat([state, weights[:, 0] @ memory], dim=-1)
    torch.testing.assert_close(made.lm_head(made.decoder.combine(both).tanh()), found.logits, atol=1e-6, rtol=1e-5)
    if attention != "additive":
        scores = (state @ memory.mT) / (4 if attention == "scaled_dot" else 1)
        expected = scores.masked_fill(mask[:, None] == 0, -torch.inf).softmax(-1)
        torch.testing.assert_close(weights[:, 0], expected, atol=1e-6, rtol=1e-5)
    assert made(ids, decoder_input_ids=answer()).cross_attentions is None


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("attention", WITH_ATTENTION)
@torch.no_grad()
def test_the_state_before_asks_and_the_cell_reads_what_it_found(cell, attention):
    """Source 004, step by step: scores of s_(t-1) and every h_i, their context, a state of token and context."""
    made, (ids, mask), out = model(cell=cell, attention=attention, asks="before"), padded(tokens(), 0, 3), answer()
    found = made(ids, attention_mask=mask, decoder_input_ids=out, output_attentions=True)
    decoder, encoded = made.decoder, made.encoder(ids, attention_mask=mask)
    memory, states = encoded.last_hidden_state, [list(layer.unbind(1)) for layer in encoded.final_state.unbind(1)]
    for step in range(out.shape[1]):
        asked = states[-1][0]
        if attention == "additive":
            look = decoder.attention
            scores = look.score(torch.tanh(look.query(asked)[:, None] + look.memory(memory)))[..., 0]
        else:
            scores = (memory @ asked[..., None])[..., 0] / (4 if attention == "scaled_dot" else 1)
        weights = scores.masked_fill(mask == 0, -torch.inf).softmax(-1)
        context = (weights[..., None] * memory).sum(1)
        x = torch.cat([decoder.embedding(out[:, step]), context], dim=-1)
        for place, layer in enumerate(decoder.layers):
            given = [part[None].contiguous() for part in states[place]]
            y, end = layer.cell(x[:, None], tuple(given) if len(given) > 1 else given[0])
            states[place] = [part[0] for part in (end if isinstance(end, tuple) else (end,))]
            x = y[:, 0]
        logits = made.lm_head(decoder.combine(torch.cat([x, context], dim=-1)).tanh())
        torch.testing.assert_close(found.logits[:, step], logits, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found.cross_attentions[0][:, 0, step], weights, atol=1e-6, rtol=1e-5)


def test_what_is_found_reaches_the_states_only_where_it_is_asked_for_before():
    memories = torch.randn(2, 2, 5, 16)
    for asks in ASKS:
        decoder = RecurrentDecoder(config(hidden_size=16, asks=asks)).eval()
        one, two = (decoder(answer(), encoder_hidden_states=memory, use_cache=True) for memory in memories)
        states = [found.past_key_values.states[-1][0] for found in (one, two)]
        assert torch.equal(*states) == (asks == "after")
        assert not torch.allclose(one.last_hidden_state, two.last_hidden_state, atol=1e-3)


@pytest.mark.parametrize("attention", WITH_ATTENTION)
def test_alignments_while_generating(attention):
    made, ids = model(attention=attention), tokens()
    found = made.generate(
        ids, max_new_tokens=4, do_sample=False, eos_token_id=None, output_attentions=True, output_hidden_states=True,
        return_dict_in_generate=True,
    )  # fmt: skip
    steps = torch.cat([step[0] for step in found.cross_attentions], dim=2)
    full = made(ids, decoder_input_ids=found.sequences[:, :-1], output_attentions=True, output_hidden_states=True)
    torch.testing.assert_close(steps, full.cross_attentions[0], atol=1e-6, rtol=1e-5)
    assert len(found.encoder_hidden_states) == len(found.decoder_hidden_states[0]) == 3


def test_a_context_vector_aligns_nothing():
    made = model(attention="none")
    assert made(tokens(), decoder_input_ids=answer(), output_attentions=True).cross_attentions is None


@for_each
def test_steps_taught_by_the_truth_are_the_parallel_pass(cell, look):
    made, ids, labels = model(cell=cell, **look), tokens(), answer()
    asked = {"output_attentions": True, "output_hidden_states": True}
    together = made(ids, labels=labels, teacher_forcing=1.0, **asked)
    # So near 1 that no draw falls above it, yet step by step.
    mixed = made(ids, labels=labels, teacher_forcing=1 - 1e-12, **asked)
    torch.testing.assert_close(mixed.logits, together.logits, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(mixed.loss, together.loss)
    torch.testing.assert_close(mixed.decoder_hidden_states, together.decoder_hidden_states, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(mixed.cross_attentions, together.cross_attentions, atol=1e-6, rtol=1e-5)
    grads = []
    for out in (together, mixed):
        made.zero_grad()
        out.loss.backward()
        grads.append([parameter.grad.clone() for parameter in made.parameters()])
    torch.testing.assert_close(grads[1], grads[0], atol=1e-6, rtol=1e-4)


@for_each
def test_a_student_never_reads_the_truth(cell, look):
    made = model(cell=cell, **look).train()
    made.config.teacher_forcing = 0.0
    ids, labels = tokens(), answer()
    found = made(ids, labels=labels)
    assert torch.equal(made(ids, labels=labels.flip(1)).logits, found.logits)
    # It reads what it would say.
    said = made.eval().generate(ids, max_new_tokens=6, do_sample=False, eos_token_id=None)
    torch.testing.assert_close(made(ids, decoder_input_ids=said[:, :-1]).logits, found.logits, atol=1e-6, rtol=1e-5)
    found.loss.backward()
    assert made.lm_head.weight.grad.abs().sum() > 0


def test_forcing_is_read_anew_at_every_pass_and_for_training_alone():
    made, ids, labels = model(), tokens(), answer()
    taught = made(ids, labels=labels).logits
    made.config.teacher_forcing = 0.0
    assert torch.equal(made(ids, labels=labels).logits, taught)
    made.train()
    student = made(ids, labels=labels).logits
    assert not torch.allclose(student, taught, atol=1e-3)
    made.config.teacher_forcing = 0.5
    torch.manual_seed(1)
    # Both kinds of step occur, and the first is always told.
    draws = torch.stack([made(ids, labels=labels).logits for _ in range(20)])
    torch.testing.assert_close(draws[:, :, 0], taught[None, :, 0].expand(20, -1, -1), atol=1e-6, rtol=1e-5)
    is_taught = (draws[:, :, 1] - taught[:, 1]).abs().amax(-1) < 1e-6
    assert 0 < is_taught.float().mean() < 1
    made.config.teacher_forcing = 1.0
    torch.testing.assert_close(made(ids, labels=labels).logits, taught)


def test_a_trainer_and_its_callbacks(tmp_path):
    """Scheduled mixing as docs/models.md writes it: ever less of the truth."""
    read = []

    class LessAndLessTruth(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, **kwargs):
            model.config.teacher_forcing = max(0.5, 1 - state.global_step / state.max_steps)
            read.append(model.config.teacher_forcing)

    rows = [{"input_ids": ids, "labels": labels} for ids, labels in zip(tokens(B=8), reversing(5, 8)[1], strict=True)]
    options = TrainingArguments(
        tmp_path, max_steps=4, per_device_train_batch_size=4, save_strategy="no", report_to=[], disable_tqdm=True,
        use_cpu=True,
    )  # fmt: skip
    made = model()
    before = made.lm_head.weight.clone()
    trainer = Trainer(made, options, train_dataset=rows, eval_dataset=rows, callbacks=[LessAndLessTruth()])
    trainer.train()
    assert read == [1.0, 0.75, 0.5, 0.5]
    assert not torch.equal(made.lm_head.weight, before)
    assert trainer.evaluate()["eval_loss"] > 0


def test_the_loss_is_the_labels_own():
    made, labels = model(), answer()
    labels[0, 4:] = -100
    out = made(tokens(), labels=labels)
    torch.testing.assert_close(out.loss, torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), labels.flatten()))
    summed = made(tokens(), labels=labels, num_items_in_batch=torch.tensor(20)).loss
    torch.testing.assert_close(summed, out.loss * (labels != -100).sum() / 20)


def test_labels_are_read_shifted_by_one():
    made = model()
    assert made.prepare_decoder_input_ids_from_labels(torch.tensor([[5, 6, 2, -100]])).tolist() == [[1, 5, 6, 2]]
    assert made.prepare_decoder_input_ids_from_labels(torch.tensor([[5, -100, -100]])).tolist() == [[1, 5, 0]]


def reversing(length, rows):
    ids = torch.randint(3, 11, (rows, length))
    return ids, torch.cat([ids.flip(1), torch.full((rows, 1), 2)], dim=1)


def test_attention_beats_the_context_vector():
    """The short version of examples/copy_and_reverse.py: fresh sequences, as many steps for each."""
    right = {}
    for attention in ("additive", "none"):
        torch.manual_seed(0)
        made = RecurrentForConditionalGeneration(
            config(vocab_size=11, hidden_size=32, num_hidden_layers=1, attention=attention)
        )
        optimiser = torch.optim.Adam(made.parameters(), lr=1e-2)
        for _ in range(200):
            ids, labels = reversing(10, 32)
            optimiser.zero_grad()
            made(ids, labels=labels).loss.backward()
            optimiser.step()
        ids, labels = reversing(10, 100)
        found = made.eval().generate(ids, max_new_tokens=11, do_sample=False, eos_token_id=None)[:, 1:]
        right[attention] = (found == labels).float().mean().item()
    assert right["additive"] > 0.9
    assert right["none"] < 0.7


def test_bad_inputs():
    made, ids = model(), tokens()
    with pytest.raises(ValueError, match="encoder_outputs must hold final_state, where the decoder starts, got none"):
        made(encoder_outputs=(torch.zeros(2, 9, 16),), decoder_input_ids=answer())
    with pytest.raises(ValueError, match="teacher_forcing must lie between 0 and 1, got 2"):
        made(ids, labels=answer(), teacher_forcing=2)
    with pytest.raises(ValueError, match="encoder_hidden_states must be given: attention has nothing to look at"):
        made.decoder(answer())
    with pytest.raises(ValueError, match=r"attention_mask must have shape \(2, 6\)"):
        model(asks="before")(ids, decoder_input_ids=answer(), decoder_attention_mask=torch.ones(2, 5))
    with pytest.raises(ValueError, match="input must have at least one step"):
        model(asks="before")(ids, decoder_input_ids=answer()[:, :0])
    with pytest.raises(ValueError, match="asks must be left out without attention, got 'before'"):
        config(attention="none", asks="before")
    with pytest.raises(ValueError, match='initial_state must be given for context="every"'):
        RecurrentDecoder(config(attention="none"))(answer())


def test_a_decoder_starts_from_nothing_unless_told():
    made = RecurrentDecoder(config(attention="none", context="once")).eval()
    nothing = torch.zeros(2, 2, 2, 16)
    found = made(answer()).last_hidden_state
    torch.testing.assert_close(made(answer(), initial_state=nothing).last_hidden_state, found)


def test_a_student_is_one_without_labels_where_asked():
    made, ids, labels = model().train(), tokens(), answer()
    read = made.prepare_decoder_input_ids_from_labels(labels)
    made.config.teacher_forcing = 0.0
    student = made(ids, labels=labels).logits
    assert torch.equal(made(ids, decoder_input_ids=read, teacher_forcing=0.0).logits, student)
    # Unasked, what comes without labels is read as it is given, and kept in a cache.
    given = made(ids, decoder_input_ids=read, use_cache=True)
    assert given.past_key_values is not None
    assert not torch.allclose(given.logits, student, atol=1e-3)
    with pytest.raises(ValueError, match="teacher_forcing below 1 needs decoder_input_ids or labels"):
        made(ids, decoder_inputs_embeds=made.get_input_embeddings()(read), labels=labels)
