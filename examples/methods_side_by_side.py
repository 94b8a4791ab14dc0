"""The same pair explained by five methods: where they agree, where they do not, and what each cost.

You see that "the explanation" does not exist: methods answer different questions. Each is compared with the removal of
one word at a time (`occlusion`, by Kendall's τ), and by how far the answer falls without its first two words.
"""

import neurogame
from neurogame_bench.faithfulness.correlation import kendall

PREMISE, HYPOTHESIS = "Three musicians rehearse in an empty hall.", "The hall is full of people."
METHODS = ("decision", "input", "occlusion", "gradient", "random")


def main() -> None:
    """A row per method."""
    nli = neurogame.load()
    found = {method: nli.explain(PREMISE, HYPOTHESIS, method=method) for method in METHODS}
    reference = found["occlusion"]
    words, label = reference.words, reference.prediction.label
    sure = reference.prediction.probabilities[label]
    premise = len(PREMISE.split())
    print(f"{label} {sure:.2f}\n\nmethod      passes  τ with occlusion  without its first two   its first three words")
    for method, why in found.items():
        ranked = sorted(range(len(words)), key=lambda i, why=why: -why.scores[i])
        kept = [i for i in range(len(words)) if i not in ranked[:2]]
        texts = (" ".join(words[i] for i in kept if (i < premise) is side) for side in (True, False))
        left = nli.predict(*texts).probabilities[label]
        tau = kendall(why.scores, reference.scores)
        passes, first = why.diagnostics["encoder_passes"], ", ".join(words[i] for i in ranked[:3])
        print(f"{method:10} {passes:6}  {tau:+16.2f}  {sure:.2f} → {left:.2f}            {first}")


if __name__ == "__main__":
    main()
