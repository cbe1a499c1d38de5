"""rope: pairs turned by the angles of positions, in every layout, and how good angles are."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference.rope import angles, magnitude, turn
from pykernels.reference.rope import rope as reference
from pykernels.reference.rope import rope_budget as budget
from pykernels.reference.rope import rope_table as reference_table
from tests.harness import Case, Form, Operand, assert_close, assert_same_bits, caps, random_form

gpu = pytest.mark.gpu
LIMIT = 1 << 20
Made = tuple[Operand, Operand, Operand, Operand, dict[str, Any]]
YARN = {"freq_scale": 0.25, "ext_factor": 1.0, "attn_factor": 1.1, "n_ctx_orig": 4096}
Array = np.ndarray[Any, Any]


class Calls:
    """Calls of the kernel in one arena, each compared with the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.rng = self.case.rng
        self.made: list[Made] = []
        self.tables: dict[int, Operand] = {}

    def add(
        self, shape: tuple[int, ...], dtype: str, pairs: int, *, lead: tuple[int, ...] = (),
        x_form: Form | None = None, dst_form: Form | None = None, p_form: Form | None = None,
        t_form: Form | None = None, kind: str = "int32", bad: float = 0.0, in_place: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        values = self.rng.normal(0, 3, shape).astype(dtype)
        x = self.case.in_place(values, x_form) if in_place else self.case.input(values, x_form)
        tokens = (*lead, shape[-2])
        places = self.rng.integers(0, LIMIT, tokens)
        wrong = self.rng.random(tokens) < bad
        beyond = [-1, LIMIT, 2**31 - 1] if kind == "int32" else [-1, LIMIT, 2**32 + 5]
        places = np.where(wrong, self.rng.choice(beyond, tokens), places)
        positions = self.case.input(places.astype(kind), p_form)
        table = self.tables.get(pairs)
        if table is None or t_form is not None:
            made = reference_table(angles(2 * pairs), 1.25)
            table = self.tables[pairs] = self.case.input(made, t_form)
        dst = x if in_place else self.case.output(shape, dtype, dst_form)
        self.made.append((x, positions, table, dst, options))

    def check(self, error: str | None = None) -> None:
        self.case.build()
        given = [
            (x.array.copy(), p.array, t.array, options) for x, p, t, _, options in self.made
        ]  # fmt: skip

        def run() -> None:
            for x, p, t, dst, options in self.made:
                kernels.rope(x.tensor, p.tensor, t.tensor, dst.tensor, **options)
            if error is not None:
                with pytest.raises(pk.IndexRangeError, match=error):
                    self.case.dev.sync()

        for got, (x, p, t, options) in zip(self.case.run(run), given, strict=True):
            assert_close(
                got, reference(x, p, t, **options), budget(x, p, t, **options),
                f"{x.dtype} {x.shape} {p.shape} {t.shape} {options}",
            )  # fmt: skip


FORMS = (
    Form(), Form(phase=1), Form(phase=4, gap=8), Form(gap=3), Form(order=(0, 2, 1, 3)),
    Form(order=(3, 2, 1, 0)), Form(steps=(1, -2, -1, 1), phase=8), Form(steps=(1, 1, 1, -1)),
)  # fmt: skip


@gpu
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rope_of_any_layout(dev: pk.Device, dtype: str) -> None:
    """Both styles and ways, whole vectors or not, columns behind the pairs, heads around four."""
    calls = Calls(dev)
    sizes = ((16, 8), (12, 4), (24, 4), (7, 3), (9, 1), (2, 1), (64, 30))
    ways = itertools.product(("normal", "neox"), (False, True))
    for n, (form, (style, backward)) in enumerate(itertools.product(FORMS, ways)):
        width, pairs = sizes[n % len(sizes)]
        heads = (1, 3, 4, 5, 9)[n % 5]
        calls.add(
            (2, heads, 3, width), dtype, pairs, lead=((), (1,), (2,))[n % 3], x_form=form,
            dst_form=FORMS[n * 3 % len(FORMS)], p_form=(None, None, Form(steps=(-1, 2)))[n % 3],
            kind=("int32", "int64")[n % 2], in_place=n % 4 == 3, style=style, backward=backward,
        )  # fmt: skip
    repeats = Form(steps=(0, 1, 0, 1))
    calls.add((2, 5, 3, 16), dtype, 8, x_form=repeats)
    calls.add((3, 4, 16), dtype, 8, t_form=Form(steps=(1, -1, 1, 1)), style="neox")
    calls.add((3, 4, 16), dtype, 8, t_form=Form(phase=1, gap=1))
    calls.check()


@gpu
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample
def test_rope_random(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = Calls(dev, seed)
    for _ in range(20):
        lead = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 3)))
        pairs = int(rng.integers(1, 18))
        shape = (*lead, *(int(n) for n in rng.integers(1, 7, 2)), int(rng.integers(2 * pairs, 40)))
        own = tuple(int(rng.choice([1, n])) for n in lead)[int(rng.integers(len(lead) + 1)) :]
        calls.add(
            shape, str(rng.choice(["float32", "float16"])), pairs, lead=own,
            x_form=random_form(rng, len(shape), repeats=True),
            dst_form=random_form(rng, len(shape), repeats=False),
            p_form=random_form(rng, len(own) + 1, repeats=False), bad=0.1,
            kind=str(rng.choice(["int32", "int64"])),
            style=str(rng.choice(["normal", "neox"])), backward=bool(rng.integers(2)),
        )  # fmt: skip
    calls.check(r"\[rope\] positions must be in \[0, 1048576\)")


