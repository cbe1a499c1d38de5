"""Caches of keys and values in blocks: rows appended, set and copied, views, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.quant.types import TYPES
from pykernels.reference import quant as reference
from pykernels.reference.rope import angles, rope_append, rope_append_budget, rope_table
from tests.harness import Array, Case, Form, Operand, assert_close, caps, random_form

pytestmark = pytest.mark.gpu
KEPT = ("q8_0", "q4_0")


def numbers(name: str, planes: tuple[Array, Array], shape: tuple[int, ...]) -> Array:
    """What scales and low hold."""
    return reference.dequantize(planes[1], planes[0], shape, np.float64, quant=name)


def step(name: str, x: Array) -> Array:
    """The largest error of each number: half a step of its block (a whole one of q4_0, whose 16
    steps reach from -8 to 7), and the rounding of its scale."""
    top = np.abs(x).reshape(*x.shape[:-1], -1, 32).max(-1)
    return np.repeat(top * (0.57 / 127 if name == "q8_0" else 1.01 / 8), 32, axis=-1)


@pytest.mark.parametrize("name", KEPT)
def test_set_rows_writes_the_blocks_that_quantize_makes(dev: pk.Device, name: str) -> None:
    """Odd and even rows, one matrix or several, indices of one or of all; other rows stay."""
    rng = np.random.default_rng(1)
    for lead, n, room, width, dtype in (((), 3, 9, 96, "f4"), ((2, 3), 4, 7, 64, "f2")):
        cache = pk.quantize(dev.tensor(rng.normal(size=(*lead, room, width)).astype("f4")), name)
        src = dev.tensor(rng.normal(size=(*lead, n, width)).astype(dtype))
        index = np.stack([rng.permutation(room)[:n] for _ in range(int(np.prod(lead)))])
        index = index.reshape(*lead, n) if lead else index[0]
        places = index if lead == () else index.astype("i8")
        want = cache.numpy()
        np.put_along_axis(want, index[..., None], pk.quantize(src, name).numpy(), -2)
        pk.set_rows(src, places, cache)
        assert (cache.numpy() == want).all()
    pk.set_rows(src, np.int32([1, 2, 6, 0]), cache)  # one index for all matrices
    assert (cache.numpy()[..., [1, 2, 6, 0], :] == pk.quantize(src, name).numpy()).all()
    pk.set_rows(src, np.int32([1, 2, 7, -1]), cache, check=False)
    pk.set_rows(src, np.int32([1, 2, 7, 0]), cache)
    with pytest.raises(pk.IndexRangeError, match=r"index must be in \[0, 7\) but is 7"):
        dev.sync()


class Appends:
    """Calls of rope_append_quant in one arena, each compared with the rotation in float64."""

    def __init__(self, dev: pk.Device, name: str, seed: int = 0) -> None:
        self.case, self.name = Case(dev, seed), name
        self.calls: list[tuple[list[Operand], dict[str, Any]]] = []

    def add(
        self, lead: tuple[int, ...], heads: tuple[int, int], tokens: int, room: int, width: int,
        pairs: int, dtype: str = "f4", style: str = "normal", forms: tuple[Form, ...] = (),
    ) -> None:  # fmt: skip
        """`heads`: of queries, and of keys and values together."""
        rng = self.case.rng
        x = rng.normal(0, 2, (*lead, sum(heads), tokens, width)).astype(dtype)
        # One place is beyond the cache.
        rows = [rng.permutation(room + 1)[:tokens] for _ in range(int(np.prod(lead)))]
        places = np.reshape(rows, (*lead, tokens)).astype(("i4", "i8")[len(self.calls) % 2])
        blocks = reference.quantize(rng.normal(size=(*lead, heads[1], room, width)), self.name)
        own = forms or (Form(), Form())
        given = [
            self.case.input(x, own[0]), self.case.input(places),
            self.case.input(rope_table(angles(2 * pairs), 1.25)),
            *[self.case.in_place(plane) for plane in blocks],
            self.case.output((*lead, heads[0], tokens, width), x.dtype.name, own[1]),
        ]  # fmt: skip
        self.calls.append((given, {"style": style, "quant": self.name, "room": room}))

    def check(self) -> None:
        self.case.build()
        before = [[o.array.copy() for o in given[:5]] for given, _ in self.calls]

        def run() -> None:
            for (x, places, table, scales, low, dst), options in self.calls:
                pk.kernels.rope_append_quant(
                    x.tensor, places.tensor, scales.tensor, low.tensor, dst.tensor,
                    table=table.tensor, check=False, **options,
                )  # fmt: skip

        found = iter(self.case.run(run))
        for (x, places, table, *blocks), (_, options) in zip(before, self.calls, strict=True):
            after = next(found), next(found)
            heads = blocks[0].shape[0] // int(np.prod(x.shape[:-3]))
            shape = (*x.shape[:-3], heads, options["room"], x.shape[-1])
            cache = numbers(self.name, (blocks[0], blocks[1]), shape)
            given = x, places, table, cache, options["style"]
            want, queries = rope_append(*given)
            bound, others = rope_append_budget(*given)
            what = f"{self.name} {x.dtype} {x.shape} {options}"
            stays = (want == cache).all(-1, keepdims=True)
            bound = np.where(stays, 0, step(self.name, want) + bound)
            assert_close(numbers(self.name, after, shape), want, bound, what)
            assert_close(next(found), queries, others, what)


@pytest.mark.parametrize("name", KEPT)
def test_rope_append_rotates_and_quantises(dev: pk.Device, name: str) -> None:
    """Both styles, whole vectors or not, columns behind the pairs, any layout of x and dst."""
    calls = Appends(dev, name)
    sizes = ((64, 32), (32, 14), (96, 48), (64, 7), (128, 64))
    heads = ((1, 2), (4, 4), (5, 2), (3, 6))
    for n in range(12):
        width, pairs = sizes[n % 5]
        lead = ((), (2,))[n % 2]
        forms = tuple(
            random_form(calls.case.rng, len(lead) + 3, repeats=i == 0) if n > 3 else Form()
            for i in range(2)
        )
        calls.add(lead, heads[n % 4], 1 + n % 4, 5 + n % 3, width, pairs, ("f4", "f2")[n // 2 % 2],
                  ("normal", "neox")[n // 3 % 2], forms)  # fmt: skip
    calls.check()


def test_rope_append_in_parts(dev: pk.Device) -> None:
    """Queries, keys and values are cut; each wrong position is reported once."""
    with caps(dev, max_binding=dev._context.caps.alignment + 16 * 1024 * 8):
        for name in KEPT:
            calls = Appends(dev, name)
            calls.add((2,), (3, 4), 300, 700, 32, 4, style="neox")
            calls.add((), (9, 2), 600, 1500, 64, 4, "f2")
            calls.check()
        x, cache = dev.rand((2, 9, 600, 32), seed=0), pk.QTensor.zeros((2, 6, 650, 32), "q4_0", dev)
        places = np.zeros((2, 600), np.int32)
        places[1, 500:] = 650
        pk.rope_append(x, places, cache, table=pk.rope_table(8, device=dev))
        told = r"\[rope_append_quant\] positions must be in \[0, 650\) but is 650 at .*\(1, 500\)"
        with pytest.raises(pk.IndexRangeError, match=told + r".*out: 100;"):
            dev.sync()


def test_rope_append_is_rope_and_set_rows(dev: pk.Device) -> None:
    """Tokens before heads, captured, and with halves on devices without them."""
    rng = np.random.default_rng(6)
    table = pk.rope_table(32, device=dev)
    qkv = dev.tensor(rng.normal(0, 1, (3, 8, 32)).astype("f4"))
    places = dev.tensor(np.int32([4, 2, 7]))
    one, two = (pk.QTensor.zeros((4, 9, 32), "q8_0", dev) for _ in range(2))
    got = pk.rope_append(qkv, places, one, axis=-3, style="neox", table=table)
    want = pk.rope(qkv[:, :6], places, axis=-3, style="neox", table=table)
    pk.set_rows(want[:, 4:].swapaxes(0, 1), places, two[:2])
    pk.set_rows(qkv[:, 6:].swapaxes(0, 1), places, two[2:])
    assert np.abs(got.numpy() - want[:, :4].numpy()).max() < 1e-6
    # Sums that are fused or not may lie on two sides of the middle of a step.
    assert np.abs(one.numpy() - two.numpy()).max() < 4 / 120
    assert (one.numpy()[2:] == two.numpy()[2:]).all()
    with caps(dev, f16=False):
        pk.rope_append(qkv.astype("float16"), places, two, axis=-3, style="neox", table=table)
    assert np.abs(one.numpy() - two.numpy()).max() < 4 / 100
    position = dev.tensor(np.int32([1]))
    with dev.capture() as program:
        pk.rope_append(qkv[:1], position, one, axis=-3, table=table)
        pk.add(position, 1, out=position)
    assert len(program) == 2
    program()
    assert position.item() == 2
    assert (one.numpy()[2:, 1] == pk.quantize(qkv[0, 6:], "q8_0").numpy()).all()


@pytest.mark.parametrize("name", KEPT)
def test_copies_between_types(dev: pk.Device, name: str) -> None:
    rng = np.random.default_rng(4)
    x = dev.tensor(rng.normal(size=(2, 5, 64)).astype("f4"))
    cache = pk.QTensor.zeros((2, 5, 64), name, dev)
    assert not cache.numpy().any()
    pk.copyto(cache, x)
    assert cache.tobytes() == pk.quantize(x, name).tobytes()
    other = pk.QTensor.zeros((2, 5, 64), "q5_1", dev)
    pk.copyto(other, cache)
    assert other.tobytes() == pk.quantize(cache.dequantize(), "q5_1").tobytes()
    pk.copyto(cache, pk.quantize(-x, name))
    assert cache.tobytes() == pk.quantize(-x, name).tobytes()
    back, whole = dev.zeros((2, 5, 64), "float16"), dev.zeros((2, 5, 64), "bfloat16")
    pk.copyto(back, cache)
    pk.copyto(whole, cache)
    assert (back.numpy() == cache.numpy().astype("f2")).all()
    assert np.abs(whole.astype("float32").numpy() - cache.numpy()).max() < 0.02
    pk.copyto(cache, np.full((5, 1), 2, "f4"))
    assert (np.abs(cache.numpy() - 2) < 0.01).all()


def test_views_of_matrices(dev: pk.Device) -> None:
    x = np.random.default_rng(5).normal(size=(2, 4, 6, 32)).astype("f4")
    q = pk.quantize(dev.tensor(x), "q8_0")
    whole = q.numpy()
    for index in (0, (1, slice(1, 3)), slice(1, None), (None, 1), (1, 2)):
        assert (q[index].numpy() == whole[index]).all()
    assert q[1, 2:].tobytes() == q[1][2:4].tobytes()
    for wrong in ((slice(None), slice(1, 3)), (0, 0, 0), slice(None, None, -1)):
        with pytest.raises(IndexError):
            q[wrong]


def test_caches_reject(dev: pk.Device) -> None:
    x, places = dev.zeros((8, 3, 32)), dev.zeros(3, "int32")
    cache = pk.QTensor.zeros((4, 9, 32), "q8_0", dev)
    file = pk.QTensor.empty(TYPES["q4_k"], (4, 9, 256), dev)
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.rope_append(x, places, cache[:3]), pk.ShapeError, "as many heads of keys as"),
        (lambda: pk.rope_append(x[0], places, cache), pk.ShapeError, "must have axes of heads"),
        (lambda: pk.rope_append(dev.zeros((8, 3, 256)), places, file), pk.ArgumentError,
         "written in q8_0 or q4_0, not in q4_k"),
        (lambda: pk.rope_append(dev.zeros((8, 3, 64)), places, cache), pk.ShapeError, "64 numbers"),
        (lambda: pk.set_rows(x, places, cache), pk.ShapeError, "all but the rows the same"),
        (lambda: pk.set_rows(x[:4], places[:2], cache), pk.ShapeError, "index must repeat to"),
        (lambda: pk.set_rows(x[:4].astype("int32"), places, cache), pk.DTypeError, "src must be"),
        (lambda: pk.set_rows(dev.zeros((4, 3, 256)), places, file), pk.ArgumentError,
         "not in q4_k"),
        (lambda: pk.copyto(file, x), pk.ArgumentError, "q4_k is read from files"),
        (lambda: pk.copyto(cache, x), pk.ShapeError, "must broadcast to"),
        (lambda: pk.copyto(x, cache), pk.ShapeError, r"must have shape \(8, 3, 32\)"),
        (lambda: pk.QTensor.zeros((4, 33), "q8_0", dev), pk.ShapeError, "multiple of 32"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
