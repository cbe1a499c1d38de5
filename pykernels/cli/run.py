"""pykernels run"""

from __future__ import annotations

import ast
import inspect
import os
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

# For each annotation in a signature, the types that --set accepts, and the name of these types in
# errors.
_NUMBERS: dict[str, tuple[tuple[type, ...], str]] = {
    "float": ((int, float), "a number"),
    "float | None": ((int, float, type(None)), "a number or None"),
    "int": ((int,), "an integer"),
    "int | None": ((int, type(None)), "an integer or None"),
    "bool": ((bool,), "true or false"),
}


@click.command("run")
@click.argument("name", metavar="KERNEL")
@click.option(
    "--in", "inputs", multiple=True, metavar="[NAME=]FILE",
    help="A .npy file for the next input, or the named one (the output, too, where it keeps "
    "elements or no input tells its shape). May be repeated.",
)  # fmt: skip
@click.option(
    "--out", "outs", multiple=True, metavar="[NAME=]FILE",
    help="Where the next output goes, or the named one. May be repeated.",
)  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="scale=0.5")
@click.option("--dtype", help="The outputs' dtype, where it is free (cpy).")
@click.option("--check", is_flag=True, help="Compare with the float64 reference; 1 if it fails.")
@click.option("--rtol", type=float, help="Allowed by --check: this share of each element.")
@click.option("--atol", type=float, help="Allowed by --check: this error of any element.")
@click.option("--device", help="An adapter's number, or a part of its name (see doctor).")
@click.option("--engine", type=click.Choice(["wgpu", "dawn"]), help="Default: wgpu.")
def command(
    name: str,
    inputs: tuple[str, ...],
    outs: tuple[str, ...],
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
    scalars = dict(_setting(s) for s in settings)

    import pykernels as pk

    call = getattr(pk.kernels, name)
    signature = inspect.signature(call).parameters
    outputs = [t for t in signature if roles.get(t) == "out"]
    files = _files(outs, outputs)
    arrays = _load(inputs, [t for t in roles if t not in outputs] or outputs, outputs)
    _refuse_unknown(call, scalars)
    wanted = [t for t in outputs if _required(signature[t]) or t in files]
    with pk.Device(_adapter(device), engine=engine) as dev:
        results = _run(dev, call, arrays, wanted, dtype, scalars)
        where = dev.info
    made = ", ".join(f"{n} {r.dtype} {r.shape}" for n, r in results.items())
    click.echo(f"{name}: {made} on {where['name']}", err=True)
    for output, path in files.items():
        _save(path, results[output])
    if check and not _check(name, arrays, scalars, results, rtol, atol):
        raise SystemExit(1)


def _required(p: inspect.Parameter) -> bool:
    return p.default is inspect.Parameter.empty


def _files(outs: tuple[str, ...], outputs: list[str]) -> dict[str, Path]:
    """The file of each output; an error if one cannot be written, before anything is computed."""
    files: dict[str, Path] = {}
    for text in outs:
        name, equals, path = text.partition("=")
        if not equals or name not in outputs:
            free = [n for n in outputs if n not in files]
            if not free:
                raise click.UsageError(f"--out {text}: the outputs are {', '.join(outputs)}")
            name, path = free[0], text
        if name in files or Path(path) in files.values():
            raise click.UsageError(f"--out {text}: given twice")
        files[name] = Path(path)
        folder = files[name].parent
        if not folder.is_dir():
            raise Missing(f"--out {path}: there is no folder {folder}")
        if files[name].is_dir():
            raise Missing(f"--out {path}: that is a folder")
        if not os.access(files[name] if files[name].exists() else folder, os.W_OK):
            raise Missing(f"--out {path}: may not be written")
    return files


def _save(path: Path, result: Array) -> None:
    import numpy as np

    try:
        with path.open("wb") as file:
            np.save(file, result, allow_pickle=False)
    except OSError as e:
        raise Missing(f"--out {path}: {e.strerror}") from None


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set must be NAME=VALUE but is {text!r}")
    try:
        return name, ast.literal_eval({"true": "True", "false": "False"}.get(value, value))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return name, value


def _load(inputs: tuple[str, ...], names: list[str], outputs: list[str]) -> dict[str, Array]:
    """The arrays by the names of their arguments; an array for an output must be given by name."""

    arrays: dict[str, Array] = {}
    for text in inputs:
        name, equals, path = text.partition("=")
        if not equals or name not in (*names, *outputs):
            free = [n for n in names if n not in arrays]
            if not free:
                raise click.UsageError(f"{text}: only {', '.join(names)} may be given")
            name, path = free[0], text
        arrays[name] = _array(path)
    return arrays


def _array(path: str) -> Array:
    # numpy does not catch this error if the header of a file ends early
    from tokenize import TokenError

    import numpy as np

    try:
        if Path(path).exists() and not Path(path).is_file():  # a pipe would block
            raise Missing(f"{path} cannot be read: it is no file")
        with open(path, "rb") as file:
            magic = file.read(6)
        if magic == b"\x93NUMPY":
            # A header may promise more data than the file has. With mmap_mode, numpy notices this
            # before it allocates an array.
            with np.errstate(over="ignore"):
                return np.array(np.load(path, mmap_mode="r", allow_pickle=False))
    except (
        OSError, ValueError, EOFError, SyntaxError, RecursionError, MemoryError, OverflowError,
        TokenError,
    ) as e:  # fmt: skip
        raise Missing(f"{path} cannot be read: {e}") from None
    raise Missing(f"{path} cannot be read: it is no .npy file")


def _adapter(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdigit() else text


def _refuse_unknown(call: Callable[..., None], scalars: Mapping[str, Any]) -> None:
    signature = inspect.signature(call).parameters
    known = [p for p in signature if "Tensor" not in str(signature[p].annotation)]
    for name, value in scalars.items():
        if name not in known:
            raise click.UsageError(f"--set {name}: there are {', '.join(known) or 'none'}")
        kinds, words = _NUMBERS.get(str(signature[name].annotation), ((object,), ""))
        if not isinstance(value, kinds) or (
            isinstance(value, bool) and bool not in kinds and words
        ):
            raise click.UsageError(f"--set {name} must be {words} but is {value!r}")
    for p in known:
        if _required(signature[p]) and p not in scalars:
            raise click.UsageError(f"{call.__name__} needs --set {p}=VALUE")


def _run(
    dev: Device,
    call: Callable[..., None],
    arrays: Mapping[str, Array],
    outputs: list[str],
    dtype: str | None,
    scalars: Mapping[str, Any],
) -> dict[str, Array]:
    from pykernels.contract import accepted
    from pykernels.dtypes import dtype_of

    signature = inspect.signature(call).parameters
    for p in signature.values():
        needed = _required(p) and p.annotation == "Tensor"
        if needed and p.name not in arrays and (p.name not in outputs or not arrays):
            raise click.UsageError(f"{call.__name__} needs --in {p.name}=FILE")
    kind = None if dtype is None else dtype_of(dtype, "--dtype").name
    found = _shapes(call, arrays, outputs, scalars)
    tensors = {name: dev.tensor(a) for name, a in arrays.items()}
    first = next(tensors[p] for p in signature if p in tensors)
    fixed = {t["name"]: tuple(t["dtypes"]) for t in kernel(call.__name__)["tensors"]}
    for name, shape in found.items():
        fits = kind or (first.dtype if first.dtype in accepted(fixed[name]) else fixed[name][0])
        tensors[name] = dev.empty(shape, fixed[name][0] if len(fixed[name]) == 1 else fits)
    call(**tensors, **scalars)
    return {name: tensors[name].numpy() for name in outputs}


def _shapes(
    call: Callable[..., None],
    arrays: Mapping[str, Array],
    outputs: list[str],
    scalars: Mapping[str, Any],
) -> dict[str, tuple[int, ...]]:
    """The shapes of the outputs that were not given."""
    from ._outputs import shapes

    missing = [name for name in outputs if name not in arrays]
    if not missing:
        return {}
    signature = inspect.signature(call).parameters
    given = {n: a.shape for n, a in arrays.items() if _required(signature[n])}
    try:
        found = shapes(call, given, scalars)
    except (LookupError, ValueError):  # ignored here, because the kernel raises its own error
        first: tuple[int, ...] = next(iter(given.values()))
        found = {name: first for name in missing}
    for name in missing:
        if name not in found:
            raise click.UsageError(f"{call.__name__} needs --in {name}=FILE")
    return {name: found[name] for name in missing}


def _check(
    name: str,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, Any],
    results: Mapping[str, Array],
    rtol: float | None,
    atol: float | None,
) -> bool:
    """Compare with pykernels.reference and print the largest error of each output."""
    from pykernels.bench.check import expected

    names = list(results)
    found = expected(name, arrays, scalars, results[names[0]])
    fine = True
    for output, want in zip(names, found, strict=False):
        label = "check" if len(names) == 1 else f"check of {output}"
        fine &= _compare(label, want, results[output], rtol, atol)
    for output in names[len(found) :]:
        click.echo(f"check of {output}: there is no reference")
    return fine


def _compare(label: str, want: Array, got: Array, rtol: float | None, atol: float | None) -> bool:
    import numpy as np

    from pykernels.bench.check import TOLERANCES, differing

    if want.dtype == got.dtype:
        wrong = differing(want, got)
        found = f"FAILED, {wrong} of {got.size} elements differ" if wrong else "passed, bit for bit"
        click.echo(f"{label}: {found}")
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
        f"{label}: largest error {worst:.3g} (allowed: {relative:g} of each element + "
        f"{absolute:.3g}): {verdict}"
    )
    return not bad
