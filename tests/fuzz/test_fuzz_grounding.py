"""The grounded game on anything: numbers that are none, texts that are none, explainers with one thing changed."""

import json
import shutil

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import changed, fuzz, scraps, spots, texts, tried, values
from test_fuzz_values import fine, gammas, tensors

import neurogame
from neurogame.explanation import METHODS, best
from neurogame.grounding.explainer import CONFIG, Explainer
from neurogame.nli import NLI

BASES = st.sampled_from([0.0, -1.5, 3, float("nan"), "b", None, True])


@given(st.data(), st.integers(0, 5), BASES, gammas)
@fuzz(3)
def test_hamiltonian(data, n, base, gamma):
    field = data.draw(tensors(n))
    coupling = data.draw(st.none() | tensors(n, n))
    if isinstance(coupling, torch.Tensor) and coupling.is_floating_point() and coupling.dim() == 2 and n > 0:
        coupling = coupling + coupling.mT
        coupling = coupling - torch.diag(coupling.diagonal())
    coalition = data.draw(st.lists(st.booleans(), min_size=n, max_size=n).map(torch.tensor) | scraps)
    with tried("Hamiltonian"):
        g = neurogame.Hamiltonian(field, coupling, base)
        assert fine(g.value(coalition), g.energy(torch.zeros(n)))
        alpha = g.marginals(gamma)
        assert ((alpha >= 0) & (alpha <= 1)).all()
        assert float(g.value(g.ground_state())) >= float(g.value(coalition)) - 1e-6 * (
            1 + abs(float(g.value(coalition)))
        )


@pytest.fixture(scope="module")
def fitted():
    nli = NLI(tiny.model(), tiny.tokenizer(), name="tiny")
    return nli, neurogame.ground(nli.model, nli.tokenizer, tiny.PAIRS * 3, steps=5, coalitions=2)


@given(
    st.lists(st.tuples(texts, texts), max_size=4), st.sampled_from([2, 3, 0, "x"]), st.sampled_from([[0], [9], ["a"]])
)
@fuzz(1)
def test_ground(pairs, coalitions, layers):
    with tried("ground"):
        found = neurogame.ground(
            tiny.model(), tiny.tokenizer(), pairs, steps=2, coalitions=coalitions, layers=layers, max_length=24
        )
        assert found.record["held_out"] >= 1


@given(data=st.data())
@fuzz(1)
def test_explainers_with_one_thing_changed(fitted, tmp_path_factory, data):
    nli, explainer = fitted
    folder = tmp_path_factory.mktemp("explainer") / "e"
    explainer.save_pretrained(folder)
    papers = json.loads((folder / CONFIG).read_text())
    path = data.draw(st.sampled_from(list(spots(papers))))
    (folder / CONFIG).write_text(json.dumps(changed(papers, path, data.draw(values))))
    try:
        with tried("Explainer"):
            nli.explainer = Explainer.from_pretrained(folder)
            assert fine(torch.tensor(nli.explain(*tiny.PAIRS[0], check=False).scores))
    finally:
        nli.explainer = None
        shutil.rmtree(folder.parent)


@given(st.sampled_from(["neurogame", "mean", "cls"]))
@fuzz(0.2)
def test_best(head):
    with tried("explanation.best"):
        assert METHODS[best(tiny.model(head=head))].applies(tiny.model(head=head))
