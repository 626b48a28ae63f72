"""Labels that are judged as a chain: how well each fits its token, and how well it follows the one before.

A conditional random field over a sentence's labels. Unlike labels that are judged one by one, those of a chain agree on
where a span begins and ends.
"""

import torch
from torch import Tensor

IGNORED = -100


def chain_loss(scores: Tensor, truth: Tensor, moves: Tensor) -> Tensor:
    """Minus the log-likelihood of true chains, a labelled token.

    Args:
        scores: (B, T, L) of labels at tokens.
        truth: (B, T); tokens with -100 are not in the chain.
        moves: (L + 1, L) scores of a row's label being followed by a column's; the last row is the start.
    """
    # Sums of many small parts, which bfloat16 would lose.
    with torch.autocast(scores.device.type, enabled=False):
        return _loss(scores.float(), truth, moves.float())


def _loss(scores: Tensor, truth: Tensor, moves: Tensor) -> Tensor:
    # Labelled tokens first, in their order, so that the rest is a tail.
    order = (truth == IGNORED).int().argsort(dim=1, stable=True)
    scores = scores.gather(1, order[..., None].expand_as(scores))
    truth = truth.gather(1, order)
    mask = truth != IGNORED
    truth = truth.masked_fill(~mask, 0)
    before = torch.cat([torch.full_like(truth[:, :1], len(moves) - 1), truth[:, :-1]], dim=1)
    path = scores.gather(2, truth[..., None]).squeeze(-1) + moves[before, truth]
    total = _all_chains(scores, mask, moves)
    nll = total.logsumexp(1) * mask.any(1) - (path * mask).sum(1)
    return nll.sum() / mask.sum().clamp(min=1)


def _all_chains(scores: Tensor, mask: Tensor, moves: Tensor) -> Tensor:
    """(B, L): the log of what all chains that end in a label come to."""
    first, places = scores[:, 0] + moves[-1], range(1, int(mask.sum(1).max()))
    # A product is faster than sums of logarithms; from the greatest down, nothing of it can overflow.
    greatest = moves[:-1].amax(0)
    follows = (moves[:-1] - greatest).exp()
    total, tiny = first, torch.finfo(scores.dtype).tiny
    least = follows.new_ones(())
    for place in places:
        most = total.amax(1, keepdim=True)
        share = (total - most).exp() @ follows
        least = torch.minimum(least, share.detach().amin())
        ahead = share.clamp_min(tiny).log() + most + greatest + scores[:, place]
        total = torch.where(mask[:, place, None], ahead, total)
    if least >= tiny:
        return total
    # Scores and moves so far apart that a share came to nothing.
    total = first
    for place in places:
        ahead = (total[..., None] + moves[:-1]).logsumexp(1) + scores[:, place]
        total = torch.where(mask[:, place, None], ahead, total)
    return total
