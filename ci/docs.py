"""Writes pages of docs/reference from docstrings, signatures and the help of commands, and
README's tables of families and dtypes. With `--check` it only compares.

python ci/docs.py [--check]
"""

from __future__ import annotations

import copy
import difflib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import click
from docstrings import WIDTH, docstring, signature
from families import (
    entry,
    family_pages,
    function_families,
    function_page,
    functions_page,
    kernel_families,
    kernels_page,
    manifest,
    page,
)

import pykernels as pk
from pykernels import cli, errors, functional
from pykernels.call import asking, promotion
from pykernels.contract import accepted
from pykernels.dtypes import DTYPES
from pykernels.lazy import load
from pykernels.runtime.lifetimes import ProgramMemory

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
ACCURACY = ROOT / "bench" / "results" / "accuracy"
# Methods that only other modules of the package call; they are not part of the public interface.
INTERNAL = {
    "Device": ("adopt", "expose"),
    "Profile": ("begin", "collect", "discard", "resolve", "submitted"),
}

# The name that the pages give to an object of a class, if it is not the name of the class.
_OWNERS = {
    "device": "dev", "tensor": "t", "profile": "p", "inferencesession": "session", "qtensor": "q",
}  # fmt: skip


def class_entry(cls: type, name: str) -> Iterator[str]:
    """The entry of a class: its docstring, constructor, properties as a table, methods."""
    yield from (f"## {name}", "")
    if "Args:" in (cls.__doc__ or "") or is_dataclass(cls):
        yield from (signature(f"pk.{name}" if name in dir(pk) else name, cls), "")
    yield from (*docstring(cls), "")
    hidden = INTERNAL.get(name, ())
    every: dict[str, Any] = {}
    for home in reversed([c for c in cls.__mro__ if c.__module__.startswith("pykernels.")]):
        every |= vars(home)
    members = [(n, m) for n, m in every.items() if not n.startswith("_") and n not in hidden]
    attributes = [(n, m) for n, m in members if isinstance(m, property) and inspect.getdoc(m)]
    if attributes:
        yield from ("| property | |", "|---|---|")
        for n, m in attributes:
            first = " ".join((inspect.getdoc(m) or "").split())
            yield f"| `{n}` | {first.replace('|', chr(92) + '|')} |"
        yield ""
    for n, m in members:
        f = m.__func__ if isinstance(m, (classmethod, staticmethod)) else m
        if inspect.isfunction(f) and inspect.getdoc(f):
            owner = f"pk.{name}" if isinstance(m, (classmethod, staticmethod)) else name.lower()
            owner = _OWNERS.get(owner, owner.removeprefix("gguf."))
            yield from entry(f"{name}.{n}", f"{owner}.{n}", f)


def device_page() -> Iterator[str]:
    """The page about devices and their parts."""
    yield from page("Devices", "the docstrings of pk.Device and its relatives")
    yield "How to use them: [devices](../guide/devices.md), [batching](../guide/batching.md)."
    yield ""
    yield from class_entry(pk.Device, "Device")
    yield from entry("default_device", "pk.default_device", pk.default_device, 2)
    yield from entry("list_adapters", "pk.list_adapters", pk.list_adapters, 2)
    yield from class_entry(pk.AdapterInfo, "AdapterInfo")
    module = inspect.getmodule(inspect.unwrap(pk.Device.profile))
    profile = module.Profile  # type: ignore[union-attr]
    yield from class_entry(profile, "Profile")
    yield from class_entry(inspect.getmodule(profile).Record, "Record")  # type: ignore[union-attr]
    yield from class_entry(module.MemoryStats, "MemoryStats")  # type: ignore[union-attr]
    yield from class_entry(ProgramMemory, "ProgramMemory")
    yield from entry("supports", "pk.supports", pk.supports, 2)
    for cls in (pk.Meta, asking.Unsupported):
        yield from class_entry(cls, cls.__name__)


