"""The coupling operator is the matrix it stands for."""

import pytest
import torch

from neurogame import ising, values
from neurogame.couplings import LinearCoupling, off_diagonal

F64 = torch.float64


@pytest.fixture(params=["identity", "square", "tanh"])
def operator(request, random):
    V = random(0, 2, 3, 7, 4) * 0.5
    return values.estimate(V, f=request.param, couplings="linear", samples=6).coupling


def test_products(operator, random):
    J = operator.to_dense()
    x, X = random(1, 2, 3, 7), random(2, 2, 3, 7, 5)
    torch.testing.assert_close(operator @ x, (J @ x.unsqueeze(-1)).squeeze(-1))
    torch.testing.assert_close(operator @ X, J @ X)
    torch.testing.assert_close(operator @ x[0, 0], J @ x[0, 0])
    torch.testing.assert_close(operator.squared_matvec(x), (J.square() @ x.unsqueeze(-1)).squeeze(-1))


def test_shape_diagonal_and_symmetry(operator):
    J = operator.to_dense()
    assert operator.shape == J.shape == (2, 3, 7, 7)
    assert operator.dim() == 4
    assert operator.dtype == F64
    assert operator.device == J.device
    torch.testing.assert_close(J, J.mT)
    assert torch.equal(operator.diagonal(), J.diagonal(dim1=-2, dim2=-1))


def test_scaling(operator, random):
    factor = random(3, 2, 3)
    torch.testing.assert_close(operator.scaled(factor).to_dense(), factor[..., None, None] * operator.to_dense())
    torch.testing.assert_close(
        operator.scaled(factor) @ torch.ones(2, 3, 7, dtype=F64),
        (factor[..., None] * (operator @ torch.ones(2, 3, 7, dtype=F64))),
    )


def test_linear_square_game_is_exact(random):
    V = random(4, 6, 3)
    J = values.estimate(V, f="square", couplings="linear").coupling.to_dense()
    torch.testing.assert_close(J, off_diagonal(2 * V @ V.mT))


def test_linear_is_close_to_pairs_for_tanh_at_small_norms(random):
    """The Hessian form: right to second order where tanh bends."""
    V = random(5, 1, 1, 40, 4) * 0.02
    pairs = values.estimate(V, f="tanh", couplings="pairs").coupling
    linear = values.estimate(V, f="tanh", couplings="linear").coupling.to_dense()
    assert float((linear - pairs).norm() / pairs.norm()) < 0.1


# found by the fuzzer
def test_factors_that_rows_share(random):
    """One V for each row, the rest for all: solved as if it were written out."""
    V, scale, delta = random(0, 2, 3, 2), random(1, 1)[0].abs(), random(2, 4, 3)
    weight, diag, field = random(3, 4).abs(), random(4, 3), random(5, 2, 3)
    shared = LinearCoupling(V, scale, delta, weight, diag)
    full = [one.expand(2, *one.shape).contiguous() for one in (scale, delta, weight, diag)]
    found, expected = (ising.solve(field, J, 5.0).spins for J in (shared, LinearCoupling(V, *full)))
    torch.testing.assert_close(found, expected)


# found by the fuzzer
def test_factors_that_do_not_fit_are_refused(as_user):
    V, scale, delta, weight, diag = torch.ones(3, 2), torch.ones(()), torch.ones(4, 3), torch.ones(4), torch.ones(3)
    assert LinearCoupling(V, scale, delta, weight, diag).shape == (3, 3)
    with pytest.raises(ValueError, match="factors of a LinearCoupling"):
        LinearCoupling(V, scale, delta, weight, torch.ones(2))
    with pytest.raises(TypeError, match="diag of a LinearCoupling"):
        LinearCoupling(V, scale, delta, weight, diag.long())
