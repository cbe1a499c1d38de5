"""The sweep: its grid is pinned, its functions are what numpy says, its picture and tables."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import click.testing
import pytest

import pykernels as pk
from pykernels.bench import sweep
from pykernels.bench.case import CheckFailed
from pykernels.bench.report import Report
from pykernels.bench.sweep import summary
from pykernels.bench.sweep.calls import FUNCTIONS
from pykernels.bench.sweep.case import SweepCase
from pykernels.bench.sweep.heatmap import lines_of
from pykernels.bench.sweep.small import SMALL
from pykernels.cli import main

# Calls of a family in float32; all but "order" are there in float16, too.
COUNTS = {
    "linear": 69, "square": 17, "batched": 13, "conv": 86, "depthwise": 7, "attention": 22,
    "softmax": 24, "reduce": 72, "norm": 18, "elementwise": 28, "permute": 12, "image": 17,
    "order": 50,
}  # fmt: skip
# Of all families, functions and sizes: ratios of earlier sweeps compare with those of this grid.
GRID = "b3758cc3a346236c"


def test_the_grid_is_pinned() -> None:
    found = Counter((c.family, c.dtype) for c in sweep.calls())
    halves = {(f, "float16"): n for f, n in COUNTS.items() if f != "order"}
    assert found == {(f, "float32"): n for f, n in COUNTS.items()} | halves
    assert sum(found.values()) == 820
    rows = "\n".join(f"{c.family} {c.function} {c.id}" for c in sweep.calls())
    assert hashlib.sha256(rows.encode()).hexdigest()[:16] == GRID


def test_the_grid_goes_from_one_element_to_the_largest_with_odd_sizes() -> None:
    cases = sweep.chosen("all")
    assert len({(c.kernel, c.id) for c in cases}) == len(cases)
    assert 1 << 30 <= max(o.nbytes for c in cases for o in c.operands) < 1 << 31
    for family in COUNTS:
        shapes = [o.shape for c in cases if c.origin == family for o in c.operands]
        assert any(n > 1 and n % 2 for shape in shapes for n in shape), family
    for function in ("linear", "matmul", "conv2d", "softmax", "sum", "add", "sort", "nonzero"):
        own = [c for c in cases if c.kernel == function]
        assert any(o.nbytes <= 4 for c in own for o in c.operands), function


def test_every_function_has_a_size_and_a_small_case() -> None:
    assert {c.function for c in sweep.calls()} == {*FUNCTIONS} == {*SMALL}


def test_bytes_bound_the_calls() -> None:
    few = sweep.chosen("softmax", limit=4096)
    assert few and all(c.footprint <= 4096 for c in few)
    assert {c.id for c in few} < {c.id for c in sweep.chosen("softmax")}


@pytest.mark.gpu
@pytest.mark.once
@pytest.mark.parametrize("name", sorted(SMALL))
def test_functions_are_what_numpy_says(dev: pk.Device, name: str) -> None:
    verdict = _case(name).load(dev, 0, 0).check()
    assert verdict.size and not verdict.wrong


@pytest.mark.gpu
@pytest.mark.once
@pytest.mark.parametrize("name", ["cumsum", "gather", "top_k"])
def test_a_wrong_output_is_found(
    dev: pk.Device, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last_is_zero(pk: Any, d: Any, *tensors: Any) -> Any:
        found = FUNCTIONS[name].ours(pk, d, *tensors)
        first = found[0] if isinstance(found, tuple) else found
        first[..., -1] = 0
        return found

    made = SMALL[name]
    wrong = FUNCTIONS[name]._replace(ours=last_is_zero)
    case = _case(name)
    assert case.call.dims == made
    monkeypatch.setattr(SweepCase, "function", property(lambda self: wrong))
    with pytest.raises(CheckFailed):
        case.load(dev, 0, 0).check()


@pytest.mark.gpu
@pytest.mark.crowd
def test_a_sweep_writes_readings_table_and_picture(dev: pk.Device, tmp_path: Path) -> None:
    kept, page, picture = (tmp_path / f"s.{e}" for e in ("json", "md", "svg"))
    made = run("--sweep", "elementwise", "--only", "add", "--limit-bytes", "8000", "--rounds", "1",
               "--warmup", "0", "--peers", "numpy", "--device", dev.info["name"],
               "--engine", dev.engine, "--json", kept, "--markdown", page,
               "--plot", picture)  # fmt: skip
    assert made.exit_code == 0, made.output
    report = Report.load(kept)
    dtypes = ("f32", "f16") if "shader-f16" in dev.features else ("f32",)
    assert {(r.kernel, r.id, r.state) for r in report.results} == {
        ("add", f"{dtype}-{n}", "hot") for dtype in dtypes for n in (1, 1000)
    }
    assert all(summary.ratio(r, "numpy") for r in report.results)
    assert "The worst calls beside numpy" in made.output
    assert "| add | f32-1000 |" in page.read_text()
    text = picture.read_text()
    assert "<svg" in text and "time of numpy over ours" in text
    again = run("--from", kept, "--plot", tmp_path / "again.svg")
    assert again.exit_code == 0
    assert (tmp_path / "again.svg").read_text() == text


def test_lines_of_the_picture() -> None:
    ratios = {("linear", f"f32-{2**i}x768x768"): 1.0 + i for i in range(11)}
    ratios |= {("linear", "f32-77x1025x1023"): 0.5, ("sort", "f32-1"): 2.0}
    first, last, order = lines_of("float32", ratios)
    assert first.ratios[:11] == [1.0 + i for i in range(11)] and not any(first.ratios[11:])
    assert (first.label, last.label, order.label) == ("linear", "", "sort")
    assert last.ratios == [None, None, 0.5]
    assert list(lines_of("float16", ratios)) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--sweep", "everything"), "there is no sweep 'everything'"),
        (("--sweep", "order", "--dtype", "float16"), "--sweep cannot be combined with --dtype"),
        (("--sweep", "order", "softmax"), "--sweep cannot be combined with softmax"),
        (("--limit-bytes", "4096"), "--limit-bytes needs --sweep"),
    ],
)
def test_options_that_do_not_go_together(options: tuple[str, ...], said: str) -> None:
    made = run(*options)
    assert made.exit_code == 2 and said in made.output


def _case(name: str) -> SweepCase:
    first = next(c for c in sweep.calls() if c.function == name)
    return SweepCase(replace(first, dims=SMALL[name]))


def run(*args: object) -> Any:
    return click.testing.CliRunner().invoke(main, ["bench", *map(str, args)])
