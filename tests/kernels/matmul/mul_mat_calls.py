"""Products in one case, each checked against the reference: what the tests of mul_mat share."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import pykernels as pk
from pykernels.kernels import mul_mat
from pykernels.reference.matmul import mul_mat as reference
from pykernels.reference.matmul import mul_mat_budget as budget
from tests.harness import (
    Array,
    Case,
    Form,
    Operand,
    assert_close,
    assert_same_bits,
)

F32: Final = "float32"
F16: Final = "float16"
# a, b, dst: those that have texts of their own, then those that are brought to them.
KINDS = [(F32, F32, F32), (F16, F16, F32), (F16, F16, F16), (F16, F32, F32)]
OTHERS = [(F32, F32, F16), (F32, F16, F32), (F16, F32, F16), (F32, F16, F16)]
K_RUNS, ROWS_RUN, NOTHING_RUNS = Form(), Form(order=(1, 0)), Form(phase=1, gap=1)


class GemmCalls:
    """Many products in one case, each checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0, **options: Any) -> None:
        self.case = Case(dev, seed, **options)
        self.rng = self.case.rng
        self.calls: list[tuple[list[Operand | None], Operand, dict[str, Any], bool]] = []

    def values(self, shape: tuple[int, ...], dtype: str, exact: bool) -> Array:
        if exact:
            return self.rng.integers(-3, 4, shape).astype(dtype)
        return self.rng.normal(0, 1, shape).astype(dtype)

    def add(
        self, a_shape: tuple[int, ...], b_shape: tuple[int, ...],
        kinds: tuple[str, str, str] = (F32, F32, F32), *, a_form: Form | None = None,
        b_form: Form | None = None, dst_form: Form | None = None, exact: bool = False,
        bias: Array | None = None, residual: Array | None = None, extra_form: Form | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        a, b = self.values(a_shape, kinds[0], exact), self.values(b_shape, kinds[1], exact)
        ins: list[Operand | None] = [
            self.case.input(a, a_form, buffer="a"), self.case.input(b, b_form, buffer="b"),
        ]  # fmt: skip
        for name, extra in (("bias", bias), ("residual", residual)):
            ins.append(None if extra is None else self.case.input(extra, extra_form, buffer=name))
        shape = (*b_shape[:-1], a_shape[-2])
        dst = self.case.output(shape, kinds[2], dst_form, buffer="dst")
        self.calls.append((ins, dst, options, exact))

    def check(self, what: str = "") -> None:
        self.case.build()
        arrays = [[None if o is None else o.array.copy() for o in ins] for ins, *_ in self.calls]

        def run() -> None:
            for (a, b, bias, residual), dst, options, _ in self.calls:
                assert a is not None and b is not None
                extras = {"bias": bias and bias.tensor, "residual": residual and residual.tensor}
                mul_mat(a.tensor, b.tensor, dst.tensor, **extras, **options)  # type: ignore[arg-type]

        results = self.case.run(run)
        for got, ins, (operands, dst, options, exact) in zip(
            results, arrays, self.calls, strict=True
        ):
            want = reference(*ins, **options)  # type: ignore[arg-type]
            names = [(o.dtype, o.shape, o.strides) for o in operands if o]
            text = f"{what} {names} -> {dst.dtype} {dst.strides} {options}"
            if exact:
                assert_same_bits(got, want.astype(got.dtype) + np.zeros((), got.dtype), text)
            else:
                assert_close(got, want, budget(*ins, **options), text)  # type: ignore[arg-type]
