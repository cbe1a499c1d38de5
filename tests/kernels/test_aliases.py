"""Every kernel with an output in the memory of an input: the same view, also one that runs
backwards, one that overlaps it, one between its elements, one that runs the other way. The result
is that of tensors apart, or AliasError.

Calls are those of `pykernels/export/cases`; the one with most tensors stands for its kernel.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.bench.case import kernel_of
from pykernels.export._cases import arrays, cases, fills
from pykernels.export._layouts import Request
from pykernels.tensors.layout import Layout, contiguous_strides
from tests.harness import Array, bits

pytestmark = [pytest.mark.gpu, pytest.mark.sample]

GENERATED = Path(pk.__file__).parent / "_generated"
FACTS = json.loads((GENERATED / "javascript.json").read_text(encoding="utf-8"))["kernels"]
KINDS = ("same", "backwards", "overlap", "strided", "flipped")
ROOM = 1 << 16  # bytes of the memory that two tensors share
START = 1 << 12


def request_of(kernel: str) -> Request | None:
    """The call of most tensors; the first of several."""
    found = cases(kernel, FACTS[kernel])
    calls = [] if found is None else found.test
    return max(calls, key=lambda r: len(r.layouts), default=None)


def kernels_to_try() -> Iterator[str]:
    """All of them; of the rows of a table, whose bodies are the same, one by number of inputs."""
    known = set()
    for kernel, facts in sorted(FACTS.items()):
        kind = facts["family"], len(facts["tensors"])
        if not facts["row"] or kind not in known:
            yield kernel
        if facts["row"]:
            known.add(kind)


def pairs() -> Iterator[Any]:
    for kernel in kernels_to_try():
        request = request_of(kernel)
        names = request.layouts if request else {}
        roles = {t["name"]: t["role"] for t in FACTS[kernel]["tensors"]}
        for out in (n for n in names if roles[n] == "out"):
            for given in (n for n in names if roles[n] == "in"):
                yield pytest.param(kernel, out, given, id=f"{kernel}-{out}-{given}")


def views(dev: pk.Device, request: Request, out: str, given: str, kind: str) -> Any:
    """The tensors `out` and `given` in one memory; None where they cannot lie there so."""
    a, b = (request.layouts[n] for n in (out, given))
    room = dev.zeros(ROOM, "uint8").buffer

    def at(layout: Layout, start: int, apart: int = 1) -> pk.Tensor:
        strides = [apart * s for s in contiguous_strides(layout.shape, layout.dtype.itemsize)]
        return pk.Tensor.from_buffer(
            room, layout.shape, layout.dtype.name, offset=start, strides=strides, device=dev
        )

    size = max(math.prod(v.shape) * v.dtype.itemsize for v in (a, b))
    item = max(v.dtype.itemsize for v in (a, b))
    if size == 0 or 2 * size + START > ROOM:
        return None
    if kind == "overlap":
        return at(a, START + item), at(b, START)
    if (a.shape, a.dtype) != (b.shape, b.dtype) or not a.shape:
        return None
    if kind == "strided":
        return at(a, START, 2), at(b, START + item, 2)
    first = at(a, START)
    second = first if kind == "same" else first[::-1]
    return second if kind == "backwards" else first, second


def alike(t: pk.Tensor, nbytes: int = ROOM) -> pk.Tensor:
    """The same elements at the same place of a buffer of their own: as they lie, so they are
    summed."""
    room = t.device.zeros(nbytes, "uint8").buffer
    found = pk.Tensor.from_buffer(
        room, t.shape, t.dtype, offset=t.offset, strides=t.strides, device=t.device
    )
    found.write(t.numpy())
    return found


def run(request: Request, tensors: dict[str, pk.Tensor]) -> None:
    getattr(kernels, request.kernel)(**tensors, **request.given)


@pytest.mark.parametrize(("kernel", "out", "given"), list(pairs()))
def test_an_output_in_the_memory_of_an_input(
    dev: pk.Device, kernel: str, out: str, given: str
) -> None:
    request = request_of(kernel)
    assert request is not None
    found = cases(kernel, FACTS[kernel])
    values = arrays(request, fills(request, FACTS[kernel], found.values if found else {}))
    roles = {t["name"]: t["role"] for t in FACTS[kernel]["tensors"]}
    outputs = [n for n in request.layouts if roles[n] == "out"]
    others = [n for n in request.layouts if n not in (out, given)]
    for kind in KINDS:
        shared = views(dev, request, out, given, kind)
        if shared is None:
            continue
        near = dict(zip((out, given), shared, strict=True))
        for name in (out, given):  # an input's elements are what was written last
            near[name].write(values[name])
        # Outputs hold what updates begin with.
        apart = {n: alike(t) for n, t in near.items()}
        near |= {n: dev.tensor(values[n]) for n in others}
        apart |= {n: dev.tensor(values[n]) for n in others}
        order = [n for n in roles if n in near]
        try:
            run(request, {n: near[n] for n in order})
        except pk.AliasError:
            continue
        run(request, {n: apart[n] for n in order})
        for n in outputs:
            same(near[n].numpy(), apart[n].numpy(), f"{kernel}: {n}, {out} {kind} {given}")


@pytest.mark.parametrize("kernel", list(kernels_to_try()))
def test_all_tensors_in_one_memory(dev: pk.Device, kernel: str) -> None:
    """One behind the other without gaps, in place where the kernel has a way for that."""
    request, facts = request_of(kernel), FACTS[kernel]
    if (
        request is None
        or sum(lay.size * lay.dtype.itemsize for lay in request.layouts.values()) > ROOM
    ):
        pytest.skip("no call, or too large a one")
    found = cases(kernel, facts)
    values = arrays(request, fills(request, facts, found.values if found else {}))
    args = {a.name: a for a in kernel_of(kernel).args}
    room, end = dev.zeros(2 * ROOM, "uint8").buffer, 0
    near: dict[str, pk.Tensor] = {}
    for name in (t["name"] for t in facts["tensors"] if t["name"] in values):
        lay, first = request.layouts[name], args[name].alias
        given = request.layouts.get(first)
        if given is not None and (given.shape, given.dtype) == (lay.shape, lay.dtype):
            near[name] = near[first]
            continue
        end = -(-end // lay.dtype.itemsize) * lay.dtype.itemsize
        near[name] = pk.Tensor.from_buffer(room, lay.shape, lay.dtype.name, offset=end, device=dev)
        near[name].write(values[name])
        end += lay.size * lay.dtype.itemsize
    apart = {n: alike(t, 2 * ROOM) for n, t in near.items()}
    for tensors in (near, apart):
        run(request, tensors)
    for n in (n for n in near if args[n].role == "out"):
        same(near[n].numpy(), apart[n].numpy(), f"{kernel}: {n}")


def same(got: Array, want: Array, told: str) -> None:
    """The same bits; NaN is NaN."""
    equal = bits(got) == bits(want)
    if got.dtype.kind == "f":
        equal |= np.isnan(got.astype("f4")) & np.isnan(want.astype("f4"))
    assert equal.all(), f"{told}: {np.argwhere(~equal)[:3].tolist()}"
