"""Several products of few rows in one launch, against torch's own."""

import pytest
import torch

from twofold.kernels import products as multiplying

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(("tokens", "depth"), [((1, 1), 256), ((3, 2), 300), ((64, 1), 24), ((2, 3, 5), 1)], ids=str)
@pytest.mark.parametrize("widths", [(7,), (32, 16, 16), (48, 16, 16, 20, 33)], ids=str)
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.usefixtures("poisoned")
def test_it_is_each_product_alone(tokens, depth, widths, bias):
    x = torch.randn(*tokens, depth, device=DEVICE).half()
    weights = [torch.randn(width, depth, device=DEVICE).half() for width in widths]
    biases = [torch.randn(width, device=DEVICE).half() for width in widths] if bias else []
    made = multiplying.products(x, weights, biases)
    for found, weight, added in zip(made, weights, biases or [None] * len(weights), strict=True):
        exact = torch.nn.functional.linear(
            x.double(), weight.double(), None if added is None else added.double()
        )  # fmt: skip
        torch.testing.assert_close(found.double(), exact, rtol=2e-3, atol=2e-3 * depth**0.5)


def test_views_are_taken_as_they_are():
    x = torch.randn(8, 64, device=DEVICE).half()[:, ::2]
    weight = torch.randn(32, 24, device=DEVICE).half().T
    torch.testing.assert_close(
        multiplying.products(x, [weight], [])[0].double(), x.double() @ weight.double().T, rtol=2e-3, atol=2e-2
    )


def test_it_serves_inference_on_gpus_alone():
    x, weight = torch.randn(1, 8).half(), torch.randn(4, 8).half()
    with torch.no_grad():
        assert not multiplying.serves(x, [weight], [])
        if DEVICE == "cuda":
            x, weight = x.cuda(), weight.cuda()
            assert multiplying.serves(x, [weight], [])
            assert not multiplying.serves(x, [weight.float()], [])
            assert not multiplying.serves(x.expand(65, 8), [weight], [])
    if DEVICE == "cuda":
        assert not multiplying.serves(x, [weight], [])
