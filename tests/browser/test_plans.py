"""Plans that run in the exported module make the steps that Python makes: on the layouts of the
cases, and on random ones around them. No browser, only Node.
"""

from __future__ import annotations

import importlib
import json
import time
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pykernels.dtypes import DTYPES
from pykernels.errors import PyKernelsError
from pykernels.export._cases import cases, table
from pykernels.export._layouts import Request
from pykernels.export._record import CAPS, caps_data, step_data
from pykernels.export._write import live_plan
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.tuning import named

from .conftest import FACTS, Ask
from .test_steps import as_json

# Rows of one body with the same tensors have one plan: the first of them stands for all.
ONE_EACH = {
    facts["js"].replace(n, "") if facts["row"] else n: n
    for n, facts in sorted(FACTS.items(), reverse=True)
}
PLANS = [
    n for n in sorted(ONE_EACH.values())
    if not table(FACTS[n]["of"], FACTS[n]).get("recorded_only")
]  # fmt: skip
ROUNDS = 100
LARGE = replace(
    CAPS, subgroups=True, max_invocations=1024, max_workgroup_bytes=32768, alignment=32,
    tuning=named("generic-large"),
)  # fmt: skip
# Plans of the H200's table, with Winograd's transforms and attention by products even where these
# are slow.
H200 = named("nvidia-h200")
WINOGRAD = replace(H200.conv, winograd=replace(H200.conv.winograd, gain=8.0))
PRODUCTS = replace(H200.attention, products=replace(H200.attention.products, gain=8.0))
OWN = replace(LARGE, tuning=replace(H200, conv=WINOGRAD, attention=PRODUCTS))
TIGHT = replace(CAPS, max_binding=1 << 18)  # most calls in parts, or refused
LARGEST = 1 << 32
PARTS = 64
SECONDS = 5
SIZES = (1, 2, 3, 4, 5, 8, 9, 16, 64, 100, 256, 1000, 1024, 4096, 20000)


@pytest.mark.parametrize("kernel", PLANS)
def test_plans_as_in_python(kernel: str, module: Ask) -> None:
    facts = FACTS[kernel]
    assert live_plan(facts) is not None, "its plan, or one that it imports, is not translated"
    found = cases(kernel, facts)
    assert found is not None
    requests = [*found.test, *found.page]
    rng = np.random.default_rng(zlib.crc32(kernel.encode()))
    calls, wants = [], []
    start = time.perf_counter()
    for i in range(ROUNDS):
        request = requests[i % len(requests)]
        views = views_of(request, facts, rng if i >= 2 * len(requests) else None)
        if any(v and v.nbytes > LARGEST for v in views.values()):
            continue  # no buffer is so large, and numbers would not be exact in JavaScript
        caps = (CAPS, TIGHT, LARGE, OWN)[i % 4]
        if i < 2 * len(requests):
            caps = CAPS if i < len(requests) else OWN
        if any(v and v.nbytes > PARTS * caps.max_binding for v in views.values()):
            continue  # cut along two axes, it can be millions of steps
        if i >= len(requests) and time.perf_counter() - start > SECONDS:
            break  # a plan of thousands of steps
        options = [request.given.get(o["name"], o["default"]) for o in facts["options"]]
        wants.append(planned(facts["of"], caps, list(views.values()), options))
        calls.append(
            {
                "what": "plan", "kernel": kernel, "options": options,
                "caps": caps_data(caps),
                "views": {n: v and as_json(v) for n, v in views.items()},
            }
        )  # fmt: skip
    answers = module(calls)
    for call, want, got in zip(calls, wants, answers, strict=True):
        assert got.get("answer") == want, (call, got.get("error"))
    assert sum(w is not None for w in wants) >= len(requests)


def planned(name: str, caps: Caps, views: list[View | None], options: list[Any]) -> Any:
    """What Python makes of it, by way of JSON; None where it refuses."""
    kernel = importlib.import_module(f"pykernels._generated.kernels.{name}").KERNEL
    scratch = Scratch()
    try:
        steps = kernel.plan(caps, scratch, *views, *options)
    except PyKernelsError:
        return None
    data = {"scratch": scratch.sizes, "steps": [step_data(s) for s in steps]}
    return json.loads(json.dumps(data))


def views_of(
    request: Request, facts: dict[str, Any], rng: np.random.Generator | None
) -> dict[str, View | None]:
    """The views of a request; with `rng` of another size, order of axes, dtype and offset."""
    sizes = {n for lay in request.layouts.values() for n in lay.shape}
    other = {n: n for n in sizes}
    half = False
    if rng is not None:
        half = bool(rng.random() < 0.3)
        for n in sizes:
            if rng.random() < 0.6:
                other[n] = int(rng.choice(SIZES))
    views: dict[str, View | None] = {}
    for slot, t in enumerate(facts["tensors"]):
        lay = request.layouts.get(t["name"])
        if lay is None:
            views[t["name"]] = None
            continue
        name = "float16" if half and "float16" in t["dtypes"] else lay.dtype.name
        dtype = DTYPES[name]
        shape = tuple(other[n] for n in lay.shape)
        strides, offset, padded = contiguous_strides(shape, dtype.itemsize), 0, True
        if rng is None:
            strides = tuple(s // lay.dtype.itemsize * dtype.itemsize for s in lay.strides)
        elif rng.random() < 0.5:
            order = rng.permutation(len(shape)) if rng.random() < 0.5 else np.arange(len(shape))
            steps, step = [0] * len(shape), dtype.itemsize * int(rng.choice([1, 1, 2, 4]))
            for axis in reversed(order):
                steps[axis] = step
                step *= shape[axis]
            strides = tuple(steps)
            offset = dtype.itemsize * int(rng.choice([0, 4, 1, 64]))
            padded = bool(rng.random() < 0.8)
        views[t["name"]] = View(slot, dtype, shape, strides, offset, padded)
    return views
