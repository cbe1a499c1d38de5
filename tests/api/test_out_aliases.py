"""Every function with `out=` whose result goes into the memory of an argument: the same view, also
one that runs backwards, one that overlaps it, one between its elements, one the other way. The
result is that of arguments apart, or AliasError. Functions that are generated call one kernel:
tests/kernels/test_aliases.py.

A function's call is that of bench/functions.py, or a row here, where that call's result has not the
shape of its arguments, or has too few arguments.
"""

from __future__ import annotations

import functools
import inspect
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from bench.functions import Arguments, arguments
from pykernels.tensors.layout import contiguous_strides
from tests.harness import Array, bits

pytestmark = pytest.mark.gpu

KINDS = ("same", "backwards", "overlap", "strided", "flipped")
ROOM, START = 1 << 16, 1 << 12  # bytes of a memory that two tensors share; where they begin
_rng = np.random.default_rng(0)


def f(*shape: int) -> Array:
    return _rng.normal(size=shape).astype("float32")


def i(below: int, *shape: int) -> Array:
    return _rng.integers(0, below, shape).astype("int32")


def p(*shape: int) -> Array:
    return _rng.random(shape, np.float32) + np.float32(0.5)


SPARSE = SimpleNamespace(  # as scipy.sparse has it
    data=f(6), indices=i(4, 6), indptr=np.array([0, 3, 3, 5, 6]), shape=(4, 4)
)
Q, IMAGE = (1, 2, 8, 8), (1, 4, 6, 6)
CALLS: dict[str, Arguments] = {
    "adaptive_avg_pool1d": ((f(2, 3, 6), 6), {}),
    "adaptive_avg_pool2d": ((f(*IMAGE), 6), {}),
    "adaptive_avg_pool2d_backward": ((f(*IMAGE), IMAGE), {}),
    "adaptive_max_pool2d_backward": ((f(1, 2, 3, 3), i(9, 1, 2, 3, 3), (1, 2, 3, 3)), {}),
    "argsort": ((i(9, 3, 40),), {}),
    "avg_pool1d": ((f(2, 3, 6), 3, 1, 1), {}),
    "avg_pool2d": ((f(*IMAGE), 3, 1, 1), {}),
    "avg_pool2d_backward": ((f(*IMAGE), IMAGE, 3, 1, 1), {}),
    "batch_norm": ((f(*IMAGE), f(4), p(4), f(4), f(4)), {}),
    "binary_cross_entropy": ((p(3, 4) / 2, p(3, 4) / 2, p(3, 4)), {"reduction": "none"}),
    "binary_cross_entropy_with_logits": ((f(3, 4), p(3, 4), p(3, 4)), {"reduction": "none"}),
    "bincount": ((i(8, 8), f(8)), {"minlength": 8}),
    "categorical": ((f(5, 8),), {"seed": 1}),
    "cholesky": ((f(8, 8) + 9 * np.eye(8, dtype="f4"),), {}),
    "cholesky_solve": ((f(8, 8), f(8, 8) + 9 * np.eye(8, dtype="f4")), {}),
    "clamp": ((f(3, 4), f(3, 4), f(3, 4)), {}),
    "clip": ((f(3, 4), f(3, 4), f(3, 4)), {}),
    "conv1d": ((f(1, 4, 9), f(4, 4, 3), f(4)), {"padding": 1}),
    "conv2d": ((f(*IMAGE), f(4, 4, 3, 3), f(4)), {"padding": 1, "residual": f(*IMAGE)}),
    "conv_transpose1d": ((f(1, 4, 9), f(4, 4, 3), f(4)), {"padding": 1}),
    "conv_transpose2d": ((f(*IMAGE), f(4, 4, 3, 3), f(4)), {"padding": 1}),
    "cross_entropy": ((f(4, 9), i(9, 4), p(9)), {"reduction": "none"}),
    "csr_matmul": ((SPARSE, f(4, 4)), {}),
    "dot": ((f(8, 8), f(8, 8)), {}),
    "dropout": ((f(5, 40),), {"seed": 1}),
    "einsum": (("ij,jk->ik", f(8, 8), f(8, 8)), {}),
    "embedding": ((f(5, 8), i(5, 5)), {}),
    "embedding_backward": ((f(5, 8), i(5, 5), 5), {}),
    "expert_linear": ((f(5, 2, 16), f(3, 16, 16), i(3, 5, 2)), {}),
    "flash_attn": ((f(*Q), f(*Q), f(*Q)), {"mask": f(8, 8)}),
    "gather": ((f(4, 4), 0, i(4, 4, 4)), {}),
    "get_rows": ((f(5, 8), i(5, 5)), {}),
    "group_norm": ((f(*IMAGE), 2, f(4), f(4)), {}),
    "huber_loss": ((f(3, 4), f(3, 4)), {"reduction": "none"}),
    "index_select": ((f(4, 4), 1, i(4, 4)), {}),
    "instance_norm": ((f(*IMAGE),), {"weight": f(4), "bias": f(4)}),
    "interpolate": ((f(*IMAGE),), {"size": (6, 6), "mode": "bilinear"}),
    "inv": ((f(8, 8) + 9 * np.eye(8, dtype="f4"),), {}),
    "kl_div": ((f(3, 4), p(3, 4)), {"reduction": "none"}),
    "l1_loss": ((f(3, 4), f(3, 4)), {"reduction": "none"}),
    "linear": ((f(8, 8), f(8, 8), f(8)), {}),
    "matmul": ((f(8, 8), f(8, 8)), {"bias": f(8), "residual": f(8, 8)}),
    "max_pool1d": ((f(2, 3, 6), 3, 1, 1), {}),
    "max_pool2d": ((f(*IMAGE), 3, 1, 1), {}),
    "max_pool2d_backward": ((f(*IMAGE), i(36, *IMAGE), IMAGE, 3, 1, 1), {}),
    "max_unpool1d": ((f(2, 3, 6), np.arange(36, dtype="i4").reshape(2, 3, 6) % 6, 1), {}),
    "max_unpool2d": ((f(*IMAGE), np.arange(144, dtype="i4").reshape(IMAGE) % 36, 1), {}),
    "mse_loss": ((f(3, 4), f(3, 4)), {"reduction": "none"}),
    "nll_loss": ((f(4, 9), i(9, 4), p(9)), {"reduction": "none"}),
    "pixel_shuffle": ((f(1, 4, 2, 2), 1), {}),
    "pixel_unshuffle": ((f(1, 4, 2, 2), 1), {}),
    "resize": ((f(6, 6), (6, 6)), {}),
    "rms_norm_linear": ((f(1, 8), f(8), f(8, 8)), {}),
    "scaled_dot_product_attention": ((f(*Q), f(*Q), f(*Q), f(8, 8)), {}),
    "scaled_matmul": ((i(9, 8, 8).astype("int8"), i(9, 8, 8).astype("int8"), p(8), p(8)), {}),
    "scatter": ((f(4, 4), 0, i(4, 4, 4), f(4, 4)), {}),
    "scatter_add": ((f(4, 4), 1, i(4, 4, 4), f(4, 4)), {}),
    "smooth_l1_loss": ((f(3, 4), f(3, 4)), {"reduction": "none"}),
    "solve": ((f(8, 8) + 9 * np.eye(8, dtype="f4"), f(8, 8)), {}),
    "solve_triangular": ((f(8, 8) + 9 * np.eye(8, dtype="f4"), f(8, 8)), {"upper": False}),
    "take_along_axis": ((f(4, 4), i(4, 4, 4)), {"axis": 0}),
    "tensordot": ((f(8, 8), f(8, 8)), {"axes": 1}),
}
# What makes functions, and what writes to several tensors.
OTHERS = {
    "add_layer_norm", "add_rms_norm", "dequantize", "elementwise", "flash_attn_backward",
    "reduction",
}  # fmt: skip
FUNCTIONS = dict(inspect.getmembers(pk, inspect.isfunction))
GENERATED = {n for n, f in FUNCTIONS.items() if f.__module__.endswith("_generated.functional")}


