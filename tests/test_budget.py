"""The short mode: the same cases on every machine, within the seconds of each kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import budget
from tests.budget import CASE, VARIANT, Budget, kernel_of, read_costs, share, turns
from tests.checkout import ROOT, run_python
from tests.costs import Cases, added, seconds, weights

KERNELS = ("cpy", "conv2d", "conv2d_backward_bias", "neg", "softmax", "softmax_backward")
NO_COSTS: dict[str, dict[str, float]] = {"variants": {}, "cases": {}}


@pytest.mark.parametrize(
    ("node", "kernel"),
    [
        ("tests/kernels/softmax/test_softmax.py::test_a[1]", "softmax"),
        ("tests/kernels/softmax/test_softmax_rules.py::test_a[1]", "softmax"),
        ("tests/kernels/softmax/test_softmax_backward.py::test_a", "softmax_backward"),
        ("tests/kernels/conv/test_conv2d_rules.py::test_a[neg-1]", "conv2d"),
        ("tests/kernels/elementwise/test_ops.py::test_any_layout[neg-swapped]", "neg"),
        ("tests/kernels/elementwise/test_ops.py::test_names", "ops"),
        ("tests/bench/test_benches.py::test_runs[softmax]", "benches"),
    ],
)
def test_kernel_of_a_case(node: str, kernel: str) -> None:
    assert kernel_of(node, KERNELS) == kernel


def test_cases_take_turns_and_columns_differ() -> None:
    names = [f"t.py::test_{t}[{i}]" for t in "abc" for i in range(20)]
    order = turns(names, "wgpu-lavapipe")
    assert sorted(order) == sorted(names)
    assert order == turns(names[::-1], "wgpu-lavapipe")
    for i in range(0, 60, 3):  # each test in turn, whatever its hashes
        assert {n.partition("[")[0] for n in order[i : i + 3]} == {f"t.py::test_{t}" for t in "abc"}
    assert order[:30] != turns(names, "wgpu-swiftshader")[:30]


def test_a_kernel_pays_for_cases_and_new_variants() -> None:
    costs = {"variants": {"one": 400.0}, "cases": {"t.py::test_long": 700.0}}
    b = Budget(costs, {"k": 2.0, "row": 0.3})
    assert b.start("k", "t.py::test_long")  # 1300 are left
    assert b.start("k", "t.py::test")  # 1280
    assert b.start("k", "t.py::test")  # 1260: no more its first
    assert b.use("k", "t.py::test", "one", "A=1", sampled=True)  # 900
    assert b.use("k", "t.py::test", "one", "A=1", sampled=True)  # it is there
    assert b.use(
        "k", "t.py::test", "one", "A=2", sampled=False
    )  # a test that always runs does not pay
    assert b.use("k", "t.py::test", "one", "A=2", sampled=True)
    assert b.use("k", "t.py::test", "one", "A=3", sampled=True)  # 500
    assert not b.start("k", "t.py::test_long")
    assert b.use("k", "t.py::test", "one", "A=4", sampled=True)  # 100
    assert not b.use("k", "t.py::test", "one", "A=5", sampled=True)
    assert b.use("k", "t.py::test", "one", "A=5", sampled=False)
    assert b.start("k", "t.py::test_short")
    # Each kernel has its own seconds, and pays for what another one has used.
    assert b.use("row", "t.py::test", "other", "A=1", sampled=True)
    assert b.start("row", "t.py::test_short") and CASE + VARIANT < 300
    assert not b.use("row", "t.py::test", "other", "A=2", sampled=True)


def test_the_first_case_of_a_test_always_runs() -> None:
    b = Budget({"variants": {"one": 400.0}, "cases": {"t.py::test_long": 700.0}}, {"k": 0.5})
    assert b.start("k", "t.py::test_long")
    assert b.use("k", "t.py::test_long", "one", "A=1", sampled=True)
    assert not b.start("k", "t.py::test_long")
    assert b.start("k", "t.py::test_other")  # though the seconds are spent
    assert b.use("k", "t.py::test_other", "one", "A=2", sampled=True)
    assert not b.start("k", "t.py::test_other")


def test_a_body_has_the_seconds_of_some_variants() -> None:
    assert share(10, 20) == 2
    assert share(100, 200) == 2 and share(100, 300) == 3 and share(100, 4000) == 4
    assert share(500, 1) == 5 and share(9000, 1) == 20
    assert Budget.of_column("no-column").kernels["add"] == budget.ROW


def test_files_of_a_kernel_divide_its_seconds() -> None:
    b = Budget(NO_COSTS, {"k": 4.0, "row": 0.3})
    tests = [
        ("k", "a.py::test_a"),
        ("k", "b.py::test_a"),
        ("k", "b.py::test_b"),
        ("k", "b.py::test_c"),
    ]
    b.divide([*tests, *tests, ("row", "a.py::test_a")])
    count = {
        file: sum(
            b.use("k", f"{file}::test_a", "one", f"{file}{i}", sampled=True) for i in range(99)
        )
        for file in ("a.py", "b.py")
    }
    assert count == {"a.py": 1000 // VARIANT, "b.py": 3000 // VARIANT}
    assert b.use("row", "a.py::test_a", "one", "A=1", sampled=True)


def test_a_price_that_a_column_lacks_is_that_of_its_driver(tmp_path: Path) -> None:
    path = tmp_path / "costs.toml"
    path.write_text(
        "[a-one.variants]\nbody = 1\n[b-two.variants]\nbody = 2\nother = 3\n"
        '[c-two.variants]\nbody = 4\n[c-two.cases]\n"t.py::test" = 5\n'
    )
    assert read_costs("d-two", path)["variants"].keys() == {"body", "other"}
    assert read_costs("b-two", path) == {
        "variants": {"body": 2, "other": 3}, "cases": {"t.py::test": 5},
    }  # fmt: skip
    assert read_costs("c-two", path)["variants"] == {"body": 4, "other": 3}
    assert read_costs("a-one", path)["variants"] == {"body": 1}
    assert read_costs("c-three", path) == read_costs("", path) == NO_COSTS


def test_an_unknown_kernel_and_column_have_defaults() -> None:
    b = Budget(read_costs("no-column"), {})
    count = sum(b.use("new", "t.py::test", "new", f"A={i}", sampled=True) for i in range(100))
    assert count == 1e3 * share() // VARIANT


def test_costs_of_bodies_are_medians_beside_those_of_cases() -> None:
    cases: Cases = {
        "t/test_k.py::test_a[0]": (110.0, ["one A=1"]),
        "t/test_k.py::test_a[1]": (10.0, []),
        "t/test_k.py::test_a[2]": (310.0, ["one A=2", "one A=3", "one A=4"]),
        "t/test_k.py::test_b": (5100.0, ["one A=5"]),
        "t/test_k.py::test_c": (500.0, []),
    }
    found = weights(cases)
    assert found["variants"] == {"one": 100.0}
    assert found["cases"] == {"test_k.py::test_b": 5000.0, "test_k.py::test_c": 500.0}


def test_seconds_are_those_of_kernels_and_columns() -> None:
    cases: Cases = {
        "tests/kernels/softmax/test_softmax.py::test_a": (1500.0, []),
        "tests/kernels/elementwise/test_ops.py::test_any_layout[neg-1]": (250.0, []),
        "tests/runtime/test_batch.py::test_a": (1000.0, []),
    }
    found = seconds({"one": cases, "two": cases})
    assert found["softmax"] == {"one": 1.5, "two": 1.5}
    assert found["neg"] == {"one": 0.25, "two": 0.25}
    assert found["tests/runtime/test_batch.py"]["two"] == 1.0


def test_costs_of_some_tests_are_added_to_the_known_ones() -> None:
    known = {"variants": {"a": 5.0, "c": 2.0}, "cases": {"t.py::test_old": 300.0}}
    found = {"variants": {"a": 9.0, "b": 1.0, "d": 4.0}, "cases": {"t.py::test_new": 200.0}}
    both = added(known, found, ["a", "b"])
    assert both == {
        "variants": {"a": 5.0, "b": 1.0, "c": 2.0},
        "cases": {"t.py::test_new": 200.0, "t.py::test_old": 300.0},
    }
    assert [*both["variants"]] == ["a", "b", "c"] and added({}, found, "abd") == found


def test_committed_costs_are_of_bodies_that_are_there() -> None:
    bodies = json.loads(budget.MANIFEST.read_text(encoding="utf-8"))["bodies"]
    for column in ("wgpu-lavapipe", "wgpu-swiftshader", "dawn-swiftshader"):
        assert set(read_costs(column)["variants"]) <= set(bodies)


SUITE = """\
import pytest

