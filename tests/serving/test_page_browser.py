"""The page in a real browser: type, predict, strike out, γ, methods side by side, links, downloads, hostile text, keys.

A tiny model behind a real server, and the Chromium of the machine; where there is none these tests are skipped.
"""

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
from neurogame.nli import NLI
from neurogame.serving import server
from neurogame.serving.settings import Settings

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
EXECUTABLE = os.environ.get("NEUROGAME_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason=f"no Chromium is found on this machine ({', '.join(NAMES)})")

PAIR = ("two dogs sleep .", "the dogs run .")
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
    found = opened(f"#p={PAIR[0]}&h={PAIR[1]}")
    expect(words(found)).to_have_count(8)
    return found


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
        f"{said.label.capitalize()} with probability {said.probabilities[said.label]:.3f}"
    )
    for row, (label, p) in zip(page.locator("#labels li").all(), said.probabilities.items(), strict=True):
        expect(row).to_have_text(f"{label}{p:.3f}")


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
    expect(page.get_by_role("button", name="Download JSON")).to_be_disabled()
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
    page.route("**/explain", lambda route: held.append(route))
    page.fill("#premise", "nobody sings .")
    said = nli.predict("nobody sings .", PAIR[1])
    expect(page.locator("#said")).to_contain_text(f"{said.probabilities[said.label]:.3f}")
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


def test_presence_is_a_method_of_the_page(page, nli):
    expect(page.locator("#method option[value=presence]")).to_have_text("presence")
    page.select_option("#method", "presence")
    found = nli.explain(*PAIR, method="presence")
    strongest = max(range(8), key=lambda i: abs(found.scores[i]))
    number = summary.signed(found.scores[strongest], summary.digits(found.scores))
    expect(page.locator("#unmoved")).to_contain_text("Presence asks the model as it is")
    expect(words(page).nth(strongest).locator("sup")).to_have_text(number)
    words(page).nth(1).click()
    expect(page.locator("#compared")).to_contain_text("dogs")
    expect(page.locator("#problem")).to_be_hidden()


def test_slow_methods_are_asked_last(opened, monkeypatch):
    monkeypatch.setattr("neurogame.serving.app.methods_for", lambda _: ["game", "presence", "decision", "occlusion"])
    page = opened(f"#p={PAIR[0]}&h={PAIR[1]}&b=all")
    expect(page.locator("#methods .agreement")).to_have_text([re.compile("Rank correlation with game")] * 3)
    shown = page.locator("#methods article[data-method]").evaluate_all("all => all.map(one => one.dataset.method)")
    assert shown == ["decision", "occlusion", "presence"]


def test_words_carry_the_models_numbers(page, nli):
    found = nli.explain(*PAIR, method="decision")
    strongest = max(range(8), key=lambda i: abs(found.scores[i]))
    number = summary.signed(found.scores[strongest], summary.digits(found.scores))
    expect(words(page).nth(strongest).locator("sup")).to_have_text(number)
    words(page).nth(strongest).hover()
    expect(page.locator("#words .readout")).to_contain_text(f"α {found.alpha[strongest]:.2f}")
    i, j = max(((i, j) for i in range(8) for j in range(i)), key=lambda at: abs(found.interactions[at[0]][at[1]]))
    J = found.interactions[i][j]
    page.locator("#strongest li").filter(has_text=found.words[i]).first.hover()
    page.locator("#strongest .number").get_by_text(summary.signed(J, summary.digits([J]))).first.hover()
    expect(page.locator("#pairs .readout")).to_contain_text(f"J {summary.signed(J, summary.digits([J]))}")


def test_a_word_is_struck_out_and_put_back(page, nli):
    before = page.locator("#said").inner_text()
    words(page).nth(1).click()
    expect(words(page).nth(1)).to_have_attribute("aria-pressed", "true")
    said = what_if.explain(nli, *PAIR, removed=[1]).prediction
    expect(page.locator("#said")).to_contain_text(f"{said.probabilities[said.label]:.3f}")
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
        expect(page.locator("#compared")).to_contain_text(f"γ × {shown}.")
        settled(page)
        alpha = what_if.explain(nli, *PAIR, temperature_factor=factor).per_head["alpha"]
        decided[key] = [abs(2.0 * row[i] - 1.0) for i in range(8) for row in alpha]
        assert heights(page) == pytest.approx(decided[key], abs=0.002)
    assert max(decided["End"]) < 0.3 < 0.9 < sum(decided["Home"]) / 32
    page.locator("#neutral").click()
    expect(page.locator("#undo")).to_be_hidden()
    assert slider.input_value() == "0"


def test_two_methods_stand_side_by_side(page, nli):
    page.select_option("#compare", "game")
    second = page.locator("article[data-method=game]")
    found = nli.explain(*PAIR, method="game")
    strongest = max(range(8), key=lambda i: abs(found.scores[i]))
    number = summary.signed(found.scores[strongest], summary.digits(found.scores))
    expect(second.locator(".text .w").nth(strongest).locator("sup")).to_have_text(number)
    expect(second).to_contain_text("Rank correlation with decision")
    left, right = page.locator("#first").bounding_box(), second.bounding_box()
    assert left["x"] + left["width"] <= right["x"]
    page.select_option("#method", "game")
    expect(page.locator("#target")).to_be_disabled()
    expect(second).to_have_count(0)


