"""The examples run, say what they promise, and are listed."""

import re
import runpy
import warnings

import pytest
from pages import ROOT

FOLDER = ROOT / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
# what a reader is promised, as a pattern of the output
PROMISED = {
    "check_a_faq": r"t-1  .*contradiction[\s\S]*t-3  .*entailment",
    "fine_tune": r"12 of 12\ncontradiction, above all because of 'no'",
    "fragments_probe": r"^roles +0\.\d\d[\s\S]*\nword order +0\.\d\d",
    "ground_your_model": r"^R² on held-out texts: 0\.[89]\d\n(Good|Bad) \(\d+ %\): “[\s\S]*strongest pair: \w+ × ",
    "image_patches": r"accuracy on 300 other digits 0\.9\d\d\nω of the heads:( [+-]\d\.\d\d){8}\n",
    "layer_in_a_network": r"accuracy on new sequences (1\.000|0\.9\d\d)\n",
    "methods_side_by_side": r"^contradiction (0\.\d\d|1\.00)\n[\s\S]*\noccl.*\+1\.00 ",
    "phases": r" 0\.25 .*\n[\s\S]* 5\.00  ████████████ {12,}",
    "sort_by_topic": r"praise .*thank you",
    "who_has_power": r" 35 %   0\.\d{3}",
    "why_not_neutral": r"^contradiction, rather than neutral",
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example(script, one_model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    said = capsys.readouterr().out
    assert re.search(PROMISED[script.stem], said), said
    assert len(said.splitlines()) <= 25
    assert max(map(len, said.splitlines())) <= 120
    assert list(tmp_path.iterdir()) == []  # an example leaves nothing behind


def test_index():
    listed = re.findall(r"^\| \[(\w+\.py)\]\(\1\)", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == [script.name for script in SCRIPTS]
    assert sorted(PROMISED) == [script.stem for script in SCRIPTS]


def test_the_notebook_runs_and_stores_no_output(tmp_path):
    """In a kernel of its own, as a reader would; its assertions are in its cells."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install '.[test]'")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install '.[test]'")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install '.[test]'")
    notebook = nbformat.read(FOLDER / "first_steps.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of jupyter's own event loop and paths
        nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output.data for cell in code for output in cell.outputs if output.output_type == "execute_result"]
    assert any("text/html" in data for data in shown)  # the explanation shows itself
    assert list(tmp_path.iterdir()) == []
