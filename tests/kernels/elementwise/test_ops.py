"""Every row of ops.toml that is a kernel: its values, special values, layouts and gradient.

A column runs one variant of each row and class of dtypes, another one than the other columns; in
the full mode it runs them all. Layouts are those of the bodies: one row of each kind has them.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES, numpy_dtype
from pykernels.reference.elementwise import OPS
from pykernels.wgsl.elementwise import Op
from pykernels.wgsl.rows import CLASSES
from tests.conftest import COLUMN, FULL
from tests.harness import Array, Case, Form, assert_close, assert_same, caps, forms, random_form

KERNELS = [op for op in OPS.values() if op.public]
NAMES = {d.short: d.name for d in DTYPES.values()}
COLUMNS = ("wgpu-lavapipe", "wgpu-swiftshader", "dawn-swiftshader")
gpu = pytest.mark.gpu


def kind(op: Op) -> tuple[Any, ...]:
    """What layouts depend on: the body, and where four elements are one word."""
    return op.inputs, op.conditions, bool(op.params), op.output, "bool" in op.dtypes[0]


# The first row of each kind.
BODIES = list({kind(op): op for op in reversed(KERNELS)}.values())[::-1]


def variants(op: Op) -> list[tuple[str, int]]:
    """Dtypes and phases that this column runs: of each class one, of floats one of f32 in some
    column."""
    found = []
    for short in CLASSES.values():
        dtypes = [d for d in (NAMES[s] for s in short) if d in op.dtypes]
        every = [(d, (i + turn) % 2) for turn in (0, 1) for i, d in enumerate(dtypes)]
        if every and not FULL:
            column = COLUMNS.index(COLUMN) if COLUMN in COLUMNS else 0
            every = [every[(zlib.crc32(op.name.encode()) + column) % len(every)]]
        found += every
    return found


EACH = [
    pytest.param(op, dtype, phase, id=f"{op.name}-{dtype}-{phase}")
    for op in KERNELS
    for dtype, phase in variants(op)
]


def draw(
    op: Op, rng: np.random.Generator, dtype: str, shapes: list[tuple[int, ...]]
) -> list[Array]:
    """Inputs from the domain of a row, small numbers as often as large ones, many of them equal."""
    dt = numpy_dtype(dtype)  # type: ignore[arg-type]
    out = []
    domain = iter(op.domain)
    for name, shape in zip(op.inputs, shapes, strict=True):
        if name in op.conditions:
            out.append(rng.random(shape) < 0.5)
            continue
        low, high = next(domain)
        if dtype == "bool":
            out.append(rng.random(shape) < 0.5)
        elif out and op.output == "bool" and rng.random() < 0.5:
            out.append(rng.permutation(out[-1].ravel())[: math.prod(shape)].reshape(shape))
        elif DTYPES[dtype].kind == "f":
            bound = float(np.finfo(dt).max) / len(op.inputs)
            even = rng.uniform(max(low, -bound), min(high, bound), shape)
            near = np.clip(rng.normal(0, 3, shape), low, high)
            out.append(np.where(rng.random(shape) < 0.5, even, near).astype(dt))
        else:
            info = np.iinfo(dt)
            edges = [max(info.min, int(low)), min(info.max, int(high))]
            some = rng.integers(edges[0], edges[1], shape, endpoint=True, dtype=np.int64)
            ends = rng.choice(edges, shape)
            out.append(np.where(rng.random(shape) < 0.9, some, ends).astype(dt))
    return out


def call(op: Op, *tensors: pk.Tensor) -> None:
    getattr(pk.kernels, op.name)(*tensors)


class OpCalls:
    """Many calls of one operation in one case, each checked against its reference."""

    def __init__(self, dev: pk.Device, op: Op, dtype: str, seed: int = 0) -> None:
        self.op, self.dtype, self.case = op, dtype, Case(dev, seed)
        self.calls: list[tuple[list[Any], Any, Array | None]] = []

    def add(
        self, *shapes: tuple[int, ...], form: tuple[Form | None, ...] = (), dst: Form | None = None,
        in_place: bool = False, given: list[Array] | None = None, want: Array | None = None,
    ) -> None:  # fmt: skip
        """One shape stands for all inputs; `in_place` says nothing where dtypes differ. The result
        is `want`, or within the budget."""
        in_place = in_place and (self.op.output == "same" or self.dtype == "bool")
        all_shapes = list(shapes) if len(shapes) > 1 else [*shapes] * len(self.op.inputs)
        values = given or draw(self.op, self.case.rng, self.dtype, all_shapes)
        layouts = [*form, *[None] * len(values)]
        ins: list[Any] = []
        over = next(n for n in self.op.inputs if n not in self.op.conditions)
        for name, v, layout in zip(self.op.inputs, values, layouts, strict=False):
            here = in_place and name == over
            place = self.case.in_place if here else self.case.input
            ins.append(place(v, layout, buffer="dst" if here else name))
        shape = np.broadcast_shapes(*(v.shape for v in values))
        dtype = self.dtype if self.op.output == "same" else "bool"
        out = (
            ins[self.op.inputs.index(over)]
            if in_place
            else self.case.output(shape, dtype, dst, buffer="dst")
        )
        self.calls.append((ins, out, want))

    def check(self) -> None:
        self.case.build()
        before = [[o.array.copy() for o in ins] for ins, *_ in self.calls]
        results = self.case.run(
            lambda: [call(self.op, *(o.tensor for o in i), out.tensor) for i, out, _ in self.calls]
        )
        for got, values, (ins, out, known) in zip(results, before, self.calls, strict=True):
            strides = " ".join(str(o.strides) for o in (*ins, out))
            what = f"{self.op.name} {self.dtype} {out.shape} {strides}"
            want = self.op.reference(*values)
            if known is not None:
                assert_same(got, known, what)
            elif want.dtype.kind == "f":
                assert_close(got, want, self.op.budget(*values), what)
            else:
                assert_same(got, want.astype(got.dtype), what)


def edges(op: Op, dtype: str) -> list[Array]:
    """Each pair of the numbers around the ends of an integer dtype and around 0; no powers below 0,
    which numpy refuses."""
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, -1 if info.min else 3]
    each = [[False, True] if n in op.conditions else np.array(ends, dtype) for n in op.inputs]
    values = list(np.meshgrid(*each))
    if op.name == "pow":
        values[1] = np.abs(values[1]) % 40
    return [v.ravel() for v in values]


def special(op: Op, dtype: str) -> list[Array]:
    """The special values of a row that the dtype holds, and the results, four times each: all
    elements of a vector get the same."""
    result = "bool" if op.output == "bool" else dtype
    given = np.array(op.special).T
    kinds = ["bool" if name in op.conditions else dtype for name in op.inputs]
    with np.errstate(over="ignore", invalid="ignore"):
        columns = [c.astype(k) for c, k in zip(given, [*kinds, result], strict=True)]
    held = [np.isfinite(c.astype(float)) | ~np.isfinite(s) for c, s in
            zip(columns[:-1], given[:-1], strict=True)]  # fmt: skip
    return [np.repeat(c[np.logical_and.reduce(held)], 4) for c in columns]


@gpu
@pytest.mark.parametrize(("op", "dtype", "phase"), EACH)
def test_values(dev: pk.Device, op: Op, dtype: str, phase: int) -> None:
    """Of the domain, within the row's bound; special values, and the ends of integers."""
    calls = OpCalls(dev, op, dtype)
    form = (Form(phase=phase),) * len(op.inputs)
    calls.add((4096,), form=form, dst=Form(phase=phase))
    if DTYPES[dtype].kind == "f" and op.special:  # type: ignore[index]
        *values, want = special(op, dtype)
        calls.add(values[0].shape, form=form, dst=Form(phase=phase), given=values, want=want)
    elif DTYPES[dtype].kind in "iu":  # type: ignore[index]
        values = edges(op, dtype)
        calls.add(values[0].shape, form=form, dst=Form(phase=phase), given=values)
    calls.check()