WITH_OUT = {n for n, f in FUNCTIONS.items() if "out" in inspect.signature(f).parameters}


def test_rows_are_of_functions_with_out() -> None:
    assert {*CALLS, *OTHERS} <= WITH_OUT - GENERATED
    assert len(WITH_OUT - GENERATED) > 100


@functools.cache
def small_calls(dev: pk.Device) -> dict[str, Arguments]:
    """The arguments of bench/functions.py, tensors as arrays."""

    def host(value: Any) -> Any:
        if isinstance(value, list):
            return [host(v) for v in value]
        return value.numpy() if isinstance(value, pk.Tensor) else value

    return {
        name: (tuple(map(host, args)), {k: host(v) for k, v in named.items()})
        for name, (args, named) in arguments(dev).items()
    }


def call_of(dev: pk.Device, name: str) -> Arguments:
    return CALLS[name] if name in CALLS else small_calls(dev)[name]


def at(dev: pk.Device, room: Any, like: pk.Tensor, start: int, apart: int = 1) -> pk.Tensor:
    """A tensor of this shape and dtype in a memory, whose elements lie `apart` places apart."""
    strides = [apart * s for s in contiguous_strides(like.shape, like.itemsize)]
    return pk.Tensor.from_buffer(
        room, like.shape, like.dtype, offset=start, strides=strides, device=dev
    )


