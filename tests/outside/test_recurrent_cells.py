"""Recurrent layers against torch.nn's own stacks with copied weights, and against the formulas written out."""

import pytest
import torch
from torch import nn

from twofold.models import RecurrentConfig, RecurrentModel

MODULES = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
WIDTH, LAYERS = 12, 3

each_cell = pytest.mark.parametrize("cell", MODULES)


def model(cell, bidirectional=False, layers=LAYERS):
    config = RecurrentConfig(
        vocab_size=20, hidden_size=WIDTH, num_hidden_layers=layers, cell=cell, bidirectional=bidirectional
    )
    made = RecurrentModel(config).eval()
    # Biases start at zero, where a wrong one would not show.
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made


@each_cell
@pytest.mark.parametrize("bidirectional", [False, True])
@torch.no_grad()
def test_a_stack_is_torchs(cell, bidirectional):
    ours = model(cell, bidirectional)
    width = WIDTH // 2 if bidirectional else WIDTH
    theirs = MODULES[cell](WIDTH, width, LAYERS, batch_first=True, bidirectional=bidirectional)
    for number, layer in enumerate(ours.layers):
        for name, parameter in layer.cell.named_parameters():
            getattr(theirs, name.replace("_l0", f"_l{number}")).copy_(parameter)
    ids = torch.randint(0, 20, (4, 7))
    expected, last = theirs(ours.embedding(ids))
    found = ours(ids)
    torch.testing.assert_close(found.last_hidden_state, expected, atol=1e-6, rtol=1e-5)
    if not bidirectional:
        parts = last if cell == "lstm" else (last,)
        for number, state in enumerate(found.past_key_values.states):
            torch.testing.assert_close(list(state), [part[number] for part in parts], atol=1e-6, rtol=1e-5)


def rnn_step(x, h, W, U, b):
    return torch.tanh(W @ x + U @ h + b)


def lstm_step(x, h, c, W, U, b):
    i, f, g, o = (W @ x + U @ h + b).chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(x, h, W, U, b, d):
    """b with W and d with U: the reset gate r takes hold of U h + d."""
    (Wr, Wz, Wn), (Ur, Uz, Un), (br, bz, bn), (dr, dz, dn) = (part.chunk(3) for part in (W, U, b, d))
    r = (Wr @ x + br + Ur @ h + dr).sigmoid()
    z = (Wz @ x + bz + Uz @ h + dz).sigmoid()
    n = (Wn @ x + bn + r * (Un @ h + dn)).tanh()
    return (1 - z) * n + z * h


@each_cell
@torch.no_grad()
def test_a_step_is_the_formula(cell):
    ours = model(cell, layers=1).double()
    W, U, b, d = ours.layers[0].cell.parameters()
    ids, past = torch.randint(0, 20, (1, 5)), None
    h = c = torch.zeros(WIDTH, dtype=torch.float64)
    for step in range(5):
        x = ours.embedding.weight[ids[0, step]]
        match cell:
            case "rnn":
                h = rnn_step(x, h, W, U, b + d)
            case "lstm":
                h, c = lstm_step(x, h, c, W, U, b + d)
            case "gru":
                h = gru_step(x, h, W, U, b, d)
        found = ours(ids[:, step : step + 1], past_key_values=past)
        past = found.past_key_values
        torch.testing.assert_close(found.last_hidden_state[0, 0], h, atol=1e-12, rtol=0)
    if cell == "lstm":
        torch.testing.assert_close(past.states[0][1][0], c, atol=1e-12, rtol=0)
