"""Topics without a single training example, and a hypothesis that is better than a topic word.

Each class is a sentence of your own, not a word in a template, and the answer may be "none of these": a class counts
only if its sentence is entailed. You see zero-shot classification with nothing but `nli.predict`, and how sure it is.
"""

import neurogame

CLASSES = {
    "delivery": "The parcel was late.",
    "payment": "Someone had to pay.",
    "praise": "Someone is happy.",
}
MESSAGES = (
    "The box came three weeks late and was open.",
    "I was charged twice for the same order.",
    "Best service I ever had, thank you all!",
    "What time does the museum open on Sundays?",
)


def main() -> None:
    """All pairs in one call; the best class of each message, if any."""
    nli = neurogame.load()
    answers = nli.predict([(message, claim) for message in MESSAGES for claim in CLASSES.values()])
    for k, message in enumerate(MESSAGES):
        mine = dict(zip(CLASSES, answers[k * len(CLASSES) : (k + 1) * len(CLASSES)], strict=True))
        entailed = {name: said.probabilities["entailment"] for name, said in mine.items()}
        best = max(entailed, key=lambda name: entailed[name])
        fits = mine[best].label == "entailment"
        print(f"{best if fits else 'none of these':14} {entailed[best]:.2f}  {message}")


if __name__ == "__main__":
    main()
