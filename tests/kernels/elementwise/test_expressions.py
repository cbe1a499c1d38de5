"""Expressions: what the language takes and refuses, dtypes, layouts, numbers, and caches."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.elementwise.language import MAX_DEPTH, parse
from pykernels.plans.elementwise.program import Program
from pykernels.plans.elementwise.resolve import resolve
from pykernels.reference.elementwise import OPS
from pykernels.validate import Source, find_naga, find_tint, validate
from tests.harness import Case as Canaried
from tests.harness import Form, caps, forms

from ._grammar import EXACT, Grammar

gpu = pytest.mark.gpu
X = np.arange(-6, 6, dtype="f4").reshape(3, 4)


@gpu
@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x + 1", X + 1), ("2 * x - y", 2 * X - 3), ("-x", -X), ("+x", X), ("(x)", X),
        ("x if x > 0 else -1", np.where(X > 0, X, -1)), ("x > 0", X > 0),
        ("-3 < x <= 2", (X > -3) & (X <= 2)), ("not x > 0", ~(X > 0)),
        ("x > 0 and x < 3 or x == -6", (X > 0) & (X < 3) | (X == -6)),
        ("where(x < y, x, y)", np.minimum(X, 3)), ("x == -0.0", X == 0),
        ("nan_to_num(x, 1, posinf=2)", X), ("pi * x", np.float32(np.pi) * X),
        ("int32(x) + 1", X.astype("i4") + 1), ("float32(x > 0) * x", np.maximum(X, 0)),
        ("bool(x)", X != 0), ("x + (1 + 2) * 3", X + 9), ("exp(x * 0) + True", np.full_like(X, 2)),
    ],
)  # fmt: skip
def test_the_language(dev: pk.Device, text: str, want: Any) -> None:
    given: dict[str, Any] = {"x": dev.tensor(X)}
    if re.search(r"\by\b", text):
        given["y"] = 3
    got = pk.elementwise(text, **given)
    assert got.dtype == want.dtype
    assert (got.numpy() == want).all()


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("x +", "invalid syntax", None), ("x + * y", "invalid syntax", 4), ("", "syntax", None),
        ("x.T", "Attribute is not part", 0), ("x[0]", "Subscript is not part", 0),
        ("x @ y", "BinOp is not part", 0), ("lambda: x", "Lambda is not part", 0),
        ("x + sine(x)", "no function 'sine'", 4), ("exp(x, y)", "takes 1 argument but got 2", 0),
        ("x + exp", "exp is a function", 4), ("x is y", "Is is not part", 0),
        ("x + 'a'", "'a' is no number", 4), ("x + 1j", "1j is no number", 4),
        ("(exp)(x).y", "Attribute is not part", 0), ("x.y()", "by their names", 0),
        ("nan_to_num(x, what=1)", "no number 'what'", 0), ("x := 1", "invalid syntax", None),
        ("nan_to_num(x, x + 1)", "nan of nan_to_num must be a number", 14),
        ("int32(x, x)", "int32 takes one argument", 0), ("[x]", "List is not part", 0),
        ("x; fn main() {}", "invalid syntax", 1), ("exp(*x)", "takes 1|Starred", None),
        ("\u00e9 + x.y", "Attribute is not part", 4),
    ],
)  # fmt: skip
def test_what_is_no_expression_shows_where(text: str, message: str, at: int | None) -> None:
    with pytest.raises(pk.ArgumentError, match=message) as caught:
        parse("elementwise", text)
    assert isinstance(caught.value, ValueError)
    *_, line, mark = str(caught.value).split("\n")
    assert mark.endswith("^")
    if at is not None:
        assert line == f"    {text}" and mark == " " * (4 + at) + "^"


def test_texts_that_are_too_much() -> None:
    for text in ("(" * 300 + "x" + ")" * 300, "x" + "+x" * 6000, "x\0", "-" * 5000 + "x"):
        with pytest.raises(pk.ArgumentError, match=r"^\[elementwise\]"):
            parse("elementwise", text)
    most = MAX_DEPTH - 1  # the name is a level, too
    parse("elementwise", "exp(" * most + "x" + ")" * most)
    deep = "exp(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH
    with pytest.raises(pk.ArgumentError, match="levels of operations"):
        parse("elementwise", deep)
    with pytest.raises(pk.ArgumentError, match="must be a str"):
        parse("elementwise", 3)  # type: ignore[arg-type]


@gpu
def test_operands_fit_the_names(dev: pk.Device) -> None:
    x = dev.tensor(X)
    with pytest.raises(pk.ArgumentError, match="names y, which is not given"):
        pk.elementwise("x + y", x=x)
    with pytest.raises(pk.ArgumentError, match="z is given, but the expression does not name it"):
        pk.elementwise("x + 1", x=x, z=x)
    with pytest.raises(pk.DTypeError, match=r"x must be a pykernels.Tensor, a numpy array or a n"):
        pk.elementwise("x + 1", x=[1, 2])  # type: ignore[arg-type]
    with pytest.raises(pk.ShapeError, match=r"broadcast together but are x \(3, 4\) and y \(3,\)"):
        pk.elementwise("x + y", x=x, y=dev.zeros(3))
    with pytest.raises(pk.ShapeError, match=r"out must have shape \(3, 4\)"):
        pk.elementwise("x + 1", x=x, out=dev.zeros(4))
    with pytest.raises(pk.DTypeError, match="out must be bool but is float32"):
        pk.elementwise("x > 1", x=x, out=dev.zeros((3, 4)))
    assert pk.elementwise("x + 1", x=dev.zeros(3, "int64")).dtype == "int32"
    with pytest.raises(pk.ArgumentError, match="must be numbers that fit"):
        pk.elementwise("x + y", x=dev.zeros(3, "int32"), y=1 << 40)


@gpu
def test_at_most_seven_tensors_and_what_params_hold(dev: pk.Device) -> None:
    names = "abcdefgh"
    tensors: dict[str, Any] = {n: dev.full(5, i) for i, n in enumerate(names)}
    seven = {n: tensors[n] for n in names[:7]}
    assert pk.elementwise("+".join(names[:7]), **seven).numpy().tolist() == [21.0] * 5
    with pytest.raises(pk.LimitError, match="at most 7 tensors but has 8"):
        pk.elementwise("+".join(names), **tensors)
    with pytest.raises(pk.LimitError, match="60 numbers is more than the 64 params"):
        pk.elementwise("a" + "".join(f"+ {i}.5" for i in range(60)), a=tensors["a"])


@gpu
def test_a_new_number_compiles_nothing(dev: pk.Device) -> None:
    x = dev.tensor(X)
    want = [(pk.elementwise("x * 2 + 1", x=x).numpy() == X * 2 + 1).all()]
    count = len(dev._context.pipelines)
    want.append((pk.elementwise("x * 7 + 5.0", x=x).numpy() == X * 7 + 5).all())
    want.append((pk.elementwise("x * -3.25 + 0", x=x).numpy() == X * -3.25).all())
    want.append(
        (pk.elementwise("(x  *  9) + 1", x=dev.tensor(X[:2])).numpy() == X[:2] * 9 + 1).all()
    )
    assert all(want)
    assert len(dev._context.pipelines) - count <= 2  # one for each pair of kinds of numbers


@gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "bool", "int8"])
@pytest.mark.parametrize("other", ["float32", "float16", "int32", "uint8", "bool", 2, 0.5, True])
def test_dtypes_are_promoted(dev: pk.Device, dtype: str, other: Any) -> None:
    a = np.arange(12).astype(dtype)
    b = other if not isinstance(other, str) else np.arange(2, 14).astype(other)
    got = pk.add(dev.tensor(a), dev.tensor(b) if isinstance(b, np.ndarray) else b)
    want = a.astype("f8") + b if dtype != "bool" or got.dtype != "bool" else a | b
    assert (got.numpy().astype("f8") == want).all()
    kinds = {"float32": 2, "float16": 2, "bool": 0, 0.5: 2, True: 0}
    level = max(kinds.get(dtype, 1), kinds.get(other, 1))
    assert np.dtype(got.dtype).kind in ("biu", "iu", "f")[level]


def test_texts_stay_as_long_as_a_program_needs_them() -> None:
    from pykernels.plans.elementwise.language import Expression
    from pykernels.wgsl.texts import made

    def program() -> Program:
        expression: Expression = parse("elementwise", "x * 2 - y * 3")
        types = {"x": "float32", "y": "float32"}
        return Program("elementwise", resolve("elementwise", expression.root, types), types)

    for left in (0, 1):
        two: list[Program] = [program(), program()]
        assert two[0]._body.name == two[1]._body.name
        del two[left]
        gc.collect()
        assert made(two[0]._body.name) is not None
    name = two.pop()._body.name
    gc.collect()
    assert made(name) is None


@gpu
def test_results_wrap_as_their_dtype_does(dev: pk.Device) -> None:
    x = np.array([100, 127, -128, 5], "i1")
    assert (pk.add(dev.tensor(x), 100).numpy() == (x + np.int8(100))).all()
    y = np.array([0, 1, 255], "u1")
    got = pk.elementwise("y - 1", y=dev.tensor(y))
    assert got.dtype == "uint8"
    assert (got.numpy() == y - np.uint8(1)).all()


@gpu
def test_numbers_must_fit_narrow_integers(dev: pk.Device) -> None:
    x, y = dev.tensor(np.array([1, 2], "i1")), dev.tensor(np.array([1, 2], "u1"))
    for wrong in (
        lambda: x + 300, lambda: 300 - x, lambda: x * -129, lambda: y - (-1), lambda: y // 256,
        lambda: pk.where(x > 1, x, 128), lambda: pk.clamp(x, 200), lambda: x.__iadd__(300),
        lambda: pk.elementwise("x * 2 + 300", x=x), lambda: pk.elementwise("x + s", x=x, s=-129),
        lambda: pk.reduction("x * 300", "sum", x=x),
        lambda: pk.add(dev.zeros(2, "int16"), 1 << 15),
    ):  # fmt: skip
        with pytest.raises(pk.ArgumentError, match=r"does not fit u?int"):
            wrong()
    assert x.numpy().tolist() == [1, 2]
    assert (x < 300).numpy().all() and not (y == -1).numpy().any()
    assert (x + 125).numpy().tolist() == [126, 127] and (x / 300).dtype == "float32"
    assert pk.clamp(x, -1000, 1000).numpy().tolist() == [1, 2]
    assert pk.elementwise("int32(x) + 300", x=x).numpy().tolist() == [301, 302]


@gpu
def test_conversions(dev: pk.Device) -> None:
    x = np.array([2.7, -2.7, 3e9, -3e9, 5e9, np.nan, np.inf, -np.inf, -0.0], "f4")
    t = dev.tensor(x)
    info = np.iinfo("i4")
    want = [2, -2, info.max, info.min, info.max, 0, info.max, info.min, 0]
    assert pk.elementwise("int32(x)", x=t).numpy().tolist() == want
    want = [2, 0, 3000000000, 0, 4294967295, 0, 4294967295, 0, 0]
    assert pk.elementwise("uint32(x)", x=t).numpy().tolist() == want
    assert pk.elementwise("bool(x)", x=t).numpy().tolist() == [True] * 8 + [False]
    ints = dev.tensor(np.array([-1, 2], "i4"))
    assert pk.elementwise("uint32(x)", x=ints).numpy().tolist() == [4294967295, 2]


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("form", forms(3, repeats=True))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bool"])
def test_any_layout_of_any_operand(dev: pk.Device, form: str, dtype: str) -> None:
    case = Canaried(dev)
    calls = []
    layout = forms(3, repeats=True)[form]
    for shape in ((4, 5, 6), (3, 20, 40), (2, 64, 64), (1, 3, 8)):
        for k in range(2):
            values = [case.rng.integers(0, 2, shape).astype(dtype) for _ in range(2)]
            at: list[Form | None] = [None, None]
            at[k] = layout
            ins = [case.input(v, f) for v, f in zip(values, at, strict=True)]
            dst = None if "repeat" in form or k else layout
            calls.append((ins, case.output(shape, dtype, dst)))
    case.build()
    results = case.run(
        lambda: [
            pk.elementwise("where(a == b, a, b)", a=i[0].tensor, b=i[1].tensor, out=o.tensor)
            for i, o in calls
        ]
    )
    for got, (ins, _) in zip(results, calls, strict=True):
        assert (got == ins[1].array).all()


@gpu
def test_tiles_where_a_tensor_is_read_across_its_memory(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    for shape in ((64, 64), (20, 36), (33, 35), (3, 40, 20), (17, 3, 24), (2, 16, 3, 16)):
        for dtype in ("float32", "float16", "int32"):
            perm = [int(i) for i in rng.permutation(len(shape))]
            back = [int(i) for i in np.argsort(perm)]
            base = rng.integers(-50, 50, [shape[i] for i in perm]).astype(dtype)
            x, t = base.transpose(back), dev.tensor(base).transpose(back)
            y = rng.integers(-50, 50, shape).astype(dtype)
            u = dev.tensor(y)
            for a, b in ((y[:1], u[:1]), (y[..., :1], u[..., :1]), (y[..., ::-1], u[..., ::-1])):
                assert (pk.add(t, b).numpy() == x + a).all(), (shape, dtype, perm)
            out = dev.zeros(shape[::-1], base.dtype.name).T
            pk.kernels.add(t, u, out)
            assert (out.numpy() == x + y).all(), (shape, dtype, perm)
            assert (pk.elementwise("x + 2", x=t).numpy() == x + 2).all()


@gpu
def test_more_axes_than_an_index_space_has_and_more_bytes_than_a_binding(dev: pk.Device) -> None:
    x = np.arange(3**8, dtype="f4").reshape((3,) * 8)
    t = dev.tensor(x).transpose(7, 1, 5, 3, 0, 2, 4, 6)
    y = x.transpose(7, 1, 5, 3, 0, 2, 4, 6)
    assert (pk.add(t, t[::-1]).numpy() == y + y[::-1]).all()
    with caps(dev, max_binding=4096):
        flat = np.arange(5000, dtype="f4")
        u = dev.tensor(flat)
        assert (pk.elementwise("2 * x + y", x=u, y=u[::-1]).numpy() == 2 * flat + flat[::-1]).all()
        pk.kernels.neg(u, u)
        assert (u.numpy() == -flat).all()
        square = dev.tensor(flat[:4096].reshape(64, 64))
        want = flat[:4096].reshape(64, 64)
        assert (pk.add(square, square.T).numpy() == want + want.T).all()


@gpu
def test_in_place_and_overlapping(dev: pk.Device) -> None:
    x = np.arange(40, dtype="f4")
    t = dev.tensor(x)
    assert pk.elementwise("a * 2 + 1", a=t, out=t) is t
    assert (t.numpy() == x * 2 + 1).all()
    t = dev.tensor(x)
    pk.elementwise("a + b", a=t[:-1], b=t[1:], out=t[1:])
    assert (t.numpy()[1:] == x[:-1] + x[1:]).all()
    square = np.arange(64 * 64, dtype="f4").reshape(64, 64)
    t = dev.tensor(square)
    pk.elementwise("a - b", a=t.T, b=t, out=t)
    assert (t.numpy() == square.T - square).all()
    mask = dev.tensor(np.arange(7) % 2 == 0)
    pk.elementwise("not a", a=mask, out=mask)
    assert mask.numpy().tolist() == [False, True] * 3 + [False]
    small = dev.tensor(np.array([1, 2, 3], "i1"))
    pk.elementwise("a + 1", a=small, out=small)
    assert small.numpy().tolist() == [2, 3, 4]


@gpu
def test_without_native_halves(dev: pk.Device) -> None:
    with caps(dev, f16=False):
        x = np.arange(20, dtype="f2").reshape(4, 5)
        t = dev.tensor(x)
        assert (pk.elementwise("x + y", x=t, y=dev.tensor(x[0])).numpy() == x + x[0]).all()
        assert (
            pk.elementwise("x * 0.5", x=t[:, ::-1]).numpy() == x[:, ::-1] * np.float16(0.5)
        ).all()


@gpu
def test_arrays_give_arrays(dev: pk.Device) -> None:
    got = pk.elementwise("x * 2", x=X)
    assert isinstance(got, np.ndarray)
    assert (got == X * 2).all()
    assert (pk.elementwise("1 + 2").tolist()) == 3
    mixed = pk.elementwise("x + y", x=dev.tensor(X), y=X[0])
    assert isinstance(mixed, pk.Tensor)


@gpu
def test_in_a_capture(dev: pk.Device) -> None:
    x = dev.tensor(X)
    with dev.capture() as program:
        y = pk.elementwise("x * 2 + s", x=x, s=3)
    program()
    assert (y.numpy() == X * 2 + 3).all()
    pk.elementwise("x + 1", x=x, out=x)
    program()
    assert (y.numpy() == (X + 1) * 2 + 3).all()


@gpu
@pytest.mark.parametrize("seed", range(4))
def test_random_expressions(dev: pk.Device, seed: int) -> None:
    """Against numpy, on small integers, which every operation keeps exact."""
    rng = np.random.default_rng(seed)
    exact = [n for n in EXACT if n in OPS]
    grammar = Grammar(["a", "b", "c"], exact, casts=("float32", "int32", "bool"))
    for _ in range(12):
        values = {
            "a": rng.integers(-3, 4, (4, 6)).astype("f4"),
            "b": rng.integers(-3, 4, (6,)).astype("i4"), "c": rng.random((4, 1)) < 0.5,
        }  # fmt: skip
        text = grammar.text(rng, 3)
        used = {n: v for n, v in values.items() if re.search(rf"\b{n}\b", text)}
        if not used:
            continue
        got = pk.elementwise(text, **{n: dev.tensor(v) for n, v in used.items()}).numpy()
        wide = {n: v.astype("f8") if v.dtype.kind == "f" else v for n, v in used.items()}
        with np.errstate(all="ignore"):
            want = evaluated(text, {**SCOPE, **wide})
        assert (got.astype("f8") == np.asarray(want).astype("f8")).all(), text


def _float(x: Any) -> Any:
    return np.asarray(x).astype("f8")


def _int(x: Any) -> Any:
    return np.asarray(x).astype("i4")


def _bool(x: Any) -> Any:
    return np.asarray(x).astype("?")


# What names of functions mean in the expressions of `Grammar` over EXACT.
SCOPE: dict[str, Any] = {name: OPS[name].reference for name in EXACT if name in OPS}
SCOPE |= {"float32": _float, "int32": _int, "bool": _bool}


def evaluated(text: str, scope: dict[str, Any]) -> Any:
    """The text by the references of the nodes, with our rules of dtypes."""
    import ast

    def value(node: Any) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return scope[node.id]
        if isinstance(node, ast.UnaryOp):
            return -value(node.operand)
        if isinstance(node, ast.IfExp):
            return apply("where", [node.test, node.body, node.orelse])
        if isinstance(node, ast.Compare):
            name = {"Lt": "less", "LtE": "less_equal", "Gt": "greater", "GtE": "greater_equal",
                    "Eq": "equal", "NotEq": "not_equal"}[type(node.ops[0]).__name__]  # fmt: skip
            return apply(name, [node.left, node.comparators[0]])
        if isinstance(node, ast.BinOp):
            name = {"Add": "add", "Sub": "sub", "Mult": "mul"}[type(node.op).__name__]
            return apply(name, [node.left, node.right])
        return apply(node.func.id, node.args)

    def apply(name: str, args: list[Any]) -> Any:
        given = [np.asarray(value(a)) for a in args]
        if name not in OPS:
            return scope[name](*given)
        op = OPS[name]
        kinds = [
            g.dtype.kind for g, n in zip(given, op.inputs, strict=True) if n not in op.conditions
        ]
        kind = next(k for k in "fib" if k in kinds)
        if kind == "b" and "bool" not in op.dtypes:
            kind = "i"
        if kind == "i" and "int32" not in op.dtypes:
            kind = "f"
        target = {"f": "f8", "i": "i4", "b": "?"}[kind]
        return op.reference(
            *(
                g.astype("?" if n in op.conditions else target)
                for g, n in zip(given, op.inputs, strict=True)
            )
        )

    return value(ast.parse(text, mode="eval").body)


def test_the_grammar_makes_valid_shaders() -> None:
    """Every operation and conversion, in every type, through naga and Tint."""
    found = [v for v in (find_naga(), find_tint()) if v is not None]
    if len(found) < 2:
        pytest.skip("naga and Tint are needed")
    rng = np.random.default_rng(1)
    grammar = Grammar(["a", "b", "c", "d", "s"], [op.name for op in OPS.values()])
    types = {"a": "float32", "b": "int32", "c": "uint32", "d": "bool", "s": "weak float32"}
    sources = []
    while len(sources) < 60:
        text = grammar.text(rng, 4)
        expression = parse("elementwise", text)
        used = {n: types[n] for n in expression.inputs}
        try:
            root = resolve("elementwise", expression.root, used)
        except pk.DTypeError:
            continue  # bits of floats
        program = Program("toy", root, {n: t for n, t in used.items() if " " not in t})
        for key in _keys(program, rng):
            sources.append(Source(f"{text} {key}", program.get(key).wgsl))
    assert [str(f) for f in validate(sources, found)] == []


def _keys(program: Program, rng: np.random.Generator) -> list[str]:
    """One variant of vectors, one of elements and one of blocks, with inputs read either way."""
    keys = []
    for tile in (0, 1, 4):
        parts = [f"TILE={tile}", f"LEVELS={rng.choice([2, 4, 6])}"]
        vec = int(rng.choice([1, 4])) if tile == 0 else tile
        for axis in program._interface.axes[2:]:
            out = axis.name.endswith("DST")
            if axis.name.startswith("V_"):
                parts.append(f"{axis.name}={vec}")
            else:
                read = "row" if out else str(rng.choice(["row", "col"]))
                parts.append(f"{axis.name}={read if tile == 4 else ''}")
        keys.append(" ".join([*parts, "mode=read"]))
    return keys
