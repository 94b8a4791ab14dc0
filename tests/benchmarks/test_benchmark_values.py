"""The comparison of estimators: a tiny run is complete, keeps to its budgets, can be shown; no timing is asserted."""

import json

import pytest
import torch
from rich.console import Console

from neurogame._common.extras import need
from neurogame_bench import values as benchmark

BUDGETS = (4, 8)


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "ROUNDS", 1)  # times are not looked at here
        return benchmark.run(players=(4,), games=2, budgets=BUDGETS, batch=3)


def test_every_method_is_there(found):
    names = {m.name for m in benchmark.methods()}
    assert {row["method"] for row in found["rows"]} == names == set(found["methods"])
    assert json.loads(json.dumps(found)) == found
    for name in names - {"neurogame estimate_game"}:  # whose two laws do not fit into K = 4
        assert [row["K"] for row in found["rows"] if row["method"] == name] == list(BUDGETS)
    others = len(names) - len(found["ours"])
    assert len(found["equal error"]) == len(found["equal time"]) == others * len(found["ours"])


def test_evaluations_keep_to_the_budget(found):
    for row in found["rows"]:
        assert row["budget"] == row["K"] * (row["n"] + 1)
        assert 0 < row["evaluations"] <= row["budget"]


def test_enumeration_is_exact(found):
    whole = [row for row in found["rows"] if row["enumerated"]]
    assert {row["method"] for row in whole} == {"shapiq SVARM", "shapiq KernelSHAP", "shapiq KernelSHAP, paired"}
    for row in whole:
        assert row["evaluations"] == 2 ** row["n"]
        assert row["error"] < 1e-5


def test_errors_fall_with_the_budget():
    names = ("neurogame, batch", "neurogame, one game")
    compared = [m for m in benchmark.methods() if m.name in names]
    V = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows, _ = benchmark._measure(V, compared, {"one": 4, "batch": 4, "large": 4}, (4, 64), seed=0)
    for name in names:
        small, large = (row["error"] for row in rows if row["method"] == name)
        assert large < 0.6 * small  # a quarter, by 1/√K
        assert large < 0.2


def test_games_in_a_batch_are_told_apart():
    """Captum's masks come coalition by coalition, all games of each together."""
    V = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    together = benchmark._captum(V, 41, seed=0)
    alone = [benchmark._captum(one, 41, seed=0) for one in V.split(1)]  # the same orders of arrival
    torch.testing.assert_close(together.phi, torch.cat([one.phi for one in alone]), atol=1e-6, rtol=0)  # float32 inside
    assert together.evaluations == alone[0].evaluations == 41


def curve(*points):
    """(evaluations, error, seconds); an error of 0 is enumeration."""
    return [
        {"evaluations": e, "error": error, "seconds": seconds, "enumerated": error == 0} for e, error, seconds in points
    ]


def test_seconds_for_an_error():
    plain = curve((100, 0.4, 1.0), (400, 0.2, 4.0), (1600, 0.1, 16.0))
    for error, seconds, how in [
        (0.2, 4.0, "interpolated"),
        (0.2**0.5 * 0.1**0.5, 8.0, "interpolated"),
        (0.05, 64.0, "extrapolated"),
        (0.8, 0.25, "extrapolated"),
    ]:
        got = benchmark.seconds_for(error, plain)
        assert got[0] == pytest.approx(seconds)
        assert got[1] == how


def test_enumeration_counts_where_it_is_cheaper():
    both = curve((100, 0.4, 1.0), (400, 0.2, 4.0), (512, 0.0, 3.0))
    assert benchmark.seconds_for(0.2, both) == (3.0, "enumerated")
    assert benchmark.seconds_for(0.4, both)[1] == "interpolated"
    assert benchmark.seconds_for(0.001, both) == (3.0, "enumerated")


def test_a_slower_and_worse_budget_does_not_count():
    noisy = curve((100, 0.4, 5.0), (200, 0.3, 2.0), (400, 0.2, 8.0))
    assert benchmark.seconds_for(0.3, noisy)[0] == pytest.approx(2.0)


def test_it_can_be_shown(found, tmp_path):
    console = Console(width=160, record=True, file=(tmp_path / "out").open("w"))
    console.print(benchmark.table(found))
    text = console.export_text()
    for name in found["methods"]:
        assert name in text
    console.file.close()
    benchmark.figure(found, tmp_path / "deep" / "values.png")
    assert (tmp_path / "deep" / "values.png").stat().st_size > 10_000


def test_the_callers_generator_is_left_alone():
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    benchmark._captum(torch.ones(1, 2, 2, dtype=torch.float64), 9, seed=0)
    assert torch.rand(1) == wanted


def test_a_missing_package_is_named():
    with pytest.raises(ImportError, match=r"this needs nosuchthing: pip install '.*\[bench\]'"):
        need("nosuchthing.attr", "bench")
