"""The loss of a classifier: label smoothing, mixup, rows without a gold label."""

import pytest
import tiny
import torch
from test_modeling import GOLD
from torch.nn.functional import cross_entropy, one_hot

from neurogame.modeling.losses import Mixup, classification_loss, mix


@pytest.fixture
def logits(random):
    return random(0, 6, 3, dtype=torch.float32)


def test_mixing(random):
    z, partner = random(1, 3, 4, 2), torch.tensor([2, 0, 1])
    assert mix(z, None) is z
    assert torch.equal(mix(z, Mixup(partner, 1.0)), z)
    assert torch.equal(mix(z, Mixup(partner, 0.0)), z[partner])
    torch.testing.assert_close(mix(z, Mixup(partner, 0.3)), 0.3 * z + 0.7 * z[partner])
    torch.testing.assert_close(mix(z, Mixup(partner, torch.tensor(0.3))), 0.3 * z + 0.7 * z[partner])
    weight = torch.tensor([0.1, 0.5, 0.9])
    expected = torch.stack([w * z[b] + (1 - w) * z[partner[b]] for b, w in enumerate(weight.tolist())])
    torch.testing.assert_close(mix(z, Mixup(partner, weight)), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [0.7, [0.9, 0.3, 0.5, 1.0, 0.0, 0.25]])
def test_the_mixed_loss_is_cross_entropy_against_mixed_labels(smoothing, weight, logits):
    labels, partner = torch.tensor([0, 1, 2, 2, 0, 1]), torch.tensor([3, 2, 5, 0, 1, 4])
    w = torch.tensor(weight) if isinstance(weight, list) else weight
    column = w[:, None] if isinstance(weight, list) else w
    soft = column * one_hot(labels, 3) + (1 - column) * one_hot(labels[partner], 3)
    found = classification_loss(logits, labels, Mixup(partner, w), label_smoothing=smoothing)
    torch.testing.assert_close(found, cross_entropy(logits, soft, label_smoothing=smoothing))
    plain = cross_entropy(logits, labels, label_smoothing=smoothing)
    torch.testing.assert_close(classification_loss(logits, labels, None, smoothing), plain)
    torch.testing.assert_close(classification_loss(logits, labels, Mixup(partner, 1.0), smoothing), plain)
    some = labels.clone()
    some[0] = -100  # without a gold label, as transformers has it
    torch.testing.assert_close(classification_loss(logits, some), classification_loss(logits[1:], labels[1:]))
    half = classification_loss(logits.bfloat16(), labels)
    assert half.dtype == torch.float32


def test_the_model_mixes_what_the_classifier_reads():
    model, batch = tiny.model(), tiny.encoded()
    mixup = Mixup(torch.tensor([1, 0, 3, 2]), 0.6)
    with torch.no_grad():
        z = model(**batch, output_game=True).game.output
        found = model(**batch, labels=GOLD, mixup=mixup)
        expected = model.classifier(0.6 * z + 0.4 * z[mixup.partner])
    torch.testing.assert_close(found.logits, expected)
    torch.testing.assert_close(found.loss, classification_loss(expected, GOLD, mixup))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_mixup_draws_from_a_beta_law(alpha):
    def draws(seed, count):
        source = torch.Generator().manual_seed(seed)
        return [Mixup.draw(5, alpha, source) for _ in range(count)]

    first, again, other = draws(1, 4), draws(1, 4), draws(2, 4)
    assert [m.weight for m in first] == [m.weight for m in again]
    assert all(torch.equal(a.partner, b.partner) for a, b in zip(first, again, strict=True))
    assert [m.weight for m in first] != [m.weight for m in other]
    assert sorted(first[0].partner.tolist()) == [0, 1, 2, 3, 4]
    count = 4000
    weights = torch.tensor([m.weight for m in draws(3, count)], dtype=torch.float64)
    assert ((weights >= 0) & (weights <= 1)).all()
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(float(weights.mean()) - 0.5) < 5 * (variance / count) ** 0.5
    squares = (weights - 0.5).square()
    assert abs(float(squares.mean()) - variance) < 5 * float(squares.std()) / count**0.5
