"""The page in a real browser: type, predict, strike out, γ, methods side by side, links, downloads, hostile text, keys.

A tiny model behind a real server, and the Chromium of the machine; where there is none these tests are skipped.
"""

import csv
import json
import os
import re
import shutil
import threading
import time
from contextlib import contextmanager
from html import escape
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'neurogame[serve]'")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'neurogame[serve]'")
pytest.importorskip("playwright", reason="playwright is not installed: pip install 'neurogame[test]'")

import tiny
from playwright.sync_api import expect, sync_playwright

from neurogame import Explanation
from neurogame.explanation import summary, what_if
from neurogame.explanation.measured import measured
from neurogame.explanation.views.drawing import DRAWING
from neurogame.nli import NLI
from neurogame.serving import server
from neurogame.serving.settings import Settings

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
EXECUTABLE = os.environ.get("NEUROGAME_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason=f"no Chromium is found on this machine ({', '.join(NAMES)})")

PAIR = ("two dogs sleep .", "the dogs run .")
LINK = f"#p={PAIR[0]}&h={PAIR[1]}&m=decision"
PATIENCE = 30_000  # ms: a machine may be busy
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny")


@contextmanager
def served(source, **options):
    """The address of a server in a thread, on a free port."""
    with server.listening("127.0.0.1", 0) as listener:
        running = server.Server(source, Settings(**options))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        while not running.started and thread.is_alive():
            time.sleep(0.01)
        try:
            yield server.url(listener)
        finally:
            running.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def address(nli):
    with served(nli) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playing:
        found = playing.chromium.launch(executable_path=EXECUTABLE)
        yield found
        found.close()


@pytest.fixture
def opened(browser, address):
    """Opens the page; afterwards nothing has been asked of elsewhere, and no script has complained."""
    complaints, asked, contexts = [], [], []

    def go(fragment="", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(address + fragment)
        expect(page.locator("#main")).to_have_attribute("data-busy", "false")
        return page

    yield go
    for context in contexts:
        context.close()
    assert [text for text in complaints if "Failed to load resource" not in text] == []  # logged for every refusal
    assert [url for url in asked if url.startswith("http") and not url.startswith(address)] == []


@pytest.fixture
def page(opened):
    found = opened(LINK)
    expect(words(found)).to_have_count(8)
    return found


@pytest.fixture(scope="module")
def many_page(browser, address):
    """One page for all texts that are no pairs: they ask nothing of the server."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    expect(page.locator("#main")).to_have_attribute("data-busy", "false")
    yield page
    context.close()


def words(page):
    return page.locator("#first button")


def settled(page):
    expect(page.locator("#main")).to_have_attribute("data-busy", "false")


def test_it_opens_with_an_example(opened):
    page = opened()
    expect(page.locator("#premise")).to_have_value("The museum is not open on Mondays.")
    expect(page.locator("#said strong")).to_have_text(re.compile("Entailment|Neutral|Contradiction"))
    assert page.title() == "NeuroGame"


def test_typing_predicts(page, nli):
    page.fill("#premise", "nobody sings .")
    page.fill("#hypothesis", "a man sings a song .")
    said = nli.predict("nobody sings .", "a man sings a song .")
    expect(words(page)).to_have_count(9)
    expect(page.locator("#said")).to_have_text(
        f"{said.label.capitalize()} {100 * said.probabilities[said.label]:.0f} %"
    )
    for row, (label, p) in zip(page.locator("#labels li").all(), said.probabilities.items(), strict=True):
        expect(row).to_have_text(f"{label}{100 * p:.1f} %")
    found = nli.explain("nobody sings .", "a man sings a song .", method="decision")
    expect(page.locator("#reasons")).to_have_text(summary.reasons(found), ignore_case=True)


def test_an_example_is_one_click_and_nothing_is_no_error(page):
    chip = page.get_by_role("button", name="passive")
    chip.click()
    expect(page.locator("#hypothesis")).to_have_value("The old lighthouse was damaged by the storm.")
    expect(words(page)).to_have_count(14)
    expect(chip).to_have_attribute("aria-pressed", "true")
    page.fill("#premise", "")
    page.fill("#hypothesis", "  ")
    expect(page.locator("#said")).to_have_text("Type two sentences, or pick an example.")
    expect(page.locator("#words")).to_be_hidden()
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.get_by_role("button", name="Download JSON")).to_be_hidden()
    expect(chip).to_have_attribute("aria-pressed", "false")


def examples():
    """[name, premise, hypothesis, label] of each example of the page."""
    text = (Path(server.__file__).parent / "static" / "examples.js").read_text(encoding="utf-8")
    return json.loads(re.sub(r",\s*\]", "]", text.partition("= ")[2].rpartition(";")[0]))


def test_an_example_that_the_model_gets_wrong_says_so(page, nli):
    said = [nli.predict(premise, hypothesis).label for _, premise, hypothesis, _ in examples()]
    wrong = next(row for row, label in zip(examples(), said, strict=True) if row[3] != label)
    right = next(row for row, label in zip(examples(), said, strict=True) if row[3] == label)
    page.get_by_role("button", name=wrong[0], exact=True).click()
    expect(page.locator("#compared")).to_contain_text(f"Known weakness: {wrong[0]}. The right answer is {wrong[3]}.")
    page.get_by_role("button", name=right[0], exact=True).click()
    expect(page.locator("#hypothesis")).to_have_value(right[2])
    expect(page.locator("#compared")).not_to_contain_text("Known weakness")


def test_the_prediction_does_not_wait_for_a_slow_explanation(page, nli):
    held = []
    page.route(
        "**/explain", lambda route: held.append(route) if "nobody" in route.request.post_data else route.continue_()
    )
    page.fill("#premise", "nobody sings .")
    said = nli.predict("nobody sings .", PAIR[1])
    expect(page.locator("#labels .said")).to_contain_text(f"{100 * said.probabilities[said.label]:.1f} %")
    expect(page.locator("#main")).to_have_attribute("data-busy", "true")
    expect(words(page)).to_have_count(8)  # still of the pair before, and faded
    held[0].continue_()
    expect(words(page)).to_have_count(7)


def test_a_newer_question_aborts_the_older(page):
    held, failed = [], []
    page.on("requestfailed", lambda request: failed.append(request.post_data_json["premise"]))
    page.route(
        "**/explain", lambda route: held.append(route) if "nobody" in route.request.post_data else route.continue_()
    )
    with page.expect_event("requestfailed"):
        page.fill("#premise", "nobody sings .")
        expect(page.locator("#main")).to_have_attribute("data-busy", "true")
        while not held:
            page.wait_for_timeout(20)
        page.fill("#premise", "a girl reads a book .")
    expect(words(page)).to_have_count(10)
    settled(page)
    assert failed == ["nobody sings ."]
    expect(page.locator("#problem")).to_be_hidden()


def methods(page):
    """The part where other methods are, opened."""
    if not page.locator("#methods").is_visible():
        page.locator("#others > summary").click()
    return page.locator("#methods")


def row(page, name):
    return methods(page).locator(f"article[data-method={name}]")


def use(page, name):
    row(page, name).get_by_role("button", name="use it above").click()


def strongest_of(found):
    i = max(range(len(found.words)), key=lambda i: abs(found.scores[i]))
    return i, summary.signed(found.scores[i], summary.digits(found.scores))


def test_the_recommended_method_is_the_first(opened, nli):
    """For a model without a grounded game that is "presence"; the page has tried its strongest words itself."""
    page = opened(f"#p={PAIR[0]}&h={PAIR[1]}")
    found = nli.explain(*PAIR)
    assert found.method == "presence"
    strongest, number = strongest_of(found)
    expect(words(page).nth(strongest)).to_have_attribute("aria-label", re.compile(re.escape(number)))
    expect(page.locator("#compare-note")).to_contain_text("Shown above: presence (recommended).")
    expect(page.locator("#other-method")).to_be_hidden()
    expect(page.locator("#unmoved")).to_contain_text("Presence asks the model as it is")
    without = what_if.explain(nli, *PAIR, removed=[strongest], method="random").prediction
    expect(page.locator("#checks li")).to_have_count(3)
    expect(page.locator("#checks")).to_contain_text(
        f"{without.label} {100 * without.probabilities[without.label]:.0f} %"
    )
    words(page).nth(1).click()
    expect(page.locator("#compared")).to_contain_text("dogs")
    expect(page.locator("#problem")).to_be_hidden()


def test_cheap_methods_are_asked_first(opened, monkeypatch):
    monkeypatch.setattr("neurogame.serving.app.methods_for", lambda _: ["game", "presence", "decision", "occlusion"])
    page = opened(f"#p={PAIR[0]}&h={PAIR[1]}&m=game&b=all")
    expect(page.locator("#methods .agreement:visible")).to_have_text([re.compile("Rank correlation with game")] * 3)
    shown = page.locator("#methods article:visible").evaluate_all("all => all.map(one => one.dataset.method)")
    assert shown == ["decision", "occlusion", "presence"]


def test_words_carry_the_models_numbers(page, nli):
    found = nli.explain(*PAIR, method="decision")
    strongest, number = strongest_of(found)
    words(page).nth(strongest).hover()
    expect(page.locator("#words .readout")).to_contain_text(number)
    expect(page.locator("#words .readout")).to_contain_text(f"α {found.alpha[strongest]:.2f}")
    i, j = max(((i, j) for i in range(8) for j in range(i)), key=lambda at: abs(found.interactions[at[0]][at[1]]))
    J = found.interactions[i][j]
    page.get_by_text("The strongest pairs").click()
    page.locator("#strongest li").filter(has_text=found.words[i]).first.hover()
    page.locator("#strongest .number").get_by_text(summary.signed(J, summary.digits([J]))).first.hover()
    expect(page.locator("#pairs .readout")).to_contain_text(f"J {summary.signed(J, summary.digits([J]))}")


def test_only_words_that_count_are_coloured(page, nli):
    """The same scale as in reports: nothing below a quarter of the strongest."""
    found = nli.explain(*PAIR, method="decision")
    largest = max(map(abs, found.scores))
    shades = words(page).evaluate_all("all => all.map(word => Number(word.style.getPropertyValue('--a')))")
    assert shades == pytest.approx([DRAWING.tint(score / largest) for score in found.scores], abs=1e-3)


def test_words_that_answer_each_other_are_joined(page, nli):
    found = nli.explain(*PAIR, method="decision")
    answers = summary.answers(found)
    lines = page.locator("#first .answers path")
    expect(lines).to_have_count(len(answers))
    i, j, J = answers[0]
    expect(page.locator("#first .answers")).to_have_attribute(
        "aria-label", re.compile(f"^Words that answer each other: .*{found.words[i]}.* and .*{found.words[j]}")
    )
    ends = lines.last.evaluate("""line => {  // the strongest is drawn last, from the premise down to the hypothesis
        const frame = line.ownerSVGElement.getBoundingClientRect();
        const ends = [0, line.getTotalLength()].map(at => line.getPointAtLength(at));
        return ends.map(({x, y}) => [frame.x + x, frame.y + y]);
    }""")
    above, below = (words(page).nth(k).bounding_box() for k in (i, j))
    assert ends[0] == pytest.approx([above["x"] + above["width"] / 2, above["y"] + above["height"]], abs=1)
    assert ends[1] == pytest.approx([below["x"] + below["width"] / 2, below["y"]], abs=1)
    lines.last.dispatch_event("pointerenter")
    expect(page.locator("#words .readout")).to_contain_text(f"J {summary.signed(J, summary.digits([J]))}")
    words(page).nth(i).click()
    fewer = what_if.explain(nli, *PAIR, removed=[i], method="decision", target=found.target)
    expect(lines).to_have_count(len(summary.answers(fewer)))


def test_a_word_is_struck_out_and_put_back(page, nli):
    before = page.locator("#said").inner_text()
    words(page).nth(1).click()
    expect(words(page).nth(1)).to_have_attribute("aria-pressed", "true")
    said = what_if.explain(nli, *PAIR, removed=[1], method="decision").prediction
    expect(page.locator("#labels .said")).to_contain_text(f"{100 * said.probabilities[said.label]:.1f} %")
    expect(page.locator("#compared")).to_contain_text("dogs")
    expect(page.locator("#compared")).to_contain_text("Before: " + nli.predict(*PAIR).label)
    expect(page.locator("#labels .track b").first).to_be_visible()
    expect(page.locator("#spins g.gone")).to_have_count(1)
    expect(page.locator("#matrix text.gone")).to_have_count(2)
    page.get_by_text("change", exact=True).click()
    expect(page.locator("#matrix-said")).to_contain_text("now minus before")
    words(page).nth(1).click()
    expect(page.locator("#said")).to_have_text(before)
    expect(page.locator("#undo")).to_be_hidden()
    expect(page.locator("#spins g.gone")).to_have_count(0)


def test_when_every_word_is_gone_it_says_so(page):
    for i in range(8):
        words(page).nth(i).click()
        expect(words(page).nth(i)).to_have_attribute("aria-pressed", "true")
        expect(page.locator("#main")).to_have_attribute("data-busy", "false")  # an answer moves the words below it
    expect(page.locator("#problem")).to_contain_text("every word is struck out")
    expect(page.locator("#main")).to_have_attribute("data-stale", "true")  # what is shown is of fewer words gone
    page.locator("#undo").click()
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#first button.gone")).to_have_count(0)


def heights(page):
    """How far each small dot, a word in a head, is from the middle: 1 is fully on or off, 0 undecided."""
    script = """dots => dots.map(dot => Math.abs(2 * parseFloat(dot.style.transform.slice(11)) / 150 - 1))"""
    return page.locator("#spins .dot").evaluate_all(script)


def test_the_temperature_melts_and_freezes_the_spins(page, nli):
    slider = page.locator("#factor")
    slider.focus()
    decided = {}
    for key, shown, factor in (("End", "32", 31.62), ("Home", "0.032", 0.03162)):
        page.keyboard.press(key)
        expect(page.locator("#compared")).to_contain_text(f"temperature × {shown}.")
        settled(page)
        alpha = what_if.explain(nli, *PAIR, temperature_factor=factor).per_head["alpha"]
        decided[key] = [abs(2.0 * row[i] - 1.0) for i in range(8) for row in alpha]
        assert heights(page) == pytest.approx(decided[key], abs=0.002)
    assert max(decided["End"]) < 0.3 < 0.9 < sum(decided["Home"]) / 32
    page.locator("#neutral").click()
    expect(page.locator("#undo")).to_be_hidden()
    assert slider.input_value() == "0"


def test_another_method_is_shown_when_asked_for(page, nli):
    game = row(page, "game")
    expect(game).to_contain_text("How much each word adds to what the attention layer passes on")
    figures = measured("game", nli.model)
    expect(game.locator(".measured")).to_contain_text(
        f"{figures['faithfulness']:.2f} faithfulness, chance {figures['chance']:.2f}".replace("0.", ".")
    )
    expect(game.locator(".measured")).to_contain_text("the first model that shipped, 500 pairs of snli/dev")
    game.get_by_role("button", name="Show").click()
    found = nli.explain(*PAIR, method="game")
    strongest, number = strongest_of(found)
    expect(game.locator(".text .w").nth(strongest)).to_have_attribute("title", re.compile(re.escape(number)))
    expect(game).to_contain_text("Rank correlation with decision")
    expect(page).to_have_url(re.compile("b=game"))
    game.get_by_role("button", name="Hide").click()
    expect(game.locator(".text .w")).to_have_count(0)
    use(page, "game")
    expect(page.locator("#other-method")).to_contain_text("By the method “game”: how much each word adds to the norm")
    expect(page.locator("#ask")).to_be_hidden()
    expect(game).to_be_hidden()
    page.get_by_role("button", name="Back to the recommended one").click()
    expect(page.locator("#compare-note")).to_contain_text("presence (recommended)")


def test_all_methods_fill_in_as_they_finish(opened, monkeypatch):
    others = ["game", "attention", "occlusion"]  # as if there were no slow ones
    monkeypatch.setattr("neurogame.serving.app.methods_for", lambda _: ["decision", *others])
    page = opened(f"#p={PAIR[0]}&h={PAIR[1]}")
    held = []
    page.route(
        "**/explain", lambda route: held.append(route) if "occlusion" in route.request.post_data else route.continue_()
    )
    methods(page)
    page.get_by_role("button", name="Show all methods").click()
    for name in others[:2]:
        expect(row(page, name).locator(".agreement")).to_contain_text("Rank correlation with decision")
    expect(row(page, "occlusion").locator("progress")).to_be_visible()
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    expect(row(page, "occlusion").locator(".agreement")).to_contain_text("Rank correlation with decision")
    expect(row(page, "occlusion").locator("progress")).to_be_hidden()
    page.unroute("**/explain")
    words(page).nth(1).click()
    expect(page.locator("#main .w.gone")).to_have_count(4)
    expect(page.locator("#methods .agreement:visible").last).to_contain_text("over 7 words")


def test_a_slow_method_can_be_cancelled(page):
    held, failed = [], []
    page.on("requestfailed", lambda request: failed.append(request.post_data_json["method"]))
    page.route(
        "**/explain", lambda route: held.append(route) if '"input"' in route.request.post_data else route.continue_()
    )
    row(page, "input").get_by_role("button", name="Show").click()
    cancel = row(page, "input").get_by_role("button", name="Cancel")
    while not held:
        page.wait_for_timeout(20)
    words(page).nth(0).hover()  # looking elsewhere does not stop it
    expect(row(page, "input").locator(".agreement")).to_contain_text("s of about")
    with page.expect_event("requestfailed"):  # it may come after the page has said so
        cancel.click()
    expect(row(page, "input").locator(".agreement")).to_have_text("Cancelled.")
    assert failed == ["input"]
    expect(page.locator("#problem")).to_be_hidden()


def test_a_method_that_does_not_follow_the_temperature_says_so(page):
    row(page, "occlusion").get_by_role("button", name="Show").click()
    agreement = row(page, "occlusion").locator(".agreement")
    expect(agreement).to_contain_text("Rank correlation")
    page.locator("#factor").fill("0.5")
    expect(agreement).to_contain_text("asks the model as it is")
    use(page, "occlusion")
    expect(page.locator("#unmoved")).to_contain_text("can be turned for decision, game")
    expect(page.locator("#factor")).to_be_disabled()
    expect(page.locator("#gamma")).to_contain_text("× 1.0")
    expect(page.locator("#problem")).to_be_hidden()


def test_why_one_label_rather_than_another(page, nli):
    page.get_by_text("Ask about another label").click()
    page.select_option("#target", "neutral")
    expect(page.locator("#first .legend")).to_contain_text("for neutral")
    page.select_option("#contrast", "entailment")
    expect(page.locator("#first .legend")).to_contain_text("for entailment")
    expect(page.locator("#reasons")).to_have_text(
        summary.reasons(nli.explain(*PAIR, method="decision", target="neutral", contrast="entailment")),
        ignore_case=True,
    )
    assert "neutral" not in page.locator("#contrast option").all_inner_texts()


def test_a_link_holds_everything(page, opened):
    use(page, "game")
    row(page, "decision").get_by_role("button", name="Show").click()
    words(page).nth(4).click()
    page.locator("#factor").fill("0.3")
    expect(page.locator("#compared")).to_contain_text("temperature × 2.0")
    expect(page).to_have_url(re.compile("x=4&g=1.995"))
    other = opened("#" + page.url.partition("#")[2])
    for place in ("#said", "#compared", "#gamma", "#first", "#network-said", "#other-method"):
        expect(other.locator(place)).to_have_text(page.locator(place).inner_text(), use_inner_text=True)
    expect(row(other, "decision").locator(".agreement")).to_contain_text("Rank correlation with game")
    assert other.locator("#premise").input_value() == PAIR[0]
    expect(words(other).nth(4)).to_have_attribute("aria-pressed", "true")
    other.evaluate("location.hash = '#p=a+girl+reads+.&h='")
    expect(words(other)).to_have_count(4)


@pytest.mark.parametrize("fragment", ["#p=dogs&m=nothing&t=perhaps&x=99.a.-1&g=-3&v=x", "#nothing", "#p=%00&h=%ff"])
def test_a_broken_link_still_opens(opened, fragment):
    expect(opened(fragment).locator("#said strong")).to_be_visible()


def test_downloads(page, nli, tmp_path):
    words(page).nth(1).click()
    settled(page)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download JSON").click()
    waiting.value.save_as(tmp_path / "explanation.json")
    found = Explanation.from_dict(json.loads((tmp_path / "explanation.json").read_text(encoding="utf-8")))
    assert (found.premise, found.hypothesis) == PAIR
    assert found.diagnostics["removed"] == [1]
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download HTML").click()
    waiting.value.save_as(tmp_path / "explanation.html")
    text = (tmp_path / "explanation.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert f"<dd>{found.diagnostics['removed'][0]}</dd>" in text
    expect(page.locator("#done")).to_have_text("explanation.html saved.")


def test_a_link_can_be_copied(browser, opened, address):
    page = opened(LINK, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#done")).to_have_text("Link copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


ATTACK = (
    """<img src=x onerror="window.hit=1"> </script><script>window.hit=1</script> "><svg/onload=window.hit=1>""",
    "{{constructor.constructor('window.hit=1')()}} ${window.hit=1} <style>*{display:none}</style> javascript:hit=1",
)


def test_text_stays_text(page, tmp_path):
    count = sum(len(text.split()) for text in ATTACK)
    page.fill("#premise", ATTACK[0])
    page.fill("#hypothesis", ATTACK[1])
    expect(words(page)).to_have_count(count)
    row(page, "game").get_by_role("button", name="Show").click()
    expect(row(page, "game")).to_contain_text("Rank correlation")
    words(page).first.click()
    words(page).last.hover()
    expect(page).to_have_url(re.compile("x=0"))
    page.reload()
    expect(words(page)).to_have_count(count)
    assert page.evaluate("window.hit") is None
    assert page.locator("img, main script, main style, iframe").count() == 0
    assert page.locator("#first bdi").first.inner_text() == ATTACK[0].split()[0]
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download HTML").click()
    path = tmp_path / "explanation.html"
    waiting.value.save_as(path)
    assert escape(ATTACK[0].split()[0]) in path.read_text(encoding="utf-8")
    page.goto(path.as_uri())
    assert page.evaluate("window.hit") is None


def test_texts_of_any_kind(page):
    for premise, hypothesis, count in (
        ("שלום עולם", "👩‍👧 🙂", 4),
        ("\u202ea\u200b", "\u0007\u0001 b", 3),
        ("dogs", "dogs", 2),
    ):
        page.fill("#premise", premise)
        page.fill("#hypothesis", hypothesis)
        expect(words(page)).to_have_count(count)
        expect(page.locator("#said strong")).to_be_visible()
        expect(page.locator("#problem")).to_be_hidden()
        if premise.startswith("ש"):
            expect(page.locator("#first .text").first).to_have_attribute("dir", "rtl")
        elif count == 3:  # nothing turns the page round or stays unseen
            assert page.locator("#first bdi").all_inner_texts() == ["\\u202ea\u200b", "\\u0007\\u0001", "b"]


def test_inline_scripts_would_not_run(browser, address):
    """The policy holds even for what should never happen: markup that comes from a text."""
    page = browser.new_page()
    page.goto(address)
    violated = """() => new Promise(heard => {
        document.addEventListener("securitypolicyviolation", event => heard(event.violatedDirective));
        try {
            document.body.insertAdjacentHTML("beforeend", '<img src="data:," onerror="window.hit=1">');
        } catch { }
    })"""
    assert page.evaluate(violated) in ("require-trusted-types-for", "script-src-attr")  # whichever comes first
    assert page.evaluate("window.hit") is None
    page.close()


def test_the_keyboard_is_enough(opened):
    page = opened(LINK)
    expect(words(page)).to_have_count(8)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the words"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")  # back to the recommended method
    page.keyboard.press("Tab")
    expect(words(page).nth(0)).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(words(page).nth(1)).to_have_attribute("aria-pressed", "true")
    expect(words(page).nth(1)).to_be_focused()
    expect(page.locator("#compared")).to_contain_text("dogs")
    page.keyboard.press("End")
    expect(words(page).nth(3)).to_be_focused()
    page.keyboard.press("Tab")
    expect(words(page).nth(4)).to_be_focused()  # the hypothesis is the next stop, not the next word
    for _ in range(6):  # another label, link, two downloads, details, the slider
        page.keyboard.press("Tab")
    expect(page.locator("#factor")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#compared")).to_contain_text("temperature × 0.89")
    expect(page.locator("#verdict [role=status]")).to_have_attribute("aria-live", "polite")


def test_everything_has_a_name(page):
    """Every control and drawing is announced."""
    unnamed = page.evaluate("""() => [...document.querySelectorAll("button, select, textarea, input, svg[role=img]")]
        .filter(e => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.labels?.length
                       || e.textContent.trim())).map(e => e.outerHTML.slice(0, 80))""")
    assert unnamed == []
    assert "Matrix of couplings" in page.locator("#matrix svg").get_attribute("aria-label")
    expect(words(page).nth(1)).to_have_attribute("aria-label", re.compile(r"dogs, (for|against|weak).*, [+−]?\d"))


def test_a_phone_is_wide_enough(opened):
    long = "the old man sees a dog and the girl sees a cat in the garden . " * 3
    page = opened(f"#p={long}&h={'boat' * 30}&m=decision", viewport={"width": 768, "height": 700}, has_touch=True)
    expect(page.locator("#matrix svg")).to_be_visible()
    for width in (768, 390, 320):
        page.set_viewport_size({"width": width, "height": 700})
        expect(page.locator("#network svg")).to_be_visible()
        page.wait_for_function("width => document.scrollingElement.scrollWidth <= width", arg=width)  # drawn anew
    words(page).nth(2).tap()
    expect(words(page).nth(2)).to_have_attribute("aria-pressed", "true")


CONTRASTS = """() => {
    const rgba = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
    const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => a * c + (1 - a) * under[i]);
    const ground = (e) => rgba(getComputedStyle(e).backgroundColor);
    const behind = (e) => e ? over(ground(e), behind(e.parentElement)) : [255, 255, 255];
    const light = (rgb) => rgb.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const texts = ".w bdi, .note, label, .labels span, #said, #reasons, .readout, .method p, .on, "
        + "button, .legend span, li, summary, a";
    return [...document.querySelectorAll(texts)]
        .filter((e) => e.checkVisibility() && e.innerText?.trim() && !e.disabled)
        .map((e) => {
            const paper = behind(e), ink = over(rgba(getComputedStyle(e).color), paper);
            const [low, high] = [light(ink), light(paper)].sort((a, b) => a - b);
            return [(high + 0.05) / (low + 0.05), e.outerHTML.slice(0, 60)];
        }).filter(([ratio]) => ratio < 4.5);
}"""


def test_light_and_dark_can_be_read(opened):
    """Every text has the contrast that WCAG asks for, on the colour of a word too; motion can be switched off."""
    page = opened(LINK + "&b=game", color_scheme="light", reduced_motion="no-preference")
    expect(words(page)).to_have_count(8)
    colour = "getComputedStyle(document.body).backgroundColor"
    moving = "getComputedStyle(document.querySelector('#labels .track i')).transitionDuration"
    light = page.evaluate(colour)
    assert page.evaluate(moving) != "0s"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moving) == "0s"
    assert page.evaluate(CONTRASTS) == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert page.evaluate(colour) != light
    assert page.evaluate(CONTRASTS) == []


