"""Packing: a trained model as the folder that comes with the package, its checksums, and their digest in the code.

`neurogame.embedded` says what is in the folder, and checks it.
"""

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoTokenizer

from neurogame import embedded

CODE = Path(embedded.__file__).with_name("shipped.py")


def pack(source: Path, target: Path, texts: dict[str, str]) -> None:
    """A trained model as a folder to ship: weights in float16, configuration in float32, texts, checksums.

    Args:
        source: a folder that `NLI.save_pretrained` wrote.
        target: made here; must not exist.
        texts: further files by name, such as README.md and NOTICE.
    """
    weights = load_file(source / embedded.WEIGHTS)
    narrow = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    lost = [name for name, tensor in narrow.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if lost:
        raise ValueError(f"{lost[0]} does not fit into float16: {weights[lost[0]].abs().max():.3g} is beyond 65504")
    target.mkdir(parents=True)
    save_file(narrow, target / embedded.WEIGHTS, metadata={"format": "pt"})
    shutil.copy(source / "tokenizer_config.json", target)
    tokenizer = AutoTokenizer.from_pretrained(source).backend_tokenizer
    tokenizer.no_truncation()  # what its last call asked for is no property of a tokenizer
    tokenizer.no_padding()
    tokenizer.save(str(target / "tokenizer.json"))
    config = AutoConfig.from_pretrained(source)
    config.dtype = torch.float32
    config.save_pretrained(target)
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")
    write_sums(target)


def attach(explainer: Path, place: Path | None = None) -> None:
    """Put an explainer that was fitted to the embedded model beside it, and into its checksums."""
    place = place or embedded.FOLDER
    target = place / embedded.EXPLAINER
    if target.exists():
        shutil.rmtree(target)
    target.mkdir()
    for file in explainer.iterdir():
        shutil.copy(file, target / file.name)
    write_sums(place)


def write_sums(place: Path) -> None:
    """SHA256SUMS of all files in a folder; of the embedded model's also its own digest, which is part of the code."""
    lines = [f"{embedded.digest(place / name)}  {name}" for name in embedded.listing(place)]
    (place / embedded.SUMS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    if place.resolve() == embedded.FOLDER.resolve():
        embedded.shipped.SUMS_SHA256 = embedded.digest(place / embedded.SUMS)
        code = f'"""{embedded.shipped.__doc__}"""\n\nSUMS_SHA256 = "{embedded.shipped.SUMS_SHA256}"\n'
        CODE.write_text(code, encoding="utf-8")