def test_all_methods_stand_side_by_side(opened, monkeypatch):
    others = ["game", "occlusion", "attention"]  # as if there were no slow ones
    monkeypatch.setattr("neurogame.serving.app.methods_for", lambda _: ["decision", *others])
    page = opened(f"#p={PAIR[0]}&h={PAIR[1]}&b=all")
    expect(page.locator("#methods .agreement")).to_have_text([re.compile("Rank correlation with decision")] * 3)
    shown = page.locator("#methods article[data-method]").evaluate_all("all => all.map(one => one.dataset.method)")
    assert shown == others
    words(page).nth(1).click()
    expect(page.locator("#methods .w.gone")).to_have_count(4)
    expect(page.locator("#methods .agreement").last).to_contain_text("over 7 words")


def test_a_method_that_does_not_follow_the_temperature_says_so(page):
    page.select_option("#compare", "occlusion")
    expect(page.locator(".agreement")).to_contain_text("Rank correlation")
    page.locator("#factor").fill("0.5")
    expect(page.locator(".agreement")).to_contain_text("asks the model as it is")
    page.select_option("#method", "occlusion")
    expect(page.locator("#unmoved")).to_contain_text("can be turned for decision, game")
    expect(page.locator("#factor")).to_be_disabled()
    expect(page.locator("#gamma")).to_contain_text("γ × 1.0")
    expect(page.locator("#problem")).to_be_hidden()


def test_why_one_label_rather_than_another(page, nli):
    page.select_option("#target", "neutral")
    expect(page.locator("#first")).to_contain_text("the logit of neutral.")
    page.select_option("#contrast", "entailment")
    expect(page.locator("#first")).to_contain_text("the logit of neutral over entailment.")
    assert "neutral" not in page.locator("#contrast option").all_inner_texts()


def test_a_link_holds_everything(page, opened):
    page.select_option("#method", "game")
    page.select_option("#compare", "decision")
    words(page).nth(4).click()
    page.locator("#factor").fill("0.3")
    expect(page.locator("#compared")).to_contain_text("γ × 2.0")
    expect(page).to_have_url(re.compile("x=4&g=1.995"))
    other = opened("#" + page.url.partition("#")[2])
    for place in ("#said", "#compared", "#gamma", "#first", "#strongest"):
        expect(other.locator(place)).to_have_text(page.locator(place).inner_text(), use_inner_text=True)
    for place in ("#method", "#compare", "#premise"):
        assert other.locator(place).input_value() == page.locator(place).input_value()
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
    page = opened(f"#p={PAIR[0]}&h={PAIR[1]}", permissions=["clipboard-read", "clipboard-write"])
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
    page.select_option("#compare", "game")
    expect(page.locator(".agreement")).to_contain_text("Rank correlation")
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
    page = opened(f"#p={PAIR[0]}&h={PAIR[1]}")
    expect(words(page)).to_have_count(8)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the words"
    page.keyboard.press("Enter")
    for _ in range(4):  # method, explains, rather than, compare with
        page.keyboard.press("Tab")
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
    page.keyboard.press("Tab")
    expect(page.locator("#factor")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#compared")).to_contain_text("γ × 0.89")
    expect(page.locator("#said")).to_have_attribute("aria-live", "polite")


def test_everything_has_a_name(page):
    """Every control and drawing is announced."""
    unnamed = page.evaluate("""() => [...document.querySelectorAll("button, select, textarea, input, svg[role=img]")]
        .filter(e => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.labels?.length
                       || e.textContent.trim())).map(e => e.outerHTML.slice(0, 80))""")
    assert unnamed == []
    assert "Matrix of couplings" in page.locator("#matrix svg").get_attribute("aria-label")
    expect(words(page).nth(1)).to_have_attribute("aria-label", re.compile(r"dogs, [+−]?\d"))


def test_a_phone_is_wide_enough(opened):
    long = "the old man sees a dog and the girl sees a cat in the garden . " * 3
    page = opened(f"#p={long}&h={'boat' * 30}", viewport={"width": 768, "height": 700}, has_touch=True)
    expect(page.locator("#matrix svg")).to_be_visible()
    for width in (768, 390, 320):
        page.set_viewport_size({"width": width, "height": 700})
        expect(page.locator("#network svg")).to_be_visible()
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    words(page).nth(2).tap()
    expect(words(page).nth(2)).to_have_attribute("aria-pressed", "true")


CONTRASTS = """() => {
    const rgba = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
    const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => a * c + (1 - a) * under[i]);
    const ground = (e) => rgba(getComputedStyle(e).backgroundColor);
    const behind = (e) => e ? over(ground(e), behind(e.parentElement)) : [255, 255, 255];
    const light = (rgb) => rgb.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const texts = ".w bdi, .w sup, .note, label, .labels span, #said, .readout, button, .legend span, li, summary, a";
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
    page = opened(f"#p={PAIR[0]}&h={PAIR[1]}", color_scheme="light", reduced_motion="no-preference")
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
