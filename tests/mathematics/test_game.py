import pytest
import torch

from neurogame.game import gibbs, of_norm, safe_sqrt, value

EVERY_F = ("identity", "relu", "tanh", "square")


@pytest.mark.parametrize("f", EVERY_F)
@pytest.mark.parametrize("anchored", [False, True])
def test_value_is_the_definition(f, anchored, random, coalitions):
    V = random(0, 4, 3)
    a = random(1, 3) if anchored else None
    C = coalitions(4)
    plain = {
        "identity": lambda r: r,
        "relu": lambda r: max(r, 0.0),
        "tanh": lambda r: r.tanh(),
        "square": lambda r: r * r,
    }[f]
    origin = torch.zeros(3, dtype=torch.float64) if a is None else a
    for members, found in zip(C, value(V, C, f, a), strict=True):
        S = origin + sum((V[i] for i in range(4) if members[i]), torch.zeros(3, dtype=torch.float64))
        torch.testing.assert_close(found, torch.as_tensor(plain(S.norm()) - plain(origin.norm())))


@pytest.mark.parametrize("f", EVERY_F)
@pytest.mark.parametrize("anchored", [False, True])
def test_nobody_is_worth_nothing(f, anchored, random):
    empty = torch.zeros(1, 5, dtype=torch.bool)
    assert value(random(2, 5, 4), empty, f, random(3, 4) if anchored else None).item() == 0.0


def test_square_root_is_finite_at_zero():
    q = torch.tensor([-1e-9, 0.0, 4.0], requires_grad=True)
    root = safe_sqrt(q)
    root.sum().backward()
    assert root.tolist() == [0.0, 0.0, 2.0]
    assert q.grad.tolist() == [0.0, 0.0, 0.25]


def test_tanh_is_bounded_and_identity_is_relu(random):
    r = random(4, 100).abs() * 10
    assert of_norm(r, "tanh").max() <= 1.0
    assert torch.equal(of_norm(r, "relu"), of_norm(r, "identity"))


def test_gibbs_is_boltzmann(random):
    v = random(5, 3, 8)
    D = gibbs(v, 0.5)
    torch.testing.assert_close(D, (v / 0.5).exp() / (v / 0.5).exp().sum(-1, keepdim=True))
    torch.testing.assert_close(gibbs(v, torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64))[1], gibbs(v[1], 1.0))


def test_gibbs_limits(random):
    v = random(6, 8)
    torch.testing.assert_close(gibbs(v, 1e9), torch.full((8,), 1 / 8, dtype=torch.float64))
    assert gibbs(v, 1e-6)[v.argmax()] > 1 - 1e-12


@pytest.mark.parametrize("gamma", [0.0, -1.0, float("nan")])
def test_gibbs_wants_a_temperature(gamma, random):
    with pytest.raises(ValueError, match="gamma must be > 0"):
        gibbs(random(7, 8), gamma)


# found by the fuzzer
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"f": "guess"}, "f = 'guess' is unknown"),
        ({"members": torch.ones(1, 2, dtype=torch.bool)}, "members must be"),
        ({"anchor": torch.ones(5)}, "anchor must be"),
        ({"members": None}, "members must be"),
    ],
)
def test_a_value_of_what_does_not_fit_is_refused(changed, said, as_user):
    with pytest.raises((ValueError, TypeError), match=said):
        value(**{"V": torch.ones(3, 2), "members": torch.ones(1, 3, dtype=torch.bool), **changed})