@gpu
@pytest.mark.parametrize(
    ("op", "dtype"),
    [(op, d) for op in BODIES for d in op.dtypes],
    ids=lambda v: getattr(v, "name", v),
)
def test_shapes(dev: pk.Device, op: Op, dtype: str) -> None:
    calls = OpCalls(dev, op, dtype)
    odd = Form(phase=1)
    calls.add((8, 12))
    calls.add((5, 7, 9), form=(odd,), dst=odd)
    calls.add((6, 8), in_place=True)
    calls.add(())
    calls.add((0, 3))
    calls.check()


@pytest.mark.parametrize("op", KERNELS, ids=lambda op: op.name)
def test_references_have_the_special_values(op: Op) -> None:
    for one in op.special:
        with np.errstate(over="ignore"):
            inputs = zip(op.inputs, one[:-1], strict=True)
            values = [np.array(v, bool if n in op.conditions else float) for n, v in inputs]
            got = op.reference(*values).astype(np.float32)
        assert_same(got, np.array(one[-1], np.float32), f"{op.name} {one}")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("form", forms(3, repeats=True))
@pytest.mark.parametrize("op", BODIES, ids=lambda op: op.name)
def test_any_layout(dev: pk.Device, op: Op, form: str) -> None:
    calls = OpCalls(dev, op, op.dtypes[0])
    layout = forms(3, repeats=True)[form]
    for shape in ((4, 5, 6), (2, 3, 64), (1, 1, 1), (3, 1, 8)):
        for i in range(len(op.inputs)):
            calls.add(shape, form=(None,) * i + (layout,))
        if "repeat" not in form:
            calls.add(shape, dst=layout)
            calls.add(shape, form=(layout,), in_place=True)
    calls.check()


