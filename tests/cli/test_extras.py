"""Extras: what pyproject.toml promises is what is checked, and the line to install them works for this installation."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from neurogame._common import extras
from neurogame.cli import app

ROOT = Path(__file__).parents[2]
MODULES = {"pyyaml": "yaml", "scikit-learn": "sklearn", "prometheus-client": "prometheus_client"}


def test_extras_are_those_of_pyproject():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, modules in extras.EXTRAS.items():
        lines = [line for line in declared[extra] if not line.startswith("neurogame[")]
        names = {line.partition(">")[0].partition("[")[0] for line in lines}
        assert {MODULES.get(name, name) for name in names} == set(modules)
    assert set(declared) - set(extras.EXTRAS) == {"docs", "fuzz", "test", "dev"}  # for work on the package itself


class Installed:
    """What importlib.metadata has of a package that pip installed from `url`."""

    def __init__(self, site: Path, url: str | None) -> None:
        self.site, self.url = site, url

    def locate_file(self, path: str) -> Path:
        return self.site / path

    def read_text(self, name: str) -> str | None:
        return None if self.url is None else json.dumps({"url": self.url})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as if it lay in site-packages."""
    place = tmp_path / "lib" / "site-packages"
    monkeypatch.setattr(extras, "__file__", str(place / "neurogame" / "_common" / "extras.py"))
    return place


def test_the_line_from_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    assert extras.install_line("train") == "pip install '.[train]'"
    monkeypatch.chdir(tmp_path)
    assert extras.install_line("train") == f"pip install '{ROOT}[train]'"


def test_the_line_from_wheel_folder_and_index(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch):
    wheel, clone = tmp_path / "neurogame-0.1.0-py3-none-any.whl", tmp_path / "a clone"
    wheel.touch()
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    origins = {
        None: "neurogame[serve]",
        wheel.as_uri(): f"{wheel}[serve]",
        clone.as_uri(): f"{clone}[serve]",
        (tmp_path / "gone.whl").as_uri(): "neurogame[serve]",
        "https://example.org/neurogame.whl": "neurogame[serve]",
    }
    for url, wanted in origins.items():
        monkeypatch.setattr(extras, "distribution", lambda _, url=url: Installed(site, url))
        assert extras.install_line("serve") == f"pip install '{wanted}'"


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(extras.EXTRAS, "hub", ("no_such_package",))
    assert not extras.installed("hub")
    with pytest.raises(ImportError, match=r"this needs no_such_package: pip install '.*\[hub\]'"):
        extras.check("hub")
    with pytest.raises(ImportError, match=r"this needs no_such_package: pip install '.*\[hub\]'"):
        extras.need("no_such_package.part", "hub")


def test_check_of_a_run_file_names_its_extras(monkeypatch: pytest.MonkeyPatch):
    """The paper's recipe downloads its data: said before that fails for want of a package."""
    monkeypatch.setitem(extras.EXTRAS, "hub", ("no_such_package",))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    paper = ["train", "--config", str(ROOT / "configs" / "paper-snli.yaml"), "--set", "data.root=nowhere", "--check"]
    result = CliRunner().invoke(app, paper)
    assert result.stderr.splitlines()[0].startswith("neurogame train: needs the extras train (installed) and hub (not")
