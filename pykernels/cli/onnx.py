"""pykernels onnx"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Missing

if TYPE_CHECKING:
    import numpy as np

    from pykernels.device import Device
    from pykernels.onnx.model import Model

    Array = np.ndarray[Any, Any]

__all__ = ["command"]


@click.group("onnx")
def command() -> None:
    """Run networks from ONNX files, and compare them with onnxruntime."""


def options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that all commands share, and reports a missing package onnx."""

    @functools.wraps(function)
    def run(*given: Any, **named: Any) -> None:
        try:
            function(*given, **named)
        except ModuleNotFoundError as e:
            if e.name != "onnx":
                raise
            raise Missing("onnx is missing: pip install onnx") from None

    for add in (
        click.option("--engine", type=click.Choice(["wgpu", "dawn"]), help="Default: wgpu."),
        click.option("--device", help="An adapter's number, or a part of its name (see doctor)."),
        click.option("--seed", type=int, default=0, help="Of inputs that are made up."),
        click.option(
            "--shape", "shapes", multiple=True, metavar="NAME=1,3,48,320",
            help="Of an input that leaves dimensions open. May be repeated.",
        ),
        click.option(
            "--in", "inputs", multiple=True, metavar="NAME=FILE",
            help="A .npy file for an input, or a number; others are random. May be repeated.",
        ),
        click.argument("file", type=click.Path(path_type=Path), metavar="FILE"),
    ):  # fmt: skip
        run = add(run)
    return run


class _Session:
    """Loads a file on a device, and makes inputs for a run."""

    def __init__(
        self, dev: Device, file: Path, inputs: tuple[str, ...], shapes: tuple[str, ...], seed: int
    ) -> None:
        import pykernels as pk
        from pykernels.onnx.checking import made_up
        from pykernels.onnx.shapes import input_shapes

        given = {n: _read(text) for n, text in _pairs(inputs, "--in").items()}
        wanted = {n: _sizes(n, text) for n, text in _pairs(shapes, "--shape").items()}
        wanted |= {n: v.shape for n, v in given.items()}
        self.model: Model = pk.onnx.load(file, device=dev)
        self.proto = self.model.proto
        self.inputs = made_up(self.proto, input_shapes(self.proto, wanted), seed)
        self.inputs |= {n: v.astype(self.inputs[n].dtype) for n, v in given.items()}

    def tell(self) -> None:
        """Compile the network, and print its size."""
        start = time.perf_counter()
        program = self.model.program(self.inputs)
        counts = len(self.proto.graph.node), program.steps
        click.echo("{} nodes, {} steps; compiling".format(*counts), err=True)
        program.run(self.inputs)
        click.echo(f"first call: {time.perf_counter() - start:.2f} s", err=True)
        if program.captured is not None:
            memory = program.captured.memory()
            told = f"{memory.nbytes:,} bytes for values, {memory.ratio:.2f} of those in use at once"
            click.echo(f"memory: {told}", err=True)


@command.command("run")
@options
@click.option(
    "--out", "outs", multiple=True, metavar="NAME=FILE",
    help="Write an output as a .npy file. May be repeated.",
)  # fmt: skip
def run(
    file: Path, inputs: tuple[str, ...], shapes: tuple[str, ...], outs: tuple[str, ...],
    seed: int, device: str | None, engine: Any,
) -> None:  # fmt: skip
    """Run FILE, print the shapes of its outputs and the time of a call."""
    import numpy as np

    files = _pairs(outs, "--out")
    with _device(device, engine) as dev:
        session = _Session(dev, file, inputs, shapes, seed)
        known = [v.name for v in session.model.outputs]
        for name in files:
            if name not in known:
                raise click.UsageError(f"--out {name}: the outputs are {', '.join(known)}")
        session.tell()
        start = time.perf_counter()
        found = session.model(session.inputs)
        click.echo(f"next call: {1e3 * (time.perf_counter() - start):.1f} ms", err=True)
    for name, array in found.items():
        click.echo(f"{name}: {array.dtype} {array.shape}")
        if name in files:
            try:
                np.save(files[name], array, allow_pickle=False)
            except OSError as e:
                raise Missing(f"--out {files[name]}: {e.strerror}") from None


@command.command("check")
@options
def check(
    file: Path, inputs: tuple[str, ...], shapes: tuple[str, ...], seed: int, device: str | None,
    engine: Any,
) -> None:  # fmt: skip
    """Run FILE and compare its outputs with onnxruntime's; 1 if they differ."""
    from pykernels.onnx.checking import compare

    with _device(device, engine) as dev:
        session = _Session(dev, file, inputs, shapes, seed)
        session.tell()
        found = compare(session.proto, session.model.program(session.inputs), session.inputs)
    for difference in found:
        click.echo(str(difference))
    if not all(d.fits for d in found):
        raise SystemExit(1)


@command.command("trace")
@options
def trace(
    file: Path, inputs: tuple[str, ...], shapes: tuple[str, ...], seed: int, device: str | None,
    engine: Any,
) -> None:  # fmt: skip
    """Compare each node of FILE with onnxruntime's, from the same inputs; 1 if one differs."""
    from pykernels.onnx.checking import trace
    from pykernels.onnx.reader import load

    with _device(device, engine) as dev:
        session = _Session(dev, file, inputs, shapes, seed)
        sizes = {n: a.shape for n, a in session.inputs.items()}
        graph = load(session.proto, sizes, session.inputs)
        total = 2 * len(graph.nodes)
        found = []
        for difference in trace(session.proto, graph, dev, session.inputs):
            found.append(difference)
            if len(found) % 100 == 0:
                click.echo(f"{len(found)} of at most {total}", err=True)
    worst = sorted(found, key=lambda d: -max(d.norm / 1e-4, d.largest / 1e-3))
    click.echo(f"{len(found)} values, the farthest:")
    for difference in [*worst[:1], *(d for d in worst[1:] if not d.fits)]:
        click.echo(str(difference))
    if not all(d.fits for d in found):
        raise SystemExit(1)


@command.command("profile")
@options
@click.option("--memory", is_flag=True, help="Print the program's memory, too.")
def profile(
    file: Path, inputs: tuple[str, ...], shapes: tuple[str, ...], seed: int, memory: bool,
    device: str | None, engine: Any,
) -> None:  # fmt: skip
    """Print the time of each kernel in a call of FILE."""
    with _device(device, engine) as dev:
        session = _Session(dev, file, inputs, shapes, seed)
        session.tell()
        click.echo(session.model.profile(session.inputs).table())
        captured = session.model.program(session.inputs).captured
        if memory and captured is not None:
            click.echo(str(captured.memory()))


def _device(name: str | None, engine: Any) -> Device:
    import pykernels as pk

    return pk.Device(int(name) if name is not None and name.isdigit() else name, engine=engine)


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        if not (name and value):
            raise click.UsageError(f"{option} {text}: write NAME=VALUE")
        found[name] = value
    return found


def _sizes(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(n) for n in text.split(","))
    except ValueError:
        raise click.UsageError(f"--shape {name}={text}: write numbers with commas") from None


def _read(text: str) -> Array:
    """An array from a numpy file, or a number."""
    import numpy as np

    from .run import _array

    if Path(text).exists():
        return _array(text)
    try:
        return np.array(float(text) if "." in text else int(text))
    except ValueError:
        raise Missing(f"--in {text} is no file and no number") from None
