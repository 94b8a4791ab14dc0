"""What a user installs: light to import, clean of warnings, whole in a wheel, and at work without a network."""

import subprocess
import sys
import sysconfig
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest

import neurogame

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("matplotlib", "fastapi", "captum", "sklearn", "scipy", "shap", "accelerate", "onnxruntime", "datasets")


def run(code, *options, **given):
    """What a fresh interpreter prints for `code`."""
    command = [sys.executable, *options, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True, **given).stdout.strip()


def test_import_is_light_clean_and_registers():
    """No optional package and no model of transformers is imported, no warning is raised, the Auto classes know us.

    What transformers' Auto classes bring along by themselves, as older versions do with accelerate, does not count.
    """
    found = run(
        f"""
        import sys, torch, transformers
        transformers.AutoModelForSequenceClassification
        own = set(sys.modules)
        import neurogame
        new = set(sys.modules) - own
        print([name for name in {HEAVY!r} if name in new], "transformers.modeling_utils" in sys.modules)
        from transformers import AutoConfig, AutoModel, BertConfig
        encoder = BertConfig(
            vocab_size=8, hidden_size=8, num_hidden_layers=0, num_attention_heads=1, intermediate_size=8
        )
        config = AutoConfig.for_model("neurogame", encoder=encoder, head="mean")
        print(type(AutoModel.from_config(config)).__name__)
        print(AutoModel._model_mapping[type(config)] is neurogame.NeuroGameForSequenceClassification)
        """,
        "-W",
        "error",
    )
    assert found.splitlines() == ["[] False", "NeuroGameForSequenceClassification", "True"]


def test_every_public_name_is_there():
    for name in neurogame.__all__:
        assert getattr(neurogame, name) is not None
    assert set(neurogame.__all__) <= set(dir(neurogame))
    with pytest.raises(AttributeError, match="'neurogame' has no attribute 'softmax'"):
        _ = neurogame.softmax


def test_stand_ins_are_the_models():
    """A model that is imported later passes for its class wherever transformers asks."""
    from neurogame.modeling import MODELS, StandIn

    for config, (_, name) in MODELS.items():
        later = StandIn(config)
        real = getattr(neurogame, name)
        assert later.config_class is real.config_class
        assert later.main_input_name == real.main_input_name
        assert issubclass(real, later)
        assert not issubclass(dict, later)
    model = later(config(vocab_size=8, embedding_size=4, hidden_size=4))
    assert isinstance(model, later)
    assert type(model) is real


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A source distribution, and the wheel made from it."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def test_distributions_are_whole(built):
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = ROOT / "src"
    here = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert here <= names
    assert {"neurogame/py.typed", "neurogame_bench/py.typed"} <= names
    own = {"neurogame", "neurogame_bench", f"neurogame-{neurogame.__version__}.dist-info"}
    assert {name.split("/")[0] for name in names} == own
    assert any(name.endswith("licenses/LICENSE") for name in names)
    with tarfile.open(sdist) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"src", "tests", "docs", "examples", "pyproject.toml", "README.md", "LICENSE"} <= top
    assert "runs" not in top


def test_wheel_explains_in_an_empty_environment_offline(built, tmp_path):
    """Installed apart from this checkout, beside the same dependencies, with every connection refused."""
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(environment)}))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-compile", str(built[1])], check=True)
    # The dependencies are these: a folder on the path, whose own .pth files (this checkout) are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (site / "sitecustomize.py").write_text(
        "import socket\n"
        "def refuse(*_): raise OSError('the network was asked for')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
    )
    command = [environment / "bin" / "neurogame", "explain", "A dog sleeps on the sofa.", "An animal rests.", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"entailment"' in done.stdout
    measured = [environment / "bin" / "neurogame", "benchmark", "couplings", "--help"]
    assert subprocess.run(measured, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    where = subprocess.run(
        [python, "-c", "import neurogame, neurogame_bench.couplings; print(neurogame.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert Path(where.strip()).is_relative_to(environment)