def tensor_page() -> Iterator[str]:
    """The page about tensors."""
    yield from page("Tensors", "the docstrings of pk.Tensor, pk.QTensor, pk.CSR and pk.gguf")
    yield (
        "How to use them: [tensors and views](../guide/tensors.md), "
        "[quantised weights](../guide/quantised-weights.md)."
    )
    yield ""
    yield from class_entry(pk.Tensor, "Tensor")
    yield from class_entry(pk.QTensor, "QTensor")
    yield from class_entry(pk.CSR, "CSR")
    yield from entry("gguf.load", "pk.gguf.load", pk.gguf.load, level=2)
    yield from class_entry(pk.gguf.File, "gguf.File")


def tape_page() -> Iterator[str]:
    """The page about tapes, and about the form of calls in gradient rules."""
    from pykernels.tape import _calls, _check, _transforms

    yield from page("Tapes", "the docstrings of pk.Tape, pk.no_grad, pk.grad and the like")
    yield "How to use them: [gradients](../guide/gradients.md)."
    yield ""
    yield from class_entry(pk.Tape, "Tape")
    yield from class_entry(pk.no_grad, "no_grad")
    yield from class_entry(pk.autocast, "autocast")
    for module in (_transforms, _calls, _check):
        for name in module.__all__:
            yield from entry(name, name, getattr(module, name), level=2)


def raw_page() -> Iterator[str]:
    """The page about kernels from a text."""
    from pykernels import own
    from pykernels.raw import RawKernel

    made = "the docstrings of pk.raw_kernel, what it returns, and pykernels.own"
    yield from page("Kernels of your own", made)
    pages = (
        "[kernels of your own](../guide/own-kernels.md)",
        "[a package](../guide/own-package.md)",
    )
    yield f"How to use them: {', '.join(pages)}."
    yield ""
    yield from entry("raw_kernel", "pk.raw_kernel", pk.raw_kernel, 2)
    yield from class_entry(RawKernel, "RawKernel")
    yield from entry("RawKernel.__call__", "kernel", RawKernel.__call__)
    yield from entry("load_kernels", "pk.load_kernels", pk.load_kernels, 2)
    yield from entry("build_package", "pykernels.own.build_package", own.build_package, 2)
    for cls in (own.Built, own.SourceError):
        yield from class_entry(cls, cls.__name__)


def onnx_page() -> Iterator[str]:
    """The page about networks from ONNX files."""
    from pykernels.onnx import model, session, shapes
    from pykernels.onnx.errors import ModelError, ModelMemoryError

    yield from page("pykernels.onnx", "the docstrings of pykernels/onnx")
    yield "How to use it: [networks from files](../guide/models.md)."
    yield ""
    yield from entry("load", "pk.onnx.load", model.load, 2)
    for cls in (model.Model, shapes.Value, session.InferenceSession, session.NodeArg):
        yield from class_entry(cls, cls.__name__)
    for error in (ModelError, ModelMemoryError):
        yield from class_entry(error, error.__name__)


def fft_page() -> Iterator[str]:
    """The page about Fourier transforms."""
    from pykernels import fft

    yield from page("pykernels.fft", "the docstrings of pykernels/fft")
    yield " ".join((fft.__doc__ or "").partition("\n\n")[2].split()).replace(
        "docs/design/fft.md describes the method.", "[The method](../design/fft.md)."
    )
    yield ""
    for name in fft.__all__:
        yield from entry(name, f"pk.fft.{name}", getattr(fft, name), 2)


def errors_page() -> Iterator[str]:
    """The page with the tree of errors."""
    yield from page("Errors", "the docstrings of pykernels/errors.py")
    yield from docstring(errors)
    yield ""
    yield "How to meet them: [errors](../guide/errors.md). Codes of the lints: [lints](lints.md)."
    yield ""
    for name in sorted(errors.__all__):
        cls = getattr(errors, name)
        bases = ", ".join(f"`{b.__name__}`" for b in cls.__bases__)
        yield from (f"## {name}", "", f"Derives from {bases}.", "", *docstring(cls), "")


