"""`neurogame example` and `neurogame info`: what needs no data and no model of yours."""

from neurogame.cli import common


def example(as_json: common.Json = False) -> None:
    """The paper's "not good movie", recomputed: exact values, both estimators, spins, and what the paper prints."""
    from neurogame.example import recompute, render

    found = recompute()
    if as_json:
        common.print_json(found)
    else:
        common.console(120).print(render(found))


def info(as_json: common.Json = False) -> None:
    """Versions, threads, compiled loops, and the model that comes with the package: what a bug report needs."""
    from neurogame import about

    with common.one_line("info"):
        found = about.describe()
    if as_json:
        common.print_json(found)
    else:
        common.console(120).print(about.render(found))
