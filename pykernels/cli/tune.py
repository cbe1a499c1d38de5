"""pykernels tune"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Missing

if TYPE_CHECKING:
    from pykernels.bench.tune import Verdicts
    from pykernels.device import Device

__all__ = ["command"]

STEPS = 1000  # number of steps of the progress bar
WORST = 5  # number of worst choices that are shown


@click.command("tune")
@click.option("--device", help="An adapter's number, or a part of its name (see doctor).")
@click.option(
    "--engine", type=click.Choice(["wgpu", "dawn", "dawn-matrix"]), default="wgpu",
    show_default=True,
)  # fmt: skip
@click.option("--small", is_flag=True, help="Small problems only: always on a software driver.")
@click.option("--restart", is_flag=True, help="Forget what an interrupted run measured.")
@click.option(
    "--check", "count", type=click.IntRange(1), metavar="N",
    help="Measure nothing for the table: compare its choices with the best for N problems that it "
    "was not measured by.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the problems of --check.")
@click.option("--export", "shown", is_flag=True, help="Print the table, to send to the project.")
@click.option("--off", "switch", flag_value="off", help="Put the table aside: it is ignored.")
@click.option("--on", "switch", flag_value="on", help="Use the table that --off put aside.")
def command(
    device: str | None, engine: str, small: bool, restart: bool, count: int | None, seed: int,
    shown: bool, switch: str | None,
) -> None:  # fmt: skip
    """Measure a device and write its tuning table, with which plans choose shaders and splits.

    It takes some minutes; after an interrupt, the next run continues. The table is valid for this
    adapter, driver and engine. Devices that are opened later use it, and `pykernels doctor` shows
    it. With another table, sums may be split in another way and round differently within their
    bounds. With PYKERNELS_TUNING=off the table is ignored.
    """
    if sum((count is not None, shown, switch is not None)) > 1:
        raise click.UsageError("--check, --export, --off and --on do not go together")
    import pykernels as pk

    adapter = int(device) if device is not None and device.isdigit() else device
    matrix = engine == "dawn-matrix"
    with pk.Device(
        adapter, engine="wgpu" if engine == "wgpu" else "dawn", matrix_units=matrix
    ) as dev:
        small = small or dev.info["type"] == "CPU"
        if shown:
            _export(dev)
        elif switch:
            _switch(dev, switch == "off")
        elif count is not None:
            _check(dev, count, seed, small)
        else:
            _measure(dev, small, restart)


def _file(dev: Device) -> Path:
    from pykernels.bench.tune import adapter_of
    from pykernels.tuning import path_of

    return path_of(adapter_of(dev))


def _export(dev: Device) -> None:
    file = _file(dev)
    if not file.is_file():
        raise Missing(f"nothing was measured on {dev.info['name']} yet: pykernels tune")
    click.echo(file.read_text(encoding="utf-8"), nl=False)


def _switch(dev: Device, off: bool) -> None:
    from pykernels.tuning import OFF

    file = _file(dev)
    aside = file.with_name(file.name + OFF)
    source, target = (file, aside) if off else (aside, file)
    if source.is_file():
        source.replace(target)
    elif not target.is_file():
        raise Missing(f"there is no table of {dev.info['name']}: {source}")
    click.echo(f"{target} is {'ignored' if off else 'used'} from the next device on")


def _measure(dev: Device, small: bool, restart: bool) -> None:
    from pykernels._version import __version__
    from pykernels.bench.tune import Kept, adapter_of, measure
    from pykernels.tuning import as_file, save

    started, file, adapter = time.perf_counter(), _file(dev), adapter_of(dev)
    matrix = dev._context.caps.matrix is not None
    of = {**adapter._asdict(), "pykernels": __version__, "small": small, "matrix": matrix}
    kept = Kept(file.with_suffix(".part.json"), of)
    if restart:
        kept.found.clear()
    elif kept.reused:
        click.echo(f"{kept.reused} measurements of an interrupted run are used", err=True)
    try:
        with _progress() as told:
            found = measure(dev, kept, small=small, told=told)
    except KeyboardInterrupt:
        click.echo(f"{len(kept.found)} measurements are kept: the same command goes on", err=True)
        raise
    notes = {
        "type": dev.info["type"], "backend": dev.info["backend"], "pykernels": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    save(file, as_file(found.tuning, found.base, adapter, notes))
    kept.forget()
    click.echo(f"{file}\n{_device(found.tuning)}")
    click.echo(f"longest dispatch {found.longest * 1e3:.1f} ms, {_spent(started)}")
    click.echo(f"the table {found.base}: {_mean(found.before)}")
    _report(found.own, "this table")
    for change in found.changes:
        click.echo(f"  {change}")


def _check(dev: Device, count: int, seed: int, small: bool) -> None:
    from pykernels.bench.tune import check

    started = time.perf_counter()
    with _progress() as told:
        found = check(dev, count, small=small, told=told, seed=seed)
    _report(found, f"the table {dev._context.caps.tuning.name}")
    click.echo(_spent(started))


def _spent(started: float) -> str:
    return f"{time.perf_counter() - started:.0f} s"


def _device(t: Any) -> str:
    return (
        f"{t.device.units} multiprocessors, {t.device.copy / 1e9:.3g} GB/s, a dispatch "
        f"{t.matmul.dispatch * 1e6:.2g} us"
    )


def _mean(v: Verdicts) -> str:
    far = sum(c.ratio > 1.4 for c in v.choices)
    return (
        f"choices for {len(v.choices)} problems take {v.mean:.3f} times the best forced choice "
        f"(geometric mean), {far} of them more than 1.4 times"
    )


def _report(v: Verdicts, what: str) -> None:
    click.echo(f"{what}: {_mean(v)}")
    for c in v.worst[:WORST]:
        if c.ratio > 1:
            click.echo(f"  {c.ratio:.2f}  {c.problem.name}: {c.choice}; the best is {c.best}")


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """A progress bar on stderr, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda what, share: None
        return
    bar: Any
    with click.progressbar(
        length=STEPS, file=sys.stderr, item_show_func=lambda what: str(what or "")[:50]
    ) as bar:

        def told(what: str, share: float) -> None:
            bar.update(max(round(share * STEPS) - bar.pos, 0), what)

        yield told
