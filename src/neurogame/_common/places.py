"""Where a named model is, a folder here or a name on the hub; and whether a page can be written to a path.

Looks at paths only, so that a mistyped one is reported before torch is imported. `modeling.checking` checks the files
in a folder, `opening` opens them.
"""

from pathlib import Path

from neurogame._common.printing import printable


def folder_of(name: str | Path) -> Path | None:
    """The folder of a model; None for a name on the hub. A path without a model is an OSError that says why."""
    folder, name = Path(name).expanduser(), str(name)
    shown = printable(name)
    if not name.strip():
        raise FileNotFoundError("the name of a model is empty; give a folder, or a name on the hub")
    if folder.is_dir():
        if (folder / "config.json").is_file():
            return folder
        inner = next((folder / part for part in ("model", "best") if (folder / part / "config.json").is_file()), None)
        hint = f"; did you mean {inner}?" if inner else ""
        raise FileNotFoundError(f"{shown} holds no model: config.json is missing{hint}")
    if folder.exists():
        raise NotADirectoryError(f"{shown} is a file; a model is a folder with config.json and model.safetensors")
    if is_path(name):
        raise FileNotFoundError(f"no model folder at {shown}")
    if folder.parent != Path() and folder.parent.is_dir():
        siblings = sorted(entry.name for entry in folder.parent.iterdir() if entry.is_dir())
        content = f"has {', '.join(siblings[:10])}" if siblings else "is empty"
        raise FileNotFoundError(f"no model folder at {shown}; {printable(str(folder.parent))} {content}")
    return None


def check_page(path: Path) -> None:
    """Raise unless `path` is a file, or can be one, in a folder that exists."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; the page is a file, as in {path / 'report.html'}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist")


def is_path(name: str) -> bool:
    """Whether a name can only be a path: a name on the hub is "owner/model"."""
    return name.startswith((".", "~", "/")) or name.endswith("/") or name.count("/") > 1 or "\\" in name