def commands() -> Iterator[tuple[str, str]]:
    """The name of each command, and its help as text."""
    group = _fresh(cli.main)
    settings: Any = group.context_settings
    top = click.Context(group, info_name="pykernels", terminal_width=WIDTH, **settings)
    yield "pykernels", group.get_help(top)
    for name in group.list_commands(top):
        command = group.get_command(top, name)
        assert command is not None
        command = _fresh(command)
        context = click.Context(command, parent=top, info_name=name, terminal_width=WIDTH)
        yield f"pykernels {name}", command.get_help(context)
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                part = _fresh(command.get_command(context, inner))
                below = click.Context(part, parent=context, info_name=inner, terminal_width=WIDTH)
                yield f"pykernels {name} {inner}", part.get_help(below)


def _fresh(command: Any) -> Any:
    """A copy of a command that has no stored option --help: click stores this option at the first
    use of the command, and it depends on that use."""
    found = copy.copy(command)
    vars(found)["_help_option"] = None
    return found


def cli_page() -> Iterator[str]:
    """The page about the command line: the help of each command."""
    yield from page("The command line", "the help of the commands (pykernels/cli)")
    yield "Exit codes: 0 fine, 1 a check failed, 2 wrong use or something is missing."
    yield ""
    for name, text in commands():
        yield from (f"## {name}", "", "```text", text.rstrip(), "```", "")


# The columns of README's table of dtypes. Each 16-bit float has its own column, because kernels
# differ in these dtypes.
KINDS = {
    "float32": ("float32",),
    "float16": ("float16",),
    "bfloat16": ("bfloat16",),
    "int32, uint32": ("int32", "uint32"),
    "8 and 16 bits": ("int16", "uint16", "int8", "uint8"),
    "int64": ("int64",),
    "bool": ("bool",),
    "complex64": ("complex64",),
}


def dtype_table() -> list[str]:
    """README's table of dtypes, with a row for each family and a column for each kind of dtypes;
    `_mark` explains the marks."""
    lines = [f"| family | {' | '.join(KINDS)} |", f"|---|{'|'.join(':-:' for _ in KINDS)}|"]
    found = manifest()["kernels"]
    for room, names in kernel_families().items():
        tensors = [found[name]["tensors"] for name in names]
        cells = (_mark(tensors, dtypes) for dtypes in KINDS.values())
        lines.append(f"| {room} | {' | '.join(cells)} |")
    return lines


def _mark(kernels: list[list[dict[str, Any]]], dtypes: Iterable[str]) -> str:
    """● if all kernels have results of these dtypes, ○ if some have, · if only arguments have them,
    else ""."""
    results = [any(_takes(t, d, "out") for t in ts for d in dtypes) for ts in kernels]
    if any(results):
        return "●" if all(results) else "○"
    return "·" if any(_takes(t, d, "in") for ts in kernels for t in ts for d in dtypes) else ""


def _takes(tensor: dict[str, Any], dtype: str, role: str) -> bool:
    return dtype in accepted(tuple(tensor["dtypes"])) and tensor["role"] == role


def _listed(names: Iterable[str], most: int = 8) -> str:
    """The names as text; for a long list, the first names and the number of the others."""
    found = [f"`{n}`" for n in names]
    if len(found) > most + 1:
        found[most:] = [f"and {len(found) - most} more"]
    return ", ".join(found)


def _any(tensor: dict[str, Any]) -> bool:
    return len(tensor["dtypes"]) == len(DTYPES)


def family_table() -> list[str]:
    """The table with a row for each family, with its kernels and functions; all families without
    kernels share one row."""
    lines = ["| family | kernels (`pk.kernels`) | functions (`pk`) |", "|---|---|---|"]
    kernel, function = kernel_families(), function_families()
    for room, names in kernel.items():
        lines.append(f"| {room} | {_listed(names)} | {_listed(function.get(room, ()))} |")
    others = [name for room, names in function.items() if room not in kernel for name in names]
    return [*lines, f"| without kernels | | {_listed(sorted(others), 16)} |"]