@gpu
@pytest.mark.crowd
def test_rope_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        calls = Calls(dev)
        calls.add((2, 9, 70, 16), "float32", 8)
        calls.check()


@gpu
def test_rope_in_parts(dev: pk.Device) -> None:
    """Heads, tokens and batches are cut; each wrong position is reported once, where it is."""
    with caps(dev, max_binding=dev._context.caps.alignment + 16 * 1024 * 8):
        calls = Calls(dev)
        calls.add((2, 3, 900, 8), "float32", 4, lead=(2,), style="neox")
        calls.add((2, 9, 400, 16), "float16", 4, x_form=Form(order=(2, 0, 1, 3)))
        calls.add((2, 3, 2, 3, 2, 3, 5), "float32", 2, x_form=Form(order=(5, 4, 3, 2, 1, 0, 6)))
        calls.check()
        x, table = dev.rand((2, 5, 900, 8), seed=0), pk.rope_table(8, device=dev)
        places = np.zeros((2, 900), np.int32)
        places[1, 800:] = -5
        kernels.rope(x, dev.tensor(places), table, dev.empty(x.shape))
        told = r"\[rope\] positions must be in \[0, 1048576\) but is -5 at position \(1, 800\)"
        with pytest.raises(pk.IndexRangeError, match=told + r".*out: 100;"):
            dev.sync()
    places = np.int32([[5, -5], [1 << 20, 0]])  # of nine heads, in three groups
    pk.rope(dev.zeros((2, 9, 2, 8)), places)
    with pytest.raises(pk.IndexRangeError, match=r"is -5 at position \(0, 1\) .*out: 2;"):
        dev.sync()


def exact(x: Array, positions: Array, style: str, dims: int, **given: Any) -> Array:
    """With float64 angles of any size."""
    own = {k: v for k, v in given.items() if k != "attn_factor"}
    known = {k: given[k] for k in ("freq_scale", "ext_factor", "attn_factor") if k in given}
    angle = positions[..., None].astype(np.float64) * angles(dims, **own)
    m = magnitude(**known)
    return turn(x, m * np.cos(angle)[..., None, :, :], m * np.sin(angle)[..., None, :, :], style)


