"""Arguments that are far too large, too deep or of another kind: an error of ours, at once."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pykernels as pk
from pykernels.cli import main
from pykernels.tuning import load
from tests.api.test_out_aliases import CALLS as GOOD
from tests.api.test_out_aliases import f

BIG = 10**400
DEEP = "[" * 100_000

any_: Any = pk  # whose arguments nobody checks
CALLS: dict[str, Callable[[Any], Any]] = {
    "an operand": lambda x: x + BIG,
    "an operand again": lambda x: (x + 1.0, x + 1, x + BIG),
    "in front": lambda x: BIG * x,
    "a comparison": lambda x: x > BIG,
    "an exponent": lambda x: x**BIG,
    "a bound": lambda x: any_.clip(x, 0, BIG),
    "a literal": lambda x: any_.elementwise(f"x + {BIG}", x=x),
    "a number by name": lambda x: any_.elementwise("x + y", x=x, y=BIG),
    "a literal of a reduction": lambda x: any_.reduction(f"x * {BIG}", "sum", x=x),
    "arange": lambda x: any_.arange(BIG),
    "arange of floats": lambda x: any_.arange(0, BIG, dtype="float32"),
    "arange's step": lambda x: any_.arange(0, 1, BIG, dtype="float32"),
    "linspace": lambda x: any_.linspace(0, BIG),
    "full": lambda x: any_.full(3, BIG),
    "a seed": lambda x: any_.rand(3, seed=BIG),
    "comparisons in a row": lambda x: any_.elementwise("x" + "<x" * 1500, x=x),
    "comparisons of a reduction": lambda x: any_.reduction("x" + "<x" * 1500, "sum", x=x),
    "ands in a row": lambda x: any_.elementwise("x" + " and x" * 1500, x=x),
    "minus signs": lambda x: any_.elementwise("-" * 9000 + "x", x=x),
    "parentheses": lambda x: any_.elementwise("(" * 3000 + "x" + ")" * 3000, x=x),
    "a list as text": lambda x: any_.elementwise(["x"], x=x),
    "a list as text of a reduction": lambda x: any_.reduction(["x"], "sum", x=x),
    "a list as a reduction": lambda x: any_.reduction("x", ["sum"], x=x),
    "a number that is gated": lambda x: any_.geglu(5),
    "a list that is gated": lambda x: any_.swiglu([1.0, 2.0]),
    "a number's shape": lambda x: any_.rand_like(7),
    "a list's shape": lambda x: any_.randn_like([1.0]),
    "sections": lambda x: any_.split(x, 10**7),
    "sections of a method": lambda x: any_.split(any_.zeros(0), 10**9),
    "chunks": lambda x: any_.chunk(any_.zeros(1 << 20), 10**9),
    "a table": lambda x: any_.rope_table(1 << 30),
    "a number of points": lambda x: any_.linspace(0, 1, BIG),
    "a part": lambda x: any_.quantile(x, BIG),
    "a table's dims": lambda x: any_.rope(
        any_.zeros((1, 1, 1, 4)), np.zeros(1, "i4"), dims=1 << 30
    ),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS)
def test_an_error_of_ours(dev: pk.Device, name: str) -> None:
    with pytest.raises(pk.PyKernelsError, match=r"^\["):
        CALLS[name](dev.ones(4))


KINDS: list[Any] = [
    None, 1.5, -1, BIG, "text", [], [1, 2], {}, object(), np.array([1, 2]), np.array(["a"]),
    np.zeros((0, 3), "f4"),
]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")
@pytest.mark.parametrize("name", GOOD)
def test_wrong_kinds_end_in_errors_of_ours(name: str) -> None:
    """In place of each argument of a good call. Python's own TypeErrors of a signature count."""
    args, named = GOOD[name]
    for k in (*range(len(args)), *named):
        for value in KINDS:
            given = [value if i == k else a for i, a in enumerate(args)]
            try:
                getattr(pk, name)(*given, **{n: value if n == k else a for n, a in named.items()})
            except (pk.PyKernelsError, TypeError) as e:
                ours = isinstance(e, pk.PyKernelsError) or "argument" in str(e)
                assert ours, (name, k, value)
            except UserWarning:
                pass  # losses of different shapes


