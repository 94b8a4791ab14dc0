"""Figures of an explanation: every kind as PNG and SVG, what a record lacks, words that look like mathematics."""

import itertools
import math
from dataclasses import replace

import pytest
import tiny
from matplotlib.text import Text

from neurogame.explanation.views import drawing
from neurogame.explanation.views.figures import KINDS, figure
from neurogame.nli import NLI


@pytest.fixture(scope="module")
def ex():
    found = NLI(tiny.model(), tiny.tokenizer(), name="tiny").explain(
        "the $old$ man sees a_b^{ dog .",
        "the man is old .",
        method="decision",
    )
    paths = [[0.5 + (alpha - 0.5) * (1 - 0.5**step) for step in range(6)] for alpha in found.alpha]
    return replace(found, diagnostics={**found.diagnostics, "trajectory": paths, "interactions_se": 0.0})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(ex, kind, tmp_path):
    assert figure(ex, kind).get_axes()
    for path in (tmp_path / "a.svg", tmp_path / "b.svg"):
        figure(ex, kind, path)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "$old$" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_png_and_mistakes(ex, tmp_path):
    figure(ex, "sentence", tmp_path / "new" / "x.png")
    assert (tmp_path / "new" / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="'picture' is unknown"):
        figure(ex, "picture")
    with pytest.raises(ValueError, match=r"\.png or \.svg"):
        figure(ex, "sentence", tmp_path / "x.pdf")
    bare = replace(ex, interactions=None, gate=None, diagnostics={})
    for kind in ("matrix", "network", "trajectory", "lambda"):
        with pytest.raises(ValueError, match=f"kind = '{kind}': an explanation by 'decision' of this pair has no"):
            figure(bare, kind)


def _texts(axes):
    return {text.get_text(): text for text in axes.texts}


@pytest.mark.parametrize("swing", [False, True])
def test_words_of_a_sentence_do_not_touch(ex, swing):
    """Boxes of what is drawn, letters wide and narrow."""
    words = ("WWWWWWWWWW", "iiiiiiiiii", "MMMMMMMMMM", *ex.words[3:])
    wide = replace(ex, words=words, swing=tuple(range(len(words))) if swing else ())
    canvas = figure(wide, "sentence")
    canvas.draw_without_rendering()
    rows = {}
    for text in canvas.axes[0].texts:
        rows.setdefault(text.get_position()[1], []).append(text.get_window_extent())
    for boxes in rows.values():
        ordered = sorted(boxes, key=lambda box: box.x0)
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(ordered))
        assert ordered[-1].x1 < canvas.bbox.x1


def test_a_text_from_right_to_left_is_drawn_so(ex):
    n = sum(side == "premise" for side in ex.sides)
    words = tuple("אבגדהוזחט"[i] * 3 if i < n else word for i, word in enumerate(ex.words))
    found = _texts(figure(replace(ex, words=words, premise=" ".join(words[:n])), "sentence").axes[0])
    places = [found[word].get_position()[0] for word in words[:n]]
    assert places == sorted(places, reverse=True)
    assert {found[word].get_ha() for word in words[:n]} == {"right"}
    after = [found[word].get_position()[0] for word in words[n:] if word != "."]
    assert after == sorted(after)


@pytest.mark.parametrize("kind", ["matrix", "network"])
def test_the_texts_are_named(ex, kind):
    found = figure(ex, kind).axes[0].texts
    for side in ("premise", "hypothesis"):
        assert sum(text.get_text() == side for text in found) == (2 if kind == "matrix" else 1)
    alone = [i for i, side in enumerate(ex.sides) if side == "premise"]
    silent = [i for i, side in enumerate(ex.sides) if side == "hypothesis"]
    half = figure(replace(ex, diagnostics={"unread": silent}), kind).axes[0].texts
    assert len(alone) > 1
    assert not any(text.get_text() == "hypothesis" for text in half)


def test_dashes_do_not_grow_with_the_line(ex):
    lines = [patch for patch in figure(ex, "network").axes[0].patches if type(patch).__name__ == "PathPatch"]
    dashes = {patch._dash_pattern[1] and tuple(patch._dash_pattern[1]) for patch in lines}
    assert dashes <= {None, (3, 2)}
    assert (3, 2) in dashes
    assert len({patch.get_linewidth() for patch in lines}) > 1


def test_leaders_end_before_the_names(ex):
    canvas = figure(ex, "trajectory")
    canvas.draw_without_rendering()
    for name in canvas.axes[0].texts:
        left = Text.get_window_extent(name).x0  # of an annotation, it would be that of its line as well
        line = name.arrow_patch.get_path().get_extents(name.arrow_patch.get_transform())
        assert line.x1 <= left + 0.5


def test_the_ring_has_a_place_for_each_word(ex):
    shown = list(range(len(ex.words)))
    angles, arcs = drawing.ring(ex, shown)
    assert sorted(angles) == shown
    turned = sorted(angle % (2 * math.pi) for angle in angles.values())
    assert min(b - a for a, b in itertools.pairwise(turned)) > 0.1
    assert all(math.sin(angles[i]) < 0.75 for i in shown if ex.sides[i] == "premise")
    assert len(arcs) == 2
    for side in ("premise", "hypothesis"):
        alone = [i for i in shown if ex.sides[i] == side]
        assert sorted(drawing.ring(ex, alone)[0]) == alone


def test_the_strongest_lines_are_the_strongest(ex):
    found = drawing.strongest(ex, list(range(len(ex.words))))
    sizes = [abs(pair.value) for pair in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == max(abs(value) for row in ex.interactions for value in row)
    assert drawing.strongest(replace(ex, interactions=None), [0, 1]) == []


@pytest.mark.parametrize("places", [{0: 5.0, 1: 5.0, 2: 5.0}, {0: 0.0, 1: 50.0}, {0: 99.0, 1: 98.0, 2: 97.0}])
def test_names_stand_apart_in_their_order(places):
    found = drawing.spread(places, 10.0, 0.0, 100.0)
    ordered = sorted(found, key=lambda i: found[i])
    assert [places[i] for i in ordered] == sorted(places.values())
    assert all(found[b] - found[a] >= 10.0 for a, b in itertools.pairwise(ordered))
    assert all(0.0 <= y <= 100.0 for y in found.values())


def test_bounds_hold_all_paths():
    low, high = drawing.bounds({0: (0.5, 0.5), 1: (0.5, 0.501)})
    assert low < 0.5 < 0.501 < high
    assert high - low == pytest.approx(0.1)
    assert drawing.bounds({0: (0.0, 1.0)}) == (0.0, 1.0)
