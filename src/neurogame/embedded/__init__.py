"""The model that comes with the package: where it is, and whether it is whole.

    embedded/
      model/                what `neurogame.load()` opens, offline
        model.safetensors   float16, half the size; config.json says float32, so every loader widens it
        config.json, tokenizer.json, tokenizer_config.json
        README.md           the model card
        NOTICE              the encoder it grew from, and its licence
        explainer/          a grounded game that was fitted to it by `neurogame ground`
        SHA256SUMS          of all files above, in the format of sha256sum
    embedded/shipped.py     the digest of SHA256SUMS, written with it

Packing is done once, by `neurogame_bench.shipping`; a checkout and an installed package are checked every time
the model is opened: all files are those that were shipped with this code, and there are no others.
"""

import hashlib
from importlib.resources import files
from pathlib import Path

from neurogame.embedded import shipped

FOLDER = Path(str(files("neurogame"))) / "embedded" / "model"
WEIGHTS, SUMS, EXPLAINER = "model.safetensors", "SHA256SUMS", "explainer"


class DamagedError(OSError):
    """The package's own model is missing or not as it was shipped."""


def folder() -> Path:
    """The folder of the model, after verifying every checksum (a tenth of a second)."""
    check(FOLDER, shipped.SUMS_SHA256)
    return FOLDER


def check(place: Path, expected: str | None = None) -> None:
    """Raise a DamagedError unless the files of a folder are those that SHA256SUMS lists, byte for byte.

    `expected` is the SHA-256 of SHA256SUMS itself; None: not known, as of a folder that is not shipped yet.
    """
    sums = place / SUMS
    if not sums.is_file():
        raise DamagedError(f"the embedded model is not in this installation: {SUMS} is missing; reinstall neurogame")
    if expected is not None and digest(sums) != expected:
        raise DamagedError(f"the embedded model's {SUMS} is not the one shipped with this code; reinstall neurogame")
    entries = [line.partition("  ") for line in sums.read_bytes().decode(errors="replace").splitlines()]
    names = {name for _, _, name in entries}
    if WEIGHTS not in names:
        raise DamagedError(f"the embedded model's {SUMS} is damaged: it does not name {WEIGHTS}; reinstall neurogame")
    for checksum, _, name in entries:
        file = place / name
        if not file.is_file():
            raise DamagedError(f"the embedded model lacks {name}; reinstall neurogame, or check out the file again")
        if digest(file) != checksum:
            raise DamagedError(f"the embedded model's {name} is damaged: its SHA-256 is not the shipped one; reinstall")
    foreign = [name for name in listing(place) if name not in names]
    if foreign:
        raise DamagedError(f"the embedded model's folder holds {foreign[0]}, which {SUMS} does not name; reinstall")


def listing(place: Path) -> list[str]:
    """All files that SHA256SUMS lists; hidden ones are ignored."""
    paths = (path.relative_to(place) for path in sorted(place.rglob("*")) if path.is_file())
    return [path.as_posix() for path in paths if path.name != SUMS and not any(p.startswith(".") for p in path.parts)]


def digest(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
