"""Where a model goes wrong: its accuracy by phenomenon, on sentences whose labels follow from what they mean.

You see that a name is enough to load generated pairs, what `extras` says of each of them, and how far the default model
gets on words and forms that are held out of the training part; a third is chance.
"""

from collections import defaultdict

import neurogame
from neurogame.data import PairDataset, load

LIMIT = 150  # of 1500: ten of each phenomenon


def accuracy(model: "neurogame.NLI", pairs: PairDataset) -> dict[str, float]:
    """Phenomenon → share of the pairs whose label the model gives."""
    right: dict[str, list[bool]] = defaultdict(list)
    answers = model.predict([(pair.premise, pair.hypothesis) for pair in pairs])
    for pair, said in zip(pairs, answers, strict=True):
        right[pair.extras["phenomenon"]].append(said.label == pair.label)
    return {name: sum(answers) / len(answers) for name, answers in right.items()}


def main() -> None:
    """The test part by phenomenon, then the four probes."""
    model = neurogame.load()
    scores = accuracy(model, load("fragments/test", limit=LIMIT))
    names = {
        "word order": "order",
        "negation probe": "negation",
        "quantifier probe": "quantifier",
        "time probe": "time",
    }
    for name in sorted(scores, key=lambda name: (name != "roles", name)):
        print(f"{name:18}{scores[name]:.2f}")
    for title, name in names.items():
        (score,) = accuracy(model, load(f"fragments/probe-{name}", limit=30)).values()
        print(f"{title:18}{score:.2f}")


if __name__ == "__main__":
    main()
