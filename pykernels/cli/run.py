"""pykernels run"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Missing
from ._manifest import kernel

if TYPE_CHECKING:
    import numpy as np

    from pykernels.device import Device

    Array = np.ndarray[Any, Any]

__all__ = ["command"]


@click.command("run")
@click.argument("name", metavar="KERNEL")
@click.option(
    "--in", "inputs", multiple=True, metavar="[NAME=]FILE",
    help="A .npy file for the next input, or the named one (the output, too, where it has a shape "
    "of its own or keeps elements). May be repeated.",
)  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="scale=0.5")
@click.option("--dtype", help="The output's dtype, where it is free (cpy).")
@click.option("--check", is_flag=True, help="Compare with the float64 reference; 1 if it fails.")
@click.option("--rtol", type=float, help="Allowed by --check: this share of each element.")
@click.option("--atol", type=float, help="Allowed by --check: this error of any element.")
@click.option("--device", help="An adapter's number, or a part of its name (see doctor).")
@click.option("--engine", type=click.Choice(["wgpu", "dawn"]), help="Default: wgpu.")
def command(
    name: str,
    inputs: tuple[str, ...],
    out: Path | None,
    settings: tuple[str, ...],
    dtype: str | None,
    check: bool,
    rtol: float | None,
    atol: float | None,
    device: str | None,
    engine: Any,
) -> None:
    """Run KERNEL on numpy files. A kernel without inputs changes a copy of the first file."""
    roles = {t["name"]: t["role"] for t in kernel(name)["tensors"]}
    outputs = [t for t, role in roles.items() if role == "out"]
    if len(outputs) != 1:
        raise Missing(f"{name} has {len(outputs)} outputs: call it from Python")
    scalars = dict(_setting(s) for s in settings)
    arrays = _load(inputs, [t for t in roles if t not in outputs] or outputs, outputs)

    import pykernels as pk

    call = getattr(pk.kernels, name)
    _refuse_unknown(call, scalars)
    with pk.Device(_adapter(device), engine=engine) as dev:
        result = _run(dev, call, arrays, outputs[0], dtype, scalars)
        where = dev.info
    click.echo(f"{name}: {outputs[0]} {result.dtype} {result.shape} on {where['name']}", err=True)
    if out is not None:
        import numpy as np

        with out.open("wb") as file:
            np.save(file, result, allow_pickle=False)
    if check and not _check(name, arrays, scalars, result, rtol, atol):
        raise SystemExit(1)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set must be NAME=VALUE but is {text!r}")
    try:
        return name, ast.literal_eval({"true": "True", "false": "False"}.get(value, value))
    except (ValueError, SyntaxError):
        return name, value


def _load(inputs: tuple[str, ...], names: list[str], outputs: list[str]) -> dict[str, Array]:
    """The arrays by the names of their arguments; those of outputs are given by name."""
    import numpy as np

    arrays: dict[str, Array] = {}
    for text in inputs:
        name, equals, path = text.partition("=")
        if not equals or name not in (*names, *outputs):
            free = [n for n in names if n not in arrays]
            if not free:
                raise click.UsageError(f"{text}: only {', '.join(names)} may be given")
            name, path = free[0], text
        try:
            arrays[name] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as e:
            raise Missing(f"{path} cannot be read: {e}") from None
    return arrays


def _adapter(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdigit() else text


def _refuse_unknown(call: Callable[..., None], scalars: Mapping[str, Any]) -> None:
    signature = inspect.signature(call).parameters
    known = [p for p in signature if "Tensor" not in str(signature[p].annotation)]
    for name in scalars:
        if name not in known:
            raise click.UsageError(f"--set {name}: there are {', '.join(known) or 'none'}")
    for p in known:
        if signature[p].default is inspect.Parameter.empty and p not in scalars:
            raise click.UsageError(f"{call.__name__} needs --set {p}=VALUE")


def _run(
    dev: Device,
    call: Callable[..., None],
    arrays: Mapping[str, Array],
    output: str,
    dtype: str | None,
    scalars: Mapping[str, Any],
) -> Array:
    from pykernels.dtypes import dtype_of

    for p in inspect.signature(call).parameters.values():
        needed = p.default is inspect.Parameter.empty and p.annotation == "Tensor"
        if needed and p.name not in arrays and (p.name != output or not arrays):
            raise click.UsageError(f"{call.__name__} needs --in {p.name}=FILE")
    tensors = {name: dev.tensor(a) for name, a in arrays.items()}
    if output not in tensors:
        first = next(tensors[p] for p in inspect.signature(call).parameters if p in tensors)
        kind = first.dtype if dtype is None else dtype_of(dtype, "--dtype").name
        tensors[output] = dev.empty(first.shape, kind)
    call(**tensors, **scalars)
    return tensors[output].numpy()


def _check(
    name: str,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, Any],
    got: Array,
    rtol: float | None,
    atol: float | None,
) -> bool:
    """Compare with pykernels.reference and print the largest error."""
    import numpy as np

    from pykernels.bench.check import TOLERANCES, differing, expected

    (want,) = expected(name, arrays, scalars, got)
    if want.dtype == got.dtype:
        wrong = differing(want, got)
        found = f"FAILED, {wrong} of {got.size} elements differ" if wrong else "passed, bit for bit"
        click.echo(f"check: {found}")
        return not wrong
    relative, absolute = TOLERANCES[got.dtype.name]
    relative = relative if rtol is None else rtol
    finite = np.isfinite(want)
    largest = float(np.abs(want[finite]).max(initial=0.0))
    absolute = absolute * largest if atol is None else atol
    got64 = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(got64 - want)
        fine = np.where(finite, error <= relative * np.abs(want) + absolute, got64 == want)
    fine |= np.isnan(got64) & np.isnan(want)
    bad = int((~fine).sum())
    worst = float(error[finite].max(initial=0.0))
    verdict = "passed" if not bad else f"FAILED, {bad} of {got.size} elements"
    click.echo(
        f"check: largest error {worst:.3g} (allowed: {relative:g} of each element + "
        f"{absolute:.3g}): {verdict}"
    )
    return not bad
