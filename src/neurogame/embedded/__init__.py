"""The model that comes with the package: where it is, whether it is whole, and how it was packed.

    embedded/
      model/                what `neurogame.load()` opens, offline
        model.safetensors   float16, half the size; config.json says float32, so every loader widens it
        config.json, tokenizer.json, tokenizer_config.json
        README.md           the model card
        NOTICE              the encoder it grew from, and its licence
        explainer/          a grounded game that was fitted to it by `neurogame ground`, put here by `attach`
        SHA256SUMS          of the files above, in the format of sha256sum

Packing is done once, by `benchmarks/ship.py`; a checkout and an installed package are checked every time
the model is opened.
"""

import hashlib
import shutil
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

FOLDER = Path(str(files("neurogame"))) / "embedded" / "model"
WEIGHTS, SUMS, EXPLAINER = "model.safetensors", "SHA256SUMS", "explainer"
_KEPT = ("config.json", "tokenizer.json", "tokenizer_config.json")


class DamagedError(OSError):
    """The package's own model is missing or not as it was shipped."""


def folder() -> Path:
    """The folder of the model, after a look at every checksum (a tenth of a second)."""
    check(FOLDER)
    return FOLDER


def check(place: Path) -> None:
    """Raise unless every file that SHA256SUMS names is there, byte for byte."""
    sums = place / SUMS
    if not sums.is_file():
        raise DamagedError(f"the embedded model is not in this installation: {SUMS} is missing; reinstall neurogame")
    listed = [line.partition("  ") for line in sums.read_bytes().decode(errors="replace").splitlines()]
    if WEIGHTS not in {name for _, _, name in listed}:
        raise DamagedError(f"the embedded model's {SUMS} is damaged: it does not name {WEIGHTS}; reinstall neurogame")
    for expected, _, name in listed:
        file = place / name
        if not file.is_file():
            raise DamagedError(f"the embedded model lacks {name}; reinstall neurogame, or check out the file again")
        if digest(file) != expected:
            raise DamagedError(f"the embedded model's {name} is damaged: its SHA-256 is not the shipped one; reinstall")


def digest(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def pack(source: Path, target: Path, texts: dict[str, str]) -> None:
    """A trained model as a folder to ship: weights in float16, configuration in float32, texts, checksums.

    Args:
        source: a folder that `NLI.save_pretrained` wrote.
        target: made here; must not exist.
        texts: further files by name, such as README.md and NOTICE.
    """
    weights = load_file(source / WEIGHTS)
    narrow = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    lost = [name for name, tensor in narrow.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if lost:
        raise ValueError(f"{lost[0]} does not fit into float16: {weights[lost[0]].abs().max():.3g} is beyond 65504")
    target.mkdir(parents=True)
    save_file(narrow, target / WEIGHTS, metadata={"format": "pt"})
    for name in _KEPT[1:]:
        shutil.copy(source / name, target / name)
    config = AutoConfig.from_pretrained(source)
    config.dtype = torch.float32
    config.save_pretrained(target)
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")
    write_sums(target, (WEIGHTS, *_KEPT, *texts))


def attach(explainer: Path, place: Path = FOLDER) -> None:
    """Put an explainer that was fitted to the embedded model beside it, and into its checksums."""
    listed = [line.partition("  ")[2] for line in (place / SUMS).read_text(encoding="utf-8").splitlines()]
    target = place / EXPLAINER
    if target.exists():
        shutil.rmtree(target)
    target.mkdir()
    names = sorted(file.name for file in explainer.iterdir())
    for name in names:
        shutil.copy(explainer / name, target / name)
    kept = [name for name in listed if not name.startswith(f"{EXPLAINER}/")]
    write_sums(place, (*kept, *(f"{EXPLAINER}/{name}" for name in names)))


def write_sums(place: Path, names: Iterable[str]) -> None:
    """SHA256SUMS of the named files."""
    lines = [f"{digest(place / name)}  {name}" for name in names]
    (place / SUMS).write_text("\n".join(lines) + "\n", encoding="utf-8")