@gpu
@pytest.mark.parametrize("op", BODIES, ids=lambda op: op.name)
def test_random_layouts(dev: pk.Device, op: Op) -> None:
    rng = np.random.default_rng(7)
    calls = OpCalls(dev, op, op.dtypes[0])
    for _ in range(12):
        ndim = int(rng.integers(1, 6))
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8], ndim))
        some = tuple(random_form(rng, ndim, repeats=True) for _ in op.inputs)
        calls.add(shape, form=some, dst=random_form(rng, ndim, repeats=False))
    calls.check()


@gpu
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_inputs_repeat_by_numpys_rule(dev: pk.Device, dtype: str) -> None:
    calls = OpCalls(dev, OPS["add"], dtype)
    for a, b in (
        ((3, 8), (8,)), ((8,), (3, 8)), ((3, 8), (3, 1)), ((3, 1), (3, 8)), ((), (16,)),
        ((16,), ()), ((4, 1), (1, 4)), ((2, 1, 5), (3, 1)), ((1,), (1,)), ((3, 1), (0,)),
    ):  # fmt: skip
        calls.add(a, b)
    calls.check()


@gpu
@pytest.mark.parametrize(
    "op", [op for op in BODIES if "float16" in op.dtypes], ids=lambda op: op.name
)
def test_without_native_halves(dev: pk.Device, op: Op) -> None:
    with caps(dev, f16=False):
        calls = OpCalls(dev, op, "float16")
        calls.add((5, 12))
        calls.add((7, 3), form=(Form(steps=(-1, 2)),), dst=Form(phase=1))
        calls.add((40,), in_place=True)
        calls.check()


@gpu
def test_within_one_buffer(dev: pk.Device) -> None:
    """dst beside its inputs, in the place of the second, and across the first."""
    add = OPS["add"]
    for how in ("beside", "b", "overlap"):
        case = Case(dev)
        values = draw(add, case.rng, "float32", [(6, 8), (6, 8)])
        a = case.input(values[0], buffer="one")
        b = (case.in_place if how == "b" else case.input)(values[1], buffer="one", near=0)
        where: dict[str, Any] = {"buffer": "one", "near": 0}
        if how == "overlap":
            where = {"over": a, "delta": 64}
        dst = b if how == "b" else case.output((6, 8), "float32", **where)
        case.build()
        before = a.array.copy(), b.array.copy()
        [got] = case.run(lambda a=a, b=b, dst=dst: call(add, a.tensor, b.tensor, dst.tensor))
        assert_close(got, add.reference(*before), add.budget(*before), how)


