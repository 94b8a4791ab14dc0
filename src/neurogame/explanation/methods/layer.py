"""What the layer itself says: its game, its weights, how its spins settled; and random numbers, which say nothing.

Method "game": the values inside the forward pass, φ_i, β_i and J_ij of v(C) = f(‖a + Σ_{i∈C} V_i‖) − f(‖a‖).
They are what the fields are made of, so they say which words the attention finds strong, not which label they speak
for: the game is the same for every label. Per word the pieces are summed, over heads the mean is taken:

    φ_word = mean_h Σ_{i∈word} φ_hi,   J_AB = mean_h Σ_{i∈A} Σ_{j∈B} J_hij,   Σ_words φ + outside = mean_h v_h(N)

`outside` is what special tokens hold. The couplings are in units of v, as the values are, before the layer scales them.
There are no swing words: this game takes no decision. For the "spins" head the values stand beside the path to the
logits, and the record says so.

Method "attention": α_i, the weights of the pooling, mean over heads and over the pieces of a word; where the model has
none, the attention that [CLS] pays to token i in the last layer of the encoder. Method "random": uniform in [−1, 1), a
function of the seed and the pair: what an explanation must beat.
"""

import zlib
from typing import Any

import torch

from neurogame._common.types import Float, Tensor
from neurogame.attention import NeuroGameOutput
from neurogame.couplings import LinearCoupling
from neurogame.data.words import Units
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.modeling.heads import ClsPooling, NeuroGamePooling, SpinsOutput, SpinsPooling, pooling_of
from neurogame.modeling.loading import sharing
from neurogame.values import Mean


def mechanism(reading: Reading) -> tuple[dict[str, Float[Tensor, "heads read"]], dict[str, Any]]:
    """α, J_i and λ_i of a NeuroGame head, of a control its weights as α, nothing of a foreign model; and diagnostics.

    Facts of the forward pass, the same for every method: averaged over the pieces of a word, with how the spins of the
    worst head settled.
    """
    pooled, units = reading.pooled, reading.units
    if pooled is None:
        return {}, {}
    game, diagnostics = pooled.game, dict[str, Any](head=reading.model.config.head)
    if isinstance(game, NeuroGameOutput | SpinsOutput):
        state, converged = game.spin_state, game.spin_state.converged.flatten()
        diagnostics |= {"converged": bool(converged.all()), "unconverged_heads": int((~converged).sum())}
        diagnostics |= {"heads": converged.numel(), "residual": float(state.residual.max())}
        diagnostics["iterations"] = int(state.iterations.max())
        diagnostics["spectral_radius"] = float(state.spectral_radius.max())
    if pooled.weights is None:
        return {}, diagnostics
    weights = pooled.weights[0].cpu()
    diagnostics["outside_alpha"] = float((units.outside(weights) / weights.sum(-1)).mean())
    layer = {"alpha": units.mean(weights)}
    if isinstance(game, NeuroGameOutput):
        assert isinstance(reading.pooling, NeuroGamePooling)
        layer |= {"field": units.mean(game.field[0].cpu()), "gate": units.mean(game.gate[0].cpu())}
        diagnostics |= {"gamma": reading.pooling.layer.gamma.tolist(), "preset": reading.model.config.preset}
        diagnostics |= {"layer_samples": game.values.samples, "layer_couplings": game.values.couplings}
    return layer, diagnostics


def has_game(model: object) -> bool:
    """Whether the model plays a game in its forward pass."""
    return isinstance(pooling_of(model), NeuroGamePooling | SpinsPooling)


