"""Figures 3 to 7B of source 000, written as published, for one head. Truths that no backend of ours was made from."""

import math

import torch


def figure_3(q, k, v):
    """Standard self-attention: (L, d) each."""
    return torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), dim=-1) @ v


def figure_4(q, k_off, v_off, k_diag, v_diag, mask=None):
    """Two matrix products, a diagonal and an off-diagonal mask, their sum; then scale, optional mask, softmax.

    The weighted sum takes v_diag where query position equals value position (paragraph 0063's text).
    """
    on_diagonal = torch.eye(len(q), dtype=q.dtype)
    score = (q @ k_diag.T) * on_diagonal + (q @ k_off.T) * (1 - on_diagonal)
    score = score / math.sqrt(q.shape[-1])
    if mask is not None:
        score = score + mask
    weights = torch.softmax(score, dim=-1)
    return (weights * on_diagonal) @ v_diag + (weights * (1 - on_diagonal)) @ v_off


def figure_5(q, k_off, k_diag, v):
    """Split-key method: walk over all query and key positions and take the key set that fits."""
    L, d = q.shape
    score = torch.zeros(L, L, dtype=q.dtype)
    for i in range(L):
        for j in range(L):
            score[i, j] = q[i] @ (k_diag[j] if i == j else k_off[j])
    return torch.softmax(score / math.sqrt(d), dim=-1) @ v


def figure_6(q, k, v_off, v_diag):
    """Split-value method: walk over all query and value positions and take the value set that fits."""
    L, d = q.shape
    weights = torch.softmax(q @ k.T / math.sqrt(d), dim=-1)
    out = torch.zeros_like(v_off)
    for i in range(L):
        for j in range(L):
            out[i] += weights[i, j] * (v_diag[j] if i == j else v_off[j])
    return out


def figure_7(q, k_off, k_diag, v_off, v_diag):
    """Figures 7A and 7B: both, scores first, then outputs."""
    L, d = q.shape
    score = torch.zeros(L, L, dtype=q.dtype)
    for i in range(L):
        for j in range(L):
            score[i, j] = q[i] @ (k_diag[j] if i == j else k_off[j])
    weights = torch.softmax(score / math.sqrt(d), dim=-1)
    out = torch.zeros_like(v_off)
    for i in range(L):
        for j in range(L):
            out[i] += weights[i, j] * (v_diag[j] if i == j else v_off[j])
    return out
