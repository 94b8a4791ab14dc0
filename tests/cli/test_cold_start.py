"""What the command line answers before torch is imported: versions, help, and everything about files and extras."""

import gc
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from neurogame._common import methods
from neurogame.cli import app, common
from neurogame.explanation.methods import METHODS
from neurogame_bench import cli as benchmark

# Fails with status 3 where one of these is imported; an extra that is to be missing cannot be found.
FORBIDDEN = """
import sys
class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "transformers"):
            print(f"imported: {name}", file=sys.stderr)
            sys.stderr.flush()
            import os
            os._exit(3)
sys.meta_path.insert(0, Forbidden())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in MISSING else found(name, package)
from neurogame.cli import main
main()
"""


def ask(folder: Path, *arguments: str, missing: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """`neurogame ARGUMENTS` in a folder, without torch and transformers."""
    code = f"MISSING = {missing!r}\n{FORBIDDEN}"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=folder)


def test_the_hook_of_these_tests_sees_torch(tmp_path: Path):
    assert ask(tmp_path, "info").returncode == 3


VERBS = ("example", "train", "evaluate", "predict", "explain", "ground", "export", "serve", "info")


def test_version_and_every_help_need_no_torch(tmp_path: Path):
    """One process for all: each `main` ends in SystemExit."""
    code = FORBIDDEN.replace("\nmain()\n", "\n") + textwrap.dedent(
        f"""
        for arguments in (["--version"], ["--help"], *([verb, "--help"] for verb in {VERBS}),
                          ["benchmark", "--help"], ["benchmark", "explanations", "--help"]):
            sys.argv = ["neurogame", *arguments]
            try:
                main()
            except SystemExit as end:
                assert not end.code, (arguments, end.code)
        print("all answered")
        """
    )
    done = subprocess.run([sys.executable, "-c", f"MISSING = ()\n{code}"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "neurogame 0.1.0"), done.stderr
    assert done.stdout.rstrip().endswith("all answered")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("explain nowhere.csv", "nowhere.csv does not exist"),
        ("explain wrong.csv", "no column for premise and hypothesis; found: 'x', 'y'"),
        ("explain a b --html nowhere/x.html", "the folder nowhere does not exist"),
        ("explain a b --figure x.pdf", "a figure is written as .png or .svg"),
        ("explain a b --model ./nowhere", "no model folder at ./nowhere"),
        ("explain a b --explainer nowhere", "--explainer nowhere: no such folder"),
        ("explain a b --method shapley", "--method shapley is unknown; allowed: 'decision', 'game'"),
        ("explain pairs.csv --method shapley", "--method shapley is unknown; allowed: 'decision', 'game'"),
        ("predict nowhere.csv", "nowhere.csv does not exist"),
        ("predict wrong.csv", "--column premise=x"),
        ("evaluate -d nowhere.csv", "nowhere.csv does not exist"),
        ("evaluate -d snli/dev", "--hub would download it"),
        ("train -c nowhere.yaml", "nowhere.yaml: No such file"),
        ("train -c wrong.yaml", "wrong.yaml: not valid YAML"),
        ("train -c wrong.csv", "a run file is a mapping"),
        ("export ./nowhere", "no model folder at ./nowhere"),
        ("export -o .", ". exists already"),
        ("ground ./nowhere --data wrong.csv", "no model folder at ./nowhere"),
        ("serve --token-file nowhere", "the token in nowhere cannot be read"),
        ("predict pairs.csv --backend onnx -m nowhere", "--backend onnx opens folders"),
    ],
)
def test_what_is_wrong_with_files_is_said_without_torch(tmp_path: Path, command: str, said: str):
    (tmp_path / "wrong.csv").write_text("x,y\n1,2\n")
    (tmp_path / "pairs.csv").write_text("premise,hypothesis\na,b\n")
    (tmp_path / "wrong.yaml").write_text("a: [\n")
    done = ask(tmp_path, *command.split())
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        ("serve", "uvicorn", "serve"),
        ("export", "onnxscript", "export"),
        ("train -c x.yaml", "pydantic", "train"),
        ("explain a b --method lime", "sklearn", "explain"),
        ("explain a b --figure x.png", "matplotlib", "explain"),
        ("predict pairs.csv --backend onnx", "onnxruntime", "export"),
    ],
)
def test_a_missing_extra_is_said_without_torch(tmp_path: Path, command: str, missing: str, extra: str):
    (tmp_path / "pairs.csv").write_text("premise,hypothesis\na,b\n")
    done = ask(tmp_path, *command.split(), missing=(missing,))
    assert done.returncode == 1
    assert f"this needs {missing}: pip install " in done.stderr
    assert f"[{extra}]" in done.stderr


