"""Draws are a pure function of (seed, stream, head, sample, token), with the laws they claim."""

from collections import Counter

import pytest
import torch

from neurogame import sampling

CPU = torch.device("cpu")
SEED = sampling.seed_of(7, CPU)


def test_uniforms_are_uniform_and_independent():
    u = sampling.uniforms(SEED, "banzhaf", 4, 200, 250).double()
    N = u.numel()
    z = (u - 0.5) * 12**0.5
    assert abs(z.mean()) * N**0.5 < 5
    assert abs(z.square().mean() - 1) * (N / 0.8) ** 0.5 < 5
    for flat in (z.reshape(-1, 250), z.movedim(0, -1).reshape(-1, 4), z.movedim(1, -1).reshape(-1, 200)):
        correlation = flat.mT @ flat / flat.shape[0]
        off = correlation[~torch.eye(len(correlation), dtype=torch.bool)]
        assert off.abs().max() * flat.shape[0] ** 0.5 < 5.5


def test_each_bit_is_fair():
    words = sampling.words(SEED, "shapley", 10, 100, 100).flatten()
    for bit in range(32):
        assert abs(((words >> bit) & 1).double().mean() - 0.5) * 2 * len(words) ** 0.5 < 5


def test_nearby_seeds_and_streams_are_unrelated():
    draws = torch.stack(
        [sampling.uniforms(sampling.seed_of(k, CPU), "banzhaf", 1, 2, 500).flatten() for k in range(50)]
    )
    other = sampling.uniforms(sampling.seed_of(0, CPU), "shapley", 1, 2, 500).flatten()
    z = (torch.cat([draws, other[None]]) - 0.5) * 12**0.5
    correlation = z @ z.mT / z.shape[1]
    assert correlation[~torch.eye(51, dtype=torch.bool)].abs().max() * z.shape[1] ** 0.5 < 5


def test_large_seeds_use_all_their_bits():
    low = sampling.seed_of(5, CPU)
    high = sampling.seed_of(5 + (1 << 40), CPU)
    assert not torch.equal(sampling.words(low, "banzhaf", 1, 8, 8), sampling.words(high, "banzhaf", 1, 8, 8))


@pytest.mark.parametrize("law", ["shapley", "banzhaf"])
def test_longer_sequences_keep_their_prefix(law):
    short = sampling.paired(SEED, law, 3, 8, 20)
    long = sampling.paired(SEED, law, 3, 8, 50)
    assert torch.equal(long[..., :20], short)


def test_more_heads_keep_the_first():
    assert torch.equal(sampling.paired(SEED, "banzhaf", 5, 8, 9)[:2], sampling.paired(SEED, "banzhaf", 2, 8, 9))


@pytest.mark.parametrize("law", ["shapley", "banzhaf"])
def test_second_half_is_the_complement(law):
    draws = sampling.paired(SEED, law, 2, 10, 13)
    first, second = draws.chunk(2, dim=-2)
    assert torch.equal(first, ~second)


def test_shapley_law_of_a_context():
    """C∖{i} has size s with probability 1/n for every s, and is uniform within its size."""
    n, i, K = 4, 1, 40_000
    members = sampling.paired(SEED, "shapley", 1, K, n)[0]
    others = torch.cat([members[:, :i], members[:, i + 1 :]], dim=-1)
    counts = Counter(map(tuple, others.tolist()))
    for context, count in counts.items():
        s = sum(context)
        expected = 1 / n / {0: 1, 1: 3, 2: 3, 3: 1}[s]
        assert abs(count / K - expected) < 5 * (expected / K) ** 0.5
    assert len(counts) == 2 ** (n - 1)


def test_banzhaf_law_of_a_context():
    K = 40_000
    members = sampling.paired(SEED, "banzhaf", 1, K, 4)[0]
    counts = Counter(map(tuple, members[:, 1:].tolist()))
    assert len(counts) == 8
    for count in counts.values():
        assert abs(count / K - 1 / 8) < 5 * (1 / 8 / K) ** 0.5


def test_strata_cover_p_evenly():
    """With one token, the share of coalitions that hold it is the mean of p, ½, much closer than chance."""
    first = sampling.paired(SEED, "shapley", 1, 2000, 4000)[0, :1000].float().mean(-1)  # ≈ p_k
    expected = (torch.arange(1000) + 0.5) / 2000
    assert (first - expected).abs().max() < 5 * 0.5 / 4000**0.5 + 1 / 2000


def test_permutations_are_permutations_with_uniform_ranks():
    order = sampling.permutations(SEED, 2, 5000, 6)
    assert torch.equal(order.sort(-1).values, torch.arange(6).expand(2, 5000, 6))
    rank_of_first = order.argsort(-1)[..., 0].flatten()
    counts = torch.bincount(rank_of_first, minlength=6) / len(rank_of_first)
    assert (counts - 1 / 6).abs().max() < 5 * (1 / 6 / len(rank_of_first)) ** 0.5


def test_permutations_keep_the_order_of_a_prefix():
    short, long = (sampling.permutations(SEED, 1, 20, n)[0] for n in (5, 9))
    for a, b in zip(short, long, strict=True):
        assert [t for t in b.tolist() if t < 5] == a.tolist()


def test_a_generator_supplies_the_seed():
    one, two = (sampling.seed_of(torch.Generator().manual_seed(3), CPU) for _ in range(2))
    generator = torch.Generator().manual_seed(3)
    assert torch.equal(one, two)
    assert torch.equal(sampling.seed_of(generator, CPU), one)
    assert not torch.equal(sampling.seed_of(generator, CPU), one)  # the generator has moved on
    assert torch.equal(sampling.seed_of(None, CPU), sampling.seed_of(None, CPU))
    assert int(sampling.seed_of(torch.tensor(11), CPU)) == 11


def test_remembered_draws_survive_inference_mode():
    """Draws first made in inference mode take part in a backward pass later."""
    from neurogame import NeuroGameAttention

    sampling._cached.cache_clear()
    module, x = NeuroGameAttention(8, 2).eval(), torch.randn(1, 5, 8)
    with torch.inference_mode():
        expected = module(x).output
    found = module(x).output
    found.sum().backward()
    torch.testing.assert_close(found, expected.clone())


@pytest.mark.parametrize("law", ["shapley", "banzhaf"])
def test_texts_of_all_lengths_share_what_is_remembered(law):
    drawn = [sampling.draw(sampling.paired, None, CPU, law, 2, 4, n) for n in (6, 6, 20, 64, 65)]
    assert len({members.data_ptr() for members in drawn[:4]}) == 1
    assert drawn[4].data_ptr() != drawn[3].data_ptr()
    for members in drawn:
        fresh = sampling.paired(sampling.seed_of(None, CPU), law, 2, 4, members.shape[-1])
        assert torch.equal(members, fresh)