def views(dev: pk.Device, out: pk.Tensor, given: pk.Tensor, kind: str, rooms: list[Any]) -> Any:
    """`out` and `given` of this kind, in the first and the last of the memories."""
    item = max(out.itemsize, given.itemsize)
    if kind == "overlap":
        return at(dev, rooms[0], out, START + item), at(dev, rooms[-1], given, START)
    if (out.shape, out.dtype) != (given.shape, given.dtype):
        return None
    if kind == "strided":
        return at(dev, rooms[0], out, START, 2), at(dev, rooms[-1], given, START + item, 2)
    here, there = at(dev, rooms[0], out, START), at(dev, rooms[-1], given, START)
    here = here[::-1] if kind == "backwards" else here
    return here, there if kind == "same" else there[::-1]


def flat(args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """The places of arrays: a number or a name, and one more inside a list."""
    found: list[Any] = []
    for key, value in (*enumerate(args), *named.items()):
        if isinstance(value, np.ndarray):
            found.append((key,))
        elif isinstance(value, list):
            found += [(key, n) for n in range(len(value))]
    return found


def called(
    dev: pk.Device, name: str, place: Any, tensor: pk.Tensor | None, out: pk.Tensor | None
) -> pk.Tensor:
    """The function of these arguments; at `place` is this tensor."""
    args, named = call_of(dev, name)
    given: dict[Any, Any] = {}
    for key, value in (*enumerate(args), *named.items()):
        many = value if isinstance(value, list) else [value]
        made = [dev.tensor(v) if isinstance(v, np.ndarray) else v for v in many]
        if tensor is not None and place[0] == key:
            made[place[1] if len(place) > 1 else 0] = tensor
        given[key] = made if isinstance(value, list) else made[0]
    positional = [given[n] for n in range(len(args))]
    more = {k: v for k, v in given.items() if isinstance(k, str)}
    result: Any = getattr(pk, name)(*positional, **more, out=out)
    found: pk.Tensor = result[0] if isinstance(result, tuple) else result
    return found


@pytest.mark.parametrize("name", sorted(WITH_OUT - GENERATED - OTHERS))
def test_out_in_the_memory_of_an_argument(dev: pk.Device, name: str) -> None:
    args, named = call_of(dev, name)
    plain = called(dev, name, None, None, None)
    for place in flat(args, named):
        array = args[place[0]] if isinstance(place[0], int) else named[place[0]]
        array = array[place[1]] if len(place) > 1 else array
        host = dev.tensor(array)
        for kind in KINDS:
            results = []
            for count in (1, 2):  # in one memory, and apart
                rooms = [dev.zeros(ROOM, "uint8").buffer for _ in range(count)]
                shared = views(dev, plain, host, kind, rooms)
                if shared is None:
                    break
                out, given = shared
                given.write(array)
                try:
                    assert called(dev, name, place, given, out) is out
                except pk.AliasError:
                    break
                results.append(out.numpy())
            else:
                same(results[0], results[1], f"{name}: out {kind} {place}")


def same(got: Array, want: Array, told: str) -> None:
    """The same bits; NaN is NaN."""
    equal = bits(got) == bits(want)
    if got.dtype.kind == "f":
        equal |= np.isnan(got) & np.isnan(want)
    assert equal.all(), f"{told}: {np.argwhere(~equal)[:3].tolist()}"
    assert math.prod(got.shape) > 0
