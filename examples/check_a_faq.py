"""A file of your own, read, judged and sorted: which statements of guests contradict the house rules?

You see that a file needs no special form (columns are named, other columns are kept), that one call answers the whole
file, and how to act on probabilities: take the sure ones, hand the others to a person.
"""

import csv
import json
import tempfile
from pathlib import Path

import neurogame
from neurogame.data import load

STATEMENTS = (
    ("t-1", "Breakfast is served from seven to ten.", "There is no breakfast."),
    ("t-2", "The pool is closed in winter.", "The pool is open in winter."),
    ("t-3", "The pool is closed in winter.", "The pool is closed."),
    ("t-4", "The pool is closed in winter.", "The pool is heated."),
    ("t-5", "Dogs are not allowed in the dining room.", "Dogs must stay out of the dining room."),
)
SURE = 0.9


def main() -> None:
    """Write the file, read it, answer it, write what was found."""
    with tempfile.TemporaryDirectory() as folder:
        source, goal = Path(folder, "tickets.csv"), Path(folder, "found.jsonl")
        with source.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("ticket", "rule", "statement"), *STATEMENTS])
        pairs = load(source, columns={"premise": "rule", "hypothesis": "statement"}, require_label=False)
        answers = neurogame.load().predict([(pair.premise, pair.hypothesis) for pair in pairs])
        with goal.open("w", encoding="utf-8") as file:
            for pair, said in zip(pairs, answers, strict=True):
                file.write(json.dumps({**pair.extras, "said": pair.hypothesis, **said.to_dict()}) + "\n")
        for line in goal.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            sure = row["probabilities"][row["label"]]
            action = row["label"] if sure >= SURE else f"ask a person (perhaps {row['label']})"
            print(f"{row['ticket']}  {sure:.2f}  {action:38}  {row['said']}")


if __name__ == "__main__":
    main()
