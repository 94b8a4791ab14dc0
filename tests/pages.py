"""Markdown pages as something to run: their code blocks, links and headings.

A python block runs in the namespace of its page, a bash block line by line, both in the page's folder. One that cannot
run in a test has `<!-- not run: reason -->` above its fence; what it names must exist all the same. A text block under
`<!-- output -->` is what the block before it prints, up to the rounding of numbers; a line "…" stands for any lines.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import typer
from typer.testing import CliRunner

from neurogame.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]
LANGUAGES = ("python", "bash", "text", "yaml", "json")
_FENCE = re.compile(r"^```(\S*)\s*$")
_NOT_RUN, _OUTPUT = re.compile(r"^<!-- not run: \S.* -->$"), "<!-- output -->"
_NUMBER = re.compile(r"[-+−]?\d*\.?\d+(?:e[-+]?\d+)?")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_LIST = re.compile(r"^\s*([-*+]|\d+\.) ")


def name(page):
    return Path(os.path.relpath(page, ROOT)).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block: `line` is that of its fence, `above` the line before it."""

    page: Path
    line: int
    language: str
    text: str
    above: str

    def __str__(self):
        return f"{name(self.page)}:{self.line}"

    @property
    def runs(self):
        return self.language in ("python", "bash") and not _NOT_RUN.match(self.above)

    @property
    def is_output(self):
        return self.above == _OUTPUT


def blocks(page):
    """The fenced blocks of a page, in order."""
    found, lines, start = [], page.read_text(encoding="utf-8").splitlines(), None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence and start is None:
            start, language = number, fence[1]
        elif fence:
            above = lines[start - 1] if start else ""
            found.append(Block(page, start + 1, language, "\n".join(lines[start + 1 : number]), above))
            start = None
    assert start is None, f"{name(page)}:{start}: a fence that is never closed"
    return found


def prose(page):
    """(number, line) of what is not in a fenced block; code within a line left out."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, re.sub(r"`[^`]*`", "`code`", line)


def indented(page):
    """Lines of code blocks that are only indented, and so say no language."""
    last, blank = "", True
    for number, line in prose(page):
        if line.startswith("    ") and blank and not _LIST.match(last):
            yield f"{name(page)}:{number}"
        blank = not line.strip()
        if not blank and not line.startswith("    "):
            last = line


def links(page):
    """(where, target) of the links and figures of a page that lead to a file."""
    for number, line in prose(page):
        for target in _LINK.findall(line):
            if not re.match(r"https?:|mailto:", target):
                yield f"{name(page)}:{number}", target


def anchors(page):
    """The anchors of a page's headings, as GitHub and the site make them."""
    for _, line in ((n, raw) for n, raw in enumerate(page.read_text(encoding="utf-8").splitlines())):
        if re.match(r"#{1,6} ", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).replace("`", "")
            yield re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


# --- running ------------------------------------------------------------------------------------------------------


def commands(text):
    """The lines of a shell block, continued ones joined, each as (line, words)."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield line.strip(), words


def run_line(line, words):
    """Run one line of a shell block in the current folder; what it prints."""
    if words[0] in ("pip", "make", "git", "cd"):  # the machine stays as it is: what they name is checked
        check_line(words)
        return ""
    if words[0] == "neurogame" and not set(words) & {"|", "<", ">", "&", "&&"}:  # in this process, which has torch
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{line}: exit {result.exit_code}\n{result.stderr}\n{result.exception!r}"
        return result.stdout
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = ["bash", "-euo", "pipefail", "-c", line]
    result = subprocess.run(shell, capture_output=True, text=True, timeout=300, env={**os.environ, "PATH": path})
    assert result.returncode == 0, f"{line}: exit {result.returncode}\n{result.stderr}"
    return result.stdout


def check_line(words):
    """What a line names exists: verbs and options, make targets, extras, scripts and their options."""
    if "&&" in words:
        at = words.index("&&")
        check_line(words[:at])
        return check_line(words[at + 1 :])
    while "=" in words[0] and len(words) > 1:  # NAME=value before a command
        words = words[1:]
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        unknown = [word for word in words[1:] if "=" not in word and not word.startswith("-") and word not in targets]
        assert not unknown, f"make {unknown[0]}: no such target"
    elif words[0] == "pip":
        with (ROOT / "pyproject.toml").open("rb") as file:
            extras = tomllib.load(file)["project"]["optional-dependencies"]
        named = [extra for word in words for found in re.findall(r"\[([\w,]+)\]", word) for extra in found.split(",")]
        assert set(named) <= set(extras), f"{' '.join(words)}: extras are {sorted(extras)}"
    elif words[0] == "python" and words[1].endswith(".py"):
        script = ROOT / words[1]
        assert script.is_file(), f"{words[1]}: no such script"
        source = script.read_text(encoding="utf-8")
        beside = [path for path in script.parent.glob("*.py") if f"from {path.stem} import" in source]
        check_options(words[2:], source + "".join(path.read_text(encoding="utf-8") for path in beside), words[1])
    elif "neurogame" in words:
        check_verb(words[words.index("neurogame") + 1 :])
    return None


def check_options(words, source, where):
    for word in words:
        if word.startswith("--"):
            assert f'"{word.partition("=")[0]}"' in source, f"{where} has no {word}"


def check_verb(words):
    """The verb is one of ours, and so are its options; placeholders such as VERB stand for nothing."""
    command, seen = typer.main.get_command(app), "neurogame"
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{seen} {words[0]}: no such verb"
        command, seen, words = command.commands[words[0]], f"{seen} {words[0]}", words[1:]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("-") and len(option) > 1 and not re.match(r"-\d", option):
            assert option in known | {"--help"}, f"{seen} has no option {option}"


# --- output -------------------------------------------------------------------------------------------------------


def alike(shown, printed):
    """The same but for spaces, the length of bars, and the last digits of numbers."""
    plain = [" ".join(_NUMBER.sub("#", re.sub("█+", "█", line)).split()) for line in (shown, printed)]
    if plain[0] != plain[1]:
        return False
    numbers = ([float(n.replace("−", "-")) for n in _NUMBER.findall(line)] for line in (shown, printed))
    return all(abs(a - b) <= 0.021 + 0.02 * abs(a) for a, b in zip(*numbers, strict=True))


def first_difference(shown, printed):
    """None, or the first line that is shown but not printed there."""
    printed, at, skipping = [line for line in printed.splitlines() if line.strip()], 0, False
    for line in shown.splitlines():
        if line.strip() == "…":
            skipping = True
        elif line.strip():
            while skipping and at < len(printed) and not alike(line, printed[at]):
                at += 1
            if at == len(printed) or not alike(line, printed[at]):
                return f"{line!r} is shown, {printed[at] if at < len(printed) else 'nothing'!r} is printed"
            at, skipping = at + 1, False
    return None if skipping or at == len(printed) else f"{printed[at]!r} is printed, nothing is shown"
