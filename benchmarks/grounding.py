"""How far a grounded game is what the model says of incomplete texts: results/grounding.json, part by part.

    python benchmarks/grounding.py --root DATA                              # the embedded model and its explainer
    python benchmarks/grounding.py --root DATA --model FOLDER               # another; readout "game", or an explainer
    python benchmarks/grounding.py --root DATA --explainer FOLDER --name x  # stored under another name
    python benchmarks/grounding.py --root DATA --attach 16000               # as a black box, with a game fitted to it
    python benchmarks/grounding.py --root DATA --only r2 cost               # some parts
    python benchmarks/grounding.py --root DATA --pairs 20 r2=40             # pairs: at most 20, of r2 40
    python benchmarks/grounding_page.py                                     # the tables of docs/grounding.md

    r2             R² of logits(C) on held-out coalitions by law and size, and of additive and quadratic accounts
    enumeration    short pairs, all coalitions: correlation of values and interactions, swing words found
    refined        squared error of Shapley values by forward passes spent, against KernelSHAP and plain sampling
    rationale      pairs with at most half of the words that keep the label when they alone are read
    cost           processor time of an explanation over that of a prediction
    second_order   Spearman's ρ with second-order effects of deletion at the whole text
    claims         the paper's claims on the grounded game
    phrases        its J of "not good" and "very good", in the sentences of neurogame_bench.phrases

Pairs are those of SNLI dev that benchmarks/explanations.py draws, by the same seed; `enumeration` and `refined` take
pairs of few words, in random order too, and `phrases` has sentences of its own. Finished steps of some pairs are files
in runs/grounding, so a part that was stopped goes on where it stopped; a finished part goes to results/grounding.json.
Several processes may be at different parts (--only). Intervals are 95 %, bootstrapped over pairs. Everything follows
from --seed but the seconds. `neurogame_bench.grounding` has the parts.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch
from common import RESULTS, progress, show

from neurogame.about import machine
from neurogame.data import load as load_pairs
from neurogame.explanation.reading import has_readout, is_grounded
from neurogame.grounding import Law
from neurogame.modeling.loading import quiet
from neurogame.nli import load
from neurogame_bench.grounding.attached import attached
from neurogame_bench.grounding.bench import Bench
from neurogame_bench.grounding.parts import LIMITS, PARTS, measure
from neurogame_bench.study import Record, Study, checksum, claimed, read, write


def publish(path: Path, name: str, head: Record, part: str, found: Record) -> None:
    """Put a part under a name of the results; parts of another model under that name go."""
    whole = read(path) or {}
    entry = whole.get(name, {})
    if entry.get("protocol") not in (None, head["protocol"]):
        progress(f"{path.name}: what {name!r} had was measured on another model, seed or data; replaced")
        entry = {}
    parts = {**entry.get("parts", {}), part: found}
    ordered = {key: parts[key] for key in PARTS if key in parts}
    write(path, {**whole, name: {**entry, **head, "parts": ordered}})


def counts(given: Sequence[str]) -> dict[str, int]:
    """Pairs of each part: N is the most for all, PART=N for one."""
    limits, named = dict(LIMITS), {}
    for text in given:
        name, equals, number = text.rpartition("=")
        if not number.isdecimal() or not int(number) or (equals and name not in LIMITS):
            raise SystemExit(f"--pairs {text!r}; needed: N, or PART=N with PART one of {', '.join(LIMITS)}")
        if equals:
            named[name] = int(number)
        else:
            limits = {part: min(most, int(number)) for part, most in limits.items()}
    return limits | named


def main() -> None:
    """Measure what is missing, part by part; print and store each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="where the data sets are; see docs/nli.md")
    parser.add_argument("--model", help="a folder; by default the model that comes with the package")
    parser.add_argument("--explainer", type=Path, help="a folder that `neurogame ground` wrote for that model")
    parser.add_argument("--attach", type=int, metavar="N", help="hide the model's own game; fit one on N pairs of SNLI")
    parser.add_argument("--law", choices=get_args(Law), default="mixed", help="of the coalitions, with --attach")
    parser.add_argument("--name", help="in the results; default: readout or explainer, as the model has it")
    parser.add_argument("--pairs", nargs="+", default=[], metavar="[PART=]N", help="fewer or more pairs than LIMITS")
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="compute again what is there already")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for what is kept between runs")
    args = parser.parse_args()
    quiet()
    torch.set_num_threads(args.threads)
    limits = counts(args.pairs)
    nli = load(args.model, explainer=args.explainer)
    if args.attach is not None:
        texts = load_pairs("snli/train", root=args.root).shuffled(args.seed).take(args.attach)
        place = args.runs / "grounding" / f"attached-{args.attach}-{args.law}"
        nli = attached(nli, texts, place, law=args.law, seed=args.seed)
    if not is_grounded(nli.model):
        raise SystemExit(f"{nli.name} has no grounded game: readout 'game', or --explainer FOLDER, is needed")
    source = "readout" if has_readout(nli.model) else "explainer"
    name = args.name or ("attached" if args.attach is not None else source)
    bench = Bench(nli, load_pairs("snli/dev", root=args.root), args.seed)
    protocol: Record = {"source": source, "weights": checksum(nli.model), "data": bench.dev.name, "seed": args.seed}
    if nli.explainer is not None and source == "explainer":
        protocol["explainer"] = checksum(nli.explainer.game)
    head = {"machine": machine(), "protocol": protocol}
    for part in [key for key in PARTS if not args.only or key in args.only]:

        def study(settings: Record) -> Study:
            return Study(f"grounding/{name}", {**protocol, **settings}, args.out, args.runs)

        found = measure(bench, part, limits, study, fresh=args.fresh)
        with claimed(args.runs / "grounding" / "lock", wait=True):
            publish(args.out / "grounding.json", name, head, part, found)
        title = f"{name}: {part}, {found['pairs']} pairs, {found['seconds']:.0f} s"
        show(title, PARTS[part].table(found))


if __name__ == "__main__":
    main()