def test_a_refused_pair_is_said_in_one_line(page):
    page.fill("#premise", "dogs " * 700)
    expect(page.locator("#problem")).to_contain_text("at most 600 are explained")
    expect(page.locator("#said strong")).to_be_visible()  # it is still predicted
    expect(page.locator("#words")).to_be_hidden()
    page.fill("#premise", "x" * 100_000)
    expect(page.locator("#problem")).to_have_text("premise: String should have at most 20000 characters, got 100000")
    expect(page.locator("#said")).to_have_text("No answer.")  # nothing of another pair is left
    expect(page.locator("#labels li")).to_have_count(0)
    page.fill("#premise", "dogs")
    expect(page.locator("#problem")).to_be_hidden()
    expect(words(page)).to_have_count(5)


def test_a_server_that_is_gone_is_said_too(page):
    page.context.set_offline(True)
    words(page).nth(0).click()
    expect(page.locator("#problem")).to_have_text("The server does not answer; is it still running?")
    page.context.set_offline(False)
    words(page).nth(0).click()
    expect(page.locator("#problem")).to_be_hidden()


def test_warnings_stand_where_they_help(page):
    for premise, hypothesis, said in (
        ("the girl sees the man .", "the man sees the girl .", "in another order"),
        ("der Hund und die Katze sind nicht da", "dogs", "The premise does not look like English"),
        ("", "dogs", "The premise is empty"),
        ("dogs " * 60, "dogs", "not read: it is longer than 40 tokens"),
    ):
        page.fill("#premise", premise)
        page.fill("#hypothesis", hypothesis)
        expect(page.locator("#warnings")).to_contain_text(said)
    page.fill("#premise", "a dog runs .")
    page.fill("#hypothesis", "a dog .")
    expect(page.locator("#warnings")).not_to_contain_text("English")


