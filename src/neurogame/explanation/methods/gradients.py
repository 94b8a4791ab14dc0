"""Methods "gradient" and "integrated_gradients": how the logit changes with the word embeddings e.

    gradient               Σ_d e_d ∂ℓ/∂e_d
    integrated_gradients   Σ_d (e_d − e′_d) ∫₀¹ ∂ℓ/∂e_d (e′ + t(e − e′)) dt,   e′: [PAD] in the place of each word

ℓ is the logit of the target, or the target's minus the contrast's. Pieces of a word are summed. The baseline e′ keeps
the special tokens, so that they hold nothing and the words add up to ℓ(e) − ℓ(e′), up to `convergence_delta`. The
integral is captum's (Gauss–Legendre), with STEPS steps.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel

from neurogame._types import Float, Tensor
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.extras import need

STEPS = 50
_BATCH = 16  # points of the path per forward and backward pass
Embedded = Float[Tensor, "batch tokens dim"]


def applies(model: PreTrainedModel) -> bool:
    """Whether the model takes embeddings in the place of token ids."""
    return "inputs_embeds" in inspect.signature(model.forward).parameters


def gradient(reading: Reading, question: Question) -> Attribution:
    """Method "gradient"; one forward and one backward pass."""
    with differentiable():
        e = _embedding(reading).requires_grad_()
        (slope,) = torch.autograd.grad(_logit(reading, question)(e).sum(), e)
        tokens = (slope * e).sum(-1)[0].detach().double().cpu()
    return Attribution(
        reading.units.summed(tokens), diagnostics={"outside": float(reading.units.outside(tokens)), "of": "embeddings"}
    )


def integrated_gradients(reading: Reading, question: Question) -> Attribution:
    """Method "integrated_gradients"; `question.samples` steps, each a forward and a backward pass."""
    captum = need("captum.attr", "explain")
    steps = STEPS if question.samples is None else question.samples
    pad = reading.nli.tokenizer.pad_token_id
    with differentiable():
        e = _embedding(reading)
        word = (reading.units.unit_of >= 0).to(e.device).unsqueeze(-1)
        blank = torch.zeros_like(e) if pad is None else _embedding(reading, pad)
        slopes, delta = captum.IntegratedGradients(_logit(reading, question)).attribute(
            e,
            baselines=torch.where(word, blank, e),
            n_steps=steps,
            internal_batch_size=_BATCH,
            return_convergence_delta=True,
        )
        tokens = slopes.sum(-1)[0].detach().double().cpu()
    diagnostics = {
        "of": "embeddings",
        "steps": steps,
        "baseline": "zeros" if pad is None else reading.nli.tokenizer.pad_token,
        "convergence_delta": float(delta),
    }
    return Attribution(reading.units.summed(tokens), diagnostics=diagnostics)


@contextmanager
def differentiable() -> Iterator[None]:
    """Gradients, whatever mode the caller is in; cuDNN has none for recurrent layers in evaluation."""
    with torch.inference_mode(mode=False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        yield


def _embedding(reading: Reading, token: int | None = None) -> Embedded:
    """Word embeddings of the pair, or of one token in every place."""
    ids = reading.inputs["input_ids"].clone()  # of a reading in inference mode, nothing can be kept for the way back
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
