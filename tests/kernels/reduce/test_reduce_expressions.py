"""Reductions of expressions: values, layouts, parts, dtypes, numbers, texts, and refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.elementwise.language import parse
from pykernels.plans.elementwise.resolve import resolve
from pykernels.plans.reduce.program import ReductionProgram
from pykernels.reference import budget, function
from pykernels.reference.elementwise import OPS
from pykernels.validate import Source, find_naga, find_tint, validate
from tests.harness import Array, Case, Form, Operand, assert_close, assert_same, caps, random_form
from tests.kernels.elementwise._grammar import EXACT, Grammar
from tests.kernels.elementwise.test_expressions import SCOPE, evaluated

from .reduce_calls import KERNELS, Axis, draw, result_dtype

gpu = pytest.mark.gpu
# Shapes of x and of the signs, and axes: rows, columns, both, whole vectors and others.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], Axis]] = [
    ((33, 8), (33, 8), 1), ((33, 8), (1, 8), 1), ((9, 256), (9, 1), 1), ((5, 31), (31,), 0),
    ((64, 12), (64, 1), 0), ((3, 5, 70), (5, 1), (0, 2)), ((4, 6), (), None), ((3, 0), (3, 1), 0),
]  # fmt: skip
PRODUCT = "x * y"  # of signs, which is exact


class Calls:
    """Many calls in one case: reductions of x times signs that repeat to its shape."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.calls: list[tuple[str, Operand, Operand, Operand, Axis, bool]] = []

    def add(
        self, how: str, shape: tuple[int, ...], signs: tuple[int, ...], axis: Axis, *,
        dtype: str = "float32", keepdims: bool = False,
        forms: tuple[Form | None, ...] = (None,) * 3,
    ) -> None:  # fmt: skip
        rng = self.case.rng
        x = self.case.input(draw(rng, how, dtype, shape), forms[0], buffer="x")
        given = rng.choice(np.array([-1, 1], dtype), signs)
        y = self.case.input(given, forms[1], buffer="y")
        found = np.sum(np.empty(shape, bool), axis, keepdims=keepdims).shape
        dst = self.case.output(found, result_dtype(how, dtype), forms[2], buffer="dst")
        self.calls.append((how, x, y, dst, axis, keepdims))

    def check(self) -> list[Array]:
        self.case.build()
        before = [x.array * y.array for _, x, y, *_ in self.calls]
        results = self.case.run(
            lambda: [
                pk.reduction(
                    PRODUCT, how, axis, keepdims, x=x.tensor, y=y.tensor, out=dst.tensor
                )
                for how, x, y, dst, axis, keepdims in self.calls
            ]
        )  # fmt: skip
        for got, v, (how, x, y, dst, axis, _) in zip(results, before, self.calls, strict=True):
            want = function(how)(v, axis=axis, shape=dst.shape)
            what = f"{how} {v.dtype} {v.shape} {x.strides} {y.strides} {axis}"
            allowed = budget(how)
            bound = allowed(v, axis=axis, shape=dst.shape) if allowed else np.zeros(dst.shape)
            if want.dtype.kind == "f" and (bound.any() or got.dtype == np.float16):
                assert_close(got, want, bound, what)
            elif want.dtype.kind == "f":
                assert_same(got + got.dtype.type(0), want.astype(got.dtype) + 0, what)
            else:
                assert_same(got, want.astype(got.dtype), what)
        return results


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("how", KERNELS)
def test_reductions_of_a_product(dev: pk.Device, how: str) -> None:
    calls = Calls(dev)
    for i, (shape, signs, axis) in enumerate(SHAPES):
        if 0 not in shape:
            calls.add(how, shape, signs, axis, keepdims=i % 2 == 1)
    if how in ("sum", "prod", "any", "all"):
        calls.add(how, *SHAPES[-1])
    calls.check()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("dtype", ["float16", "int32", "int8"])