@gpu
@pytest.mark.parametrize(
    "given",
    [{}, {"base": 5e5, "freq_scale": 0.5}, YARN, {"freq_scale": 1.4, "ext_factor": 0.7465}],
    ids=str,
)
def test_angles_are_as_good_at_position_1048575_as_at_1(
    dev: pk.Device, given: dict[str, Any]
) -> None:
    """The table's entries are rounded once, by 2^-25 of the magnitude each: 2 m 2^-25 more."""
    rng = np.random.default_rng(1)
    places = np.int32([0, 1, 2, 1023, 1024, 1025, 4096, 131071, 131072, LIMIT - 1])
    x = rng.normal(0, 1, (2, len(places), 64)).astype("f4")
    factors = np.linspace(1, 8, 32)
    table = pk.rope_table(64, freq_factors=factors, **given, device=dev)
    for style in ("normal", "neox"):
        got = pk.rope(dev.tensor(x), places, style=style, freq_factors=factors, **given).numpy()  # type: ignore[call-overload]
        want = exact(x, places, style, 64, freq_factors=factors, **given)
        m = magnitude(**{k: v for k, v in given.items() if k.endswith(("scale", "factor"))})
        pair = np.abs(x[..., ::2]) + np.abs(x[..., 1::2])
        if style == "neox":
            pair = np.abs(x[..., :32]) + np.abs(x[..., 32:])
        both = np.repeat(pair, 2, -1) if style == "normal" else np.concatenate([pair, pair], -1)
        bound = budget(x, places, table.numpy(), style) + both * 4 * m * 2.0**-25
        assert_close(got, want, bound, style)
        assert_same_bits(
            pk.rope(dev.tensor(x), places, style=style, table=table).numpy(), got
        )  # fmt: skip


@gpu
def test_rope_backward_turns_back(dev: pk.Device) -> None:
    """The gradient is the transpose: <rope(x), y> = <x, rope(y, backward)>, and undoes a turn."""
    rng = np.random.default_rng(2)
    x, y = (rng.normal(0, 1, (2, 3, 5, 20)).astype("f4") for _ in range(2))
    places = rng.integers(0, LIMIT, (2, 5))
    for style in ("normal", "neox"):
        there = pk.rope(dev.tensor(x), places, dims=16, style=style)
        back = pk.rope(there, places, dims=16, style=style, backward=True)
        assert_close(back.numpy(), x, (np.abs(x) + 3.0) * 2.0**-20)
        moved = pk.rope(dev.tensor(y), places, dims=16, style=style, backward=True, **YARN)  # type: ignore[call-overload]
        ahead = pk.rope(dev.tensor(x), places, dims=16, style=style, **YARN)  # type: ignore[call-overload]
        a = (ahead.numpy().astype("f8") * y).sum()
        b = (moved.numpy().astype("f8") * x).sum()
        assert abs(a - b) < 1e-5 * np.abs(x * y).sum()


@gpu
def test_rope_function(dev: pk.Device) -> None:
    """Axes, matrices, arrays, in place, tables that are kept, and captured steps."""
    rng = np.random.default_rng(3)
    x = rng.normal(0, 1, (2, 5, 3, 8)).astype("f4")
    places = np.arange(5) + 70000
    t = dev.tensor(x)
    got = pk.rope(t, places, axis=-3)
    swapped = pk.rope(np.ascontiguousarray(x.swapaxes(1, 2)), places)
    assert isinstance(swapped, np.ndarray)
    assert_same_bits(got.numpy(), swapped.swapaxes(1, 2))
    one = pk.rope(t[0, :, 1], places)
    assert_same_bits(one.numpy(), got[0, :, 1].numpy())
    kept = len(dev._context.constants)
    assert pk.rope(t, places, axis=-3, out=t) is t
    assert len(dev._context.constants) == kept
    assert_same_bits(t.numpy(), got.numpy())
    position = dev.tensor(np.int32([7]))
    row = dev.tensor(x[:1, :1])
    with dev.capture() as program:
        turned = pk.rope(row, position, axis=-3)
        pk.add(position, 1, out=position)
    for step in range(7, 10):
        program()
        want = pk.rope(row, np.int32([step]), axis=-3)
        assert_same_bits(turned.numpy(), want.numpy())


