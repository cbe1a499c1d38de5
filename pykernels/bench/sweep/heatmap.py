"""The picture of a sweep: a cell for each call; its colour is the peer's time divided by ours.

A row of cells shows one function, with the sizes of the grid in order. A row of `linear` has two
matrices of weights, each with 1 to 1,024 rows of inputs. A row of `conv2d` has ResNet-50's layers
for one batch size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pykernels.bench.report import Report
from pykernels.bench.table import where
from pykernels.errors import PyKernelsError

from .grid import Call, calls
from .summary import beside, ratio

__all__ = ["heatmap"]

WIDTH = 23  # cells of a line
LINEAR = 22
RANGE = 2.0  # log2 of the ratio at which the scale of colours ends


class Line(NamedTuple):
    """The ratios of some calls of one function, None for a call without a ratio."""

    label: str
    ratios: list[float | None]


def heatmap(report: Report, path: Path, peer: str = "") -> None:
    """Write the figure; the suffix of the file is the format (svg, png, pdf). Needs matplotlib."""
    known = beside(report)
    chosen = peer or next((p for p in ("torch", *known) if p in known), "")
    if chosen not in known:
        raise PyKernelsError(
            "[bench] a heat map needs a peer that has times: --peers torch (a GPU) or numpy"
        )
    import matplotlib
    from matplotlib.figure import Figure

    found = {(r.kernel, r.id): ratio(r, chosen) for r in report.results}
    halves = {d: [*lines_of(d, found)] for d in ("float32", "float16")}
    halves = {d: lines for d, lines in halves.items() if lines}
    height = 1.6 + 0.24 * max(map(len, halves.values()))
    with matplotlib.rc_context(
        {"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "pykernels"}
    ):
        figure = Figure(figsize=(1 + 8 * len(halves), height), layout="constrained")
        axes = figure.subplots(1, len(halves), squeeze=False)[0]
        pairs = zip(axes, halves.items(), strict=True)
        pictures = [_panel(axis, dtype, lines) for axis, (dtype, lines) in pairs]
        bar = figure.colorbar(pictures[-1], ax=[*axes], location="bottom", aspect=60, shrink=0.6)
        steps = [-2, -1, -0.5, 0, 0.5, 1, 2]
        bar.set_ticks(steps, labels=[f"{2**s:.2g}" for s in steps])
        bar.set_label(f"time of {chosen} over ours, of a call by the caller's clock")
        engine, date = report.results[0].engine, report.meta["date"][:10]
        place = where(report).partition(";")[0]
        figure.suptitle(f"{place}; engine {engine}, {date}", fontsize=9)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=130)


def lines_of(dtype: str, ratios: Mapping[tuple[str, str], float | None]) -> Iterator[Line]:
    """The rows of a dtype in which at least one call has a ratio."""
    functions: dict[tuple[str, str], list[Call]] = {}
    for call in calls():
        if call.dtype == dtype:
            functions.setdefault((call.family, call.function), []).append(call)
    for (family, function), own in functions.items():
        values = [ratios.get((c.function, c.id)) for c in own]
        if any(values):
            width = LINEAR if function == "linear" else WIDTH
            label = function if function != "matmul" else f"matmul, {family}"
            for first in range(0, len(values), width):
                some = values[first : first + width]
                if any(some):
                    yield Line(label, some)
                    label = ""


def _panel(axis: Any, dtype: str, lines: list[Line]) -> Any:
    """Draw one dtype: cells with their ratio as text; cells without a ratio are grey."""
    nan = math.nan
    cells = [
        [math.log2(x) if x else nan for x in line.ratios] + [nan] * (WIDTH - len(line.ratios))
        for line in lines
    ]
    picture = axis.imshow(cells, cmap="RdBu", vmin=-RANGE, vmax=RANGE, aspect="auto")
    for y, line in enumerate(lines):
        for x, value in enumerate(line.ratios):
            if value is None:
                axis.add_patch(_grey(x, y))
                continue
            dark = abs(math.log2(value)) > 0.75 * RANGE
            text = f"{value:.2f}" if value < 10 else f"{value:.0f}"
            axis.text(x, y, text, ha="center", va="center", fontsize=5,
                      color="white" if dark else "black")  # fmt: skip
    axis.set_yticks(range(len(lines)), labels=[line.label for line in lines])
    axis.set_xticks([])
    axis.set_title(dtype)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return picture


def _grey(x: int, y: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1, 1, color="#dddddd", lw=0)
