"""Methods by slopes of ℓ, the logit of the target [less the contrast's]: presence, gradient, integrated_gradients.

*presence*: Shapley and Banzhaf values of words that fade from the input, by slopes instead of coalitions.

    v(m) = ℓ(Σ_i m_i c_i(x; m)),   φ_w = ∫ ∂v/∂m_w (t, …, t) dt, t from FADED to 1,   β_w = ∂v/∂m_w (½, …, ½)

m_w ∈ (0, 1] says how present a word is: every attention of the encoder counts its tokens m_w times (log m_w is added
to the logits of these keys), and the pooling adds m_w of their terms c_i. v(1) is the model's own ℓ. For a multilinear
v, and from 0 on, both are exactly the Shapley and the Banzhaf value of the game on coalitions (Owen, 1972, 1975); v is
not, so they are its Aumann–Shapley values: efficient, Σφ = v(1) − v(FADED), up to the error of the integral. They cost
POINTS forward and backward passes, whatever the number of words. Below FADED the special tokens drown the words and the
norm of the classifier makes something of nothing: that belongs to no word and is left out. The integral is
Gauss–Legendre's. Special tokens stay at 1 and are no players; α is the layer's own at each m, with all words as
players.

*gradient* and *integrated_gradients*: how ℓ changes with the word embeddings e. Pieces of a word are summed.

    gradient               Σ_d e_d ∂ℓ/∂e_d
    integrated_gradients   Σ_d (e_d − e′_d) ∫₀¹ ∂ℓ/∂e_d (e′ + t(e − e′)) dt,   e′: [PAD] in the place of each word

The baseline e′ keeps the special tokens, so that they hold nothing and the words add up to ℓ(e) − ℓ(e′), up to
`convergence_delta`. The integral is captum's (Gauss–Legendre), with STEPS steps.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from transformers import PreTrainedModel

from neurogame._common.extras import need
from neurogame._common.types import Float, Tensor
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.modeling.heads import pooling_of

POINTS = 5  # of the integral of "presence"
STEPS = 50  # of "integrated_gradients"
FADED = 0.05  # where the integral of "presence" starts, and what the words are counted from
_BATCH = 16  # points per forward and backward pass
Embedded = Float[Tensor, "batch tokens dim"]


def fades(model: PreTrainedModel) -> bool:
    """Whether what the model classifies is a sum over tokens of an encoder whose attention takes a mask."""
    pooling = pooling_of(model)
    if pooling is None or not pooling.additive:
        return False
    return "attention_mask" in inspect.signature(model.encoder.forward).parameters


def presence(reading: Reading, question: Question) -> Attribution:
    """Method "presence"; `question.samples` points of the integral."""
    steps = POINTS if question.samples is None else question.samples
    nodes, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(steps))
    t = torch.cat([FADED + (1.0 - FADED) * (nodes + 1.0) / 2.0, torch.tensor([0.5, FADED, 1.0]).double()])
    parts = [_slopes(reading, question, points) for points in t.split(_BATCH)]
    v, slope = map(torch.cat, zip(*parts, strict=True))
    phi, beta = (1.0 - FADED) / 2.0 * weights @ slope[:steps], slope[steps]
    faded, everyone = v[-2:].tolist()
    diagnostics: dict[str, object] = {"exact": False, "steps": steps, "couplings": "none", "faded": FADED}
    diagnostics |= {"origin": faded, "outside": 0.0, "total": everyone - faded}
    diagnostics["efficiency_gap"] = abs(float(phi.sum()) - (everyone - faded))
    diagnostics["logit_error"] = abs(everyone - float(reading.logits @ question.direction(reading.nli.labels)))
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


def has_embeddings(model: PreTrainedModel) -> bool:
    """Whether the model takes embeddings in the place of token ids."""
    return "inputs_embeds" in inspect.signature(model.forward).parameters


def gradient(reading: Reading, question: Question) -> Attribution:
    """Method "gradient"; one forward and one backward pass."""
    with differentiable():
        e = _embedding(reading).requires_grad_()
        (slope,) = torch.autograd.grad(_logit(reading, question)(e).sum(), e)
        tokens = (slope * e).sum(-1)[0].detach().double().cpu()
    diagnostics = {"outside": float(reading.units.outside(tokens)), "of": "embeddings"}
    return Attribution(reading.units.sum(tokens), diagnostics=diagnostics)


def integrated_gradients(reading: Reading, question: Question) -> Attribution:
    """Method "integrated_gradients"; `question.samples` steps, each a forward and a backward pass."""
    captum = need("captum.attr", "explain")
    steps = STEPS if question.samples is None else question.samples
    pad = reading.nli.tokenizer.pad_token_id
    with differentiable():
        e = _embedding(reading)
        word = (reading.units.unit_of >= 0).to(e.device).unsqueeze(-1)
        blank = torch.zeros_like(e) if pad is None else _embedding(reading, pad)
        options = {"n_steps": steps, "internal_batch_size": _BATCH, "return_convergence_delta": True}
        integral = captum.IntegratedGradients(_logit(reading, question))
        slopes, delta = integral.attribute(e, baselines=torch.where(word, blank, e), **options)
        tokens = slopes.sum(-1)[0].detach().double().cpu()
    baseline = "zeros" if pad is None else reading.nli.tokenizer.pad_token
    diagnostics = {"of": "embeddings", "steps": steps, "baseline": baseline, "convergence_delta": float(delta)}
    return Attribution(reading.units.sum(tokens), diagnostics=diagnostics)


@contextmanager
def differentiable() -> Iterator[None]:
    """Gradients, whatever mode the caller is in; cuDNN has none for recurrent layers in evaluation."""
    with torch.inference_mode(mode=False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        yield


def _embedding(reading: Reading, token: int | None = None) -> Embedded:
    """Word embeddings of the pair, or of one token in every place."""
    ids = reading.inputs["input_ids"].clone()  # tensors of inference mode cannot be saved for backward
    embedding: Tensor = reading.model.get_input_embeddings()(ids if token is None else torch.full_like(ids, token))
    return embedding.detach()


def _logit(reading: Reading, question: Question) -> Callable[[Embedded], Float[Tensor, "batch"]]:
    """ℓ of embeddings; segments, and which tokens are special, are those of the pair."""
    model, others = reading.model, {name: value.clone() for name, value in reading.inputs.items()}
    ids = others.pop("input_ids")
    if getattr(model.config, "players", "all") == "words":
        special = torch.tensor(model.config.special_token_ids, device=ids.device)
        others["special_tokens_mask"] = torch.isin(ids, special).long()

    def logit(e: Embedded) -> Float[Tensor, "batch"]:
        reading.passes.add(len(e))
        rows = {name: value.expand(len(e), -1) for name, value in others.items()}
        logits: Tensor = model(inputs_embeds=e, **rows).logits
        return logits @ question.direction(reading.nli.labels).to(logits)

    return logit
