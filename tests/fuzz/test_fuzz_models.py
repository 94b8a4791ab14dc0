"""Models on any tensors, names and options: what comes out is right, or refused in one line before any work is done."""

import json

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from kinds import system
from support import ERRORS, changed, fuzz, scraps, spots, texts, tried, unicode, values
from test_fuzz_values import fine, gammas, names, tensors, vectors
from transformers import BertForSequenceClassification

import neurogame
from neurogame import game
from neurogame.explanation import METHODS, Question, explain, methods_for, named
from neurogame.export import export, exporting, folder
from neurogame.serving.settings import Settings
from neurogame.values import l1_normalise

KINDS = ["neurogame", "mean", "spins", "dam", "esim"]
CLASSES = {"dam": "DamForSequenceClassification", "esim": "EsimForSequenceClassification"}


@pytest.fixture(scope="module")
def models():
    return {kind: system(kind) for kind in KINDS}


# --- forward passes -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert():
    """What transformers' own model says to the same input."""
    config = tiny.encoder_config(num_labels=3, problem_type="single_label_classification")
    return BertForSequenceClassification(config).eval()


types = st.sampled_from([torch.int64, torch.int32, torch.bool, torch.float32, torch.uint8, torch.int16])


@st.composite
def batches(draw):
    """Ids, mask, segments and labels of a batch; now and then one of them has another shape, type or range."""
    rows, tokens = draw(st.sampled_from([(1, 4), (2, 6), (3, 3), (2, 1), (0, 4), (2, 0), (0, 0), (1, 60)]))
    draws = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    ids = torch.randint(5, 20, (rows, tokens), generator=draws)
    segments = (torch.arange(tokens) >= tokens // 2).long().expand(rows, tokens).clone()
    mask = torch.ones(rows, tokens, dtype=torch.int64)
    for row in mask:
        row[tokens - draw(st.integers(0, 1)) * (tokens > 2) :] = 0
    found = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    if draw(st.booleans()):
        found["labels"] = torch.randint(0, 3, (rows,), generator=draws)
    name, how = draw(st.sampled_from(list(found))), draw(st.integers(0, 9))
    one = found[name]
    if how == 0:
        found[name] = one.to(draw(types))
    elif how == 1 and one.numel():
        one.view(-1)[draw(st.integers(0, one.numel() - 1))] = draw(st.sampled_from([-1, -100, 2, 5, 10**6, -(2**40)]))
    elif how == 2:
        found[name] = one[..., : draw(st.integers(0, 3))]
    elif how == 3:
        found[name] = draw(st.sampled_from([one[:1], one.unsqueeze(0), one.unsqueeze(-1), one.flatten()]))
    elif how == 4:
        found[name] = draw(st.sampled_from([None, torch.zeros_like(one)]))
    elif how == 5:
        found[name] = torch.ones(rows, tokens, tokens, dtype=torch.int64)
    return found


@given(st.sampled_from(KINDS), batches(), st.booleans())
@fuzz(3)
def test_forward(models, bert, kind, batch, record):
    model = models[kind].model
    options = {"output_game": record} if kind not in CLASSES else {}
    with tried(
        f"{CLASSES.get(kind, 'NeuroGameForSequenceClassification')}.forward", (*ERRORS, IndexError, RuntimeError)
    ):
        try:
            with torch.no_grad():
                found = model(**batch, **options)
        except (IndexError, RuntimeError) as error:
            with pytest.raises(type(error)), torch.no_grad():  # the encoder's own word, or torch's
                bert(**batch)
            return
        if found.logits.shape != (len(batch["input_ids"]), 3):  # a row for several labels
            assert found.logits.shape == bert(**batch).logits.shape
        assert fine(found.logits)
        assert (found.loss is None) == (batch.get("labels") is None)


# --- names and options --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory, models):
    """A folder of a model, one that says that it is an export, and a file."""
    found = tmp_path_factory.mktemp("places")
    models["mean"].save_pretrained(found / "mean")
    (found / "file").write_text("x")
    (found / "export").mkdir()
    (found / "export" / "model.onnx").write_bytes(b"no graph")
    told = dict.fromkeys(folder.Manifest.__dataclass_fields__)
    told |= {"name": "tiny", "architecture": "x", "labels": ["a", "b", "c"], "temperature": 1.0, "max_length": 40}
    told |= {"parameters": 9, "inputs": ["input_ids", "attention_mask"], "outputs": ["logits", "alpha"]}
    told |= {"bank": {"seed": 0, "samples": 2, "tokens": 4}, "logit_error": 0.0, "versions": {"torch": "2"}}
    told |= {"sha256": folder.sums(found / "export"), "format": folder.FORMAT, "version": folder.VERSION}
    (found / "export" / "config.json").write_text(json.dumps(told))
    return found


@given(
    name=st.sampled_from(
        ["mean", "mean", "mean", "export", "file", ".", "mean/x", "", "~", "a/b", "a/b/c", "..", "x\ny/z/"]
    )
    | unicode
    | scraps,
    inside=st.booleans(),
    label_names=st.sampled_from([None, None, ["a", "b", "c"], ["a", "b"], "abc", ["e", "e", "n"]]) | st.lists(scraps),
    device=st.sampled_from([None, "cpu", "cuda", "cuda:99", "mps", "meta", "xla", "gpu", "cpu:3", "", 0, -1, 3.5])
    | texts,
    backend=st.sampled_from(["torch", "torch", "torch", "onnx", "jax", None, []]),
)
@fuzz()
def test_load(place, name, inside, **options):
    with tried("load"):
        nli = neurogame.load(place / name if inside else name, **options)
        assert nli.predict("two dogs sleep .", "dogs run .").label in nli.labels


@given(st.data())
@fuzz(3)
def test_an_export_with_one_thing_changed(place, data):
    path = place / "export" / "config.json"
    told = path.read_text()
    found = json.loads(told)
    try:
        path.write_text(json.dumps(changed(found, data.draw(st.sampled_from(list(spots(found)))), data.draw(values))))
        with tried("export.folder.read"):
            manifest = folder.read(place / "export")
            assert manifest.id2label == dict(enumerate(manifest.labels))
            assert set(manifest.label2id) == set(manifest.labels)
            assert all(isinstance(one, list) for one in (manifest.labels, manifest.inputs, manifest.outputs))
            assert manifest.temperature * manifest.max_length > 0
            json.dumps(manifest.to_dict())
    finally:
        path.write_text(told)


class BegunError(ValueError):
    """Where an export begins to work."""


@given(
    kind=st.sampled_from(KINDS),
    goal=st.sampled_from(["new", "new", "new", "mean", "file", "no/new", ""]) | unicode,
    extras=st.sampled_from([(), ["values"], ["couplings", "values"], "values", ["x"], None]) | st.lists(scraps),
    quantize=st.sampled_from([None, None, "int8", "int4", ""]) | scraps,
    samples=st.sampled_from([None, None, 2, 0, 2.5, "x"]) | scraps,
    seed=st.sampled_from([None, None, 0, 2**62, 2**62 + 1, -1]) | scraps,
)
@fuzz(3)
def test_export(models, place, kind, goal, **options):
    def begun(*_):
        raise BegunError("nothing was wrong")

    with pytest.MonkeyPatch.context() as patch, tried("export.export") as outcome:
        patch.setattr(exporting, "program", begun)
        patch.setattr(exporting, "_batches", lambda _: [{}])
        export(models[kind], place / goal, **options)
    assert outcome.refused
    if outcome.refused == "nothing was wrong":
        assert options["quantize"] in (None, "int8")
        assert options["samples"] is None or options["samples"] >= 1
        assert options["seed"] is None or 0 <= options["seed"] <= 2**62
        assert not (place / goal).exists()


@given(
    st.dictionaries(
        st.sampled_from(list(Settings.__dataclass_fields__)),
        scraps
        | st.sampled_from([1, 64, 0.5, float("inf"), "a" * 20, "a" * 15 + "\n", ["https://a.b"], ("*",), "https://x/"]),
        max_size=3,
    )
)
@fuzz(3)
def test_settings_of_a_server(options):
    with tried("serving.Settings"):
        found = Settings(**options)
        assert 0 < found.timeout < float("inf")
        assert found.token is None or len(found.token) >= 16
        assert found.token is None or found.token not in repr(found)


# --- explanations -------------------------------------------------------------------------------------------------


@given(scraps | st.sampled_from([*METHODS, "Gradient × input", "Integrated-Gradients", "kernel SHAP", "×"]))
@fuzz(3)
def test_names_of_methods(models, method):
    with tried("explanation.named"):
        found = named(method)
        assert found in METHODS or found is method
        assert named(found) == found or found is method
    for nli in models.values():
        with tried("explanation.methods_for"):
            assert {"input", "occlusion", "random"} <= set(methods_for(nli.model)) <= set(METHODS)


@given(
    kind=st.sampled_from(["neurogame", "mean", "dam"]),
    premise=texts | scraps,
    hypothesis=texts | scraps,
    method=st.sampled_from(["decision", "occlusion", "random", "game", "attention", "gradient"]) | scraps,
    target=st.sampled_from([None, None, "entailment", "e"]) | scraps,
    contrast=st.sampled_from([None, None, "neutral"]) | scraps,
    level=st.sampled_from(["word", "word", "token"]) | scraps,
    samples=st.sampled_from([None, None, 2]) | scraps,
    seed=st.sampled_from([0, 0, 7]) | scraps,
)
@fuzz(3)
def test_explain(models, kind, premise, hypothesis, **question):
    if isinstance(question["samples"], int):
        question["samples"] = min(question["samples"], 64)
    with tried("explanation.Question"):
        assert Question(**question) == Question(**question)
    with tried("explanation.explain"):
        found = explain(models[kind], premise, hypothesis, **question)
        assert found.words == (*premise.split(), *hypothesis.split()) or question["level"] == "token"
        assert len(found.scores) == len(found.words)


# --- the game -----------------------------------------------------------------------------------------------------

members = st.integers(0, 6).flatmap(
    lambda n: tensors(3, n).map(lambda x: x > 0 if isinstance(x, torch.Tensor) and not x.is_complex() else x)
)


@given(V=vectors() | scraps, members=members | tensors(2, 3), f=names, anchor=st.none() | tensors(3) | tensors(4))
@fuzz(3)
def test_value(V, members, f, anchor):
    with tried("game.value"):
        found = game.value(V, members, f, anchor)
        assert found.shape[-1] == members.shape[-2]
        if found.numel() and V.isfinite().all() and (anchor is None or fine(anchor)):
            assert fine(found)
            nobody = found.masked_select(~members.bool().any(-1))
            assert (nobody.abs() <= 1e-3 * float(found.abs().max())).all()


@given(tensors(4), tensors(4))
@fuzz(2)
def test_what_the_game_is_made_of(x, y):
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor) or x.is_complex() or y.is_complex():
        return
    with tried("game.safe_sqrt"):
        root = game.safe_sqrt(x)
        assert torch.equal(root.isnan(), x.isnan())
        assert (root[x <= 0] == 0).all()
    with tried("game.safe_divide"):
        assert (game.safe_divide(x, y)[y <= 0] == 0).all() or not fine(x)
    with tried("game.of_norm"):
        assert all(game.of_norm(x, f).shape == x.shape for f in ("identity", "relu", "tanh", "square"))
    with tried("values.l1_normalise"):
        total = float(l1_normalise(x).abs().sum())
        assert total == 0 or abs(total - 1) < 1e-2 or not fine(x)


