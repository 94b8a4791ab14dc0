"""`Predict`: labels or explanations for batches of rows, for engines that share out batches among machines.

    ray.data.read_parquet(…).map_batches(Predict, fn_constructor_kwargs={…}, concurrency=8)
    datasets.Dataset.map(Predict(…), batched=True)
    pyspark.sql.DataFrame.mapInPandas(Predict(…), schema)

The engine distributes rows, repeats a batch whose worker died, and writes the result; a model is opened once in every
process. docs/how-to/many-machines.md has examples. For one file on a few machines `neurogame predict --shard` will do.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from neurogame._common.validation import check_count
from neurogame.data.columnar import as_json
from neurogame.data.pairs import DataError, Pair
from neurogame.data.reading import Rule
from neurogame.modeling.checking import ModelError
from neurogame.modeling.loading import quiet
from neurogame.nli import NLI, Prediction, load
from neurogame.opening import Backend
from neurogame.prediction import one_by_one, probability_columns

_RECOVERABLE = (ArithmeticError, LookupError, RuntimeError, ValueError)  # of one row


class Predict:
    """A callable that takes batches of rows and gives them back with what the model says of each.

    Args:
        model: None for the embedded model, a folder that every worker sees, or a name on the hub.
        explain: explain each pair instead of labelling it alone.
        columns: "premise", "hypothesis", "label" → the names of the columns, where they are not the usual ones.
        batch_size: pairs per forward pass; the batches that come may be larger.
        label_names, device, backend, explainer: of `neurogame.load`.
        question: what `NLI.explain` takes (method, target, contrast, level, samples, seed), with `explain`.

    A batch is a mapping of columns (lists or numpy arrays), a pandas DataFrame or a pyarrow Table, and comes back as
    the same; an iterator of batches, as Spark gives, becomes an iterator. Rows keep their number, order and columns,
    except that a column `label` becomes `gold`; a column that has the name of a new one is refused. New columns:
    `label`, `p_…` of each label, `truncated`; with `explain` instead of the last `method`, `target`, `sentence` and
    `explanation`, the whole record as JSON. A row that is no pair, or cannot be labelled or explained, has null there
    and the reason in `error`.

    What is pickled is the arguments, not the model.

        predict = neurogame.batch.Predict()
        predict({"premise": ["A man sleeps."], "hypothesis": ["Nobody is awake."]})["label"]

    Raises:
        DataError: a batch has no column for premise or hypothesis, or one that would be overwritten.
        ModelError: the model cannot be used; when the first batch comes.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        explain: bool = False,
        *,
        columns: Mapping[str, str] | None = None,
        batch_size: int = 32,
        label_names: Sequence[str] | None = None,
        device: str | None = None,
        backend: Backend = "torch",
        explainer: str | os.PathLike[str] | None = None,
        **question: Any,
    ) -> None:
        check_count("batch_size", batch_size)
        if question and not explain:
            raise TypeError(f"{', '.join(question)}: only explanations take these; say explain=True")
        self.rule = Rule({**(columns or {})}, require_label=False)
        self.explain, self.batch_size, self.question = explain, batch_size, question
        names = None if label_names is None else tuple(label_names)
        where = None if model is None else os.fspath(model)
        self._opening = (where, names, device, backend, None if explainer is None else os.fspath(explainer))

    @property
    def nli(self) -> NLI:
        """The model, opened once per process, when it is first needed."""
        return _open_model(*self._opening)

    def __call__(self, batch: Any) -> Any:
        """The batch with its new columns; see the class."""
        if isinstance(batch, Iterator):
            return map(self, batch)
        if isinstance(batch, Mapping):
            names, values = list(batch), batch.__getitem__
        elif hasattr(batch, "to_pydict"):
            names, values = batch.column_names, lambda name: batch[name].to_pylist()
        elif hasattr(batch, "assign"):
            names, values = list(batch.columns), lambda name: batch[name].tolist()
        else:
            raise TypeError(f"a batch is a mapping of columns, a DataFrame or a Table; got {type(batch).__name__}")
        self._check_names(names)
        new = self._answers(names, values)
        if hasattr(batch, "assign"):
            return batch[names].rename(columns={"label": "gold"}).assign(**new)
        columns: dict[str, Any] = {"gold" if name == "label" else name: batch[name] for name in names}
        if isinstance(batch, Mapping):
            if any(isinstance(values, np.ndarray) for values in batch.values()):  # a missing probability is NaN
                kinds = {name: np.float64 if name.startswith("p_") else object for name in new}
                return columns | {name: np.array(values, dtype=kinds[name]) for name, values in new.items()}
            return columns | new
        import pyarrow as pa

        types = {"p_": pa.float64(), "tr": pa.bool_()}
        return pa.table(columns | {name: pa.array(x, types.get(name[:2], pa.string())) for name, x in new.items()})

    def _answers(self, names: Sequence[str], values: Callable[[str], Sequence[Any]]) -> dict[str, list[Any]]:
        """The new columns, from those that hold the pairs."""
        places, fault = self.rule.locate(names)
        if fault is not None:
            raise DataError(f"a batch has {fault}")
        ours = (places["premise"], places["hypothesis"])
        records = (dict(zip(ours, texts, strict=True)) for texts in zip(*map(values, ours), strict=True))
        rows = [self.rule.row(record, "batch", i) for i, record in enumerate(records)]
        pairs = [(row.premise, row.hypothesis) for row in rows if isinstance(row, Pair)]
        columns = map(self._explain, pairs) if self.explain else map(_prediction_columns, self._predict(pairs))
        answers = [next(columns) if isinstance(row, Pair) else {"error": row.reason} for row in rows]
        return {name: [answer.get(name) for answer in answers] for name in self._new_names()}

    def _check_names(self, names: Sequence[str]) -> None:
        """No column of a batch is overwritten; `label` becomes `gold`."""
        for name in names:
            if name in self._new_names() and name != "label":
                raise DataError(f"a batch has a column {name!r}, which would be overwritten; rename it")
        if "label" in names and "gold" in names:
            raise DataError("a batch has the columns 'label', which becomes 'gold', and 'gold'; rename or drop one")

    def _new_names(self) -> tuple[str, ...]:
        """The new columns, in their order."""
        last = ("method", "target", "sentence", "explanation") if self.explain else ("truncated",)
        return ("label", *(f"p_{name}" for name in self.nli.labels), *last, "error")

    def _predict(self, pairs: Sequence[tuple[str, str]]) -> list[Prediction | ModelError]:
        nli, size = self.nli, self.batch_size
        return one_by_one(lambda batch: nli.predict(batch, batch_size=size, progress=lambda _: None), pairs)

    def _explain(self, pair: tuple[str, str]) -> dict[str, Any]:
        try:
            explanation = self.nli.explain(*pair, **self.question)
        except _RECOVERABLE as error:
            return {"error": _reason(error)}
        whole = explanation.to_dict()
        return {**whole, **_prediction_columns(explanation.prediction), "explanation": as_json(whole)}


def _prediction_columns(answer: Prediction | ModelError) -> dict[str, Any]:
    if isinstance(answer, ModelError):
        return {"error": _reason(answer)}
    return {"label": answer.label, **probability_columns(answer), "truncated": answer.truncated}


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@lru_cache(maxsize=2)
def _open_model(
    model: str | None,
    label_names: tuple[str, ...] | None,
    device: str | None,
    backend: Backend,
    explainer: str | None,
) -> NLI:
    """One model per process and set of arguments, however often the callable is copied there."""
    quiet()
    return load(model, label_names=label_names, device=device, backend=backend, explainer=explainer)
