"""A classifier of your own, explained in one pass: `neurogame.ground` on a small BERT that judges reviews.

You see that nothing is asked of the model but hidden states and logits, what an explanation of a single text holds, how
to see whether the explainer can be trusted, and that claims are tried on the model. Put your model, your tokenizer and
your texts in place of those of the first two functions.
"""

import random

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, PreTrainedModel

import neurogame

THINGS = ("plot", "cast", "music", "ending", "dialogue")
GOOD, BAD = ("lovely", "clever", "warm"), ("dull", "thin", "cold")
FILLERS = ("the", "is", "and", "not")


def reviews(count: int, seed: int, *, kept: float = 1.0) -> list[tuple[str, int]]:
    """Made-up reviews of one to three judgements with their labels; each word stays with the probability `kept`."""
    draw = random.Random(seed)  # noqa: S311  no secrets
    rows: list[tuple[str, int]] = []
    while len(rows) < count:
        said = [
            f"the {draw.choice(THINGS)} is {draw.choice(('', 'not '))}{draw.choice(GOOD + BAD)}"
            for _ in range(draw.randint(1, 3))
        ]
        words = [word for word in " and ".join(said).split() if draw.random() < kept]
        if balance := judged(words):
            rows.append((" ".join(words), int(balance > 0)))
    return rows


def judged(words: list[str]) -> int:
    """Good words less bad ones; "not" turns the next word round."""
    signs = [(word in GOOD) - (word in BAD) for word in words]
    return sum(-s if before == "not" else s for before, s in zip(["", *words], signs, strict=False))


def trained(tokenizer: BertTokenizer) -> PreTrainedModel:
    """A classifier that is not ours: a plain BERT of transformers, trained for some seconds."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
    names = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), **sizes, **names))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(300):
        texts, labels = zip(*reviews(16, seed=step), *reviews(16, seed=-step, kept=0.7), strict=True)
        batch = tokenizer(list(texts), padding=True, return_tensors="pt")
        loss = model(**batch, labels=torch.tensor(labels)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def main() -> None:
    """Train a model, ground it, ask it why."""
    vocabulary = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *FILLERS, *THINGS, *GOOD, *BAD)
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(vocabulary)})
    model = trained(tokenizer)
    texts = [text for text, _ in reviews(800, seed=-1)]  # no labels: what the model itself says of them is enough
    explainer = neurogame.ground(model, tokenizer, texts, steps=400, heads=16, width=64)
    print(f"R² on held-out texts: {explainer.r2:.2f}")
    why = explainer("the plot is thin and the music is not dull and the cast is warm")
    print(why.sentence)
    for i in sorted(range(len(why.words)), key=lambda i: -abs(why.scores[i]))[:5]:
        print(f"{why.words[i]:>8}  {why.scores[i]:+.2f}")
    i, j, value = why.answers(1)[0]
    print(f"strongest pair: {why.words[i]} × {why.words[j]} {value:+.2f}")
    refined = explainer(why.text, samples=200)
    gap = max(abs(a - b) for a, b in zip(why.shapley, refined.shapley, strict=True))
    print(f"refined by {refined.diagnostics['passes']} real passes, no share moves by more than {gap:.2f}")


if __name__ == "__main__":
    main()
