"""`decide`: which inputs may stay in the output's buffer, and how they are bound there."""

from __future__ import annotations

import pytest

from pykernels.dtypes import DTYPES
from pykernels.runtime.overlap import decide
from pykernels.steps import Arg
from pykernels.tensors.layout import View, contiguous_strides

ANY = ("float32", "float16")
X = Arg("x", "in", ANY)
MASK = Arg("mask", "in", ANY)
INDEX = Arg("index", "in", ("int32",), readonly=True)
DST = Arg("dst", "out", ANY, alias="x")
PLAIN = Arg("dst", "out", ANY)
MORE = Arg("more", "out", ANY)
BIG = 1 << 30


def at(offset: int, n: int = 64, dtype: str = "float32", step: int = 1) -> View:
    dt = DTYPES[dtype]
    (stride,) = contiguous_strides((n,), dt.itemsize)
    return View(0, dt, (n,), (stride * step,), offset)


# arguments, offsets of their views, inputs in the output's buffer -> mode, copies
CASES = {
    "nothing shared": ((X, DST), {"x": at(0), "dst": at(0)}, [], ("read", [])),
    "in place": ((X, DST), {"x": at(0), "dst": at(0)}, ["x"], ("merged", [])),
    "in place, no alias": ((X, PLAIN), {"x": at(0), "dst": at(0)}, ["x"], ("read", ["x"])),
    "apart": ((X, DST), {"x": at(0), "dst": at(4096)}, ["x"], ("rw", [])),
    "before": ((X, DST), {"x": at(-4096), "dst": at(0)}, ["x"], ("rw", [])),
    "touching on the alignment": ((X, DST), {"x": at(0), "dst": at(256)}, ["x"], ("rw", [])),
    "touching within one rounding": ((X, DST), {"x": at(0, 60), "dst": at(240)}, ["x"],
                                     ("merged", [])),
    "touching, no alias": ((X, PLAIN), {"x": at(0, 60), "dst": at(240)}, ["x"], ("read", ["x"])),
    "touching, another dtype": ((X, DST), {"x": at(0, 60, "float16"), "dst": at(120)}, ["x"],
                                ("read", ["x"])),
    "overlapping": ((X, DST), {"x": at(0), "dst": at(4)}, ["x"], ("read", ["x"])),
    "interleaved": ((X, DST), {"x": at(0, step=2), "dst": at(4, step=2)}, ["x"], ("merged", [])),
    "interleaved, no alias": ((X, PLAIN), {"x": at(0, step=2), "dst": at(4, step=2)}, ["x"],
                              ("read", ["x"])),
    "the same bytes otherwise": ((X, DST), {"x": at(0, 64, step=1), "dst": at(252, 64, step=-1)},
                                 ["x"], ("read", ["x"])),
    "index apart": ((X, INDEX, PLAIN), {"x": at(4096), "index": at(8192, dtype="int32"),
                                        "dst": at(0)}, ["index"], ("read", ["index"])),
    "in place with a mask": ((X, MASK, DST), {"x": at(0), "mask": at(4096), "dst": at(0)},
                             ["x", "mask"], ("merged", ["mask"])),
    "mask over dst": ((X, MASK, DST), {"x": at(4096), "mask": at(0), "dst": at(0)},
                      ["mask"], ("read", ["mask"])),
    "in place beside another output": ((X, MORE, DST), {"x": at(0), "more": at(4096), "dst": at(0)},
                                       ["x"], ("merged", [])),
    "another output in the union": ((X, MORE, DST), {"x": at(0, step=80), "more": at(4, 60),
                                                     "dst": at(8, step=80)}, ["x"],
                                    ("read", ["x"])),
    "all apart": ((X, MASK, DST), {"x": at(0), "mask": at(4096), "dst": at(8192)},
                  ["x", "mask"], ("rw", [])),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_decide(name: str) -> None:
    args, views, shared, (mode, copies) = CASES[name]
    got_mode, got_copies = decide(args, views, shared, 256, BIG)
    assert (got_mode, sorted(got_copies)) == (mode, sorted(copies))


def test_two_inputs_that_touch_are_not_bound_writable() -> None:
    views = {"x": at(0, 60), "mask": at(240), "dst": at(8192)}
    mode, copies = decide((X, MASK, DST), views, ["x", "mask"], 256, BIG)
    assert mode == "read" and set(copies) == {"x", "mask"}


def test_a_union_that_no_binding_holds_is_copied() -> None:
    views = {"x": at(0, 4096, step=2), "dst": at(4, 4096, step=2)}
    assert decide((X, DST), views, ["x"], 256, 1 << 14) == ("read", ["x"])
