"""get_rows and set_rows in parts: what no binding holds, axes that repeat, and what is reported."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import get_rows, set_rows
from tests.harness import Case, Form, caps, random_form, values
from tests.kernels.rows import test_get_rows as get
from tests.kernels.rows import test_set_rows as put
from tests.kernels.rows.rows_cases import distinct

pytestmark = pytest.mark.gpu

PAIRS = (
    ("float32", "float32"),
    ("uint8", "uint8"),
    ("float32", "float16"),
    ("bfloat16", "float32"),
)


def small(dev: pk.Device, nbytes: int) -> Any:
    """The device with bindings of so many bytes, and what aligning their beginning takes."""
    return caps(dev, max_binding=dev._context.caps.alignment + nbytes)


@pytest.mark.parametrize(("src", "dst"), PAIRS)
def test_get_rows_in_parts(dev: pk.Device, src: str, dst: str) -> None:
    """Rows, picked rows, batches and columns are cut; the index is in one part or in many."""
    with small(dev, 4096):
        case = Case(dev, seed=1)
        columns = Form(order=(1, 0), phase=1)
        moves = [
            get.add(case, src, dst, shape, i_shape, index=index, s_form=f, d_form=g, lead=lead)
            for (shape, i_shape, lead), (f, g), index in itertools.product(
                (((200, 12), (90,), None), ((40, 33), (3, 400), None), ((3, 50, 12), (6, 50), None),
                 ((2, 50, 12), (6, 50), (6,))),
                ((Form(), Form()), (Form(phase=1), Form(gap=1)), (columns, Form(phase=3)),
                 (Form(gap=3), columns)),
                ("int32", "int64"),
            )
        ]  # fmt: skip
        get.check(case, moves)


@pytest.mark.parametrize(("src", "dst"), PAIRS)
def test_set_rows_in_parts(dev: pk.Device, src: str, dst: str) -> None:
    with small(dev, 4096):
        case = Case(dev, seed=2)
        columns = Form(order=(1, 0), phase=1)
        moves = [
            put.add(case, src, dst, shape, m, index=index, s_form=f, d_form=g, i_shape=i_shape)
            for (shape, m, i_shape), (f, g), index in itertools.product(
                (((90, 12), 200, None), ((300, 33), 310, None), ((6, 50, 12), 60, (3, 50))),
                ((Form(), Form()), (Form(phase=1), Form(gap=1)), (columns, Form(phase=3)),
                 (Form(gap=3), columns)),
                ("int32", "int64"),
            )
        ]  # fmt: skip
        put.check(case, moves)


def test_set_rows_in_parts_within_one_buffer(dev: pk.Device) -> None:
    """What is read is as it was before the call."""
    with small(dev, 4096):
        for how in ("apart", "touching", 0, 3, -8):
            case = Case(dev, seed=3)
            i = case.input(distinct(case.rng, (70,), 90, "int64"), buffer="one")
            s = case.input(values(case.rng, "float32", (70, 8)), buffer="one")
            where: dict[str, Any] = {"buffer": "one"}
            if isinstance(how, int):
                where = {"over": s, "delta": how * 4}
            elif how == "touching":
                where["near"] = 0
            put.check(case, [(s, i, case.output((90, 8), "float32", **where))])


@pytest.mark.parametrize("index", ("int32", "int64"))
def test_faults_count_in_the_whole_tensor(dev: pk.Device, index: str) -> None:
    """The first place of all parts, its value, and how many rows no part took: one message."""
    first = 150, 7  # in a later part of each axis
    with small(dev, 4096):
        places = np.zeros((200, 13), index)
        places[first] = -3
        places[199, 12] = 100
        places[150, 8:] = 107
        src, dst = dev.rand((100, 12), seed=0), dev.ones((200, 13, 12))
        told = rf"\[get_rows\] index must be in \[0, 100\) but is -3 at position {first} "
        told = (
            told.replace("(150, 7)", r"\(150, 7\)") + r"\(rows left out: 7; checked launch 2 since"
        )
        dev.sync()
        get_rows(src, dev.zeros(4, "int32"), dev.zeros((4, 12)))
        get_rows(src, dev.tensor(places), dst)
        with pytest.raises(pk.IndexRangeError, match=told):
            dev.sync()
        assert (dst.numpy()[places == 107] == 1).all()
        # Of an index that repeats, the element itself.
        deep = np.zeros((2, 50), index)
        deep[1, 40] = 31
        set_rows(dev.rand((6, 50, 12), seed=0), dev.tensor(deep), dev.zeros((6, 30, 12)))
        told = r"set_rows.* 31 at position \(1, 40\) \(rows left out: 3; checked launch 1 since"
        with pytest.raises(pk.IndexRangeError, match=told):
            dev.sync()
        get_rows(src, dev.tensor(places), dst, check=False)
        dev.sync()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sample
def test_get_rows_random_parts(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with small(dev, int(rng.integers(512, 2048))):
        case = Case(dev, seed)
        moves = []
        for _ in range(12):
            lead = tuple(int(rng.choice([1, 2, 4])) for _ in range(rng.integers(0, 3)))
            own, other = (
                tuple(int(rng.choice([d for d in (1, 2, 4) if n % d == 0])) for n in lead)
                for _ in range(2)
            )
            n, m, k = (
                int(rng.integers(1, 60)),
                int(rng.integers(1, 60)),
                int(rng.choice([1, 5, 12, 33])),
            )
            shape, i_shape = (*own, m, k), (*other, n)
            s = case.input(
                values(rng, "float32", shape), random_form(rng, len(shape), repeats=True)
            )
            i = case.input(
                distinct(rng, i_shape, m, "int32", 0.1),
                random_form(rng, len(i_shape), repeats=False),
            )
            form = random_form(rng, len(lead) + 2, repeats=False)
            moves.append((s, i, case.output((*lead, n, k), "float32", form)))
        get.check(case, moves, error=r"\[get_rows\] index must be in")


def test_rows_of_many_axes(dev: pk.Device) -> None:
    """More axes that do not merge than an index space has, and axes that repeat by modulo."""
    case = Case(dev, seed=5)
    shape = (2, 3, 2, 3, 2, 4, 5)
    apart = Form(order=(5, 4, 3, 2, 1, 0, 6))
    s = case.input(values(case.rng, "float32", shape), apart)
    i = case.input(distinct(case.rng, shape[:-1], 9, "int32"))
    put.check(case, [(s, i, case.output((*shape[:-2], 9, 5), "float32"))])
    case = Case(dev, seed=6)
    s = case.input(values(case.rng, "float32", (2, 2, 3, 9, 5)))
    i = case.input(distinct(case.rng, (2, 2, 6, 4), 9, "int32"))
    get.check(case, [(s, i, case.output((4, 4, 6, 4, 5), "float32"))])


@pytest.mark.crowd
def test_embedding_of_more_than_one_binding(dev: pk.Device) -> None:
    """164 MB of weights, where 128 MiB are what a phone or lavapipe binds."""
    weight = np.arange(40_000 * 1024, dtype=np.float32).reshape(40_000, 1024)
    index = np.random.default_rng(0).integers(0, 40_000, (5, 70))
    t = dev.tensor(weight)
    np.testing.assert_array_equal(pk.embedding(t, index).numpy(), weight[index])
    index[3, 9] = 40_000
    pk.embedding(t, index)
    with pytest.raises(pk.IndexRangeError, match=r"\[embedding\] .* is 40000 at position \(3, 9\)"):
        dev.sync()
    pk.set_rows(np.full((2, 1024), 5, np.float32), np.array([39_999, 1]), t)
    np.testing.assert_array_equal(t[1::39_998].numpy(), np.full((2, 1024), 5))
    np.testing.assert_array_equal(t[39_998].numpy(), weight[39_998])
