"""Why this label and not that one: a contrastive explanation, its record, and a test of it.

You see what an `Explanation` holds beside its picture in the terminal: scores that add up, errors, swing words. And you
see the only test that counts: take the words away that it names, and ask again.
"""

import neurogame

PREMISE = "A crowd cheers as the runner crosses the line."
HYPOTHESIS = "The runner is alone."


def without(text: str, words: set[str]) -> str:
    """The text less these words."""
    return " ".join(word for word in text.split() if word not in words)


def main() -> None:
    """Explain, check the sum, remove the words."""
    nli = neurogame.load()
    why = nli.explain(PREMISE, HYPOTHESIS, contrast="neutral")
    print(f"{why.prediction.label}, rather than {why.contrast}, because of")
    ranked = sorted(range(len(why.words)), key=lambda i: -why.scores[i])
    for i in ranked[:4]:
        print(f"  {why.words[i]:10} in the {why.sides[i]:10}  {why.scores[i]:+.2f}")
    logits, origin = why.prediction.logits, why.diagnostics["origin"]
    difference = logits[why.prediction.label] - logits[why.contrast or ""]
    print(
        f"logits differ by {difference:.2f}: {origin:.2f} before any word, {sum(why.scores):.2f} by the words' scores"
    )
    for name, chosen in (("the two words it names", ranked[:2]), ("the two it ranks last", ranked[-2:])):
        words = {why.words[i] for i in chosen}
        again = nli.predict(without(PREMISE, words), without(HYPOTHESIS, words))
        print(f"without {name} ({', '.join(sorted(words))}): {again.label} {again.probabilities[again.label]:.2f}")


if __name__ == "__main__":
    main()