def test_other_dtypes(dev: pk.Device, dtype: str) -> None:
    calls = Calls(dev)
    for how in ("sum", "max"):
        if dtype == "int8" and how == "max":
            continue  # -1 * -128 is 128 where the product is not wrapped
        for shape, signs, axis in SHAPES[:5]:
            calls.add(how, shape, signs, axis, dtype=dtype)
    if dtype != "int8":
        calls.check()
        return
    calls.case.build()
    for how, x, y, _, axis, _ in calls.calls:
        want = (x.array * y.array).sum(axis, dtype="i4")  # products wrap, sums do not
        assert (pk.reduction(PRODUCT, how, axis, x=x.tensor, y=y.tensor).numpy() == want).all()


@gpu
def test_random_layouts(dev: pk.Device) -> None:
    rng = np.random.default_rng(5)
    calls = Calls(dev)
    for _ in range(20):
        ndim = int(rng.integers(1, 5))
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8, 12], ndim))
        signs = tuple(n if rng.random() < 0.7 else 1 for n in shape)[int(rng.integers(0, 2)) :]
        axes = tuple(int(a) for a in np.flatnonzero(rng.random(ndim) < 0.5))
        out = ndim - len(axes)
        forms = [random_form(rng, n, repeats=r) if n else None
                 for n, r in ((ndim, True), (len(signs), True), (out, False))]  # fmt: skip
        calls.add("sum", shape, signs, axes, forms=tuple(forms))
    calls.check()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("how", ["sum", "argmin"])
def test_pieces_and_more_than_one_binding_holds(dev: pk.Device, how: str) -> None:
    calls = Calls(dev)
    for axis in (None, 0, 1, (0, 2)):
        calls.add(how, (10, 30, 50), (30, 1), axis)
    calls.add(how, (5, 9000), (9000,), 1)
    calls.add(how, (5, 9000), (5, 1), 1)
    calls.add(how, (3, 20_483), (3, 1), 1)
    calls.check()
    with caps(dev, max_binding=12_288):
        calls.check()


@pytest.mark.crowd
@gpu
def test_a_long_grid_folds(dev: pk.Device) -> None:
    calls = Calls(dev)
    calls.add("sum", (1031, 3), (3,), 1)
    with caps(dev, max_groups=2):
        calls.check()


