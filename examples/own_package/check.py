"""Compares each kernel with numpy, on views at any offset inside larger memory: python check.py"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import five
import numpy as np
from five._kernels import reference

import pykernels as pk

Array = np.ndarray[Any, Any]
BESIDE = 7  # the memory around a tensor has this value, which must not change
Case = tuple[str, Callable[..., None], Sequence[Array], Sequence[Array], Sequence[Array], float]


def cases(n: int) -> Iterator[Case]:
    """A case: a name, a call, the inputs, the outputs before and after the call, and the
    tolerance."""
    rng = np.random.default_rng(n)
    a, b, mask = (rng.random(n, np.float32) for _ in range(3))
    rows = np.round(rng.random((-(-n // 5), 5), np.float32), 1)  # with equal elements
    count = len(rows)
    yield (
        "peaks", five.peaks, [rows], [np.zeros(count, np.float32), np.zeros(count, np.uint32)],
        reference.peaks(rows), 0,
    )  # fmt: skip
    yield "blend", five.blend, [a, b], [np.zeros_like(a)], [reference.blend(a, b)], 1e-6
    yield (
        "blend, masked", lambda a, b, mask, dst: five.blend(a, b, dst, mask=mask, share=0.25),
        [a, b, mask], [np.zeros_like(a)], [reference.blend(a, b, mask, 0.25)], 1e-6,
    )  # fmt: skip
    x = (8 * a - 4).astype(np.float16)
    yield (
        "soft_clip", lambda x, dst: five.soft_clip(x, dst, gain=1.5),
        [x], [np.zeros_like(x)], [reference.soft_clip(x, 1.5)], 5e-4,
    )  # fmt: skip
    vectors = rng.standard_normal((-(-n // 3), 3)).astype(np.float32)
    vectors[0] = 0
    yield "normals", five.normals, [], [vectors], [reference.normals(vectors)], 1e-6
    yield "norm", five.norm, [a], [np.zeros(1, np.float32)], [reference.norm(a)], 1e-5 * n**0.5


def placed(dev: pk.Device, array: Array, first: int, apart: int) -> tuple[pk.Tensor, pk.Tensor]:
    """A view of larger memory, and that memory. The memory continues before, after and between the
    view's elements."""
    memory = dev.full(first + array.size * apart + 5, BESIDE, array.dtype.name)
    view = memory[first : first + array.size * apart].reshape((*array.shape, apart))[..., 0]
    view[...] = array
    return view, memory


def check(dev: pk.Device, case: Case, first: int, apart: int) -> None:
    name, call, inputs, outputs, want, atol = case
    pairs = [placed(dev, a, first, apart) for a in (*inputs, *outputs)]
    call(*(view for view, _ in pairs))
    for (view, memory), values in zip(pairs[len(inputs) :], want, strict=True):
        np.testing.assert_allclose(view.numpy(), values, rtol=0, atol=atol, err_msg=name)
        inside = np.arange(view.size) * apart + first
        around = np.delete(memory.numpy(), inside)
        assert (around == BESIDE).all(), f"{name} wrote beside its tensors"


def main() -> None:
    dev = pk.default_device()
    for n in (1, 63, 257, 5000):
        for case in cases(n):
            if case[0] == "soft_clip" and "shader-f16" not in dev.features:
                continue
            for first, apart in ((0, 1), (1, 1), (67, 1), (3, 2)):
                check(dev, case, first, apart)
    print("five kernels agree with numpy at every offset")


if __name__ == "__main__":
    main()