def test_a_grounded_game_is_checked_by_real_deletion(browser):
    """The recommended method of such a model: its claims, tried on the model itself, are what is shown."""
    grounded = NLI(tiny.game_model(), tiny.tokenizer(), name="grounded")
    found = grounded.explain(*PAIR)
    checks = summary.checks(found)
    assert checks
    with served(grounded) as address:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address + f"#p={PAIR[0]}&h={PAIR[1]}")
        expect(page.locator("#checks li")).to_have_count(len(checks))
        for row, check in zip(page.locator("#checks li").all(), checks, strict=True):
            expect(row).to_contain_text(f"{check['label']} {100 * check['probability']:.0f} %")
            expect(row).to_contain_text("only" if check["kind"] == "alone" else "without")
        expect(page.locator("#heat-note")).to_contain_text(f"among the reasons for {found.target}")
        expect(page.locator("#spins g.kept")).to_have_count(len(found.rationale or ()))
        expect(page.locator("#compare-note")).to_contain_text("decision (recommended)")
        expect(page.locator("#trust-note")).not_to_contain_text("efficiency")
        context.close()


def test_a_model_that_gives_only_logits_is_explained_too(browser):
    """No weights, no spins, no grounded game, as in ONNX: words removed at the input, and no part that has nothing."""
    plain = NLI(tiny.model("cls"), tiny.tokenizer(), name="plain")
    with served(plain) as address:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address + f"#p={PAIR[0]}&h={PAIR[1]}")
        expect(page.locator("#compare-note")).to_contain_text("input (recommended)")
        expect(page.locator("#reasons")).to_have_text(summary.reasons(plain.explain(*PAIR)), ignore_case=True)
        expect(page.locator("#checks li")).to_have_count(3)
        expect(page.locator("#slider")).to_be_hidden()
        context.close()