@st.composite
def couplings(draw):
    """The factors of a coupling; now and then one of another shape."""
    n, dim, samples = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(0, 3))
    lead = draw(st.sampled_from([(), (2,), (2, 2)]))
    shapes = [(*lead, n, dim), lead, (*lead, samples, n), (*lead, samples), (*lead, n)]
    if draw(st.integers(0, 5)) == 0:
        shapes[draw(st.integers(0, 4))] = draw(st.sampled_from([(), (3,), (2, 3), (2, 2, 3)]))
    drawn = [draw(tensors(*shape)) for shape in shapes]
    return [one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in drawn]


@given(couplings(), st.data())
@fuzz(3)
def test_linear_coupling(factors, data):
    with tried("LinearCoupling") as outcome:
        J = neurogame.LinearCoupling(*factors)
        n, lead = J.shape[-1], J.shape[:-2]
        dense = J.to_dense()
        assert dense.shape == J.shape
        assert (dense.diagonal(dim1=-2, dim2=-1) == 0).all()
        x = torch.randn(*lead, n, dtype=J.dtype)
        exact = neurogame.LinearCoupling(*factors[:4], diag=_diagonal(factors))
        if all(fine(factor) for factor in factors):
            size = 1e-4 * (1 + float(sum(f.abs().max() for f in factors if f.numel())) ** 4)
            assert torch.allclose(exact @ x, (dense @ x.unsqueeze(-1)).squeeze(-1), rtol=1e-3, atol=size)
    if outcome.refused:
        return
    with tried("ising.solve"):
        field = data.draw(tensors(4) | tensors(*factors[4].shape))
        found = neurogame.solve(field, J, data.draw(gammas), validate=True)
        assert (found.spins.abs() <= 1).all() or not fine(*J.factors)


def _diagonal(factors):
    V, scale, delta, weight, _ = factors
    return scale.unsqueeze(-1) * V.square().sum(-1) - (weight.unsqueeze(-1) * delta.square()).sum(-2)
