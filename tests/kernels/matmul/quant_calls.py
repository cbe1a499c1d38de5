"""Products with quantised weights in one case, each checked against the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.kernels import mul_mat_quant
from pykernels.plans.quant.types import TYPES
from pykernels.reference.matmul import mul_mat_quant as reference
from pykernels.reference.matmul import mul_mat_quant_budget as budget
from pykernels.reference.quant import pack_blocks
from pykernels.steps import Caps
from pykernels.tensors.layout import View, contiguous_layout
from pykernels.tuning import named
from tests.emulation import UNITS
from tests.harness import Array, Case, Form, Operand, assert_close
from tests.kernels.quant.quant_calls import HALVES

# The device of tests of plans.
CAPS = Caps(
    True, True, 256, 1024, 49152, (1 << 31) - 4, 65535, named("nvidia-h200"),
    matrix=replace(UNITS, dialect="subgroup_matrix"),
)  # fmt: skip


def view_of(shape: tuple[int, ...], dtype: Any, buffer: int) -> View:
    """A contiguous view of a buffer, for tests of plans."""
    lay = contiguous_layout(shape, DTYPES[dtype])
    return View(buffer, lay.dtype, shape, lay.strides, 0)


def planes_of(rng: np.random.Generator, quant: str, n: int, k: int) -> dict[str, Array]:
    """Planes of random blocks (n, k) by name, whose numbers are about 1."""
    kind = TYPES[quant]
    raw = rng.integers(0, 256, (1, n, k // kind.block, kind.nbytes), dtype=np.uint8)
    size = 0.004 if kind.block > 32 else 0.01 if kind.parts > 1 or quant == "iq4_nl" else 0.1
    for at in HALVES[quant]:
        scale = size * rng.uniform(0.5, 1.5, raw.shape[:3]) * rng.choice([-1, 1], raw.shape[:3])
        raw[..., at : at + 2] = scale.astype("<f2")[..., None].view(np.uint8)
    if quant == "mxfp4":
        raw[..., 0] = rng.integers(124, 128, raw.shape[:3])
    if quant in ("nbits4", "nbits8"):
        raw[..., 2] = rng.integers(0, 16 if quant == "nbits4" else 256, raw.shape[:3])
    if quant.endswith("_16"):
        scale = rng.uniform(0.05, 0.15, (*raw.shape[:3], 2)) / kind.parts**3
        zero = rng.uniform(0, 16**kind.parts, (*raw.shape[:3], 2))
        raw[..., :16] = np.concatenate([scale, zero], -1).astype("<f4").view(np.uint8)
    names = ("scales", "low", "high") if kind.high else ("scales", "low")
    return dict(zip(names, pack_blocks(raw.reshape(1, n, -1), quant), strict=True))


class QuantCalls:
    """Many products in one case, each checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.rng = self.case.rng
        self.calls: list[tuple[dict[str, Operand], Operand, dict[str, Any], bool]] = []

    def add(
        self, quant: str, b_shape: tuple[int, ...], cols: int, dtype: str = "float32",
        out: str = "float32", *, b_form: Form | None = None, dst_form: Form | None = None,
        bias: Array | None = None, residual: Array | None = None, rounded: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        given = planes_of(self.rng, quant, cols, b_shape[-1])
        inputs = {n: self.case.input(v, buffer=n) for n, v in given.items()}
        b = self.rng.normal(0, 1, b_shape).astype(dtype)
        inputs["b"] = self.case.input(b, b_form, buffer="b")
        for name, extra in (("bias", bias), ("residual", residual)):
            if extra is not None:
                inputs[name] = self.case.input(extra, buffer=name)
        dst = self.case.output((*b_shape[:-1], cols), out, dst_form, buffer="dst")
        self.calls.append((inputs, dst, {"quant": quant, **options}, rounded))

    def check(self, what: str = "") -> None:
        self.case.build()
        arrays = [{n: o.array.copy() for n, o in ins.items()} for ins, *_ in self.calls]

        def run() -> None:
            for inputs, dst, options, _ in self.calls:
                given = {n: o.tensor for n, o in inputs.items()}
                mul_mat_quant(**given, dst=dst.tensor, **options)

        results = self.case.run(run)
        for got, ins, (_, dst, options, rounded) in zip(results, arrays, self.calls, strict=True):
            want = reference(**ins, shape=dst.shape, **options)
            if rounded:  # not to bytes
                options = {n: v for n, v in options.items() if n != "precision"}
            allowed = budget(**ins, shape=dst.shape, rounded=rounded, **options)
            text = f"{what} {options} {ins['b'].dtype} {ins['b'].shape} -> {dst.dtype} {dst.shape}"
            assert_close(got, want, allowed, text)
