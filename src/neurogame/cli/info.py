"""`neurogame example` and `neurogame info`: what needs no data and no model of yours."""

from neurogame.cli import common


def example(as_json: common.Json = False) -> None:
    """The paper's "not good movie", recomputed: exact values, both estimators, spins, and what the paper prints."""
    from neurogame.example import recompute, render

    results = recompute()
    if as_json:
        common.print_json(results)
    else:
        common.console(120).print(render(results))


def info(as_json: common.Json = False) -> None:
    """Versions, threads, compiled loops, and the model that comes with the package: what a bug report needs."""
    from neurogame import about

    with common.one_line("info"):
        facts = about.describe()
    if as_json:
        common.print_json(facts)
    else:
        common.console(120).print(about.render(facts))
