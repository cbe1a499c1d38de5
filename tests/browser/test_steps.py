"""The exported JavaScript plans, packs and folds as the Python wrapper does: no browser, only Node.

Random views go through each body's `step` in both languages.
"""

from __future__ import annotations

import importlib
import itertools
import json
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pykernels.call.scalars import bits_of
from pykernels.dtypes import DTYPES
from pykernels.errors import PyKernelsError
from pykernels.export._record import CAPS, caps_data
from pykernels.runtime.dispatch import fold
from pykernels.tensors.layout import View

from .conftest import Ask

ROOT = Path(__file__).parents[2]
ROUNDS = 40


def specs() -> Iterator[Any]:
    from codegen.ops import all_rows
    from codegen.sources import kernel_files
    from codegen.spec import load

    rows = all_rows(ROOT / "kernels")
    for path in kernel_files(ROOT):
        spec = load(path, path.relative_to(ROOT).as_posix(), rows)
        if any(True for _ in spec.variants()):  # a kernel may be made of others' bodies
            yield spec


@pytest.mark.parametrize("spec", list(specs()), ids=lambda s: s.name)
def test_bodies_step_as_in_python(spec: Any, module: Ask) -> None:
    rng = np.random.default_rng(zlib.crc32(spec.name.encode()))
    body = importlib.import_module(f"pykernels._generated.bodies.{spec.name}")
    variants = list(itertools.islice(spec.variants(), 200))
    calls, wants = [], []
    for _ in range(ROUNDS):
        ndim = int(rng.integers(2, 6))
        views = {
            t.name: random_view(rng, slot, t, shape)
            for slot, (t, shape) in enumerate(random_shapes(rng, spec, ndim))
        }
        given = random_given(rng, spec, variants)
        if getattr(spec, "faults", False):
            given["watch"] = None
        calls.append(
            {
                "what": "step", "body": spec.name, "given": given,
                "caps": caps_data(CAPS),
                "views": {n: v and as_json(v) for n, v in views.items()},
            }
        )  # fmt: skip
        try:
            wants.append(expected(body.step(CAPS, **views, **given)))
        except (PyKernelsError, IndexError, ValueError, TypeError, KeyError, AttributeError,
                struct.error):  # fmt: skip
            wants.append(None)
    compared = 0
    for call, want, got in zip(calls, wants, module(calls), strict=True):
        if want is None:
            continue  # no call that a plan would make
        assert got.get("answer") == want, (call, got.get("error"))
        compared += 1
    assert compared >= 3


def random_shapes(
    rng: np.random.Generator, spec: Any, ndim: int
) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """A shape for each tensor: one for all of the index space, but for axes that it keeps."""
    space = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8, 60, 256], ndim))
    kept = {"nd": 0, "rows": 1, "tiles": 2, "none": ndim}[spec.iterate]
    for t in spec.tensors:
        own = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8, 60, 256], len(t.axes) or ndim))
        if not t.index or t.over or len(own) != ndim:
            yield t, own
        elif t.broadcast or t.expand:
            yield t, repeating(rng, space)
        else:
            yield t, (*space[: ndim - kept], *own[ndim - kept :])