@gpu
def test_a_tensor_alone_has_the_bits_of_the_function(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    for shape, axis in (((40, 900), 1), ((900, 40), 0), ((9, 5000), None)):
        x = dev.tensor(rng.normal(size=shape).astype("f4"))
        for how in ("sum", "var", "argmax", "logsumexp"):
            got = pk.reduction("x", how, axis, x=x)
            want = getattr(pk, how)(x, axis)
            assert got.dtype == want.dtype
            assert (got.numpy() == want.numpy()).all(), (how, shape)


@gpu
@pytest.mark.parametrize("seed", range(3))
def test_random_expressions(dev: pk.Device, seed: int) -> None:
    """Against numpy, on small integers, which every operation keeps exact."""
    rng = np.random.default_rng(seed)
    exact = [n for n in EXACT if n in OPS]
    grammar = Grammar(["a", "b", "c"], exact, casts=("float32", "int32", "bool"))
    for _ in range(6):
        values = {
            "a": rng.integers(-3, 4, (4, 6)).astype("f4"),
            "b": rng.integers(-3, 4, (6,)).astype("i4"), "c": rng.random((4, 1)) < 0.5,
        }  # fmt: skip
        text = grammar.text(rng, 3)
        used = {n: v for n, v in values.items() if re.search(rf"\b{n}\b", text)}
        if not used:
            continue
        wide = {n: v.astype("f8") if v.dtype.kind == "f" else v for n, v in used.items()}
        shape = np.broadcast_shapes(*(v.shape for v in used.values()))
        with np.errstate(all="ignore"):
            value = np.broadcast_to(evaluated(text, {**SCOPE, **wide}), shape)
        how = str(rng.choice(["sum", "max", "argmin", "any", "count_nonzero"]))
        axis = None if rng.random() < 0.3 else int(rng.integers(0, len(shape)))
        got = pk.reduction(text, how, axis, **{n: dev.tensor(v) for n, v in used.items()})
        want = getattr(np, how)(value, axis)
        assert (got.numpy().astype("f8") == np.asarray(want).astype("f8")).all(), (text, how, axis)


def test_the_grammar_makes_valid_shaders() -> None:
    """Both bodies, every reduction, every type of values and of inputs, through naga and Tint."""
    found = [v for v in (find_naga(), find_tint()) if v is not None]
    if len(found) < 2:
        pytest.skip("naga and Tint are needed")
    rng = np.random.default_rng(1)
    grammar = Grammar(["a", "b", "c", "d", "h", "s"], [op.name for op in OPS.values()])
    types = {"a": "float32", "b": "int32", "c": "uint32", "d": "bool", "h": "float16",
             "s": "weak float32"}  # fmt: skip
    sources = []
    while len(sources) < 60:
        text = grammar.text(rng, 3)
        expression = parse("reduction", text)
        used = {n: types[n] for n in expression.inputs}
        tensors = {n: t for n, t in used.items() if " " not in t}
        how = KERNELS[len(sources) // 2 % len(KERNELS)]
        try:
            root = resolve("reduction", expression.root, used)
        except pk.DTypeError:
            continue  # bits of floats
        if not tensors:
            continue
        program = ReductionProgram("reduction", how, root, tensors)
        for body in program._bodies.values():
            key = _key(program, body, rng)
            sources.append(Source(f"{how} {text} {key}", body.get(key).wgsl))
    assert [str(f) for f in validate(sources, found)] == []


def _key(program: ReductionProgram, body: Any, rng: np.random.Generator) -> str:
    kind = program.root.kind
    vec = int(rng.choice([1, 4]))
    given: dict[str, Any] = {
        "T": kind, "PACKED": program.dtypes[0] in ("bool", "float16"), "VEC": vec,
        "BATCH": "batch8", "LEVELS": body._levels,
    }  # fmt: skip
    if program.dtypes[0] == "float16":
        given["T"] = "f16"
    for axis in body._interface.axes[len(given) :]:
        if axis.name.startswith("T_"):
            given[axis.name] = rng.choice(["f16", "f32"])
        else:
            given[axis.name] = int(rng.choice([1, vec]))
    return " ".join([*(f"{n}={v}" for n, v in given.items()), "mode=read"])


@gpu
def test_a_new_number_compiles_nothing(dev: pk.Device) -> None:
    x = np.arange(12, dtype="f4").reshape(3, 4)
    t = dev.tensor(x)
    assert pk.reduction("x * 2 + s", "sum", x=t, s=1.5).numpy() == (x * 2 + 1.5).sum()
    count = len(dev._context.pipelines)
    assert pk.reduction("x * 7 + s", "sum", x=t, s=-3.25).numpy() == (x * 7 - 3.25).sum()
    assert pk.reduction("x*9 + s", "sum", x=t[1:], s=0.5).numpy() == (x[1:] * 9 + 0.5).sum()
    assert len(dev._context.pipelines) == count


@gpu
def test_results_have_the_dtype_that_the_function_gives(dev: pk.Device) -> None:
    ones: dict[str, Any] = {
        d: dev.ones((4, 6), d) for d in ("float32", "float16", "int32", "uint8", "bool")  # type: ignore[arg-type]
    }  # fmt: skip
    for dtype, x in ones.items():
        for how in ("sum", "mean", "max", "any"):
            assert pk.reduction("x", how, 0, x=x).dtype == getattr(pk, how)(x, 0).dtype, dtype
    out = dev.zeros((), "float32")
    assert pk.reduction("x * 0.5", "sum", x=ones["float16"], out=out) is out
    assert out.numpy() == 12
    assert pk.reduction("x > 0", "sum", x=ones["float32"]).numpy() == 24
    assert pk.reduction("x + 1", "max", x=dev.ones(5, "bfloat16")).dtype == "bfloat16"


@gpu
def test_arrays_give_arrays_and_devices_may_lack_halves(dev: pk.Device) -> None:
    x = np.arange(20, dtype="f2").reshape(4, 5)
    got = pk.reduction("x * y", "sum", -1, x=x, y=2)
    assert isinstance(got, np.ndarray) and got.dtype == np.float16
    assert (got == (x * 2).sum(-1)).all()
    with caps(dev, f16=False):
        t = dev.tensor(x)
        for how in ("sum", "max"):
            got = pk.reduction("x * y", how, 0, x=t, y=t[:1])
            assert (got.numpy() == getattr(np, how)(x.astype("f4") * x[0], 0)).all()


@gpu
def test_in_a_capture(dev: pk.Device) -> None:
    x = dev.tensor(np.arange(6, dtype="f4"))
    with dev.capture() as program:
        y = pk.reduction("x * s", "sum", x=x, s=3)
    program()
    assert y.numpy() == 45
    pk.elementwise("x + 1", x=x, out=x)
    program()
    assert y.numpy() == 63


@gpu
def test_what_is_refused(dev: pk.Device) -> None:
    x: Any = dev.zeros((3, 4))
    with pytest.raises(
        pk.ArgumentError, match=r"no function 'sine':\n    x \+ sine\(x\)\n        \^"
    ):
        pk.reduction("x + sine(x)", "sum", x=x)
    with pytest.raises(
        pk.ArgumentError, match=r"^\[reduction\] how must be sum, .* but is 'total'"
    ):
        pk.reduction("x", "total", x=x)
    with pytest.raises(
        pk.ShapeError, match=r"^\[reduction\] axis 2 does not exist in shape \(3, 4\)"
    ):
        pk.reduction("x", "sum", 2, x=x)
    with pytest.raises(pk.ShapeError, match="each axis once"):
        pk.reduction("x", "sum", (0, -2), x=x)
    with pytest.raises(pk.ShapeError, match=r"broadcast together but are x \(3, 4\) and y \(3,\)"):
        pk.reduction("x + y", "sum", x=x, y=dev.zeros(3))
    with pytest.raises(pk.ShapeError, match="what is reduced must have elements"):
        pk.reduction("x", "max", 0, x=dev.zeros((0, 3)))
    with pytest.raises(pk.ArgumentError, match="names no tensor and no array"):
        pk.reduction("x + 1", "sum", x=2.0)
    with pytest.raises(pk.ArgumentError, match="names y, which is not given"):
        pk.reduction("x + y", "sum", x=x)
    assert pk.reduction("x", "sum", x=dev.ones(3, "int64")).item() == 3  # as int32
    with pytest.raises(pk.DTypeError, match="out must be float32 but is int32"):
        pk.reduction("x", "sum", x=x, out=dev.zeros((), "int32"))
    with pytest.raises(pk.ShapeError, match=r"out must have shape \(3,\)"):
        pk.reduction("x", "sum", 1, x=x, out=dev.zeros(4))
    with pytest.raises(pk.ArgumentError, match="keepdims must be True or False"):
        pk.reduction("x", "sum", keepdims=1, x=x)  # type: ignore[arg-type]


@gpu
def test_at_most_seven_tensors_and_what_params_hold(dev: pk.Device) -> None:
    names = "abcdefgh"
    tensors: dict[str, Any] = {n: dev.full(5, i) for i, n in enumerate(names)}
    seven = {n: tensors[n] for n in names[:7]}
    assert pk.reduction("+".join(names[:7]), "sum", **seven).numpy() == 105
    with pytest.raises(pk.LimitError, match="at most 7 tensors but has 8"):
        pk.reduction("+".join(names), "sum", **tensors)
    with pytest.raises(pk.LimitError, match="60 numbers is more than the 64 params"):
        pk.reduction("a" + "".join(f"+ {i}.5" for i in range(60)), "sum", a=tensors["a"])
    base = dev.zeros((2, 3, 2, 3, 2, 3))
    turned = {n: base.transpose(*np.roll(range(6), i).tolist()) for i, n in enumerate(names[:7])}
    deep: dict[str, Any] = {n: t[:2, :2, :2, :2, :2, :2] for n, t in turned.items()}
    with pytest.raises(pk.LimitError, match="axes may be left after merging"):
        pk.reduction("+".join(deep), "sum", (1, 3, 5), **deep)
