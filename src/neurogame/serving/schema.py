"""What the API takes and gives. Names are those of `Prediction` and `Explanation.to_dict`; texts have a limit."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from neurogame.explanation.views.drawing import shared

CHARACTERS = 20_000  # per side
WORDS = 600  # of a pair that is explained: the interactions are words × words, and no model here reads more
COLDEST, HOTTEST = 0.001, 1000.0
SAMPLES = 2000  # at most
STEPS = 64  # of a method whose samples are steps: forward and backward, and all is kept for the latter


def _whole(value: Any) -> Any:
    """To JSON Schema 2.0 is an integer; "2" and true are none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Text = Annotated[str, Field(max_length=CHARACTERS)]
WHOLE = BeforeValidator(_whole)  # the last of a number's annotations, or its limits are missing in the description
Numbers = list[float]


class Pair(BaseModel):
    """A premise and a hypothesis; either may be empty."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,  # "1" is no number
        json_schema_extra={"examples": [{"premise": "A man sleeps.", "hypothesis": "Nobody is awake."}]},
    )

    premise: Text = Field(description="What is given.")
    hypothesis: Text = Field(description="What may follow.")


class Options(BaseModel):
    """How something is to be explained, and what is to be changed before."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    method: str | None = Field(
        None,
        max_length=40,
        description="One of the methods that /health lists; by default the best that the model has.",
    )
    target: str | None = Field(None, max_length=100, description="The label to explain; by default the predicted one.")
    contrast: str | None = Field(None, max_length=100, description="Explain the target against this label.")
    level: Literal["word", "token"] = Field("word", description="Words, or the pieces the model reads.")
    removed: list[Annotated[int, Field(ge=0), WHOLE]] = Field(
        default_factory=list,
        max_length=CHARACTERS,
        fail_fast=True,  # thousands of errors would hold up the event loop
        description="Numbers of words (as `words` lists them, from 0) that are deleted before the model reads.",
    )
    temperature_factor: float = Field(
        1.0,
        ge=COLDEST,
        le=HOTTEST,
        allow_inf_nan=False,
        description="γ of every head times this, for this request: small, and every α is 0 or 1; large, and it is ½.",
    )
    samples: Annotated[int, Field(ge=2, le=SAMPLES), WHOLE] | None = Field(
        None, description=f"How much work the method may do, by default its own choice; of steps at most {STEPS}."
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1), WHOLE] = Field(0, description="Of what is drawn.")
    check: bool = Field(
        default=True, description="Whether swing words and rationale of a grounded game are tried on the model."
    )


class Question(Options, Pair):
    """A pair that is to be explained."""


class TextQuestion(Options):
    """A single text that is to be explained; the model's explainer must have been fitted on such."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "The plot is thin, but I loved it."}]})

    text: Text = Field(description="What is read.")


def _tag(body: Any) -> str:
    """Which of the two a body is meant to be."""
    return "text" if isinstance(body, TextQuestion) or (isinstance(body, dict) and "text" in body) else "pair"


AnyQuestion = Annotated[
    Annotated[Question, Tag("pair")] | Annotated[TextQuestion, Tag("text")],
    Discriminator(_tag),
]


class Said(BaseModel):
    """What the model says of a pair; by label name, in the model's order."""

    label: str
    probabilities: dict[str, float]
    logits: dict[str, float]
    truncated: bool = Field(description="Whether the pair is longer than the model reads.")


class Check(BaseModel):
    """Something that was tried on the model itself."""

    kind: Literal["without", "alone"] = Field(description="These words were deleted, or all the others were.")
    words: list[int] = Field(description="Numbers of words, as `words` lists them.")
    label: str = Field(description="What the model says then.")
    probability: float = Field(description="Of that label.")
    kept: float = Field(description="The probability that is left of the first answer.")


class Summary(BaseModel):
    """The explanation in words, as its own renderings say it."""

    reasons: str = Field(description="`sentence` without the answer; empty where the method speaks of no label.")
    answers: list[tuple[int, int, float]] = Field(
        description="Words of premise and hypothesis that answer each other, and their interaction; strong ones only."
    )
    checks: list[Check] = Field(description="What was tried on the model itself, and what it said.")

    question: str = Field(description="What the scores answer.")
    poles: tuple[str, str] = Field(description="What a negative and a positive score mean.")
    warnings: list[str] = Field(description="What to know before trusting the numbers.")
    footing: list[str] = Field(description="How the numbers came about.")


class Reasons(BaseModel):
    """An `Explanation`, one number per word; null is what the method or the model does not have."""

    method: str
    level: str
    target: str | None
    contrast: str | None
    prediction: Said
    words: list[str]
    sides: list[Literal["premise", "hypothesis", "text"]]
    scores: Numbers
    shapley: Numbers | None
    banzhaf: Numbers | None
    alpha: Numbers | None
    field: Numbers | None
    gate: Numbers | None
    interactions: list[Numbers] | None
    per_head: dict[str, list[Numbers]]
    swing: list[int]
    diagnostics: dict[str, Any]
    rationale: list[int] | None
    sentence: str = Field(description="The reasons in plain words.")
    summary: Summary = Field(description="Not part of the record: the same in words.")


class _PairTexts(BaseModel):
    premise: str
    hypothesis: str


class _OneText(BaseModel):
    text: str


class Explained(Reasons, _PairTexts):  # fields of the last come first, as in the record
    """An `Explanation` of a pair, one number per word; null is what the method or the model does not have."""


class ExplainedText(Reasons, _OneText):
    """The same of a single text."""


class MeasuredInfo(BaseModel):
    """How faithful and how expensive a method was when it was measured."""

    model: str = Field(description="On which model.")
    data: str
    pairs: int
    faithfulness: float = Field(
        description="By how much the answer's probability falls without the words that the method names (ERASER)."
    )
    low: float = Field(description="Of its 95 % interval.")
    high: float
    chance: float | None = Field(description="The same for words named at random.")
    passes: float | None = Field(description="Forward passes per explanation.")
    cost: float | None = Field(description="Its time as a multiple of a prediction's.")


class MethodInfo(BaseModel):
    """A way to explain that works for this model."""

    name: str
    recommended: bool = Field(description="Whether it is what /explain uses by default.")
    about: str = Field(description="What it is, in one line.")
    measured: MeasuredInfo | None
    has_target: bool = Field(description="Whether it speaks of a label.")
    samples: bool = Field(description="Whether it takes `samples`.")
    slow: bool = Field(description="Whether it needs many forward passes.")
    follows_temperature: bool = Field(description="Whether it can be asked with another temperature_factor.")


class Health(BaseModel):
    """The server is ready, and what it serves."""

    status: Literal["ready"] = "ready"
    version: str
    model: str
    labels: list[str]
    max_length: int = Field(description="Tokens of a pair; what is longer is cut.")
    characters: int = Field(CHARACTERS, description="Of each text, at most.")
    methods: list[MethodInfo]
    has_temperature: bool = Field(description="Whether temperature_factor works for this model.")
    queue: int = Field(description="Requests that wait for the model now.")
    waiting: int = Field(description="Requests that may wait; the next one is rejected with 503.")
    batch: int = Field(description="Pairs per forward pass, at most.")
    drawing: dict[str, Any] = Field(default_factory=shared, description="Numbers that all drawings share.")


class Problem(BaseModel):
    """Why there is no answer."""

    error: str = Field(description="One line.")


class NotReady(Problem):
    """The server is up, but not to be sent requests now."""

    status: Literal["loading", "draining", "failed"]
    version: str
    queue: int = Field(description="Requests that wait for the model now.")
