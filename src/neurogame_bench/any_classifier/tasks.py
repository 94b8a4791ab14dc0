"""Two classifiers that are not ours in class or head, and their texts: pairs (SNLI), and single texts with ratings.

    pairs       SNLI, as `neurogame.data` reads it; three labels
    sentiment   the texts behind VADER (Hutto and Gilbert, 2014): snippets of film reviews, tweets, product reviews and
                editorials, each with a mean rating by people from −4 to 4; MIT. The source release of the package
                carries them: `pip download --no-deps --no-binary :all: vaderSentiment==3.3.2 -d DATA`. Two labels,
                by the sign of ratings of at least MARGIN; the others have no label, and games can be fitted on them.

`tuned` makes a plain sequence classifier of transformers out of an encoder: no class, no head and no loss of ours.
"""

import html
import io
import random
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from neurogame.data import load
from neurogame.data.batching import sorted_batches
from neurogame_bench.study import Record, progress

Text = str | tuple[str, str]
NAMES = ("pairs", "sentiment")
MARGIN = 0.5  # of a rating, from which on a text has a label
HELD_OUT = 2000  # labelled texts that nothing is fitted on
RELEASE = "vaderSentiment-3.3.2.tar.gz"
_INSIDE = "hutto_ICWSM_2014.tar.gz"
_LONGEST = 96  # tokens


@dataclass(frozen=True)
class Task:
    """Texts of one kind.

    Attributes:
        name: of `NAMES`.
        labels: of the logits, in order.
        train: texts that the classifier learns from, with the number of their label.
        test: the same of texts that nothing learns from.
        fit: texts for the explainer; what people say of them is not looked at.
    """

    name: str
    labels: tuple[str, ...]
    train: Sequence[tuple[Text, int]]
    test: Sequence[tuple[Text, int]]
    fit: Sequence[Text]


def task(name: str, root: Path, seed: int = 0) -> Task:
    """The texts of a name, in random order, from the folder of the data sets."""
    return pairs(root, seed) if name == "pairs" else sentiment(root, seed)


def pairs(root: Path, seed: int = 0) -> Task:
    """SNLI: train to learn from and to fit on, dev to judge by."""
    labels = ("entailment", "neutral", "contradiction")

    def rows(name: str) -> list[tuple[Text, int]]:
        labelled = [
            ((p.premise, p.hypothesis), labels.index(p.label)) for p in load(name, root=root) if p.label in labels
        ]
        return shuffled(labelled, seed)

    train = rows("snli/train")
    return Task("pairs", labels, train, rows("snli/dev"), [text for text, _ in train])


def sentiment(root: Path, seed: int = 0) -> Task:
    """The rated texts of VADER; HELD_OUT of those with a label are kept apart."""
    rated = shuffled(ratings(root / RELEASE), seed)
    labelled = [(text, int(rating > 0)) for text, rating in rated if abs(rating) >= MARGIN]
    if len(labelled) <= HELD_OUT:
        raise SystemExit(f"{RELEASE} has {len(labelled)} texts with a label; more than {HELD_OUT} are needed")
    test = labelled[:HELD_OUT]
    known = {text for text, _ in test}
    fit = [text for text, _ in rated if text not in known]
    train = [(text, label) for text, label in labelled[HELD_OUT:] if text not in known]
    return Task("sentiment", ("negative", "positive"), train, test, fit)


def ratings(release: Path) -> list[tuple[str, float]]:
    """(text, mean rating) of every text in a source release of vaderSentiment.

    Raises:
        SystemExit: there is no such file, or it has no texts.
    """
    if not release.is_file():
        raise SystemExit(
            f"no {release.name} in {release.parent}: "
            f"pip download --no-deps --no-binary :all: vaderSentiment==3.3.2 -d {release.parent}"
        )
    rated: dict[str, float] = {}
    with tarfile.open(release) as outside:
        inner = next((m for m in outside.getmembers() if m.name.endswith(_INSIDE)), None)
        packed = None if inner is None else outside.extractfile(inner)
        if packed is None:
            raise SystemExit(f"{release.name} has no {_INSIDE}, in which the texts are")
        with tarfile.open(fileobj=io.BytesIO(packed.read())) as inside:
            for member in sorted(inside.getmembers(), key=lambda member: member.name):
                file = inside.extractfile(member) if member.name.endswith("_GroundTruth.txt") else None
                for line in () if file is None else file.read().decode("utf-8", errors="replace").splitlines():
                    _, rating, text = line.split("\t", 2)
                    text = " ".join(html.unescape(text).split())
                    if len(text.split()) > 1:
                        rated.setdefault(text, float(rating))
    return list(rated.items())


def shuffled(rows: Sequence[Any], seed: int) -> list[Any]:
    """In random order."""
    return random.Random(seed).sample(list(rows), len(rows))  # noqa: S311 — not cryptography


def columns(texts: Sequence[Text]) -> tuple[list[str], list[str] | None]:
    """As a tokenizer takes them: the texts, or first and second texts."""
    if texts and isinstance(texts[0], str):
        return [str(text) for text in texts], None
    return [text[0] for text in texts], [text[1] for text in texts]


def tuned(
    encoder: Path,
    data: Task,
    *,
    texts: int,
    batch_size: int = 32,
    learning_rate: float = 1.5e-4,
    seed: int = 0,
    bf16: bool = False,
    progress: Callable[[str], object] = progress,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """An encoder with transformers' own classification head, trained for one epoch; word embeddings stay frozen.

    Args:
        encoder: a folder of weights and tokenizer.
        data: what it learns.
        texts: of `data.train` that it sees, once each.
        batch_size: texts per step.
        learning_rate: the peak; a tenth of the steps to rise, the others to fall to 0.
        seed: of the head and the order.
        bf16: autocast the passes.
        progress: called with a line every 25 steps.

    Returns:
        The model in evaluation, and its tokenizer.
    """
    torch.manual_seed(seed)
    names: Record = {"id2label": dict(enumerate(data.labels)), "label2id": {b: a for a, b in enumerate(data.labels)}}
    model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=len(data.labels), **names)
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    tokenizer.model_max_length = _LONGEST
    model.get_input_embeddings().weight.requires_grad = False
    rows = data.train[:texts]
    encoded = tokenizer(*columns([text for text, _ in rows]), truncation=True, max_length=_LONGEST)
    lengths = [len(ids) for ids in encoded["input_ids"]]
    batches = shuffled(sorted_batches(lengths, batch_size), seed)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], learning_rate)
    warm = max(1, len(batches) // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (len(batches) - step) / max(1, len(batches) - warm))
    )
    model.train()
    for step, places in enumerate(batches):
        batch = tokenizer.pad({k: [v[i] for i in places] for k, v in encoded.items()}, return_tensors="pt")
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = model(**batch, labels=torch.tensor([rows[i][1] for i in places])).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 25 == 0:
            progress(f"{data.name}: step {step} of {len(batches)}, loss {float(loss.detach()):.3f}")
    return model.eval(), tokenizer


@torch.inference_mode()
def accuracy(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[tuple[Text, int]], batch_size: int = 64
) -> float:
    """The share of texts whose label is right."""
    right = 0
    for start in range(0, len(rows), batch_size):
        some = rows[start : start + batch_size]
        batch = tokenizer(
            *columns([text for text, _ in some]),
            truncation=True,
            max_length=_LONGEST,
            padding=True,
            return_tensors="pt",
        )
        right += int((model(**batch).logits.argmax(-1) == torch.tensor([label for _, label in some])).sum())
    return right / len(rows)