def test_a_tap_points_until_the_next_one(opened, nli):
    page = opened(LINK, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    expect(page.locator("#words .readout")).to_contain_text("Tap a word")
    for text in ("Point at a word", "Point at a line"):
        expect(page.get_by_text(text)).to_be_hidden()
    page.locator("#matrix rect[data-value]").first.tap()
    expect(page.locator("#pairs .readout")).to_contain_text("J ")
    page.locator("#pairs h2").tap()
    expect(page.locator("#pairs .readout")).to_contain_text("Tap a line or a cell")
    page.locator("#spins g[data-word='1'] .hit").tap(position={"x": 5, "y": 30})
    expect(page.locator("#words .readout")).to_contain_text(f"α {nli.explain(*PAIR, method='decision').alpha[1]:.2f}")
    hidden = page.evaluate("""() => [...document.querySelectorAll(".scroll")].filter(box => box.checkVisibility()
        && box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== "auto").map(box => box.id)""")
    assert hidden == []  # what is wider than the screen can be scrolled to


CSV = """premise,hypothesis,gold_label,note
two dogs sleep .,the dogs run .,contradiction,x
"nobody ""sings"" ,
.",a man sings a song .,,"a, b"
a girl reads .,<img src=x onerror=window.hit=1>,entailment,
"""


def many(page, text=CSV):
    page.get_by_text("Many pairs", exact=True).first.click()
    page.fill("#many-text", text)
    page.get_by_role("button", name="Answer them").click()


def test_many_pairs_are_answered_in_a_table(page, nli, tmp_path):
    many(page)
    pairs = [
        PAIR,
        ('nobody "sings" ,\n.', "a man sings a song ."),
        ("a girl reads .", "<img src=x onerror=window.hit=1>"),
    ]
    said = nli.predict(pairs)
    rows = page.locator("#many-table tbody tr")
    for part in page.locator("section.one").all():
        expect(part).to_be_hidden()
    expect(rows.first).to_have_class("wrong" if said[0].label != "contradiction" else "")
    expect(page.locator("#many-said")).to_have_text("3 of 3 answered.")
    for line, (premise, hypothesis), one in zip(rows.all(), pairs, said, strict=True):
        expect(line).to_contain_text(premise.split()[0])
        expect(line).to_contain_text(hypothesis)
        expect(line).to_contain_text(f"{100 * one.probabilities[one.label]:.0f} %")
    assert page.evaluate("window.hit") is None
    page.get_by_role("button", name="confidence").click()
    surest = max(range(3), key=lambda i: -said[i].probabilities[said[i].label])
    expect(rows.first.get_by_role("button")).to_have_text(str(surest + 1))
    page.get_by_role("button", name="confidence").click()
    expect(page.locator("th", has_text="confidence")).to_have_attribute("aria-sort", "descending")
    page.fill("#many-filter", "song")
    expect(page.locator("#many-table tbody tr:visible")).to_have_count(1)
    page.fill("#many-filter", "")
    page.select_option("#many-label", said[0].label)
    expect(page.locator("#many-table tbody tr:visible")).to_have_count([one.label for one in said].count(said[0].label))
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download JSONL").click()
    waiting.value.save_as(tmp_path / "pairs.jsonl")
    records = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(record["premise"], record["hypothesis"]) for record in records] == pairs
    assert [record["answer"] for record in records] == [one.label for one in said]
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download CSV").click()
    waiting.value.save_as(tmp_path / "pairs.csv")
    with (tmp_path / "pairs.csv").open(encoding="utf-8", newline="") as file:
        assert [(record["premise"], record["hypothesis"]) for record in csv.DictReader(file)] == pairs
    page.select_option("#many-label", "")
    page.get_by_role("button", name="Open pair 2").click()
    expect(page.locator("#hypothesis")).to_have_value("a man sings a song .")
    expect(page.locator("#many")).to_be_hidden()
    page.get_by_role("button", name="Back to the table").click()
    expect(rows).to_have_count(3)