def dtypes_page() -> Iterator[str]:
    """The page about dtypes, with the dtypes that each kernel accepts."""
    yield from page("Dtypes", "pykernels/dtypes.py and the kernels' specs")
    yield (
        "A dtype is one of numpy's names, a short one of WGSL (`f32 f16 bf16 c64 i32 u32 i16 "
        "u16`) or of numpy (`f4 f2 i4 u4 i2 u2 i1 u1`), or the numpy dtype; full names are what "
        "is printed. "
        "`i8` and `u8` are refused: WGSL means bits and numpy bytes. float64 arrays are refused "
        "with a hint to convert them. Sums are float32 whatever the operands are, unless an "
        "argument (`precision`) says otherwise."
    )
    yield ""
    yield from dtype_table()
    yield ""
    yield (
        "● results of all kernels of the family, ○ of some of them, · arguments only (indices, "
        "masks, targets). The table below has each argument. All dtypes are moved and converted "
        "by `cpy`; int64 from and to int32 only, complex64 from real numbers only. complex64 is "
        "moved, added, subtracted, multiplied, divided by real numbers, transformed "
        "([pykernels.fft](fft.md)) and taken apart; all other functions refuse it by name."
    )
    yield ""
    yield (
        "float16 needs the device's feature shader-f16 where a kernel computes with it; moving "
        "and converting it does not. A bfloat16 tensor becomes a numpy array with the package "
        "ml_dtypes only. Elements below four bytes share words: a view may begin inside one."
    )
    yield ""
    yield (
        "No shader computes with bfloat16. An argument that takes float32 and float16 takes "
        "bfloat16 too: the launch converts the tensor to a float32 temporary before the kernel, or "
        "rounds a float32 result to nearest even after it, as `cpy` does. So an error is at most "
        "that of float32 and one rounding of each result (2^-8 of it), and a call needs memory for "
        "the temporaries and time for the conversions: convert weights that many calls read to "
        "float32 or float16 once. States that are float32 beside float16 (moments, statistics, "
        "tables, sinks) are float32 here too. Sorting, searching, moving, filling and random "
        "numbers have bfloat16 themselves. In an exported module only these do."
    )
    yield ""
    yield from ("## Arguments of kernels", "", "| kernel | argument | dtypes |", "|---|---|---|")
    for name, kernel in sorted(manifest()["kernels"].items()):
        for t in kernel["tensors"]:
            kinds = "any" if _any(t) else ", ".join(accepted(tuple(t["dtypes"])))
            yield f"| `{name}` | `{t['name']}` | {kinds} |"


def promotion_page() -> Iterator[str]:
    """The page with the rules for the dtype of a result of two operands."""
    yield from page("Promotion", "pykernels/call/promotion.py")
    rules = [r for r in (promotion.__doc__ or "").split("\n\n") if r.startswith("- ")]
    yield "The dtype of a result that is computed from operands of several dtypes:"
    yield from ("", *rules, "")
    computed = [d for d in DTYPES if d != "int64"]
    kinds = {"float": 1.0, "int": 1, "bool": True}
    yield f"| | {' | '.join(DTYPES[d].short for d in computed)} | {' | '.join(kinds)} |"
    yield "|---" * (len(computed) + len(kinds) + 1) + "|"
    for a in computed:
        cells = [promotion.result_type((a, b)) for b in computed]
        marks = [promotion.weak(promotion.WEAK[type(v)]) for v in kinds.values()]
        cells += [promotion.result_type((a, mark)) for mark in marks]
        yield f"| `{a}` | {' | '.join(DTYPES[c].short for c in cells)} |"
    yield ""
    yield (
        "Division of integers gives float32, as do functions that are defined for floats only; "
        "comparisons give bool. Operations that bool has none of take it as int32."
    )


