"""Shapes in signatures are checked while the suite runs: jaxtyping's import hook must come before the import."""

from jaxtyping import config, install_import_hook
from shapes import CHECKED

install_import_hook([f"neurogame.{name}" for name in CHECKED], "beartype.beartype")

import pytest
import torch

from neurogame.exact import all_coalitions

torch.set_num_threads(1)  # the suite runs on two workers


@pytest.fixture
def random():
    """Float64 normal numbers from a seed: `random(seed, 2, 3)`."""

    def draw(seed, *shape, dtype=torch.float64):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)

    return draw


@pytest.fixture
def toy():
    """The paper's "not good movie" value table."""
    from neurogame.example import TABLE

    return torch.tensor(TABLE, dtype=torch.float64)


@pytest.fixture
def coalitions():
    return all_coalitions


@pytest.fixture
def as_user():
    """Shape checking off, as it is for users: what is raised is the library's own error."""
    config.update("jaxtyping_disable", value=True)
    yield
    config.update("jaxtyping_disable", value=False)


@pytest.fixture(scope="session")
def embedded():
    """The model that comes with the package, loaded once."""
    from neurogame import nli

    return nli.load()


@pytest.fixture
def one_model(embedded, monkeypatch):
    """`load()` without anything special gives the one model that is loaded already."""
    from neurogame import nli

    load = nli.load

    def loaded(model=None, **options):
        asked = model is not None or any(value not in (None, "torch") for value in options.values())
        return load(model, **options) if asked else embedded

    monkeypatch.setattr(nli, "load", loaded)
