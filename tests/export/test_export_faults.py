"""An export that is killed, or finds the disk full, leaves nothing that looks finished, and can be made again."""

import os
import shutil

import faults
import numpy as np
import pytest
import tiny

import neurogame
from neurogame.export import export, exporting
from neurogame.nli import NLI

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="faults are made with what Linux has")


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    """A model that has been traced once: what is killed and what runs out of room comes after that."""
    trace, traced = exporting.program, []

    def once(*arguments):
        traced[:] = traced or [trace(*arguments)]
        return traced[0]

    made = NLI(tiny.model("mean"), tiny.tokenizer(), name="tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "program", once)
        export(made, tmp_path_factory.mktemp("exported") / "whole")
        yield made


def killed_at(nli, tmp_path, kills):
    export(nli, tmp_path / "whole")
    expected = np.asarray(neurogame.load(tmp_path / "whole", backend="onnx").logits(tiny.PAIRS))
    folder = tmp_path / "killed"
    for kill in kills(lambda: export(nli, tmp_path / "counted")):
        assert faults.run(lambda: export(nli, folder), **kill).code in (0, -9)
        if folder.exists():  # then it is whole
            found = neurogame.load(folder, backend="onnx").logits(tiny.PAIRS)
            np.testing.assert_array_equal(np.asarray(found), expected)
            shutil.rmtree(folder)
    export(nli, folder)  # what was left behind is in nobody's way
    assert not list(tmp_path.glob("*.new"))


def test_three_kills(nli, tmp_path):
    killed_at(nli, tmp_path, lambda made: [{"at": at} for at in faults.moments(0, 3, faults.changes(made))])


@pytest.mark.slow
def test_twenty_kills(nli, tmp_path):
    def kills(made):
        count = faults.changes(made)
        usual = faults.run(lambda: export(nli, tmp_path / "timed")).seconds
        yield from ({"at": at} for at in faults.moments(1, 10, count))
        yield from ({"after": seconds} for seconds in faults.moments(2, 10, usual))

    killed_at(nli, tmp_path, kills)


def test_a_full_disk(nli, tmp_path):
    folder = tmp_path / "exported"
    failed = faults.run(lambda: export(nli, folder), file_size=20_000)
    assert failed.code == 1
    last = failed.err.strip().splitlines()[-1]
    assert f"{folder} cannot be written" in last
    assert not list(tmp_path.iterdir())
