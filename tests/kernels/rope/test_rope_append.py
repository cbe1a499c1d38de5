"""rope_append: turned queries, keys and values in a cache, in every layout, and what it refuses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference.rope import angles, rope_append, rope_append_budget, rope_table
from tests.harness import Case, Form, Operand, assert_close, assert_same_bits, caps, random_form

pytestmark = pytest.mark.gpu
Array = np.ndarray[Any, Any]
FORMS = (
    Form(), Form(phase=1), Form(phase=4, gap=8), Form(gap=3), Form(order=(0, 2, 1, 3)),
    Form(order=(3, 2, 1, 0)), Form(steps=(1, -2, -1, 1), phase=8), Form(steps=(1, 1, 1, -1)),
)  # fmt: skip


class Calls:
    """Calls of the kernel in one arena, each compared with the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.rng = self.case.rng
        self.made: list[tuple[list[Operand], str]] = []

    def add(
        self, lead: tuple[int, ...], heads: tuple[int, int], tokens: int, room: int, width: int,
        pairs: int, dtype: str, forms: tuple[Form | None, ...] = (None,) * 3, bad: float = 0.0,
        kind: str = "int32", style: str = "normal",
    ) -> None:  # fmt: skip
        """`heads`: of queries, and of keys and values together."""
        rng = self.rng
        x = rng.normal(0, 3, (*lead, sum(heads), tokens, width)).astype(dtype)
        cache = rng.normal(0, 3, (*lead, heads[1], room, width)).astype(dtype)
        # Rows of one sequence are different ones: no order among writes is told.
        rows = [rng.permutation(room)[:tokens] for _ in range(int(np.prod(lead)))]
        places = np.reshape(rows, (*lead, tokens))
        beyond = rng.choice([-1, room, 2**31 - 1], places.shape)
        places = np.where(rng.random(places.shape) < bad, beyond, places).astype(kind)
        given = [
            self.case.input(x, forms[0]), self.case.input(places),
            self.case.input(rope_table(angles(2 * pairs), 1.25)),
            self.case.in_place(cache, forms[1]),
            self.case.output((*lead, heads[0], tokens, width), dtype, forms[2]),
        ]  # fmt: skip
        self.made.append((given, style))

    def check(self, error: str | None = None) -> None:
        self.case.build()
        given = [([o.array.copy() for o in made[:4]], style) for made, style in self.made]

        def run() -> None:
            for made, style in self.made:
                kernels.rope_append(*(o.tensor for o in made), style=style)
            if error is not None:
                with pytest.raises(pk.IndexRangeError, match=error):
                    self.case.dev.sync()

        found = iter(self.case.run(run))
        for arrays, style in given:
            want = rope_append(*arrays, style=style)
            bounds = rope_append_budget(*arrays, style=style)
            for name, exact, bound in zip(("cache", "queries"), want, bounds, strict=True):
                what = f"{name} {arrays[0].dtype} {[a.shape for a in arrays]} {style}"
                assert_close(next(found), exact, bound, what)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rope_append_of_any_layout(dev: pk.Device, dtype: str) -> None:
    """Both styles, whole vectors or not, columns behind the pairs, heads around four."""
    calls = Calls(dev)
    sizes = ((16, 8), (12, 4), (7, 3), (2, 1), (64, 30))
    heads = ((1, 2), (4, 4), (5, 2), (3, 6), (8, 2))
    for n, (form, style) in enumerate(itertools.product(FORMS, ("normal", "neox"))):
        others = (FORMS[n * 3 % 8], FORMS[n * 5 % 8])
        width, pairs = sizes[n % 5]
        calls.add((2,), heads[n * 2 % 5], 3, 5, width, pairs, dtype, (form, *others),
                  kind=("int32", "int64")[n % 2], style=style)  # fmt: skip
    calls.add((), (4, 2), 1, 9, 16, 8, dtype)
    calls.check()


@pytest.mark.sample
def test_rope_append_random(dev: pk.Device) -> None:
    rng = np.random.default_rng(5)
    calls = Calls(dev, 5)
    for _ in range(20):
        lead = tuple(int(n) for n in rng.integers(1, 3, rng.integers(0, 3)))
        pairs, tokens = int(rng.integers(1, 18)), int(rng.integers(1, 6))
        forms = tuple(random_form(rng, len(lead) + 3, repeats=i == 0) for i in range(3))
        calls.add(
            lead, (int(rng.integers(1, 7)), 2 * int(rng.integers(1, 4))), tokens,
            tokens + int(rng.integers(4)), int(rng.integers(2 * pairs, 40)), pairs,
            str(rng.choice(["float32", "float16"])), forms, bad=0.2,
            style=str(rng.choice(["normal", "neox"])),
        )  # fmt: skip
    calls.check(r"\[rope_append\] positions must be in")