def accuracy_page() -> Iterator[str]:
    """The page with the errors of operations that were measured on devices."""
    from pykernels.reference.elementwise import OPS

    yield from page("Accuracy", "bench/results/accuracy (python -m bench.accuracy) and ops.toml")
    yield (
        "The largest errors of the elementwise operations, in units in the last place, against "
        "float64. The bound is that of float32 inside the domain, on every driver; tests hold each "
        "operation to it. Below it is what was seen on some of them: of float32 in a dense sample "
        "of the domain, of float16 (computed in float32 and rounded once) on every number, of two "
        "inputs on pairs at random; behind `at` the inputs. 0.5 is correct rounding. Numbers and "
        "results below 2^-126 may count as zero. A bfloat16 result of any kernel has the bound of "
        "float32 and one rounding more, half a unit of bfloat16 (2^-8 of the result); `python -m "
        "pytest tests/kernels/test_bfloat16.py` holds each kernel to it."
    )
    yield ""
    found = [json.loads(f.read_text(encoding="utf-8")) for f in sorted(ACCURACY.glob("*.json"))]
    names = [f"{f['device']}, {f['engine']}" for f in found]
    yield f"| operation | domain | bound | {' | | '.join(names)} | |"
    yield f"|---|---|--:|{'---|--:|' * len(names)}"
    yield f"| | | | {'float32 | float16 | ' * len(names)}"
    for name in dict.fromkeys(n for f in found for n in f["rows"]):
        op = OPS[name]
        domain = ", ".join(f"[{low:g}, {high:g}]" for low, high in op.domain)
        cells = []
        for f in found:
            (error, at), (half, _) = f["rows"][name]["float32"], f["rows"][name]["float16"]
            where = ", ".join(f"{x:.7g}" for x in at)
            cells += [f"{error:.3g}" + (f" at {where}" if error else ""), f"{half:.3g}"]
        yield f"| `{name}` | {domain} | {op.ulp:g} | {' | '.join(cells)} |"
    yield from _sums()


def _sums() -> Iterator[str]:
    """The bounds of products and convolutions, taken from the budgets of the references."""
    yield from (
        "",
        "## Sums of products",
        "",
        "The largest errors of `matmul`, `linear` and convolutions before the rounding of the "
        "result, as shares of the sum of the absolute values of the K products of an element; K of "
        "a convolution counts taps and channels. `mul_mat_budget` and `conv2d_budget` of "
        "`pykernels.reference` compute them, epilogues included; tests hold every body to them.",
        "",
        "| result | bound |",
        "|---|---|",
        "| all, unless a line below says otherwise | (sqrt(K) + 4) 2^-23 |",
        "| float16 from float16 operands on matrix units | (sqrt(K) + 4 + 0.16 K) 2^-23; with "
        '`precision="high"` as above |',
        '| `precision="fast"`: convolutions of float16 on matrix units | '
        "(sqrt(K) + 4 + 0.16 K) 2^-23 |",
        '| `precision="fast"`: convolutions of float32 | as above, of the sums that Winograd\'s '
        "transforms make ([bound](../design/conv.md#winograd)) |",
        '| `precision="fast"`: matrix products | (sqrt(K) + 4) 2^-23 + 2^-8 |',
        '| `precision="split"` | (sqrt(K) + 4) 2^-23, and 2^-38 (max abs a sum abs b + max abs b '
        "sum abs a) |",
    )