def test_many_pairs_can_be_stopped_and_come_from_a_file(page, tmp_path):
    held = []
    page.route("**/predict", lambda route: held.append(route))
    lines = [json.dumps({"sentence1": f"two dogs sleep {i} .", "sentence2": "dogs"}) for i in range(20)]
    (tmp_path / "some.jsonl").write_text("\n".join(lines), encoding="utf-8")
    page.get_by_text("Many pairs", exact=True).first.click()
    page.set_input_files("#many-file", tmp_path / "some.jsonl")
    expect(page.locator("#many-table tbody tr")).to_have_count(20)
    while len(held) < 8:
        page.wait_for_timeout(20)
    held[0].continue_()
    expect(page.locator("#many-table tbody tr").first).to_contain_text("%")  # each as it comes
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#many-said")).to_have_text("Stopped: 1 of 20 answered.")
    expect(page.get_by_role("button", name="Answer them")).to_be_visible()
    assert len(held) <= 10
    for name, content, said in (
        ("large.csv", b"a," + b"b" * 2_000_000, "2.0 MB: at most 2 MB"),
        ("image.csv", b"\xff\xfe,b", "image.csv is not a text in UTF-8."),
    ):
        page.set_input_files("#many-file", {"name": name, "mimeType": "text/csv", "buffer": content})
        expect(page.locator("#many-problem")).to_contain_text(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Nothing to answer"),
        ("a,b\n" * 1001, "1001 pairs: at most 1000"),
        ("premise,hypothesis", "no pair below it"),
        ("one column", "One column only"),
        ('{"premise": "a"}', "Pair 1 has no hypothesis."),
        ('{"premise": "a", "hypothesis": "b"}\n{oops', "Line 2 is not JSON."),
        ('a,"b', "A quote is never closed."),
    ],
)
def test_many_pairs_that_are_none_are_said_in_one_line(many_page, text, said):
    many(many_page, text)
    expect(many_page.locator("#many-problem")).to_contain_text(said)
    expect(many_page.locator("#many-stop")).to_be_hidden()