from tests.conftest import selection


@pytest.fixture
def use(request):
    return lambda key: request.config.stash[selection].use("softmax", key)


@pytest.mark.sample
@pytest.mark.parametrize("i", range(40))
def test_sampled(use, i):
    done = False
    try:
        use(f"A={i}")
        done = True
    finally:
        assert done  # of a case that is left out this counts for nothing


@pytest.mark.parametrize("i", range(40, 60))
def test_always(use, i):
    use(f"A={i}")
"""


@pytest.mark.parametrize("full", ["", "1"])
def test_a_suite_skips_what_is_beyond_its_seconds(tmp_path: Path, full: str) -> None:
    (tmp_path / "test_new.py").write_text(SUITE)
    given = {"FULL": full, "COLUMN": "no-column", "COSTS": str(tmp_path / "costs")}
    done = run_python(
        ROOT, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider",
        f"--rootdir={tmp_path}", f"--confcutdir={tmp_path}", str(tmp_path),
        **{f"PYKERNELS_TEST_{name}": value for name, value in given.items()},
    )  # fmt: skip
    count = 40 if full else int(1e3 * share() // (VARIANT + CASE))
    skipped = "" if full else f", {40 - count} skipped"
    assert f"{20 + count} passed{skipped} in" in done.stdout, done.stdout + done.stderr
    costs = json.loads((tmp_path / "costs" / "no-column.json").read_text())
    assert len(costs) == sum(len(new) for _, new in costs.values()) == 20 + count
