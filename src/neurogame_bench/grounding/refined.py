"""Squared error of Shapley values by forward passes spent, against KernelSHAP and plain sampling.

True values are those of method "input" with REFERENCE passes and other draws, which enumerates 12 words and regresses
beyond. Its own error is in every error alike and draws ratios towards 1; it is reported beside them.
"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from neurogame._common.types import Tensor
from neurogame.data import Pair
from neurogame.explanation.reading import Question
from neurogame.explanation.reading import read as read_pair
from neurogame.explanation.refinement import residual_shapley
from neurogame.explanation.removal import InputGame
from neurogame.grounding.coalitions import draw
from neurogame.nli import NLI
from neurogame_bench.grounding.bench import Bench
from neurogame_bench.grounding.figures import figure, mean, of_ratios, span
from neurogame_bench.study import Record

REFERENCE = 4096  # forward passes of the Shapley values that count as true
BUDGETS = {"refined": (100, 200), "refined_large": (500, 1000)}  # forward passes, and whose pairs they are limited to
METHODS = ("refined", "kernelshap", "plain", "input")
COMPARED = (100, 500)  # N: refined at N against KernelSHAP at 2N


class Recalled(NLI):
    """The same model; of an input that it has read before it knows the logits. Several methods ask for the same."""

    def __init__(self, nli: NLI) -> None:
        super().__init__(nli.model, nli.tokenizer, name=nli.name, explainer=nli.explainer)
        self.known: dict[bytes, Tensor] = {}

    def forward(self, inputs: Mapping[str, Tensor], **options: Any) -> Any:
        """Logits of a batch; the model's whole output where more is asked for."""
        if options:
            return super().forward(inputs, **options)
        real = zip(inputs["input_ids"], inputs["attention_mask"].bool(), strict=True)
        keys = [ids[there].cpu().numpy().tobytes() for ids, there in real]
        fresh = [i for i, key in enumerate(keys) if key not in self.known]
        if fresh:
            logits = super().forward({name: column[fresh] for name, column in inputs.items()}).logits
            self.known.update(zip((keys[i] for i in fresh), logits, strict=True))
        return SimpleNamespace(logits=torch.stack([self.known[key] for key in keys]))


def row(bench: Bench, pair: Pair, place: int, limits: Mapping[str, int]) -> Record:
    """Mean squared error over the words of a pair, by method and forward passes."""
    nli = Recalled(bench.nli)
    seed = bench.seed + place + 1
    true = nli.explain(pair.premise, pair.hypothesis, method="input", samples=REFERENCE, seed=seed + 10_000)
    target = true.target
    assert target is not None
    se = np.array(true.diagnostics.get("shapley_se", [0.0] * len(true.words)))
    places = [i for i in range(len(true.words)) if i not in set(true.diagnostics["unread"])]
    truth = np.array(true.scores)

    def error(scores: Sequence[float]) -> float:
        return float(np.square(np.array(scores) - truth)[places].mean())

    game = nli.explain(pair.premise, pair.hypothesis, target=target, check=False)
    row: Record = {"words": len(places), "exact": bool(true.diagnostics["exact"])}
    row |= {"reference": float(np.square(se)[places].mean()), "size": error([0.0] * len(truth))}
    row["errors"] = {"game": {"1": error(game.scores)}, **{name: {} for name in METHODS}}
    for passes in [n for part, budget in BUDGETS.items() if place < limits[part] for n in budget]:
        options: dict[str, Any] = {"target": target, "samples": passes, "seed": seed}
        made = {
            "refined": nli.explain(pair.premise, pair.hypothesis, method="decision", check=False, **options).scores,
            "kernelshap": nli.explain(pair.premise, pair.hypothesis, method="kernelshap", **options).scores,
            "plain": plain_sampling(nli, pair, target, passes, seed),
            "input": nli.explain(pair.premise, pair.hypothesis, method="input", **options).scores,
        }
        for name, scores in made.items():
            row["errors"][name][str(passes)] = error(scores)
    return row


def plain_sampling(nli: NLI, pair: Pair, target: str, passes: int, seed: int) -> tuple[float, ...]:
    """Shapley values from the draws that `refine` makes, without a game to take off: all of ℓ is residual."""
    reading = read_pair(nli, pair.premise, pair.hypothesis, "word")
    v = InputGame.of(reading, Question(target=target))
    n, pairs = v.players, max(2, (passes - 2) // 2)
    C = draw([n], 2 * pairs, "shapley", generator=torch.Generator().manual_seed(seed))[0, :pairs]
    ends = v(torch.tensor([[False], [True]]).expand(2, n))
    phi, _ = residual_shapley(C, v(C) - v(~C), float(ends[1] - ends[0]))
    return reading.units.vector(phi)


def summary(rows: Sequence[Record]) -> Record:
    """Mean squared errors by method and passes, and ratios of means."""
    errors: Record = {}
    for name in ("game", *METHODS):
        passes = dict.fromkeys(n for row in rows for n in row["errors"][name])
        errors[name] = {n: mean([row["errors"][name].get(n) for row in rows]) for n in passes}
    ratios = []
    for n in COMPARED:
        for ours, theirs, factor in (("refined", "kernelshap", 2), ("refined", "plain", 1), ("refined", "input", 1)):
            a, b = str(n), str(factor * n)
            both = [row["errors"] for row in rows if a in row["errors"][ours] and b in row["errors"][theirs]]
            ratio = figure([[of[ours][a], of[theirs][b]] for of in both], of_ratios(0, 1))
            ratios.append({"ours": ours, "passes": n, "theirs": theirs, "their passes": factor * n, **ratio})
    return {
        "words": [min(row["words"] for row in rows), max(row["words"] for row in rows)],
        "reference": {
            "passes": REFERENCE,
            "enumerated pairs": sum(row["exact"] for row in rows),
            "squared error": mean([row["reference"] for row in rows]),  # by its own standard errors
            "mean square of the values": mean([row["size"] for row in rows]),
        },
        "errors": errors,
        "ratios": ratios,
    }


def table(results: Record) -> list[Record]:
    """Errors in 10⁻³ squared logits, then ratios."""
    columns = [str(n) for budget in BUDGETS.values() for n in budget]
    rows = []
    for name, by in results["errors"].items():
        cells = {n: f"{1000 * by[n]['value']:.3g}" if n in by else "–" for n in columns}
        one = f", one pass: {1000 * by['1']['value']:.3g}" if "1" in by else ""
        rows.append({"10⁻³ squared error": f"{name}{one}", **cells})
    own = results["reference"]["squared error"]["value"]
    rows.append({"10⁻³ squared error": f"the reference's own: {1000 * own:.3g}", **dict.fromkeys(columns, "")})
    for ratio in results["ratios"]:
        what = f"{ratio['ours']} at {ratio['passes']} / {ratio['theirs']} at {ratio['their passes']}"
        rows.append({"10⁻³ squared error": f"{what}: {span(ratio, 2)}", **dict.fromkeys(columns, "")})
    return rows
