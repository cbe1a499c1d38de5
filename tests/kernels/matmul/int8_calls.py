"""Products of bytes in one case, each checked against the reference."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import pykernels as pk
from pykernels.kernels import mul_mat_i8
from pykernels.reference.matmul import mul_mat_i8 as reference
from pykernels.reference.matmul import mul_mat_i8_budget as budget
from tests.harness import Array, Case, Form, Operand, assert_close, assert_same_bits

I8: Final = "int8"
U8: Final = "uint8"
KINDS = (I8, U8)
OUTS = ("int32", "float32", "float16")
EXTRAS = ("a_scale", "b_scale", "bias")


class Int8Calls:
    """Many products in one case; a float dst gets factors and a bias unless others are given."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.rng = self.case.rng
        self.calls: list[tuple[dict[str, Operand], Operand]] = []

    def bytes(self, shape: tuple[int, ...], kind: str) -> Array:
        """Any bytes, the extreme ones often."""
        info = np.iinfo(kind)
        found = self.rng.integers(info.min, info.max + 1, shape)
        edge = self.rng.choice([info.min, info.max, 0], shape)
        return np.where(self.rng.random(shape) < 0.3, edge, found).astype(kind)

    def add(
        self, a: Array | tuple[int, ...], b: Array | tuple[int, ...], kind: str = I8,
        out: str = "int32", *, a_form: Form | None = None, b_form: Form | None = None,
        dst_form: Form | None = None, extra_form: Form | None = None,
        extras: dict[str, Array] | None = None,
    ) -> None:  # fmt: skip
        x, y = (self.bytes(v, kind) if isinstance(v, tuple) else v for v in (a, b))
        shape = (*y.shape[:-1], x.shape[-2])
        if extras is None:
            extras = self.extras(shape) if out != "int32" else {}
        ins = {
            "a": self.case.input(x, a_form, buffer="a"),
            "b": self.case.input(y, b_form, buffer="b"),
        }
        for name, values in extras.items():
            ins[name] = self.case.input(values, extra_form, buffer=name)
        self.calls.append((ins, self.case.output(shape, out, dst_form, buffer="dst")))

    def extras(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """Factors that keep products of some thousand k inside float16, and a bias."""
        rows, cols = shape[-2:]
        return {
            "a_scale": self.rng.normal(0, 1e-5, (cols,)).astype(np.float32),
            "b_scale": self.rng.normal(0, 1, (rows,)).astype(np.float32),
            "bias": self.rng.normal(0, 1, (cols,)).astype(np.float32),
        }

    def check(self, what: str = "") -> None:
        self.case.build()
        arrays = [{name: o.array.copy() for name, o in ins.items()} for ins, _ in self.calls]

        def run() -> None:
            for ins, dst in self.calls:
                more: dict[str, Any] = {n: ins[n].tensor for n in EXTRAS if n in ins}
                mul_mat_i8(ins["a"].tensor, ins["b"].tensor, dst.tensor, **more)

        results = self.case.run(run)
        for got, given, (ins, dst) in zip(results, arrays, self.calls, strict=True):
            want = reference(**given)
            forms = [(name, o.dtype, o.shape, o.strides) for name, o in ins.items()]
            text = f"{what} {forms} -> {dst.dtype} {dst.shape} {dst.strides}"
            if dst.dtype == "int32":
                assert_same_bits(got, want, text)
            else:
                assert_close(got, want.astype(np.float64), budget(**given), text)