def operations_page() -> Iterator[str]:
    """The page with the operations of ggml and Born, and our counterpart of each."""
    yield from page("Operations of ggml and Born", "ci/operations.toml")
    yield (
        "Each operation of the two backends that this collection comes from, and the function that "
        'does it here; "later" names the topic that it comes with. A function may do more than '
        "the operation beside it."
    )
    tables = tomllib.loads((ROOT / "ci" / "operations.toml").read_text(encoding="utf-8"))
    for table in tables.values():
        yield from ("", f"## {table['title']}", "", f"Source: {table['source']}.", "")
        later = sum(ours.startswith("later") for ours in table["operations"].values())
        count = len(table["operations"])
        yield from (
            f"{count - later} of {count} are here.",
            "",
            "| operation | here |",
            "|---|---|",
        )
        for name, ours in table["operations"].items():
            functions, _, note = ours.partition(": ")
            if functions == "later":
                yield f"| `{name}` | later: {note} |"
                continue
            for function in functions.split():
                if function not in (*functional.__all__, "Tape"):
                    raise KeyError(f"ci/operations.toml: {name}: there is no function {function}")
            pages = {f: "tape.md" if f == "Tape" else function_page(f) for f in functions.split()}
            links = ", ".join(f"[`{f}`]({page})" for f, page in pages.items())
            yield f"| `{name}` | {links}{f': {note}' if note else ''} |"


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "kernels": kernels_page,
    "functions": functions_page,
    **family_pages(),
    "device": device_page,
    "tensor": tensor_page,
    "tape": tape_page,
    "raw": raw_page,
    "onnx": onnx_page,
    "fft": fft_page,
    "errors": errors_page,
    "cli": cli_page,
    "dtypes": dtypes_page,
    "promotion": promotion_page,
    "operations": operations_page,
    "accuracy": accuracy_page,
}


def texts() -> dict[Path, str]:
    """Each page's text."""
    found = {}
    for name, write in PAGES.items():
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in write()))
        found[REFERENCE / f"{name}.md"] = text.strip() + "\n"
    readme = ROOT / "README.md"
    found[readme] = readme.read_text(encoding="utf-8")
    for name, table in (("dtypes", dtype_table()), ("families", family_table())):
        begin, end = f"<!-- docs: {name} -->\n", "<!-- end -->"
        before, _, rest = found[readme].partition(begin)
        rows = "\n".join(table)
        found[readme] = f"{before}{begin}{rows}\n{end}{rest.partition(end)[2]}"
    guide = ROOT / "docs" / "guide" / "gradients.md"
    begin, end = "<!-- docs: no gradient -->\n", "<!-- end -->"
    before, _, rest = guide.read_text(encoding="utf-8").partition(begin)
    names = ", ".join(f"`{name}`" for name in without_gradient())
    found[guide] = f"{before}{begin}{names}\n{end}{rest.partition(end)[2]}"
    return found


def without_gradient() -> list[str]:
    """The kernels from floats to floats that have no gradient rule."""
    from pykernels.tape._entry import rule_of

    found = []
    for path in sorted((ROOT / "pykernels" / "_generated" / "kernels").glob("[a-z]*.py")):
        kernel = load(f"pykernels._generated.kernels.{path.stem}").KERNEL
        floats = {a.role for a in kernel.args if {"float32", "float16"} & {*a.dtypes}}
        if {"in", "out"} <= floats and rule_of(kernel) is None:
            found.append(kernel.name)
    return found


def leftovers(written: Iterable[Path]) -> list[Path]:
    """Pages of families that no longer exist."""
    folders = [REFERENCE / "functions", REFERENCE / "kernels"]
    return sorted({page for folder in folders for page in folder.glob("*.md")} - {*written})


def main() -> int:
    status = 0
    pages = texts()
    for path in leftovers(pages):
        if "--check" not in sys.argv:
            path.unlink()
            continue
        print(f"{path.relative_to(ROOT)} has no family: run python ci/docs.py", file=sys.stderr)
        status = 1
    for path, text in pages.items():
        path.parent.mkdir(exist_ok=True)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if text == old:
            continue
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
            continue
        name = str(path.relative_to(ROOT))
        print(f"{name} is out of date: run python ci/docs.py", file=sys.stderr)
        changes = difflib.unified_diff(
            old.splitlines(), text.splitlines(), name, "written", "", "", 1
        )
        print("\n".join(list(changes)[:40]), file=sys.stderr)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
