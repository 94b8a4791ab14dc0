"""How explanations are drawn: in the terminal, as a page, on the command line."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import tiny
from rich.console import Console
from typer.testing import CliRunner

from neurogame._common import printing
from neurogame.cli import app
from neurogame.explanation import Explanation, summary
from neurogame.explanation.views import terminal
from neurogame.explanation.views.page import fragment, page, sides
from neurogame.nli import NLI

runner = CliRunner()
PAIR = ("the old man sees a dog and the girl sees a cat .", "the man is old .")
EVIL = (
    "<script>alert('x')</script> \"onload=\"x <img/src=x> {{7*7}} ${a} {0} %s &amp; [bold]red[/bold]",
    "שלום עולם 👨‍👩‍👧 \u200b \x1b[31mred \u202eabc </title></style><b>",
)


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny <b>")


@pytest.fixture(scope="module")
def ex(nli):
    return nli.explain(*PAIR, method="decision")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, nli):
    where = tmp_path_factory.mktemp("models") / "tiny"
    nli.save_pretrained(where)
    return where


def printed(ex, width=100, *, details=False, **options):
    console = Console(width=width, **options)
    with console.capture() as capture:
        ex.show(console, details=details)
    return capture.get()


class Seen(HTMLParser):
    """Tags, attributes and text of a page; every tag must be closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text.append(data)


def test_the_terminal_without_colours_says_the_signs(ex):
    found = printed(ex, details=True)
    assert "\x1b" not in found
    strongest = summary.strongest_words(ex, 1)[0]
    number = summary.signed(ex.scores[strongest], summary.digits(ex.scores))
    assert f"{ex.words[strongest]}({number})" in found
    assert "efficiency gap" in found
    for label, p in ex.prediction.probabilities.items():
        assert re.search(rf"{label}.*{p:.3f}", found)


def test_plain_words_come_first(nli):
    for method in ("decision", "presence", "occlusion"):
        ex = nli.explain(*PAIR, method=method)
        plain, detailed = printed(ex), printed(ex, details=True)
        for term in ("logit", "φ", "β", "α", "γ", "ρ", "±", "Banzhaf", "efficiency", "synergies", "coalitions"):
            assert term not in plain, term
        assert f"How much each word speaks for {ex.target}:" in plain
        assert f"How much each word adds to the logit of {ex.target}:" in detailed
        assert ("Banzhaf" in detailed) == (ex.banzhaf is not None)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("bench,", "bench"),
        ('"Nobody"', "Nobody"),
        ("“asleep.”", "asleep"),
        ("(park)!?", "park"),
        ("don't", "don't"),
        ("dogs'", "dogs"),
        ("U.S.", "U.S."),
        ("(e.g.)", "e.g."),
        (".5", ".5"),
        ("-3", "-3"),
        ("50%", "50%"),
        ("3.5.", "3.5"),
        ("...", "..."),
        ("?", "?"),
        ("«¿Qué?»", "Qué"),
    ],
)
def test_punctuation_is_no_part_of_a_name(word, name):
    assert summary.bare(word) == name


def test_names_are_bare_and_texts_and_records_are_not(ex):
    i = ex.words.index("girl")
    words = (*ex.words[:i], f'"{ex.words[i]}",', *ex.words[i + 1 :])
    marked = replace(ex, words=words, scores=tuple(float(j == i) for j in range(len(words))), swing=(i,))
    assert summary.name(marked, i) == ex.words[i]
    assert summary.name(replace(marked, level="token"), i) == words[i]
    assert marked.to_dict()["words"][i] == words[i]
    for found in (printed(marked), printed(marked, details=True), " ".join(Seen(page(marked)).text)):
        assert found.count(f'{ex.words[i]}",') == 1  # in the text itself, once
    coloured = printed(marked, force_terminal=True, color_system="truecolor")
    assert re.search(rf'"\x1b\[[\d;]+m{ex.words[i]}\x1b\[0m",', coloured)  # quotes and comma without the ground


def test_weak_words_have_no_colour(ex):
    n = len(ex.words)
    scores = (1.0, -0.24, 0.26, *(0.0,) * (n - 3))
    shown = replace(ex, scores=scores, swing=())
    words = [word for side in sides(shown) for word in side["words"]]
    assert [word["names"] for word in words[:4]] == ["w for strong", "w", "w for", "w"]
    assert [word["shade"] for word in words[1:4]] == [0.0, pytest.approx(0.2225), 0.0]
    for share, expected in ((0.24, None), (-0.24, None), (0.26, "rgb"), (-1.0, "rgb")):
        ground = terminal._style(share, swings=False, silent=False).bgcolor
        assert (ground is None) == (expected is None)