def repeating(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that repeats to another: ones, divisors along leading axes, or fewer axes."""
    sizes = [n // int(rng.choice([f for f in (1, 1, 2, 3, n) if n % f == 0])) for n in shape]
    sizes[-1] = shape[-1] if rng.random() < 0.5 else 1
    return tuple(sizes[int(rng.integers(len(sizes))) if rng.random() < 0.3 else 0 :])


def random_view(rng: np.random.Generator, slot: int, t: Any, shape: tuple[int, ...]) -> View | None:
    if t.optional and rng.random() < 0.5:
        return None
    dtype = DTYPES[str(rng.choice(t.dtypes))]
    order = rng.permutation(len(shape)) if rng.random() < 0.5 else np.arange(len(shape))
    strides = [0] * len(shape)
    step = dtype.itemsize * int(rng.choice([1, 1, 1, 2]))
    for axis in reversed(order):
        strides[axis] = step * int(rng.choice([1, 1, 1, -1]))
        step *= shape[axis]
    low = -sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    offset = low + dtype.itemsize * int(rng.choice([0, 0, 16, 1, 5]))
    return View(slot, dtype, shape, tuple(strides), offset, bool(rng.random() < 0.8))


def random_given(
    rng: np.random.Generator, spec: Any, variants: list[dict[str, Any]]
) -> dict[str, Any]:
    """Values for the axes and params that a plan gives, from a variant that exists."""
    axes = variants[int(rng.integers(len(variants)))]
    given: dict[str, Any] = {a.name: axes[a.name] for a in spec.axes if not a.pick}
    for p in spec.params:
        if not p.arg and not p.value:
            low, high = (0, 5) if p.name.endswith("_bits") else (1, 9)  # of 256 invocations
            given[p.name] = 1.5 if p.type == "f32" else int(rng.integers(low, high))
    return given


def as_json(v: View) -> dict[str, Any]:
    return {
        "slot": v.slot, "dtype": v.dtype.name, "shape": v.shape, "strides": v.strides,
        "offset": v.offset, "padded": v.padded,
    }  # fmt: skip


def expected(step: Any) -> Any:
    """As steps.mjs says it, by way of JSON."""
    bound = []
    for b in step.bound:
        one = {"name": b.name, "role": b.role, "view": b.view and b.view.slot, "unit": b.unit}
        one |= {"elem": b.elem, "strides": b.strides}
        one |= {"readonly": True} if b.readonly else {}
        bound.append(one | ({"alias": b.alias} if b.alias else {}))
    args = range(1, len(step.body.args) + 1)
    params = step.prefix([3 * i for i in range(len(bound))])
    params += struct.pack("<I", 0) if getattr(step.body, "faults", False) else b""
    params += struct.pack("<" + step.body.args_format, *args)
    return json.loads(
        json.dumps(
            {
                "axes": step.axes, "bound": bound, "words": step.words, "values": step.values,
                "groups": step.groups, "params": params.ljust(256, b"\0").hex(),
            }
        )
    )  # fmt: skip


def test_fold_as_in_python(module: Ask) -> None:
    pairs = [(n, limit) for n in (1, 7, 65535, 65536, 98304, 98305) for limit in (5, 65535)]
    calls = [{"what": "fold", "groups": n, "limit": limit} for n, limit in pairs]
    for (n, limit), got in zip(pairs, module(calls), strict=True):
        assert got["answer"] == list(fold("op", n, limit))
    [got] = module([{"what": "fold", "groups": 32768 * 65535 + 1, "limit": 65535}])
    assert "too many" in got["error"]


def test_scalars_have_the_bits_of_python(module: Ask) -> None:
    rng = np.random.default_rng(1)
    floats = [0.0, -0.0, 1.0, 0.1, 65504.0, 65519.9, 65520.0, 2**-24, 2**-25, 3 * 2**-25, -1e30]
    floats += [2**-14 - 2**-26, 1e39, math.inf, -math.inf, 1 + 2**-11, 1 + 3 * 2**-11]
    floats += list(np.ldexp(rng.uniform(-1, 1, 300), rng.integers(-28, 20, 300)))
    pairs: list[tuple[float, str]] = [
        (float(v), d) for v in floats for d in ("float32", "float16", "bfloat16")
    ]
    pairs += [(v, d) for d in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
              for v in (0, 1, 127)]  # fmt: skip
    pairs += [(-5, "int8"), (-5, "int64"), (2**32 - 1, "uint32"), (1, "bool"), (0, "bool")]
    calls = [{"what": "bits", "value": str(v), "dtype": d} for v, d in pairs]
    for c in calls:
        c["value"] = c["value"].replace("inf", "Infinity")
    for (value, dtype), got in zip(pairs, module(calls), strict=True):
        assert got["answer"] == list(bits_of("op", value, dtype)), (value, dtype)  # type: ignore[arg-type]
