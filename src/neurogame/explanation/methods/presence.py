"""Method "presence": Shapley and Banzhaf values of words that fade from the input, by slopes instead of coalitions.

    v(m) = ℓ(Σ_i m_i c_i(x; m)),   φ_w = ∫ ∂v/∂m_w (t, …, t) dt, t from FADED to 1,   β_w = ∂v/∂m_w (½, …, ½)

m_w ∈ (0, 1] says how present a word is: every attention of the encoder counts its tokens m_w times (log m_w is added
to the logits of these keys), and the pooling adds m_w of their terms c_i. v(1) is the model's own ℓ. For a multilinear
v, and from 0 on, both are exactly the Shapley and the Banzhaf value of the game on coalitions (Owen, 1972, 1975); v is
not, so they are its Aumann–Shapley values: efficient, Σφ = v(1) − v(FADED), up to the error of the integral. They cost
STEPS forward and backward passes, whatever the number of words. Below FADED the special tokens drown the words and the
norm of the classifier makes something of nothing: that belongs to no word and is left out.

The integral is Gauss–Legendre's. Special tokens stay at 1 and are no players. α is the layer's own at each m, with all
words as players.
"""

import inspect

import numpy as np
import torch
from transformers import PreTrainedModel

from neurogame._types import Float, Tensor
from neurogame.explanation.methods.gradients import differentiable
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.modeling.heads import pooling_of

STEPS = 5
_BATCH = 16  # points per forward and backward pass
FADED = 0.05  # where the integral starts, and what the words are counted from


def applies(model: PreTrainedModel) -> bool:
    """Whether what the model classifies is a sum over tokens of an encoder whose attention takes a mask."""
    pooling = pooling_of(model)
    if pooling is None or not pooling.additive:
        return False
    return "attention_mask" in inspect.signature(model.encoder.forward).parameters


def attribute(reading: Reading, question: Question) -> Attribution:
    """Method "presence"; `question.samples` points of the integral."""
    steps = STEPS if question.samples is None else question.samples
    points, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(steps))
    t = torch.cat([FADED + (1.0 - FADED) * (points + 1.0) / 2.0, torch.tensor([0.5, FADED, 1.0]).double()])
    parts = [_slopes(reading, question, some) for some in t.split(_BATCH)]
    v, slope = map(torch.cat, zip(*parts, strict=True))
    phi, beta = (1.0 - FADED) / 2.0 * weights @ slope[:steps], slope[steps]
    faded, everyone = v[-2:].tolist()
    diagnostics = {
        "exact": False,
        "steps": steps,
        "couplings": "none",
        "faded": FADED,
        "origin": faded,
        "outside": 0.0,
        "total": everyone - faded,
        "efficiency_gap": abs(float(phi.sum()) - (everyone - faded)),
        "logit_error": abs(everyone - float(reading.logits @ question.direction(reading.nli.labels))),
    }
    return Attribution(phi, phi, beta, diagnostics=diagnostics)


def _slopes(reading: Reading, question: Question, t: Float[Tensor, "points"]) -> tuple[Tensor, Tensor]:
    """v and ∂v/∂m_w where all words are present to the degree t."""
    with differentiable():
        m = t.unsqueeze(-1).repeat(1, len(reading.units.read)).requires_grad_()
        v = value(reading, question, m)
        (slope,) = torch.autograd.grad(v.sum(), m)
    return v.detach(), slope


def value(reading: Reading, question: Question, m: Float[Tensor, "points read"]) -> Float[Tensor, "points"]:
    """v(m) at each point."""
    model, pooling, units = reading.model, reading.pooling, reading.units
    assert pooling is not None
    inputs = {name: column.clone().expand(len(m), -1) for name, column in reading.inputs.items()}
    ids, real = inputs["input_ids"], torch.ones_like(inputs["input_ids"], dtype=torch.bool)
    special = (units.unit_of < 0).to(m)
    present = (m @ units.members.to(m) + special).to(ids.device, model.dtype)  # (points, tokens)
    inputs["attention_mask"] = present.log()[:, None, None, :].expand(-1, 1, ids.shape[1], -1)
    reading.passes.add(len(m))
    x = model.encode(**inputs).states
    weights = model.pool(x, real, model.players(ids, real)).weights
    terms = pooling.terms(x, weights)
    logits = model.classify((terms * present.to(terms).unsqueeze(-1)).sum(1))
    values: Tensor = logits.double().cpu() @ question.direction(reading.nli.labels)
    return values