def test_the_page_has_the_sentence_first_and_folds_the_details(ex):
    text = page(ex)
    visible, folded = text.split('<details class="more">')
    assert ex.sentence.split(":")[0] in visible.split("</h1>")[0]
    order = [visible.index(mark) for mark in ("<h1", "word by word", "Probabilities", "What each word did")]
    assert order == sorted(order)
    said = re.sub(r"<style>.*?</style>|<[^>]*>", " ", visible, flags=re.DOTALL)
    for term in ("logit", "φ", "β", "J ", "efficiency", "±"):
        assert term not in said, term
    assert all(term in folded for term in ("Shapley φ", "Banzhaf β", "efficiency gap", "Words in pairs"))


def test_the_terminal_in_colour(ex):
    found = printed(ex, force_terminal=True, color_system="truecolor")
    assert "\x1b[" in found
    assert f"for {ex.target}" in found
    assert f"against {ex.target}" in found
    assert printed(ex, force_terminal=True, no_color=True, color_system="truecolor").count("(+") > 0


def _luminance(rgb):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("share", [sign * step / 50 for step in range(13, 51) for sign in (1, -1)])
def test_coloured_words_can_be_read(share):
    """WCAG's contrast of text, 4.5 to 1, whatever the colours of the terminal are."""
    style = terminal._style(share, swings=False, silent=False)
    light, dark = sorted((_luminance(style.color.triplet), _luminance(style.bgcolor.triplet)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) > 4.45


@pytest.mark.parametrize("method", ["decision", "game", "presence", "attention", "occlusion"])
@pytest.mark.parametrize("pair", [PAIR, ("dog", ""), EVIL])
def test_no_spaces_at_the_ends_and_no_holes(nli, method, pair):
    for found in (printed(nli.explain(*pair, method=method), width) for width in (50, 120)):
        lines = found.split("\n")
        assert [line for line in lines if line != line.rstrip()] == []
        assert "\n\n\n" not in found
        assert lines[0]


def test_a_space_on_a_ground_of_its_own_stays(ex):
    assert " − \x1b" in printed(ex, force_terminal=True, color_system="truecolor")


def test_one_is_not_many(nli):
    said = " · ".join(summary.footing(nli.explain("dog", "", method="decision")))
    assert said.startswith("1 word · ")
    once = {"players": 1, "converged": True, "iterations": 1, "spectral_radius": 0.5, "steps": 1, "outside": 0.0}
    ex = replace(nli.explain("dog", "", method="decision"), level="token", diagnostics=once)
    assert summary.footing(ex) == ["1 piece", "1 step", "mean field in 1 step, ρ(J)/γ 0.50"]


def test_errors_are_announced_where_there_are_some(ex):
    errors = [0.25] * len(ex.words)
    assert "score ± error" in printed(replace(ex, diagnostics={"shapley_se": errors}), details=True)
    for none in ({}, {"shapley_se": errors, "exact": True, "samples": 4}, {"shapley_se": [None] * len(errors)}):
        found = printed(replace(ex, diagnostics=none), details=True)
        assert re.search(r"word +in +score +Banzhaf", found)
        assert "±" not in found


def test_banzhaf_has_the_digits_of_the_scores(ex):
    small = replace(ex, scores=(0.012345,) * len(ex.words), banzhaf=(-0.0023456,) * len(ex.words), diagnostics={})
    assert re.search(r"\+0\.0123 .*−0\.0023 ", printed(small, details=True))


def test_presence_says_how_it_was_computed(nli):
    ex = nli.explain(*PAIR, method="presence")
    assert "5 steps from 5 % of each word to all of it" in printed(ex, 200, details=True)
    assert "special tokens" not in printed(ex, 200, details=True)
    text = " ".join(Seen(page(ex)).text)
    assert "what the logit gains from 5 % of each word to all of it" in text
    assert "come in together" in text
    assert "empty input" not in text


@pytest.mark.parametrize("width", [20, 40, 64, 200])
@pytest.mark.parametrize("method", ["decision", "game"])
def test_any_width(nli, width, method):
    found = printed(nli.explain(*PAIR, method=method), width)
    assert max(map(len, found.splitlines())) <= width


def test_a_terminal_obeys_nothing_of_a_text(nli):
    found = printed(nli.explain(*EVIL, method="decision"))
    assert "\x1b" not in found
    assert "\u202e" not in found
    assert "[bold]red[/bold]" in found
    assert "\\u001b[31mred" in found


def test_words_that_were_not_read_are_counted(ex):
    n = len(ex.words)
    few, many = (replace(ex, diagnostics={"unread": [*range(k)]}) for k in (3, 10))
    assert [len(run) for run in summary.passages(few, "premise")] == [1] * 13
    assert [len(run) for run in summary.passages(many, "premise")] == [10, 1, 1, 1]
    assert sum(len(run) for side in ("premise", "hypothesis") for run in summary.passages(many, side)) == n
    assert "[… 10 words not read …]" in printed(many)


def test_a_word_of_any_length_is_cut(ex):
    long = replace(ex, words=("x" * 100_000, *ex.words[1:]))
    assert len(page(long)) < 200_000
    assert len(printed(long)) < 10_000
    assert printing.cut("abcdef", 4) == "abc…"
    assert printing.cut("abcd", 4) == "abcd"


def test_what_a_method_answers(ex):
    for explains, word in (("weights", "weight"), ("nothing", "Random"), ("norm", "norm")):
        assert word in summary.question(replace(ex, target=None, diagnostics={"explains": explains}))


def test_a_record_without_a_trajectory_says_so(ex):
    bare = {name: value for name, value in ex.diagnostics.items() if name != "trajectory"}
    assert "it has no trajectory" in page(replace(ex, diagnostics=bare))
    weights = page(replace(ex, field=None, gate=None))
    assert "no field, no gate and no spins" in weights


def test_printable():
    assert printing.printable("naïve 👨‍👩‍👧") == "naïve 👨‍👩‍👧"
    assert printing.printable("\u200b") == "\\u200b"
    assert printing.printable("a\x00\x7f\u2028b") == "a\\u0000\\u007f\\u2028b"


def test_numbers_show_their_sign():
    shown = [summary.signed(x) for x in (0.42, -0.42, 0.001, -0.001, 0, None)]
    assert shown == ["+0.42", "−0.42", "0.00", "0.00", "0.00", "–"]
    assert [summary.digits([x]) for x in (12.0, 1.0, 0.5, 0.05, 0.005, 1e-9, 0.0)] == [2, 2, 3, 4, 5, 5, 2]


def test_strongest_pairs_leave_out_noise(ex):
    synergies, antagonisms = summary.synergies_and_antagonisms(ex, 5)
    values = [pair.value for pair in synergies]
    assert values == sorted(values, reverse=True)
    assert all(pair.value < 0 for pair in antagonisms)
    assert all(ex.interactions[pair.i][pair.j] == pair.value for pair in (*synergies, *antagonisms))
    noisy = replace(ex, diagnostics={**ex.diagnostics, "interactions_se": 1e9})
    assert summary.synergies_and_antagonisms(noisy, 4) == ([], [])


def test_unknown_words_are_named(ex):
    many = summary.warnings(replace(ex, diagnostics={"unknown": ["a", "\x1b", "c", "d"]}))
    assert many == ["4 words unknown to the tokenizer, all the same to the model: a, \\u001b, c …"]
    assert summary.warnings(replace(ex, diagnostics={"unknown": ["a"]})) == ["1 word unknown to the tokenizer: a"]
    assert summary.warnings(replace(ex, diagnostics={"unknown": []})) == []


def test_an_integral_that_is_far_off_is_a_warning(ex):
    largest = max(map(abs, ex.scores))
    far, near = ({"faded": 0.05, "efficiency_gap": share * largest} for share in (0.3, 0.2))
    (said,) = summary.warnings(replace(ex, diagnostics=far))
    assert "the integral is off by" in said
    assert summary.warnings(replace(ex, diagnostics=near)) == []


def test_warnings(ex):
    assert summary.warnings(replace(ex, diagnostics={})) == []
    wrong = {"converged": False, "unconverged_heads": 2, "heads": 4, "residual": 0.1, "spectral_radius": 1.3}
    wrong |= {"truncated": ["a"], "max_length": 8, "silent": ["\u200b"], "on_path": False, "logit_error": 0.1}
    wrong |= {"shapley_se": [9.0] * len(ex.words), "outside": 99.0}
    found = summary.warnings(replace(ex, diagnostics=wrong))
    assert len(found) == 7
    said = " ".join(found)
    for text in (
        "2 of 4 heads",
        "ρ(J)/γ = 1.30",
        "1 word of the pair not read",
        "8 tokens",
        "\\u200b",
        "beside the path",
    ):
        assert text in said
    assert all(f"! {line}" in printed(replace(ex, diagnostics=wrong), 200) for line in found)


@pytest.mark.parametrize("method", ["decision", "game"])
@pytest.mark.parametrize("draw", [page, fragment])
def test_a_page_shows_everything_and_loads_nothing(nli, method, draw):
    ex = nli.explain(*PAIR, method=method)
    text = draw(ex)
    seen = Seen(text)
    assert not seen.open
    assert not {"script", "link", "img", "iframe", "object"} & set(seen.tags)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", text)
    words = " ".join(seen.text)
    for word in ("Shapley φ", "Banzhaf β", "α", "field J", "gate λ", "Synergies", "Antagonisms", "efficiency gap"):
        assert word in words
    drawn = {value for name, value in seen.attributes if name == "class"}
    assert {"network", "paths", "layer"} <= drawn  # and the matrix, which has no name
    assert seen.tags.count("svg") == 3
    assert all(name in words for name in (*ex.words, *ex.prediction.probabilities))
    assert ("role", "img") in seen.attributes


def test_a_page_is_only_text_where_the_text_is_a_users(nli):
    clean, evil = (Seen(page(nli.explain(*pair, method="decision"))) for pair in (PAIR, EVIL))
    assert set(evil.tags) <= set(clean.tags) | {"ul", "li"}
    assert not evil.open
    assert not any(name.startswith("on") or name == "src" for name, _ in evil.attributes)
    said = "".join(evil.text)
    for word in (
        "<script>alert('x')</script>",
        '"onload="x',
        "<img/src=x>",
        "{{7*7}}",
        "${a}",
        "&amp;",
        "</title></style><b>",
    ):
        assert word in said
    assert "tiny <b>" in said
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert ("dir", "rtl") in evil.attributes


def test_a_page_of_a_long_text_stays_small(nli):
    ex = nli.explain("the old man sees a dog " * 500, "a cat sleeps .", method="decision")
    text = page(ex)
    assert f"… {len(ex.diagnostics['unread'])} words not read …" in text or "words not read …" in text
    assert len(text) < 300_000
    assert len(printed(ex)) < 10_000


def test_a_method_with_scores_alone_can_be_drawn(ex):
    """What comparators will hand in: no game, no layer."""
    bare = replace(ex, shapley=None, banzhaf=None, alpha=None, field=None, gate=None, interactions=None, per_head={})
    bare = replace(bare, diagnostics={})
    assert "Banzhaf" not in printed(bare)
    seen = Seen(page(bare))
    assert "svg" not in seen.tags
    assert Explanation.from_dict(bare.to_dict()) == bare


def test_files(ex, tmp_path):
    path = tmp_path / "report.html"
    assert ex.to_html(path) == path
    first = path.read_text(encoding="utf-8")
    assert first == page(ex)
    ex.to_html(path)  # the same again is no mistake
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(IsADirectoryError, match="is a folder"):
        ex.to_html(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ex.to_html(tmp_path / "no" / "report.html")
    with pytest.raises(OSError, match=r"x+\.html cannot be written"):
        ex.to_html(tmp_path / ("x" * 250 + ".html"))
    assert ex._repr_html_() == fragment(ex)


def test_command(folder, tmp_path):
    page_file = tmp_path / "report.html"
    result = runner.invoke(app, ["explain", *PAIR, "--model", str(folder), "--html", str(page_file)])
    assert result.exit_code == 0
    assert "How much each word speaks for" in result.stdout
    assert "logit" not in result.stdout
    detailed = runner.invoke(app, ["explain", *PAIR, "--model", str(folder), "--details"])
    assert "adds to the logit of" in detailed.stdout
    assert result.stderr.strip() == f"page: {page_file}"
    assert page_file.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_command_as_json(folder):
    options = ["--method", "decision", "--target", "neutral", "--contrast", "entailment", "--level", "token", "--json"]
    result = runner.invoke(app, ["explain", *PAIR, "--model", str(folder), *options])
    assert (result.exit_code, result.stderr) == (0, "")
    found = Explanation.from_dict(json.loads(result.stdout))
    assert (found.target, found.contrast, found.level) == ("neutral", "entailment", "token")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((*PAIR, "--target", "maybe"), 1, "--target maybe is not a label"),
        ((*PAIR, "--method", "magic"), 1, "--method magic is unknown"),
        ((*PAIR, "--html", "/nowhere/at/all.html"), 1, "the folder /nowhere/at does not exist"),
        (("", ""), 1, "no word to explain"),
        (("one sentence",), 2, "HYPOTHESIS"),
        ((*PAIR, "--nothing"), 2, "nothing"),
    ],
)
def test_command_mistakes(folder, options, code, said):
    result = runner.invoke(app, ["explain", *options, "--model", str(folder)])
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""
    if code == 1:
        assert len(result.stderr.strip().splitlines()) == 1


def test_a_page_without_a_place_fails_before_the_model_is_loaded(tmp_path):
    for goal, said in ((tmp_path / "no" / "x.html", "does not exist"), (tmp_path, "is a folder")):
        result = runner.invoke(app, ["explain", *PAIR, "--model", "./nothing", "--html", str(goal)])
        assert result.exit_code == 1
        assert said in result.stderr
        assert "./nothing" not in result.stderr


def test_a_model_that_is_not_there():
    result = runner.invoke(app, ["explain", *PAIR, "--model", "./nothing"])
    assert result.exit_code == 1
    assert result.stderr.startswith("neurogame explain: no model folder at ./nothing")
