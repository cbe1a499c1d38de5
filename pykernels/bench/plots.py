"""A roofline and throughput over size, as one figure."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from pykernels.errors import PyKernelsError

from .report import Report, Result
from .table import where

__all__ = ["plot"]

# Colours that colour-blind readers can tell apart (Okabe and Ito 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKS = "osD^vP*X"


def plot(report: Report, path: Path) -> None:
    """Write the figure; the suffix of the file is the format (svg, png, pdf). Needs matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    if not report.results:
        raise PyKernelsError("[bench] there is nothing to plot")

    engine = report.results[0].engine
    results = [r for r in report.results if r.engine == engine and not r.timing.cold]
    style: Any = {
        "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "pykernels", "axes.grid": True,
        "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        kernels = list(dict.fromkeys(r.kernel for r in results))
        colours = _colours(matplotlib, len(kernels))
        looks = {k: (colours[i], MARKS[i % 8]) for i, k in enumerate(kernels)}
        _roofline(left, report, engine, results, looks)
        _over_size(right, report, engine, results, looks)
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))
        figure.suptitle(
            f"{where(report).partition(';')[0]}; engine {engine}, {report.meta['date'][:10]}",
            fontsize=9,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        # during the layout, an axis may have no height for a moment
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=RuntimeWarning, module="matplotlib")
            metadata: Any = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, metadata=metadata, dpi=130)


def _colours(matplotlib: Any, count: int) -> list[Any]:
    """A different colour for each kernel."""
    if count <= len(COLOURS):
        return [*COLOURS[:count]]
    found = matplotlib.colormaps["turbo"]
    return [matplotlib.colors.to_hex(found(i / (count - 1))) for i in range(count)]


def _roofline(
    axis: Any, report: Report, engine: str, results: list[Result], looks: dict[str, tuple[str, str]]
) -> None:
    """The left figure: operations per second over operations per byte, under the measured
    ceilings."""
    axis.set(xscale="log", yscale="log", title="Roofline", xlabel="operations per byte")
    axis.set_ylabel("TFLOP/s")
    work = [r for r in results if r.counts.operations]
    reach = [r.counts.operations / r.counts.nbytes for r in work] or [1.0]
    low, high = min(0.25, *reach) / 2, max(64.0, *reach) * 2
    c = report.ceilings.get(engine)
    if c:
        for peak, name in ((c.fma32, "f32"), (c.fma16, "f16")):
            if peak:
                ridge = peak / c.copy
                xs = [low, ridge, high] if name == "f32" else [ridge, high]
                ys = [min(x * c.copy, peak) / 1e12 for x in xs]
                axis.plot(xs, ys, color="#444444", lw=1.2, ls="-" if name == "f32" else "--")
                axis.annotate(
                    f"{name} multiply-adds {peak / 1e12:.3g} TFLOP/s", (high, peak / 1e12),
                    xytext=(0, 3), textcoords="offset points", ha="right", fontsize=7.5,
                )  # fmt: skip
        x = min(4.0, c.fma32 / c.copy / 2)
        axis.annotate(
            f"copy {c.copy / 1e9:.0f} GB/s", (x, x * c.copy / 1e12), xytext=(-8, 0),
            textcoords="offset points", ha="right", fontsize=7.5,
        )  # fmt: skip
    for r in work:
        _point(axis, r.counts.operations / r.counts.nbytes, r.speed / 1e12, r, looks)


def _point(axis: Any, x: float, y: float, r: Result, looks: dict[str, tuple[str, str]]) -> None:
    """A point, which is hollow if the case reads f16; its bar shows the noise."""
    colour, mark = looks[r.kernel]
    inside = "none" if r.dtype.startswith("f16") else colour
    axis.errorbar(
        x, y, yerr=y * min(r.noise, 0.99), fmt=mark, mec=colour, mfc=inside, ecolor=colour, ms=5,
        alpha=0.8, mew=1.1, elinewidth=0.8,
    )  # fmt: skip


def _over_size(
    axis: Any, report: Report, engine: str, results: list[Result], looks: dict[str, tuple[str, str]]
) -> None:
    """The right figure: the fraction of the roofline reached, over the bytes of a call."""
    c = report.ceilings.get(engine)
    axis.set(
        xscale="log",
        yscale="log",
        title="Throughput over size (hollow: f16)",
        xlabel="bytes that a call moves",
    )
    axis.set_ylabel("share of the measured ceiling" if c else "GB/s")
    for kernel, (colour, mark) in looks.items():
        own = [r for r in results if r.kernel == kernel]
        for r in own:
            _point(axis, r.counts.nbytes, r.share if c else r.rate / 1e9, r, looks)
        # A line connects the sizes of one form: squares, cubes or vectors.
        plain = [r for r in own if r.dtype in ("f32", "u8") and len(set(r.shape)) == 1]
        plain = [r for r in plain if not r.id.count("-", r.id.find("-") + 1)]
        ys = {r.counts.nbytes: r.share if c else r.rate / 1e9 for r in plain}
        axis.plot(sorted(ys), [ys[x] for x in sorted(ys)], color=colour, lw=1, alpha=0.6)
        axis.plot([], [], mark, color=colour, ms=5, label=kernel)
    if c:
        axis.axhline(1.0, color="#444444", lw=1.2)
