"""Explanation: the record of why a model answered as it did on one text; as JSON, in the terminal, as HTML.

A text is a pair or has one part. A pair has `premise` and `hypothesis`, and its words are on these sides; one text has
`text`, and its words are on the side "text". JSON has the keys that apply and no others. Views ask for `parts`, the
sides with their texts in order, and never name a side themselves.

Plain values only: nothing in it refers to the model. `summary` and `views` know the record by its attributes; the views
are imported when something is drawn, since rich, Jinja2 and matplotlib are not needed for numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neurogame._common.places import check_page
from neurogame._common.records import plain
from neurogame._common.writing import write_text
from neurogame.classifier import Prediction
from neurogame.explanation import summary
from neurogame.hamiltonian import Hamiltonian

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

Numbers = tuple[float, ...]  # one per word
DENSE = 1000  # words beyond which JSON has no row of zeros for each word that was not read
_PAIR = ("premise", "hypothesis")
_PER_WORD = ("sides", "scores", "shapley", "banzhaf", "alpha", "field", "gate", "interactions")


def _tuples(value: Any) -> Any:
    """Lists of JSON as the tuples that they were."""
    if isinstance(value, Mapping):
        return {name: _tuples(entry) for name, entry in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Explanation:
    """One number per word of the text, of a pair the premise's first; what a method does not have is None.

    Word pieces are summed for shapley, banzhaf and interactions of the layer's game, and averaged for alpha, field and
    gate; in the decision game a word plays as a whole. Over heads the mean is taken. A word that the model did not
    read has 0 everywhere, and `diagnostics` names it.

    Attributes:
        premise, hypothesis: the texts of a pair as given; None where there is one text, which is `text`.
        method: one of `neurogame.explanation.METHODS`.
        level: "word" (whitespace-delimited, punctuation attached), "token" (pieces, without special tokens),
            "sentence", or "span" (as a user gave them).
        target, contrast: the label whose logit is explained, and the one it is compared with; None where the method
            does not speak of labels, or nothing is compared. "not" a label where labels are decided one by one.
        prediction: what the model says of the text.
        words, sides: the words (or tokens, sentences, spans), and "premise", "hypothesis" or "text" for each.
        scores: the method's own scores; the Shapley values where it has them.
        shapley, banzhaf: φ_i and β_i of the method's game, where it plays one.
        alpha, field, gate: α_i, J_i and λ_i of the pooling layer; alpha of a control are its weights.
        interactions: J_ij, words × words, signed, symmetric, 0 on the diagonal.
        per_head: heads × words of alpha, field, gate and, for "game", shapley and banzhaf.
        swing: indices of the words without any one of which the decision would be another; see `decision`.
        rationale: indices of words that alone keep the answer, the shortest set that was found; None where there is
            none, or the method does not look for one.
        diagnostics: how far to trust it, and what it cost. explains ("logit", "norm", "weights" or "nothing"),
            shapley_se, banzhaf_se (standard error per word), interactions_se (of a typical pair), samples, exact,
            total = Σ scores + outside up to efficiency_gap, outside (what special tokens hold) and outside_alpha
            (their share of the weights), converged, residual, iterations and spectral_radius (ρ(J)/γ) of the worst
            head, trajectory (words × updates: α on its way from ½, or None), gamma, couplings and layer_couplings
            (how the method's and the layer's J_ij were computed), shapley_ess, banzhaf_ess, truncated and silent words
            (unread has their indices), unknown words ([UNK] to the tokenizer), seed, encoder_passes (sequences through
            the encoder), head_passes (vectors through the classifier on top), seconds, output (what the logits mean,
            where that is not a softmax: "sigmoid", "multi_label", "regression"; see `neurogame.outputs`). Of a
            grounded game: grounded ("readout" or "explainer"), r2 (on held-out texts; None: not known), ungrounded
            (whether it was never trained to predict the model). Of an explainer: check_error (how far it is off on what
            was tried, in logits), check_limit (what 95 % of the held-out texts had) and unlike (whether the one is
            beyond the other) …
        text: the text, where it has one part; else None.
    """

    premise: str | None
    hypothesis: str | None
    method: str
    level: str
    target: str | None
    contrast: str | None
    prediction: Prediction
    words: tuple[str, ...]
    sides: tuple[str, ...]
    scores: Numbers
    shapley: Numbers | None
    banzhaf: Numbers | None
    alpha: Numbers | None
    field: Numbers | None
    gate: Numbers | None
    interactions: tuple[Numbers, ...] | None
    per_head: Mapping[str, tuple[Numbers, ...]]
    swing: tuple[int, ...]
    diagnostics: Mapping[str, Any]
    rationale: tuple[int, ...] | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        n = len(self.words)
        given = [name for name in (*_PAIR, "text") if getattr(self, name) is not None]
        if given not in ([*_PAIR], ["text"]):
            raise ValueError(f"an explanation is of a text, or of premise and hypothesis; got {' and '.join(given)}")
        for name in _PER_WORD:
            column = getattr(self, name)
            if column is not None and len(column) != n:
                raise ValueError(f"{name} has {len(column)} entries for {n} words")
        if self.interactions is not None and any(len(row) != n for row in self.interactions):
            raise ValueError(f"interactions must be {n} × {n}, words × words")

    @cached_property
    def _largest(self) -> float:
        """|score| of the strongest word, which all drawings measure the others by."""
        return max(map(abs, self.scores), default=0.0)

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """(side, text) in order: premise and hypothesis, or the text alone."""
        if self.text is not None:
            return (("text", self.text),)
        return (("premise", self.premise or ""), ("hypothesis", self.hypothesis or ""))

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, under the names of the attributes; None for what is not a finite number.

        A pair has the keys premise and hypothesis, a single text the key text instead.

        Of a text with more than DENSE words, most of which no model reads, rows of `interactions` that are all 0 are
        empty lists: words × words numbers would be gigabytes.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)} | {"sentence": self.sentence}
        values["prediction"] = self.prediction.to_dict()
        if self.interactions is not None and len(self.words) > DENSE:
            rows = {id(row): row if any(row) else () for row in {id(row): row for row in self.interactions}.values()}
            values["interactions"] = [rows[id(row)] for row in self.interactions]
        if self.text is not None:  # first, where a pair has its texts
            values = {"text": self.text, **{name: x for name, x in values.items() if name not in _PAIR}}
        else:
            del values["text"]
        return {name: plain(value) for name, value in values.items()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "Explanation":
        """The explanation that `to_dict` described.

        Raises:
            ValueError: a key is missing.

        Example:
            >>> Explanation.from_dict(json.loads(text)).show()  # doctest: +SKIP
        """
        stored = {"premise": None, "hypothesis": None, "text": None, "rationale": None, **found}
        missing = [f.name for f in fields(cls) if f.name not in stored]
        if missing:
            raise ValueError(f"not an explanation: {', '.join(missing)} missing")
        given = {f.name: _tuples(stored[f.name]) for f in fields(cls) if f.name not in ("prediction", "diagnostics")}
        if given["interactions"] is not None:
            nothing = (0.0,) * len(given["words"])
            given["interactions"] = tuple(row or nothing for row in given["interactions"])
        return cls(**given, prediction=Prediction(**stored["prediction"]), diagnostics=stored["diagnostics"])

    @property
    def sentence(self) -> str:
        """The reasons in plain words."""
        return summary.sentence(self)

    @property
    def hamiltonian(self) -> Hamiltonian:
        """g(σ) of the words for what was explained: fields φ, couplings J_ij; an error where there are no values."""
        return Hamiltonian.of(self)

    def answers(self, count: int = 3) -> list[tuple[int, int, float]]:
        """Which word answers which: the premise–hypothesis pairs with the strongest interactions, (i, j, J_ij).

        Of a single text: which two words depend on each other most.

        Args:
            count: pairs at most.

        Returns:
            Strongest first; empty where the method has no interactions.

        Example:
            >>> [(ex.words[i], ex.words[j]) for i, j, _ in ex.answers(1)]  # doctest: +SKIP
        """
        if self.interactions is None:
            return []
        J, sides, single = self.interactions, self.sides, self.text is not None
        every = ((i, j) for i in range(len(J)) for j in range(i + 1, len(J)))
        pairs = [(i, j, J[i][j]) for i, j in every if J[i][j] and (single or sides[i] != sides[j])]
        return sorted(pairs, key=lambda pair: -abs(pair[2]))[:count]

    @property
    def involvement(self) -> tuple[float, ...] | None:
        """Σ_j |J_ij| over the words j of the other text: how far what a word does depends on the other side.

        Of a single text: over all other words.

        Shares say which way a word moves the answer; this says whether it is answered. The two differ: "sleeping" may
        speak against a contradiction by itself and yet be what "Nobody" contradicts. None without interactions.
        """
        if self.interactions is None:
            return None
        return tuple(
            sum(abs(J) for J, other in zip(row, self.sides, strict=True) if other != side or self.text is not None)
            for row, side in zip(self.interactions, self.sides, strict=True)
        )

    def show(self, console: "Console | None" = None, *, details: bool = False) -> None:
        """Print it: in colour on a terminal that has colours, with signs and numbers elsewhere.

        Args:
            console: of `rich`; None: stdout.
            details: also Banzhaf values, α, errors, interactions, and how all of it was computed.

        Example:
            >>> nli.explain("A man sleeps.", "Nobody is awake.").show()  # doctest: +SKIP
        """
        from rich.console import Console

        from neurogame.explanation.views.terminal import View

        (console or Console()).print(View(self, details=details))

    def to_html(self, path: str | Path) -> Path:
        """Write one HTML file that needs nothing else: no script, no network, no fonts.

        Args:
            path: a file in a folder that exists; one of that name is replaced.

        Returns:
            The path.

        Raises:
            FileNotFoundError, IsADirectoryError: no file can be written there.

        Example:
            >>> ex.to_html("report.html")  # doctest: +SKIP
        """
        from neurogame.explanation.views.page import page

        goal = Path(path).expanduser()
        check_page(goal)
        write_text(goal, page(self))
        return goal

    def figure(self, kind: str = "sentence", path: str | Path | None = None) -> "Figure":
        """A matplotlib figure: sentence, matrix, network, trajectory or lambda; written to `path`, .png or .svg.

        Args:
            kind: of what is drawn.
            path: where it is also written; None: nowhere.

        Returns:
            The figure, which notebooks show.

        Raises:
            ValueError: an unknown kind or suffix, or a record that lacks what is drawn.

        Example:
            >>> ex.figure("network", "network.svg")  # doctest: +SKIP
        """
        from neurogame.explanation.views.figures import figure

        drawn: Figure = figure(self, kind, path)
        return drawn

    def to_shap(self) -> Any:
        """As a `shap.Explanation`, for shap's plots: Shapley values, ℓ(∅) as base value, words as data.

        Returns:
            One row; `neurogame.Explainer.to_shap` makes one of many texts.

        Raises:
            ValueError: the method has no Shapley values.
            ImportError: shap is not installed; the line says how to get it.

        Example:
            >>> shap.plots.text(explainer("The plot is thin, but I loved it.").to_shap())  # doctest: +SKIP
        """
        from neurogame.explanation.interchange import to_shap

        return to_shap(self)

    def to_shapiq(self) -> Any:
        """As a `shapiq.InteractionValues`, for shapiq's plots: Shapley values of words, interactions of pairs.

        Its index is "k-SII" to shapiq's plots; the pairs are Banzhaf interactions, and the orders do not add up to the
        logit as those of k-SII would.

        Returns:
            Orders 0 to 2; to 1 where the method has no interactions.

        Raises:
            ValueError: the method has no Shapley values.
            ImportError: shapiq is not installed; the line says how to get it.

        Example:
            >>> explainer("The plot is thin, but I loved it.").to_shapiq().plot_network()  # doctest: +SKIP
        """
        from neurogame.explanation.interchange import to_shapiq

        return to_shapiq(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        from neurogame.explanation.views.page import fragment

        return fragment(self)