@gpu
def test_more_workgroups_than_one_row_of_a_grid(dev: pk.Device) -> None:
    n = 32768 * 256 + 5
    x = np.arange(n, dtype=np.int32)
    t = dev.tensor(x)
    with caps(dev, max_groups=5):
        pk.kernels.neg(t, t)
    assert (t.numpy() == -x).all()


@gpu
def test_functions_allocate_their_output(dev: pk.Device) -> None:
    x = np.linspace(-2, 2, 24, dtype="f4").reshape(4, 6)
    y = pk.exp(x)
    assert isinstance(y, np.ndarray)
    assert_close(y, np.exp(x.astype(float)), OPS["exp"].budget(x))
    row = np.arange(6, dtype="f4")
    assert (pk.add(x, row) == x + row).all()
    t = dev.tensor(x)
    out = pk.add(t, row, out=t)
    assert out is t
    assert (t.numpy() == x + row).all()
    assert (pk.neg(t[:, ::2]).numpy() == -(x + row)[:, ::2]).all()


def test_add_rejects_what() -> None:
    with pytest.raises(pk.ShapeError, match=r"\[add\] shapes must broadcast together but are a"):
        pk.add(np.zeros((2, 3), "f4"), np.zeros(2, "f4"))
    with pytest.raises(pk.DTypeError, match=r"\[exp\].* complex64"):
        pk.exp(np.zeros(3, "c8"))


@gpu
def test_kernels_reject_what(dev: pk.Device) -> None:
    a, b, dst = (dev.zeros(s) for s in ((6, 3), (2, 3), (6, 3)))
    with pytest.raises(pk.ShapeError, match=r"\[add\] b must broadcast to \(6, 3\) but has shape"):
        pk.kernels.add(a, b, dst)
    with pytest.raises(pk.DTypeError, match=r"\[add\] b must have the dtype of a, float32"):
        pk.kernels.add(a, dev.zeros((6, 3), "int32"), dst)
    with pytest.raises(pk.ShapeError, match=r"\[neg\] dst must have the shape of x"):
        pk.kernels.neg(a, b)


@pytest.mark.once
@pytest.mark.parametrize(
    "op", [op for op in OPS.values() if op.gradient], ids=lambda op: op.name
)  # fmt: skip
def test_gradients_are_slopes(op: Op) -> None:
    """Against central differences of the reference, a little inside of the domain."""
    assert op.gradient is not None
    rng = np.random.default_rng(0)
    domain = ((low + 0.05, high - 0.05) for low, high in op.domain)
    inputs = [
        rng.random(200) < 0.5
        if n in op.conditions
        else np.clip(rng.normal(0, 3, 200), *next(domain))
        for n in op.inputs
    ]
    dy = rng.normal(0, 1, 200)
    for i, got in enumerate(op.gradient(dy, *inputs), len(op.conditions)):
        step = 1e-5
        up, down = list(inputs), list(inputs)
        up[i], down[i] = inputs[i] + step, inputs[i] - step
        high, here, low = (op.reference(*at) for at in (up, inputs, down))
        slope = (high - low) / (2 * step)
        # No slope across a jump or a kink.
        bend = np.abs(high - 2 * here + low)
        smooth = bend <= 1e-3 * np.abs(high - low) + 1e-9 * (1 + np.abs(here))
        assert smooth.mean() > 0.8
        atol = 1e-8 * np.abs(slope[smooth]).max()
        np.testing.assert_allclose(got[smooth], (dy * slope)[smooth], rtol=1e-6, atol=atol)


def test_budgets_count_units_in_the_last_place() -> None:
    got = OPS["exp"].budget(np.float32([0.0, math.log(4.0)]))
    np.testing.assert_allclose(got, [2 * 2.0**-23, 2 * 2.0**-21], rtol=1e-6)
