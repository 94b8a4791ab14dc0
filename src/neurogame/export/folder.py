"""The files of an exported model, and the content of its config.json.

    FOLDER/
      model.onnx     the graph with its weights (beyond 1.5 GB: weights in model.onnx.data)
      config.json    `Manifest`: labels, temperature, longest pair, coalitions, outputs, by which version, checksum
      game.json      `GameRecord`, where the graph gives a grounded game: its readout, what it was fitted on
      tokenizer.json, tokenizer_config.json

A damaged folder, or one of another kind, is a `ModelError` of one line.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from neurogame._common.records import restore, unique_keys
from neurogame.embedded import digest
from neurogame.modeling.checking import ModelError, short

FORMAT, VERSION = "neurogame-onnx", 1
MODEL, CONFIG, GAME, TOKENIZER = "model.onnx", "config.json", "game.json", "tokenizer.json"
_HARMLESS = (".", "README", "LICENSE", "NOTICE")  # prefixes of files that nothing reads
Extra = Literal["values", "couplings", "game"]
WEIGHTS = ("alpha", "shapley", "banzhaf", "coupling")  # what a graph may say of each token
TERMS = ("V", "anchor")  # of a grounded game
OUTPUTS = ("logits", *WEIGHTS, *TERMS)


@dataclass(frozen=True)
class BankRecord:
    """The coalitions in the graph: `samples` per law, for up to `tokens` tokens."""

    seed: int
    samples: int
    tokens: int


@dataclass(frozen=True)
class GameRecord:
    """game.json: what logits(C) = base + readout · v(C) needs beside V and the anchors, which the graph gives."""

    source: str  # "readout" or "explainer"
    readout: list[list[float]]  # R [labels, heads]
    base: list[float]  # b [labels]
    removal: str = "delete"  # how words are taken out of the texts that it predicts
    output: str = "softmax"  # what the logits mean
    parts: int = 2  # of a text
    level: str = "word"
    r2: float | None = None  # on held-out coalitions of held-out texts
    limit: float | None = None  # 95th percentile of its error in the checks of held-out texts
    grounded: bool | None = None  # False: it was never trained to predict the model


@dataclass
class Manifest:
    """config.json of an exported model."""

    name: str
    architecture: str
    head: str | None  # of a NeuroGame model
    labels: list[str]  # of the logits, in order
    temperature: float  # probabilities are softmax(logits/temperature)
    max_length: int  # tokens of a pair; what is longer is cut
    parameters: int
    inputs: list[str]
    outputs: list[str]
    bank: BankRecord | None  # None: the model draws nothing
    quantized: str | None
    logit_error: float  # largest difference to torch when it was exported
    versions: dict[str, str]  # of neurogame and what it used
    sha256: dict[str, str]  # of the other files
    format: str = FORMAT
    version: int = VERSION

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    # What `NLI` asks the configuration of a model for.

    @property
    def num_labels(self) -> int:
        """How many logits there are."""
        return len(self.labels)

    @property
    def id2label(self) -> dict[int, str]:
        """Names of the logits."""
        return dict(enumerate(self.labels))

    @property
    def label2id(self) -> dict[str, int]:
        """Logits by name."""
        return {label: i for i, label in enumerate(self.labels)}


def write(manifest: Manifest, folder: Path) -> None:
    """Write config.json."""
    (folder / CONFIG).write_text(json.dumps(manifest.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def sums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file but config.json."""
    return {path.name: digest(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != CONFIG}


def read(folder: Path) -> Manifest:
    """config.json of a folder that holds the files it lists, with their checksums, and no others."""
    if not (folder / MODEL).is_file():
        if (folder / "model.safetensors").is_file():
            raise ModelError(f"{folder} is a torch model: load it without backend='onnx', or `neurogame export` it")
        raise ModelError(f"{folder} holds no {MODEL}; `neurogame export` writes one")
    manifest = _manifest(folder / CONFIG)
    actual = sums(folder)
    for name in actual:
        if name not in manifest.sha256 and not name.startswith(_HARMLESS):
            raise ModelError(f"{folder}: {name} is none of the files that config.json lists; remove it")
    for name, expected in manifest.sha256.items():
        if actual.get(name) != expected:
            state = "damaged: its SHA-256 is not that in config.json" if name in actual else "missing"
            raise ModelError(f"{folder}: {name} is {state}; export the model again")
    return manifest


def _manifest(path: Path) -> Manifest:
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique_keys)
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is missing or no JSON: {short(error)}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError(f"{path} is not that of an exported model; allowed: what `neurogame export` wrote")
    if content.get("version") != VERSION:
        raise ModelError(
            f"{path} has version {content.get('version')!r:.20}, this neurogame reads {VERSION}: export again"
        )
    try:
        manifest = restore(Manifest, content)
    except ValueError as error:
        raise ModelError(f"{path} is damaged: {short(error)}; export the model again") from error
    for name, possible in (
        ("labels", len(manifest.labels) > 0),
        ("max_length", manifest.max_length > 0),
        ("temperature", 0 < manifest.temperature < math.inf),
        ("inputs", "input_ids" in manifest.inputs),
        ("outputs", "logits" in manifest.outputs and set(manifest.outputs) <= set(OUTPUTS)),
        ("sha256", MODEL in manifest.sha256),
    ):
        if not possible:
            raise ModelError(f"{path}: {name} = {getattr(manifest, name)!r:.60} is not possible; export again")
    for name in (TOKENIZER, *([GAME] if set(TERMS) & set(manifest.outputs) else [])):  # read, so they must be listed
        if name not in manifest.sha256:
            raise ModelError(f"{path}: sha256 has no line for {name}; export again")
    return manifest