# Calls of what writes to no `out`, and options with which calls above leave alone.
X4 = np.ones((4, 3), "f4")
MORE: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "allclose": ((X4, X4), ("equal_nan", "rtol")),
    "binary_cross_entropy_with_logits": ((X4, X4), ("reduction",)),
    "chunk": ((X4, 2), ("axis", "dim")),
    "clip_grad_norm": (([X4], 1.0), ()),
    "gelu": ((X4,), ("approximate",)),
    "histogram": ((X4, 4), ("range",)),
    "isclose": ((X4, X4), ("equal_nan", "rtol")),
    "layer_norm": ((X4, 3), ("eps",)),
    "linspace": ((0.0, 1.0, 5), ("endpoint", "dtype")),
    "pad": ((X4, 1), ("mode", "constant_values")),
    "quantile": ((X4, 0.5), ("axis", "keepdims", "method")),
    "rand": ((3,), ("dtype", "seed", "state")),
    "roll": ((X4, 1), ("axis",)),
    "scaled_dot_product_attention": ((f(1, 1, 2, 8),) * 3, ("dropout_p", "scale", "is_causal")),
    "softmax": ((X4,), ("axis", "scale")),
    "split": ((X4, 2), ("axis", "dim")),
}


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")
@pytest.mark.parametrize("name", MORE)
def test_wrong_kinds_of_options_end_in_errors_of_ours(name: str) -> None:
    args, options = MORE[name]
    function = getattr(pk, name)
    for value in (*KINDS, np.array("x"), np.array([None]), [None], (None,), slice(1), np.float32):
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((*args[:i], value, *args[i + 1 :]), {}) for i in range(len(args))
        ]
        for given, named in (*calls, *((args, {o: value}) for o in options)):
            with contextlib.suppress(pk.PyKernelsError, UserWarning):
                function(*given, **named)


def header(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(64)


FILES = {
    "more than there is": header("(0, 10**22)"),
    "no memory holds it": header("(0, 10000000000000000000000)"),
    "overflows": header("(4294967296, 4294967296, 4294967296)"),
    "80 axes": header("(" + "1, " * 80 + ")"),
    "nested": header("[" * 60 + "]" * 60),
    "a zip's beginning": b"PK\x03\x04" + bytes(100),
    "a zip's end": b"PK\x05\x06" + bytes(18),
    "a pickle": b"\x80\x04\x95" + bytes(20),
    "nothing": b"",
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_arrays(dev: pk.Device, tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(FILES[name])
    found = CliRunner().invoke(main, ["run", "softmax", "--in", str(path)])
    assert found.exit_code != 0
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception


@pytest.mark.gpu
def test_a_file_of_40_axes(dev: pk.Device, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((1,) * 40, np.float32))
    found = CliRunner().invoke(main, ["run", "softmax", "--in", str(path)])
    assert found.exit_code == 0, found.output


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = CliRunner().invoke(main, ["run", "softmax", "--in", str(path)])
    assert found.exit_code != 0 and "it is no file" in found.output


def test_a_zip_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", header("(1,)"))
    found = CliRunner().invoke(main, ["run", "softmax", "--in", str(path)])
    assert found.exit_code != 0 and "it is no .npy file" in found.output


def test_a_setting_that_is_nested_deeply() -> None:
    found = CliRunner().invoke(main, ["run", "softmax", "--set", f"scale={DEEP}"])
    assert found.exit_code != 0 and isinstance(found.exception, SystemExit)


def test_a_tuning_table_that_is_nested_deeply(tmp_path: Path) -> None:
    path = tmp_path / "table.toml"
    path.write_text(f"a = {DEEP}")
    with pytest.raises(pk.ArgumentError, match="is not TOML"):
        load(str(path))


@pytest.mark.gpu
def test_tensors_of_many_axes_repeat(dev: pk.Device) -> None:
    """More than numpy's functions of shapes take."""
    x, y = dev.full((1,) * 40, 2.0), dev.ones(3)
    for found in (x + y, pk.matmul(dev.ones((1,) * 38 + (2, 2)), dev.ones((2, 2)))[..., 0]):
        assert found.ndim > 37 and found.shape[-1] in (2, 3)
    with pytest.raises(pk.ShapeError):
        dev.ones((1,) * 39 + (2,)) + y
