"""A classifier that is not ours with a game attached to it, and the texts that it is judged on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from neurogame._common.types import Float, Tensor
from neurogame.classifier import Classifier
from neurogame.data.words import tokenize, units
from neurogame.explanation import Explanation, pipeline
from neurogame.explanation.reading import Reading
from neurogame.explanation.reading import read as read_text
from neurogame.explanation.removal import InputGame, evaluate
from neurogame.grounding.explainer import Explainer
from neurogame_bench.any_classifier import rivals
from neurogame_bench.any_classifier.tasks import Task, Text


def sides(text: Text) -> tuple[str, str | None]:
    """A text as `read` and `tokenize` take it: its parts, the second None where there is one."""
    return (text, None) if isinstance(text, str) else (text[0], text[1])


@dataclass(frozen=True, eq=False)
class Bench:
    """What is measured, on which texts, with which random numbers."""

    task: Task
    explainer: Explainer
    seed: int = 0

    @cached_property
    def classifier(self) -> Classifier:
        """The model with its explainer."""
        assert self.explainer.model is not None
        assert self.explainer.tokenizer is not None
        return Classifier(self.explainer.model, self.explainer.tokenizer, name=self.task.name, explainer=self.explainer)

    def methods(self) -> list[rivals.Method]:
        """Those that can be compared on texts of this kind."""
        single = isinstance(self.task.test[0][0], str)
        return [method for method in rivals.methods() if single or not method.texts_only]

    def reading(self, text: Text) -> Reading:
        """One pass."""
        return read_text(self.classifier, *sides(text), "word")

    def solve(self, reading: Reading, method: rivals.Method, v: InputGame | None = None) -> rivals.Solution:
        """The values of a method for the predicted label of a text."""
        target = reading.prediction.label
        asked = rivals.asked(target, method, self.seed)
        return method.solve(reading, asked, rivals.game(reading, target) if v is None else v)

    def of_words(self, least: int, most: int, count: int) -> list[Text]:
        """The first texts of the test set of which the model reads so many words."""
        texts: list[Text] = []
        for text, _ in self.task.test:
            if len(texts) == count:
                break
            if not least <= sum(len(part.split()) for part in sides(text) if part) <= most:
                continue
            tokens = tokenize(self.classifier.tokenizer, *sides(text), self.classifier.max_length)
            if least <= len(units(tokens, "word").read) <= most:
                texts.append(text)
        return texts

    def drawn(self, count: int) -> list[Text]:
        """The first texts of the test set with three words or more, which is in random order."""
        return [text for text, _ in self.task.test if sum(len(p.split()) for p in sides(text) if p) > 2][:count]


def enumerated(reading: Reading, C: Tensor) -> tuple[InputGame, Float[Tensor, "coalitions"]]:
    """ℓ of every coalition, and a game that knows them: what is asked of it costs nothing."""
    v = rivals.game(reading, reading.prediction.label)
    for row, logits in zip(C.numpy(), evaluate(reading, C, v.mode).double(), strict=True):
        v.seen[row.tobytes()] = logits
    return v, v(C)


def batched(bench: Bench, texts: Sequence[Text], *, check: bool = False) -> list[Explanation]:
    """Explanations of many texts by the attached explainer, in shared passes."""
    parts = [(text,) if isinstance(text, str) else text for text in texts]
    explanations = []
    for result in pipeline.explain_many(bench.classifier, parts, rivals.Centred(check=check)):
        if isinstance(result, Exception):
            raise result
        explanations.append(result)
    return explanations