@gpu
def test_rope_rejects(dev: pk.Device) -> None:
    x, places = dev.zeros((2, 3, 4, 8)), dev.zeros(4, "int32")
    table = pk.rope_table(8, device=dev)
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.rope(x, places, dims=7), pk.ArgumentError, "dims must be an even number"),
        (lambda: pk.rope(x, places, dims=10), pk.ArgumentError, r"dims must be in \[1, 8\]"),
        (lambda: pk.rope(x, places, axis=0), pk.ArgumentError, "axis must be -2 or -3"),
        (lambda: pk.rope(x, places, style="gptj"), pk.ArgumentError, "style must be 'normal' or"),  # type: ignore[call-overload]
        (lambda: pk.rope(x, places, base=0), pk.ArgumentError, "base must be above 0"),
        (lambda: pk.rope(x, places, base=[1]), pk.ArgumentError, "base must be a real"),  # type: ignore[call-overload]
        (lambda: pk.rope(x, places, bass=1.0), TypeError, "bass"),  # type: ignore[call-overload]
        (lambda: pk.rope(x, places, ext_factor=1.0, n_ctx_orig=-1), pk.ArgumentError,
         "n_ctx_orig must not be below 0 .* are -1 and"),
        (lambda: pk.rope(x, places, ext_factor=1.0, base=1), pk.ArgumentError, "base not be 1"),
        (lambda: pk.rope(x, places, freq_factors=[1, 2]), pk.ShapeError, r"shape \(4,\) but"),
        (lambda: pk.rope(x, places, freq_factors=[1, 2, 3, 0]), pk.ArgumentError, "above 0 and"),
        (lambda: pk.rope(x, places, table=table, base=5.0), pk.ArgumentError, "give it alone"),
        (lambda: pk.rope(x, places[:3]), pk.ShapeError, r"positions must have shape \(2, 4\)"),
        (lambda: pk.rope(x, dev.zeros((3, 4), "int32")), pk.ShapeError, r"have shape \(3, 4\)"),
        (lambda: pk.rope(x, dev.zeros(4)), pk.DTypeError, "positions must be int32 or int64"),
        (lambda: pk.rope(x[0, 0, 0], places), pk.ShapeError, "x must have 2 axes or more"),
        (lambda: pk.rope(x, places, table=x), pk.ShapeError, r"table must be \(2, 1024, 2, pairs"),
        (lambda: pk.rope(x.astype("int32"), places), pk.DTypeError, "x must be float32, float16"),
        (lambda: kernels.rope(x, places, table, x[:1]), pk.ShapeError, "x and dst must be"),
        (lambda: pk.rope_table(0, device=dev), pk.ArgumentError, r"\[rope_table\] dims must be"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
    with dev.capture():
        with pytest.raises(pk.BufferStateError, match=r"making a table of angles"):
            pk.rope(x, places, base=123.0)
    for shape in ((0, 3, 4, 8), (2, 0, 4, 8), (2, 3, 0, 8)):
        empty = pk.rope(dev.zeros(shape), dev.zeros(shape[-2], "int32"), table=table)
        assert empty.shape == shape
    dev.sync()


def test_a_table_is_the_references(dev: pk.Device) -> None:
    got = pk.rope_table(16, device=dev).numpy()
    np.testing.assert_allclose(got, reference_table(angles(16)), atol=1e-6)


def test_the_references_angles_are_yarns() -> None:
    """A pair that turns often keeps its angle, one that turns less than once is scaled."""
    own, scaled = angles(128), angles(128, freq_scale=0.25)
    mixed = angles(128, freq_scale=0.25, ext_factor=1.0, n_ctx_orig=4096)
    turns = 4096 * own / (2 * np.pi)
    np.testing.assert_allclose(mixed[turns > 40], own[turns > 40], rtol=1e-12)
    np.testing.assert_allclose(mixed[turns < 0.9], scaled[turns < 0.9], rtol=1e-12)
    between = (mixed < own * 0.999) & (mixed > scaled * 1.001)
    assert between.sum() > 10
    unknown = angles(128, freq_scale=0.25, ext_factor=1.0, beta_fast=1.0)  # 0 positions, as in ggml
    np.testing.assert_allclose(unknown, [own[0], *scaled[1:]], rtol=1e-12)
    assert magnitude(0.25, 1.0) == pytest.approx(1.1386, abs=1e-4)
