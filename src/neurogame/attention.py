"""NeuroGameAttention: tokens as players and spins, in the order of Algorithm 1, and the record it returns.

    x ──W_v──▶ V ──values.estimate──▶ φ, β, J_ij ──gate──▶ J_i ──ising.solve──▶ α ──Σ α_i V_i──▶ W_O ──▶ output

The module owns the parameters (W_v, gate, γ, μ, anchor, coupling strength, W_O); the mathematics is
in pure functions below it. It is a *pooling* layer: one vector per sequence where self-attention
returns one per token.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from math import log
from typing import Any, Literal

import torch
from torch import nn

from neurogame import ising, sampling
from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import as_mask, check_choice, check_count, check_norms, check_vectors, full_precision
from neurogame.couplings import LinearCoupling, permute_tokens
from neurogame.game import Nonlinearity, safe_divide
from neurogame.ising import Coupling, Gradient, Method, SpinState
from neurogame.spectrum import schatten_radius
from neurogame.values import Couplings, Estimator, GameValues, estimate, l1_normalise

Anchor = Literal["learned", "cls"]
AnchorScale = Literal["root", "none"]
FieldScale = Literal["tokens", "none"]
CouplingScale = Literal["spectral", "none"]
Tilt = Literal["gamma"]
Spins = Literal["solved", "field"]

# What costs memory or time in every forward pass: limits far beyond what improves an answer.
MOST = {"samples": 1 << 14, "train_samples": 1 << 14, "max_iter": 10_000}


@dataclass(frozen=True)
class AttentionConfig:
    """Every switch of the layer that is not a size. `PRESETS` holds the two named combinations."""

    samples: int = 24  # coalitions per law, in evaluation
    train_samples: int | None = None  # the same in training; None: as in evaluation
    estimator: Estimator = "paired"
    f: Nonlinearity = "identity"
    tilt: float | Tilt | None = None  # Gibbs tilt of the values: none, a fixed γ, or the head's own γ
    couplings: Couplings = "auto"
    method: Method = "mean_field"
    damping: float = 1.0  # undamped: ρ(J)/γ < 1 by construction, see coupling_scale
    max_iter: int = 25
    tol: float = 1e-4
    gradient: Gradient = "implicit"
    gamma: float = 0.25  # initial temperature; learned per head
    anchor: Anchor | None = "cls"
    anchor_scale: AnchorScale = "root"  # a·√n: coalitions grow with the sequence, so must what they are held against
    background: float | bool | None = 1.0  # initial μ in units of the mean field; None or False: no background field
    field_scale: FieldScale = "tokens"
    coupling_scale: CouplingScale = "spectral"
    coupling_strength: float = 0.5  # initial ρ(J)/γ under "spectral"; learned per head, always below 1
    # Ablations: what is left if a part of the mechanism is taken out.
    gate: float | None = None  # None: λ_i learned; a number in [0, 1]: λ fixed (0 is Banzhaf alone, 1 Shapley alone)
    fields: bool = True  # False: J_i = 1 for every token, so that only couplings and the background tell tokens apart
    shuffle: bool = False  # J_ij of randomly exchanged tokens: the same spectrum, the wrong pairs
    spins: Spins = "solved"  # "field": mean field off, s_i = J_i cut to [−1, 1], no couplings, no temperature

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None and name in ("train_samples", "tilt", "anchor", "background", "gate"):
                continue
            if name in MOST:
                check_count(name, value, most=MOST[name])
            elif name in _CHOICES:
                check_choice(name, value, _CHOICES[name])
            elif name in _NUMBERS:
                _check_number(name, value)
            elif name != "tilt" and not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, got {value!r}")
        if isinstance(self.tilt, str):
            check_choice("tilt", self.tilt, Tilt)
        elif self.tilt is not None and not (isinstance(self.tilt, int | float) and self.tilt > 0):
            raise ValueError(f"tilt must be None, 'gamma' or a number > 0, got {self.tilt!r}")
        if self.estimator == "algorithm1" and self.tilt is None:
            raise ValueError("estimator = 'algorithm1' needs a tilt: 'gamma' for the paper's, or a number")

    @property
    def _has_background(self) -> bool:
        """Whether there is a background field μ; False is as good as None, True starts it at 1."""
        return self.background is not None and self.background is not False


_CHOICES = {name: kind for name, kind in AttentionConfig.__annotations__.items() if isinstance(kind, type(Anchor))}
_CHOICES["anchor"] = Anchor
_NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {  # the test each number has to pass, and the test in words
    "damping": (lambda x: 0.0 < x <= 1.0, "> 0.0 and ≤ 1.0"),
    "gamma": (lambda x: x > 0.0, "> 0.0"),
    "tol": (lambda x: x > 0.0, "> 0.0"),
    "coupling_strength": (lambda x: 0.0 < x < 1.0, "between 0 and 1"),
    "gate": (lambda x: 0.0 <= x <= 1.0, "None (learned) or a fixed λ in [0, 1]"),
    "background": (lambda _: True, "a number"),
}


def _check_number(name: str, value: object) -> None:
    allowed, words = _NUMBERS[name]
    if not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not allowed(value):
        raise ValueError(f"{name} must be {words}, got {value!r}")


PRESETS: dict[str, AttentionConfig] = {
    "default": AttentionConfig(),
    # Algorithm 1, with K = 15/25 and the damping of the implementation section.
    "paper": AttentionConfig(
        samples=25,
        train_samples=15,
        estimator="algorithm1",
        tilt="gamma",
        couplings="pairs",
        damping=0.7,
        anchor=None,
        background=None,
        field_scale="none",
        coupling_scale="none",
    ),
}


@dataclass(frozen=True)
class NeuroGameOutput:
    """The pooled output and everything it was made of; `coupling` is an operator in linear mode."""

    output: Float[Tensor, "batch dim"]
    alpha: Float[Tensor, "batch heads tokens"]  # attention weights, 0 at padding
    field: Float[Tensor, "batch heads tokens"]  # J_i as the spins feel it, 0 at padding
    shapley: Float[Tensor, "batch heads tokens"]
    banzhaf: Float[Tensor, "batch heads tokens"]
    gate: Float[Tensor, "batch heads tokens"]  # λ_i
    coupling: Float[Tensor, "batch heads tokens tokens"] | LinearCoupling | None
    spin_state: SpinState
    values: GameValues  # unscaled, with errors and effective sample sizes


class NeuroGameAttention(nn.Module):
    """Multi-head attention by contribution: z_h = Σ_i α_i V_i, α = marginals of an Ising model of the tokens.

    Per head: V = W_v x; φ, β, J_ij = values of v(C) = f(‖a + Σ_{i∈C} V_i‖) − f(‖a‖);
    J_i = λ_i φ_i^norm + (1−λ_i) β_i^norm with λ_i = σ(w·x_i + b); ⟨s⟩ = tanh((J_i + Σ_j J_ij ⟨s_j⟩)/γ);
    α = (1 + ⟨s⟩)/2. Heads are concatenated and mapped by W_O.

    Args:
        dim: width of the tokens and of the output; must be divisible by `heads`.
        heads: number of heads, each with W_v, gate, γ, μ, anchor and coupling strength of its own.
        preset: "paper" is Algorithm 1, its flaws included (tokens share their draws, see `values`);
            "default" is the corrected layer described below.
        tensor_only: return the pooled vectors alone, as `nn.Sequential` needs it; the record is not kept.
        validate: whether to check values (NaN, empty rows) as well as shapes; None: in eager mode on the CPU.
        options: any field of `AttentionConfig`, overriding the preset.

    How the default differs from the paper, and why:

    - Estimator: `paired` instead of Algorithm 1, whose two values have one and the same limit and
      whose effective sample size is about 2 at n = 128.
    - Field scale: L1-normalised values are ~1/n, so at n = 128 the paper's fields alone leave every α
      near ½ (within .02 on average), and its couplings, which are not normalised, then decide alone and
      often do not settle. Here J_i is multiplied by the number of real tokens: its mean size is 1.
    - Background field: J_i − μ_h, learned. Without it no field is negative and almost no token can
      be switched off; μ starts at the mean field, so that a token is on if it contributes more than average.
    - Anchor: contribution is measured from a vector a, by default a projection of token 0 ([CLS] in
      BERT-like encoders) times √n, instead of from 0. As ‖a‖ grows φ_i → V_i·a/‖a‖: a query is inside
      the family. Without the √n the sum over a coalition soon dwarfs the anchor.
    - Coupling scale: J_ij is scaled so that ρ(J)/γ is a learned number below 1, estimated with a few
      power iterations. That is the condition under which mean field has one solution and converges,
      undamped; the paper's damping of .7 only slows it down.
    - Couplings: the linear-time operator instead of all pairs.

    In eval mode without a generator the draws come from a fixed seed: results are deterministic and do
    not depend on padding or batch mates. In train mode a seed is drawn from torch's generator.
    """

    gate: nn.Linear | None
    log_gamma: Tensor
    background: nn.Parameter | None
    coupling_logit: nn.Parameter | None
    anchor: nn.Linear | nn.Parameter | None

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        preset: str = "default",
        tensor_only: bool = False,
        validate: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_count("dim", dim)
        check_count("heads", heads)
        if dim % heads:
            raise ValueError(f"dim = {dim} must be divisible by heads = {heads}")
        if preset not in PRESETS:
            raise ValueError(f"preset = {preset!r} is unknown; allowed: {', '.join(map(repr, PRESETS))}")
        known = [f.name for f in fields(AttentionConfig)]
        for name in options:
            if name not in known:
                raise TypeError(f"unknown option {name!r}; allowed: {', '.join(known)}")
        self.config = replace(PRESETS[preset], **options)
        self.dim, self.heads, self.head_dim, self.preset, self.validate = dim, heads, dim // heads, preset, validate
        self.tensor_only = tensor_only
        self.value = nn.Linear(dim, dim, bias=False)  # W_v of all heads, side by side
        gated = self.config.gate is None and self.config.fields
        self.gate = nn.Linear(dim, heads) if gated else None  # w_h, b_h
        self.out = nn.Linear(dim, dim, bias=False)  # W_O
        if self.config.spins == "solved":
            self.log_gamma = nn.Parameter(torch.empty(heads))
        else:  # nothing is solved, so nothing would train it
            self.register_buffer("log_gamma", torch.empty(heads))
        background = nn.Parameter(torch.empty(heads)) if self.config._has_background else None
        self.register_parameter("background", background)
        coupled = self.config.couplings != "none" and self.config.spins == "solved"
        spectral = self.config.coupling_scale == "spectral" and coupled
        self.register_parameter("coupling_logit", nn.Parameter(torch.empty(heads)) if spectral else None)
        self.anchor = None
        if self.config.anchor == "cls":
            self.anchor = nn.Linear(dim, dim, bias=False)
        elif self.config.anchor == "learned":
            self.anchor = nn.Parameter(torch.empty(heads, self.head_dim))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Xavier projections; a gate that starts at λ ≈ ½; scalars at the values of the config."""
        for linear in (self.value, self.out):
            nn.init.xavier_uniform_(linear.weight)
        if self.gate is not None:
            nn.init.normal_(self.gate.weight, std=0.02)
            nn.init.zeros_(self.gate.bias)
        nn.init.constant_(self.log_gamma, log(self.config.gamma))
        if self.background is not None:
            nn.init.constant_(self.background, float(self.config.background or 0.0))
        if self.coupling_logit is not None:
            strength = self.config.coupling_strength
            nn.init.constant_(self.coupling_logit, log(strength / (1.0 - strength)))
        if isinstance(self.anchor, nn.Linear):
            nn.init.xavier_uniform_(self.anchor.weight)
        elif isinstance(self.anchor, nn.Parameter):
            nn.init.normal_(self.anchor, std=self.head_dim**-0.5)

    @property
    def gamma(self) -> Float[Tensor, "heads"]:
        """Temperature of each head, positive by construction."""
        return self.log_gamma.float().exp() if self.log_gamma.dtype != torch.float64 else self.log_gamma.exp()

    def forward(
        self,
        x: Float[Tensor, "batch tokens dim"],
        mask: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        generator: sampling.Randomness = None,
        samples: int | None = None,
    ) -> Any:  # NeuroGameOutput, or a tensor: a union would have every caller ask which
        """Pool [batch, tokens, dim] into [batch, dim].

        Args:
            x: [batch, tokens, dim].
            mask: [batch, tokens], True (or 1) at real tokens; None: all are.
            key_padding_mask: the same the other way round, as torch has it: True at padding. One of the two.
            generator: where the draws of coalitions come from; None: a fixed seed in evaluation, torch's in training.
            samples: coalitions per law; None: those of the configuration.

        Returns:
            The record: `output` [batch, dim], and everything it was made of; or `output` alone with `tensor_only`.

        Example:
            >>> layer = NeuroGameAttention(64, 4).eval()
            >>> layer(torch.randn(2, 10, 64)).alpha.shape
            torch.Size([2, 4, 10])
        """
        config = self.config
        if samples is None:
            samples = config.train_samples or config.samples if self.training else config.samples
        real = self._mask(x, mask, key_padding_mask)
        V = self._split(self.value(x))  # (batch, heads, tokens, head_dim)
        gate = None if self.gate is None else self.gate(x).mT  # (batch, heads, tokens)
        anchor = self._anchor(x, real)
        if generator is None and self.training:
            generator = torch.randint(1 << 62, (), device=x.device)
        with full_precision(x.device):
            gamma = self.gamma
            V = V if V.dtype == torch.float64 else V.float()
            V = V if real is None else V.masked_fill(~real.unsqueeze(-1), 0.0)  # a padded token is a null player
            check_norms(V, self.validate)
            gate = V.new_full(V.shape[:-1], config.gate or 0.0) if gate is None else torch.sigmoid(gate.to(V.dtype))
            source = sampling.source_of(generator, x.device)
            values = estimate(
                V,
                mask=real,
                samples=samples,
                f=config.f,
                anchor=anchor,
                tilt=gamma if config.tilt == "gamma" else config.tilt,
                estimator=config.estimator,
                couplings=config.couplings,
                generator=source,
                validate=False,
            )
            field = self._field(values, gate, real)
            coupling = self._coupling(values, gamma, real, source)
            state = self._spins(field, coupling, gamma, real)
            alpha = state.alpha
            z = (alpha.unsqueeze(-2) @ V).squeeze(-2)
        output = self.out(z.flatten(-2).to(self.out.weight.dtype))
        if self.tensor_only:
            return output
        return NeuroGameOutput(output, alpha, field, values.shapley, values.banzhaf, gate, coupling, state, values)

    def _mask(
        self, x: Tensor, mask: Tensor | None, key_padding_mask: Tensor | None
    ) -> Bool[Tensor, "batch 1 tokens"] | None:
        """The mask of real tokens as booleans with a head axis; shapes are checked always, values where allowed."""
        check_vectors(x, self.validate, "x")
        if x.dim() != 3 or x.shape[-1] != self.dim:
            raise ValueError(f"x must be [batch, tokens, {self.dim}], got {list(x.shape)}")
        if key_padding_mask is not None:
            if mask is not None:
                raise ValueError("mask and key_padding_mask say the same in two ways; give one of them")
            if key_padding_mask.dtype != torch.bool:
                raise TypeError(
                    f"key_padding_mask must be bool (True = padding), got {key_padding_mask.dtype}; key_padding_mask "
                    "< 0 makes one of an additive mask of 0 and -inf, and an attention_mask with 1 at real tokens goes "
                    "to mask="
                )
            mask = ~key_padding_mask
        if isinstance(mask, Tensor) and mask.shape != x.shape[:2]:
            raise ValueError(f"mask must be [batch, tokens] = {list(x.shape[:2])}, got {list(mask.shape)}")
        real = as_mask(mask, x.shape[:2], x.device, self.validate)
        return None if real is None else real.unsqueeze(1)

    def _split(self, projected: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch heads tokens head_dim"]:
        heads: Tensor = projected.unflatten(-1, (self.heads, self.head_dim))
        return heads.transpose(1, 2).contiguous()  # and the projection's own layout is not kept

    def _anchor(self, x: Tensor, real: Tensor | None) -> Float[Tensor, "... heads head_dim"] | None:
        """a per head: learned, or projected from token 0 (whether or not the mask makes it a player); times √n."""
        if self.anchor is None:
            return None
        if isinstance(self.anchor, nn.Linear):
            a: Tensor = self.anchor(x[:, 0]).reshape(-1, self.heads, self.head_dim)
        else:
            a = self.anchor
        if self.config.anchor_scale == "root":
            a = a * (x.shape[1] ** 0.5 if real is None else real.sum(-1, keepdim=True).to(a.dtype).sqrt())
        return a

    def _field(self, values: GameValues, gate: Tensor, real: Tensor | None) -> Float[Tensor, "batch heads tokens"]:
        """J_i = λ_i φ_i^norm + (1−λ_i) β_i^norm, times the number of real tokens, minus μ_h."""
        players = gate.shape[-1] if real is None else real.sum(-1, keepdim=True).to(gate.dtype)
        if self.config.fields:
            field = gate * l1_normalise(values.shapley) + (1.0 - gate) * l1_normalise(values.banzhaf)
        else:
            field = torch.ones_like(gate) / players
        if self.config.field_scale == "tokens":
            field = field * players
        if self.background is not None:
            field = field - self.background.to(field.dtype).unsqueeze(-1)
        return field if real is None else field.masked_fill(~real, 0.0)

    def _spins(self, field: Tensor, coupling: Coupling, gamma: Tensor, real: Tensor | None) -> SpinState:
        """The mean-field solution, or the field itself where the solver is switched off."""
        config = self.config
        if config.spins == "field":
            return ising.spins_from_field(field, gamma, mask=real, tol=config.tol)
        return ising.solve(
            field,
            coupling,
            gamma,
            method=config.method,
            damping=config.damping,
            max_iter=config.max_iter,
            tol=config.tol,
            mask=real,
            gradient=config.gradient,
            validate=False,
        )

    def _coupling(self, values: GameValues, gamma: Tensor, real: Tensor | None, source: sampling.Source) -> Coupling:
        """κ_h γ_h/ρ̂(J) · J with κ_h = σ(·) < 1, so that ρ(J)/γ is κ_h up to the error of ρ̂.

        ρ̂ is never taken below a ten-thousandth of the mean |β|: couplings that vanish (one token,
        parallel tokens) are rounding errors, and must not be blown up to full strength.
        """
        coupling = values.coupling
        if coupling is not None and self.config.shuffle:
            keys = sampling.draw(sampling.keys, source, coupling.device, self.heads, coupling.shape[-1])
            coupling = permute_tokens(coupling, sampling.exchange(keys, real))
        if coupling is None or self.coupling_logit is None:
            return coupling
        n = coupling.shape[-1]
        players = n if real is None else real.sum(-1)
        probes = sampling.draw(sampling.probes, source, coupling.device, self.heads, n, _PROBES).to(coupling.dtype)
        probes = probes.expand(*coupling.shape[:-1], _PROBES) if real is None else probes * real.unsqueeze(-1)
        radius = schatten_radius(coupling, probes, players, _POWER_STEPS)
        radius = radius + _FLOOR * values.banzhaf.abs().sum(-1) / players
        factor = safe_divide(torch.sigmoid(self.coupling_logit.to(coupling.dtype)) * gamma, radius)
        if isinstance(coupling, LinearCoupling):
            return coupling.scaled(factor)
        return coupling * factor[..., None, None]

    def extra_repr(self) -> str:
        """What `print(module)` shows."""
        return f"dim={self.dim}, heads={self.heads}, preset={self.preset!r}, couplings={self.config.couplings!r}"


# How ρ̂(J) is estimated; benchmarks/alive.py prints ρ(J)/γ, which is the strength .5 where ρ̂ is exact.
_PROBES, _POWER_STEPS, _FLOOR = 4, 6, 1e-4
