"""pykernels explain"""

from __future__ import annotations

import click

from ._manifest import kernel

__all__ = ["command"]


@click.command("explain")
@click.argument("name", metavar="KERNEL")
@click.option("--shape", metavar="64x64x64", help="The problem's; for mul_mat n x m x k.")
@click.option("--dtype", default="float32", metavar="DTYPE", help="float16, or float16:float32.")
@click.option("--device", help="An adapter's number, or a part of its name (see doctor).")
@click.option(
    "--engine", type=click.Choice(["wgpu", "dawn", "dawn-matrix"]), default="wgpu",
    show_default=True,
)  # fmt: skip
def command(name: str, shape: str | None, dtype: str, device: str | None, engine: str) -> None:
    """Print which body KERNEL runs for a problem, and why: all candidates, their predicted times
    (if the plan has a model), their measured times, and the reasons that exclude others.

    The chosen body comes first and is marked *. `pykernels bench --config NAME` measures any body.
    """
    kernel(name)
    from .bench import problem_of, sizes

    given = sizes(shape) if shape else ()
    import pykernels as pk
    from pykernels.bench.case import load
    from pykernels.bench.cases import default_shape
    from pykernels.bench.explain import explain_case
    from pykernels.bench.shapes import cut

    adapter = int(device) if device is not None and device.isdigit() else device
    with pk.Device(
        adapter, engine="wgpu" if engine == "wgpu" else "dawn", matrix_units=engine == "dawn-matrix"
    ) as dev:
        edge = 256 if dev.info["type"] == "CPU" else 0
        case = problem_of(name, given or tuple(cut(n, edge) for n in default_shape(name)), dtype)
        click.echo(
            f"{name} {case.id} on {dev.info['name']}, tuning {dev._context.caps.tuning.name}"
        )
        click.echo(explain_case(load(dev, case)))