def test_the_command_line_knows_all_methods():
    assert methods.names() == tuple(METHODS)
    assert {name: method.needs for name, method in METHODS.items() if method.needs} == methods.NEEDS


def test_either_order_of_imports_registers_our_models_and_attention():
    code = """
    import sys
    {first}
    {second}
    from transformers import AutoConfig
    waiting = [f.awaited for f in sys.meta_path if type(f).__name__ == "_Waiting"]
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    later = [f.awaited for f in sys.meta_path if type(f).__name__ == "_Waiting"]
    known = "neurogame" in ALL_ATTENTION_FUNCTIONS.valid_keys()
    print(type(AutoConfig.for_model("neurogame")).__name__, *waiting, known, len(later))
    """
    for order in (("import neurogame", "import transformers"), ("import transformers", "import neurogame")):
        text = textwrap.dedent(code.format(first=order[0], second=order[1]))
        done = subprocess.run([sys.executable, "-W", "error", "-c", text], capture_output=True, text=True)
        assert done.stdout.split() == ["NeuroGameConfig", "transformers.modeling_utils", "True", "0"], done.stderr


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("samples = 3: method = 'input' needs 9", "--samples 3: --method input needs 9"),
        ("load it with backend='onnx' (--backend onnx)", "load it with --backend onnx"),
        ("contrast = 'no' is the target itself", "--contrast no is the target itself"),
        ("name yours as in columns={'premise': 'my text'}", "name yours as in --column premise='my text'"),
        ("a threshold = 3 of no option", "a threshold = 3 of no option"),
    ],
)
def test_messages_speak_of_options(message: str, shown: str):
    assert common.as_options(message) == shown


def test_collections_are_postponed_until_a_verb_begins():
    """And what is there by then is never looked through again, neither later nor at exit."""
    usual = gc.get_threshold()
    assert gc.get_freeze_count() == 0
    try:
        with common.postponed_collections():
            assert (gc.isenabled(), gc.get_threshold()[0] > 100 * usual[0]) == (True, True)
            common.begin()
            assert gc.get_threshold() == usual
            frozen = gc.get_freeze_count()
            assert frozen > 100_000
            later = [[i] for i in range(10_000)]
        assert gc.get_freeze_count() > frozen + len(later) // 2
        with pytest.raises(SystemExit), common.postponed_collections():
            raise SystemExit  # a verb that never began
        assert gc.get_threshold() == usual
    finally:
        gc.unfreeze()


def test_a_program_that_calls_the_verbs_keeps_its_collections():
    before = gc.get_threshold(), gc.get_freeze_count()
    assert CliRunner().invoke(app, ["info"]).exit_code == 0
    common.begin()
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_every_verb_that_opens_a_model_resumes_collections():
    verbs = {path.stem: path.read_text() for path in Path(common.__file__).parent.glob("*.py")}
    opening = [name for name, source in verbs.items() if re.search(r"from neurogame\.nli import .*\bload\b", source)]
    assert {"explain", "predict", "evaluate", "serve", "export", "ground"} <= set(opening)
    verbs["benchmark"] = Path(benchmark.__file__).read_text()
    for name in (*opening, "train", "benchmark"):
        assert "common.begin()" in verbs[name], name
