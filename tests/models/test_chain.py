"""The loss of a chain of labels against all chains counted out."""

from itertools import product

import pytest
import torch

from twofold.models.chain import chain_loss

LABELS = 3


def counted_out(scores, truth, moves):
    """Minus the log-likelihood of one true chain, by going through all there are."""
    places = [place for place, label in enumerate(truth.tolist()) if label != -100]

    def score(chain):
        before = [LABELS, *chain[:-1]]
        steps = zip(places, before, chain, strict=True)
        return sum(scores[place, label] + moves[last, label] for place, last, label in steps)

    every = torch.stack([score(chain) for chain in product(range(LABELS), repeat=len(places))])
    return every.logsumexp(0) - score(truth[places].tolist())


@pytest.mark.parametrize(
    "truth",
    [
        [[1]],
        [[0, 1, 2, 1]],
        [[-100, 1, 2, -100], [0, -100, 1, 1]],
        [[2, -100, -100], [0, 1, 1], [-100, -100, 0]],
    ],
    ids=["one token", "all labelled", "holes", "left and right padding"],
)
def test_it_is_that_of_all_chains_counted_out(truth):
    torch.manual_seed(0)
    truth = torch.tensor(truth)
    scores, moves = 3 * torch.randn(*truth.shape, LABELS), 3 * torch.randn(LABELS + 1, LABELS)
    labelled = sum(counted_out(one, chain, moves) for one, chain in zip(scores, truth, strict=True))
    torch.testing.assert_close(chain_loss(scores, truth, moves), labelled / (truth != -100).sum())


def test_a_sentence_without_labels_adds_nothing():
    torch.manual_seed(0)
    scores, moves = torch.randn(2, 3, LABELS), torch.randn(LABELS + 1, LABELS)
    truth = torch.tensor([[0, 1, 2], [-100, -100, -100]])
    torch.testing.assert_close(chain_loss(scores, truth, moves), chain_loss(scores[:1], truth[:1], moves))
    assert chain_loss(scores, torch.full_like(truth, -100), moves) == 0


def test_without_moves_labels_are_judged_one_by_one():
    torch.manual_seed(0)
    scores, truth = torch.randn(2, 5, LABELS), torch.randint(LABELS, (2, 5))
    alone = torch.nn.functional.cross_entropy(scores.flatten(0, 1), truth.flatten())
    torch.testing.assert_close(chain_loss(scores, truth, torch.zeros(LABELS + 1, LABELS)), alone)


def test_great_scores_have_gradients():
    scores = torch.tensor([[[0.0, 300.0, -300.0], [300.0, 0.0, -300.0]]], requires_grad=True)
    moves = torch.zeros(LABELS + 1, LABELS, requires_grad=True)
    chain_loss(scores, torch.tensor([[2, 2]]), moves).backward()
    assert scores.grad.isfinite().all()
    assert moves.grad.isfinite().all()


def test_scores_and_moves_may_both_be_far_apart():
    """A label that only an unlikely one may be followed by: its share of the whole is below what float32 can hold."""
    scores = torch.tensor([[[120.0, 0.0, -200.0], [-1000.0, 0.0, -1000.0]]], requires_grad=True)
    moves = torch.tensor([[0.0, -130.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    truth = torch.tensor([[0, 1]])
    loss = chain_loss(scores, truth, moves)
    loss.backward()
    exact = [one.detach().double().requires_grad_() for one in (scores, moves)]
    expected = counted_out(exact[0][0], truth[0], exact[1]) / 2
    expected.backward()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    for found, other in zip((scores, moves), exact, strict=True):
        torch.testing.assert_close(found.grad.double(), other.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("far", [-300.0, -110.0, 50.0, 90.0])
def test_moves_may_be_as_far_apart_as_they_like(far):
    torch.manual_seed(0)
    truth = torch.tensor([[0, 2, 1, 1]])
    scores, moves = torch.randn(1, 4, LABELS, requires_grad=True), torch.randn(LABELS + 1, LABELS)
    moves[0, 1] = far
    moves.requires_grad_()
    loss = chain_loss(scores, truth, moves)
    loss.backward()
    expected = counted_out(scores[0].double(), truth[0], moves.double()) / 4
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    assert scores.grad.isfinite().all()
    assert moves.grad.isfinite().all()


def test_only_the_usual_mark_is_no_label():
    with pytest.raises(RuntimeError, match="out of bounds"):
        chain_loss(torch.randn(1, 3, LABELS), torch.tensor([[0, 1, -1]]), torch.zeros(LABELS + 1, LABELS))