TOKEN = "a-token-for-a-test"


def test_a_token_is_asked_for_once(browser, nli):
    with served(nli, token=TOKEN) as address:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address + f"#p={PAIR[0]}&h={PAIR[1]}")
        field = page.get_by_label("token", exact=True)
        for given in ("not-the-token", TOKEN):
            expect(field).to_be_visible()
            expect(page.locator("#token-wrong")).to_be_visible(visible=given == TOKEN)
            field.fill(given)
            page.get_by_role("button", name="Continue").click()
        expect(page.locator("#said")).to_contain_text(nli.predict(*PAIR).label, ignore_case=True)
        expect(page.locator("#token")).to_be_hidden()
        page.reload()
        expect(page.locator("#said")).to_contain_text(nli.predict(*PAIR).label, ignore_case=True)
        assert TOKEN not in page.url
        context.close()


def test_without_a_token_it_says_so(browser, nli):
    with served(nli, token=TOKEN) as address:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#problem")).to_contain_text("a token is needed")
        context.close()


def test_it_waits_for_a_model_that_loads(browser, nli):
    go = threading.Event()

    def load():
        go.wait(60)
        return nli

    with served(load) as address:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address + f"#p={PAIR[0]}&h={PAIR[1]}")
        expect(page.locator("#said")).to_have_text("The model is loading …")
        go.set()
        expect(page.locator("#said")).to_contain_text(nli.predict(*PAIR).label, ignore_case=True)
        context.close()


def test_the_files_are_in_the_package():
    import neurogame.serving

    static = Path(neurogame.serving.__file__).parent / "static"
    assert {"index.html", "app.js", "style.css", "icon.svg"} <= {file.name for file in static.iterdir()}
