"""What mkdocs needs beside the pages: the command line's page, and files of the repository that pages link to.

reference/command-line.md   written from the verbs' own help whenever the site is built
results/, configs/ …        copied into the site, so that `../results/x.json` works there as it does in a checkout
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("results/*.json", "configs/**/*.yaml", "examples/*.py", "CITATION.cff")
COMMAND_LINE = "reference/command-line.md"
_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\((\.\./[^)\s#]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the copies and the generated page."""
    for pattern in COPIED:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    files.append(File.generated(config, COMMAND_LINE, content=command_line()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Links that leave docs/ lead to the copies; a folder, which a site cannot show, stays as text."""
    here = posixpath.dirname(page.file.src_uri)

    def inside(match: re.Match[str]) -> str:
        text, target = match.groups()
        place = posixpath.normpath(posixpath.join(here, target))
        if not place.startswith("../"):
            return match[0]
        place = place.removeprefix("../")
        if (ROOT / place).is_dir():
            return text
        return f"[{text}]({posixpath.relpath(place, here or '.')})"

    return _LINK.sub(inside, markdown)


def command_line() -> str:
    """Every verb with its options, as `--help` has them."""
    import typer
    from typer.cli import get_docs_for_click

    from neurogame.cli import app

    command = typer.main.get_command(app)
    for verb in getattr(command, "commands", {}).values():  # in full: typer would cut them off at 45 letters
        verb.short_help = (verb.help or "").split("\n\n")[0].replace("\n", " ")
    with typer.Context(command, info_name="neurogame") as context:
        text = get_docs_for_click(obj=command, ctx=context, name="neurogame", title="Command line")
    # completion is an option of every typer program; verbs are shown as they are typed
    kept = [line for line in text.splitlines() if not line.startswith(("* `--install-", "* `--show-completion"))]
    return "\n".join(kept).replace("```console\n$ ", "```text\n") + "\n"