def game(reading: Reading, _: Question) -> Attribution:
    """Method "game": the layer's own values, from tokens and heads to words."""
    units, played = reading.units, None if reading.pooled is None else reading.pooled.game
    assert isinstance(played, NeuroGameOutput | SpinsOutput)
    values = played.values
    phi, beta = (units.sum(x[0].double().cpu()) for x in (played.shapley, played.banzhaf))  # (heads, read)
    outside = float(units.outside(played.shapley[0].double().cpu()).mean())
    total = float(values.grand().double().mean())
    interactions = None
    if values.coupling is not None:
        J = values.coupling.to_dense() if isinstance(values.coupling, LinearCoupling) else values.coupling
        interactions = units.pair_sums(J[0].double().cpu()).mean(0)
    diagnostics: dict[str, Any] = {"exact": False, "samples": values.samples, "couplings": values.couplings}
    diagnostics |= {name: float(getattr(values, name).min()) for name in ("shapley_ess", "banzhaf_ess")}
    gap = abs(float(phi.mean(0).sum()) + outside - total)
    diagnostics |= {"total": total, "outside": outside, "efficiency_gap": gap}
    diagnostics["on_path"] = isinstance(played, NeuroGameOutput)
    return Attribution(
        phi.mean(0),
        phi.mean(0),
        beta.mean(0),
        interactions,
        per_head={"shapley": phi, "banzhaf": beta},
        errors={"shapley_se": error_of_sums(values.phi, units), "banzhaf_se": error_of_sums(values.beta, units)},
        diagnostics=diagnostics,
    )


def error_of_sums(mean: Mean, units: Units) -> Float[Tensor, "read"]:
    """Standard error of mean_h Σ_{i∈word} φ_hi: √(Σ_h se_h²)/H, with se_h from the *summed* contributions of a word.

    The pieces of a word share their coalitions, so their errors are correlated and do not add in squares; the spread of
    the sums has the covariances in it. Heads draw their own coalitions and are independent.
    """
    with torch.inference_mode():
        weight = 1.0 / mean.delta.shape[-2] if mean.omega is None else mean.omega
        spread = units.sum(((mean.delta - mean.value.unsqueeze(-2)) * weight)[0].double().cpu())
        summed = Mean(torch.zeros_like(spread[:, 0]), spread, torch.ones_like(spread), mean.is_paired)
        return summed.se.square().sum(0).sqrt() / len(spread)


def has_weights(model: Any) -> bool:
    """Whether there are weights of tokens: a weighted sum as the pooling, or [CLS] in an encoder with attention."""
    pooling = pooling_of(model)
    if pooling is not None:
        reads_cls = isinstance(pooling, ClsPooling) or (isinstance(pooling, SpinsPooling) and pooling.source == "cls")
        return pooling.additive or (reads_cls and has_weights(model.encoder))
    return getattr(model.config, "num_attention_heads", None) is not None


def attention(reading: Reading, _: Question) -> Attribution:
    """Method "attention"."""
    if reading.pooled is not None and reading.pooled.weights is not None:
        weights = reading.pooled.weights
        return Attribution(reading.units.mean(weights[0].double().cpu()).mean(0), diagnostics={"of": "the pooling"})
    scores = reading.units.mean(_from_cls(reading).double().cpu()).mean(0)
    return Attribution(scores, diagnostics={"of": "[CLS] in the last layer"})


def random(reading: Reading, question: Question) -> Attribution:
    """Method "random"."""
    seed = zlib.crc32("\n".join((str(question.seed), *reading.tokens.texts)).encode())
    generator = torch.Generator().manual_seed(seed)
    return Attribution(2.0 * torch.rand(len(reading.units.read), generator=generator, dtype=torch.float64) - 1.0)


def _from_cls(reading: Reading) -> Float[Tensor, "heads tokens"]:
    """The row of [CLS], the first token where a tokenizer has none, in the last layer's attention."""
    ids, cls = reading.inputs["input_ids"][0], reading.nli.tokenizer.cls_token_id
    place = next((i for i, token in enumerate(ids.tolist()) if token == cls), 0)
    model = sharing(reading.model, attention="eager")  # the fused kernels, which are faster, do not keep the weights
    with torch.inference_mode(), reading.nli.own_tokens():
        reading.passes.add(1)
        layers = model(**reading.inputs, output_attentions=True).attentions
    if not layers or layers[-1] is None:
        raise ValueError(f"{reading.nli.name}, a {type(model).__name__}, does not give its attention weights")
    weights: Tensor = layers[-1][0, :, place]
    return weights
