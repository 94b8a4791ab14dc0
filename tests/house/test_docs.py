"""The docs: every code block runs, every link leads somewhere, the site builds in strict mode and needs no net."""

import contextlib
import io
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pages
import pytest
from pages import PAGES, ROOT, blocks, name

import neurogame

GENERATED = ROOT / "docs" / "reference" / "command-line.md"  # by docs/hooks.py, when the site is built
RUN = [page for page in PAGES if any(block.runs for block in blocks(page))]


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of shap, about matplotlib, when it is imported
@pytest.mark.parametrize("page", RUN, ids=name)
def test_every_block_runs(page, one_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    namespace, printed = {"__name__": "__main__"}, None
    for block in blocks(page):
        if block.is_output:
            assert printed is not None, f"{block}: nothing ran before it"
            difference = pages.first_difference(block.text, printed)
            assert difference is None, f"{block}: {difference}"
        elif block.runs and block.language == "python":
            out = io.StringIO()
            code = compile("\n" * block.line + block.text, str(page), "exec")
            with contextlib.redirect_stdout(out):
                exec(code, namespace)
            printed = out.getvalue()
        elif block.runs:
            printed = "".join(pages.run_line(line, words) for line, words in pages.commands(block.text))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_that_do_not_run_name_what_exists(page):
    for block in blocks(page):
        assert block.language in pages.LANGUAGES, f"{block}: {block.language or 'no language'}"
        if block.language == "python":
            compile(block.text, str(block), "exec")
        if block.language == "bash":
            for line, words in pages.commands(block.text):
                try:
                    pages.check_line(words)
                except AssertionError as error:
                    raise AssertionError(f"{block}: {line}: {error}") from None
    assert list(pages.indented(page)) == []


def test_links_lead_somewhere():
    missing = []
    for page in PAGES:
        for where, target in pages.links(page):
            path, _, anchor = target.partition("#")
            goal = (page.parent / unquote(path)).resolve() if path else page
            if goal == GENERATED:
                continue
            if not goal.exists() or (anchor and anchor not in pages.anchors(goal)):
                missing.append(f"{where}: {target}")
    assert missing == []


def test_checks_can_fail(tmp_path):
    """A wrong option, verb, target, extra, script or output is found."""
    for line in (
        "neurogame predict x.csv --nothing",
        "neurogame nothing",
        "NAME=1 torchrun -m neurogame train --confug x",
        "neurogame benchmark nothing",
        "make nothing",
        "pip install 'neurogame[nothing]'",
        "pip install x && make nothing",
        "python benchmarks/nothing.py",
        "python benchmarks/results_page.py --nothing",
    ):
        with pytest.raises(AssertionError):
            pages.check_line(next(pages.commands(line))[1])
    assert pages.first_difference("a 1.00\n…\nc", "a 1.01\nb\nc") is None
    assert pages.first_difference("a 1.00", "a 1.20") is not None
    assert pages.first_difference("a", "a\nb") is not None
    assert pages.first_difference("a\nb", "a") is not None
    page = tmp_path / "page.md"
    page.write_text("# A `b` c?\n\ntext\n\n    code\n\n<!-- not run: so -->\n```bash\nx\n```\n")
    assert [block.runs for block in blocks(page)] == [False]
    assert list(pages.anchors(page)) == ["a-b-c"]
    assert len(list(pages.indented(page))) == 1


def test_limits_quote_what_was_measured():
    """A percentage on the page of limits is one of the results or of the training page."""
    docs = ROOT / "docs"
    quoted = re.findall(r"\d+\.\d(?= %| and \d+\.\d %)", (docs / "limits.md").read_text(encoding="utf-8"))
    measured = "".join((docs / page).read_text(encoding="utf-8") for page in ("results.md", "training.md"))
    assert len(quoted) >= 6
    assert [figure for figure in quoted if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", measured)] == []


# --- the site -----------------------------------------------------------------------------------------------------


class Html(HTMLParser):
    """What a page loads, what it links to, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.linked, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.add(found.get("id"))
        if tag == "a" and found.get("href"):
            self.linked.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(found["href"])
        elif found.get("src"):
            self.loaded.append(found["src"])


def test_site(tmp_path):
    """One build, which takes the longest here, and everything that is to be seen in it."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    html = {path: Html(path.read_text(encoding="utf-8")) for path in tmp_path.rglob("*.html")}
    missing, outside = [], []
    for path, page in html.items():
        where = path.relative_to(tmp_path).as_posix()
        for target in page.loaded + page.linked:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                outside += [f"{where}: {target}"] if target in page.loaded else []
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if path.name != "404.html" and (
                not goal.exists() or (goal in html and parts.fragment not in {"", *html[goal].ids})
            ):
                missing.append(f"{where}: {target}")
    assert (missing, outside) == ([], [])
    described = {found for path, page in html.items() if path.parent.name == "reference" for found in page.ids if found}
    public = set(neurogame.__all__) - {"__version__"}
    assert [
        known
        for known in sorted(public)
        if not any(i == f"neurogame.{known}" or i.endswith(f".{known}") for i in described)
    ] == []
    commands = (tmp_path / "reference" / "command-line.html").read_text(encoding="utf-8")
    assert all(re.search(rf"neurogame {verb}\b", commands) for verb in ("explain", "predict", "benchmark values"))
    index = (tmp_path / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "Banzhaf" in index