def test_rope_append_in_parts(dev: pk.Device) -> None:
    """Queries, keys and values are cut; each wrong position is reported once, where it is."""
    with caps(dev, max_binding=dev._context.caps.alignment + 16 * 1024 * 8):
        calls = Calls(dev)
        calls.add((2,), (3, 4), 400, 1200, 8, 4, "float32", style="neox")
        calls.add((), (9, 2), 900, 1000, 16, 4, "float16")
        calls.add((1, 2), (8, 6), 300, 300, 24, 8, "float32",
                  (Form(order=(3, 2, 0, 1, 4)), None, None))  # fmt: skip
        calls.check()
        places = np.zeros((2, 900), np.int32)
        places[1, 800:] = 950
        x, cache = dev.rand((2, 9, 900, 8), seed=0), dev.zeros((2, 6, 950, 8))
        pk.rope_append(x, places, cache)
        told = r"\[rope_append\] positions must be in \[0, 950\) but is 950 at position \(1, 800\)"
        with pytest.raises(pk.IndexRangeError, match=told + r".*out: 100;"):
            dev.sync()


def test_rope_append_is_rope_and_set_rows(dev: pk.Device) -> None:
    """Bit for bit, tokens before heads, captured, and with halves on devices without them."""
    rng = np.random.default_rng(6)
    table = pk.rope_table(16, device=dev)
    for dtype in ("float32", "float16"):
        qkv = dev.tensor(rng.normal(0, 1, (3, 8, 16)).astype(dtype))
        places = dev.tensor(np.int32([4, 2, 7]))
        one, two = dev.ones((4, 9, 16), dtype), dev.ones((4, 9, 16), dtype)
        got = pk.rope_append(qkv, places, one, axis=-3, style="neox", table=table)
        want = pk.rope(qkv[:, :6], places, axis=-3, style="neox", table=table)
        pk.set_rows(want[:, 4:].swapaxes(0, 1), places, two[:2])
        pk.set_rows(qkv[:, 6:].swapaxes(0, 1), places, two[2:])
        assert got.shape == (3, 4, 16)
        assert_same_bits(got.numpy(), want[:, :4].numpy())
        assert_same_bits(one.numpy(), two.numpy())
    with caps(dev, f16=False):
        again = dev.ones((4, 9, 16), "float16")
        plain = pk.rope_append(qkv, places, again, axis=-3, style="neox", table=table)
        assert_same_bits(again.numpy(), one.numpy())
        assert_same_bits(plain.numpy(), got.numpy())
    position, out = dev.tensor(np.int32([1])), dev.empty((1, 4, 16), "float16")
    with dev.capture() as program:
        pk.rope_append(qkv[:1], position, again, axis=-3, table=table, out=out)
        pk.add(position, 1, out=position)
    program()
    program()
    want = pk.rope(qkv[:1, :6], np.int32([2]), axis=-3, table=table)
    assert_same_bits(again[:2, 2].numpy(), want[0, 4:].numpy())
    assert position.item() == 3


def test_rope_append_rejects(dev: pk.Device) -> None:
    x, places, cache = dev.zeros((8, 3, 16)), dev.zeros(3, "int32"), dev.zeros((4, 9, 16))
    table = pk.rope_table(16, device=dev)
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.rope_append(x, places, cache.numpy()), pk.DTypeError, "cache must be a pyk"),  # type: ignore[arg-type]
        (lambda: pk.rope_append(x, places, cache.astype("float16")), pk.DTypeError, "cache"),
        (lambda: pk.rope_append(x, places, cache[:3]), pk.ShapeError, "as many heads of keys as"),
        (lambda: pk.rope_append(x, places, cache[..., :8]), pk.ShapeError, "cache must be"),
        (lambda: pk.rope_append(x[:3], places, cache), pk.ShapeError, "no fewer heads than"),
        (lambda: pk.rope_append(x[0], places, cache), pk.ShapeError, "must have axes of heads"),
        (lambda: pk.rope_append(x, places[:2], cache), pk.ShapeError, "positions must have"),
        (lambda: pk.rope_append(x, places, cache, dims=3), pk.ArgumentError, "even number"),
        (lambda: pk.rope_append(x, places, cache, axis=1), pk.ArgumentError, "axis must be -2"),
        (lambda: pk.rope_append(x, places, cache, style="x"), pk.ArgumentError, "style must be"),  # type: ignore[arg-type]
        (lambda: pk.rope_append(x, places, cache, table=table, base=5.0), pk.ArgumentError,
         "give it alone"),
        (lambda: kernels.rope_append(x, places, table, cache, x), pk.ShapeError,
         r"dst must have shape \(4, 3, 16\), the heads of x that a cache of 4"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
    assert pk.rope_append(dev.zeros((8, 0, 16)), dev.zeros(0, "int32"), cache).shape == (4, 0, 16)
