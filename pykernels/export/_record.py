"""Records plans: the Python plan computes the steps for concrete layouts, and they are stored for a
replay."""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pykernels.contract import GRID_MAX
from pykernels.errors import ArgumentError, either
from pykernels.steps import Bound, Caps, Kernel, Scratch, Step
from pykernels.tensors.layout import View, repeats_to
from pykernels.tuning import Tuning, as_data, named

from ._layouts import Request

__all__ = ["CAPS", "DEFAULT_TUNING", "caps_data", "plan_key", "record", "step_data"]

# A page runs on any GPU.
DEFAULT_TUNING = "generic-small"
# The caps that every WebGPU device has, because a recorded plan must not need more. Only f16 may
# be missing on a device; a plan needs it if the call has float16 tensors.
CAPS = Caps(
    f16=True,
    subgroups=False,
    alignment=256,
    max_invocations=256,
    max_workgroup_bytes=16384,
    max_binding=128 << 20,
    max_groups=GRID_MAX,
    tuning=named(DEFAULT_TUNING),
    built_only=True,
)


def caps_data(caps: Caps) -> dict[str, Any]:
    """Capabilities as JSON, in the form that JavaScript's plans read; nothing is forced, and pages
    cannot use matrix units."""
    python_only = ("forced", "built_only", "matrix")
    found = {name: getattr(caps, name) for name in Caps.__slots__ if name not in python_only}
    return found | {"tuning": as_data(caps.tuning), "matrix": None}


def record(request: Request, facts: Mapping[str, Any], tuning: Tuning) -> dict[str, Any]:
    """The steps of one call, in the form of the manifest."""
    kernel: Kernel = importlib.import_module(f"pykernels._generated.kernels.{facts['of']}").KERNEL
    _check(request, facts)
    views: list[View | None] = []
    for slot, t in enumerate(facts["tensors"]):
        lay = request.layouts.get(t["name"])
        if lay is None:
            views.append(None)
            continue
        # Offset 0 is the tensor's lowest byte, which a page may bind at any multiple of 256.
        views.append(View(slot, lay.dtype, lay.shape, lay.strides, 0))
        if lay.lo < 0:
            raise ArgumentError(
                f"[export] {request.kernel}: {t['name']} has negative strides, for which no "
                "plan can be recorded"
            )
    options = [request.given.get(o["name"], o["default"]) for o in facts["options"]]
    caps, scratch = replace(CAPS, tuning=tuning), Scratch()
    steps = [s for s in kernel.plan(caps, scratch, *views, *options) if s.groups > 0]
    return {
        "key": plan_key(request, facts),
        "scratch": scratch.sizes,
        "steps": [step_data(s) for s in steps],
    }


def plan_key(request: Request, facts: Mapping[str, Any]) -> str:
    """The key of a plan, in the same spelling as `recorded` in module/3_calls.js."""
    words = []
    for t in facts["tensors"]:
        lay = request.layouts.get(t["name"])
        if lay is not None:
            shape = ",".join(map(str, lay.shape))
            strides = ",".join(str(s // lay.dtype.itemsize) for s in lay.strides)
            words.append(f"{t['name']}={lay.dtype.name}[{shape}]:{strides}")
    options = [_json(request.given.get(o["name"], o["default"])) for o in facts["options"]]
    return " ".join([*words, f"[{','.join(options)}]"])


def _json(value: Any) -> str:
    """Write numbers as JSON.stringify writes them."""
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_json, value))}]"
    if isinstance(value, float) and math.isfinite(value):
        _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
        if -6 < len(digits) + int(exponent) <= 21:
            return f"{Decimal(repr(value)).normalize():f}" if value else "0"
        return re.sub(r"e([+-])0+", r"e\1", repr(value))
    return json.dumps(value, ensure_ascii=False)


def _check(request: Request, facts: Mapping[str, Any]) -> None:
    """Check the rules that runtime/checks.py checks before it calls a plan."""
    first: dict[str, str] = {}
    for t in facts["tensors"]:
        lay = request.layouts.get(t["name"])
        if lay is None:
            continue
        where = f"[export] {request.kernel}: {t['name']}"
        name = lay.dtype.name
        if name not in t["dtypes"]:
            raise ArgumentError(f"{where} must be {either(t['dtypes'])} but is {name}")
        if "same" in t and first.setdefault(t["same"], name) != name:
            raise ArgumentError(
                f"{where} must be {first[t['same']]}, the dtype of the others, but is {name}"
            )
        like = request.layouts.get(t.get("like", ""))
        if like is not None and like.shape != lay.shape:
            raise ArgumentError(f"{where} must have shape {like.shape} but has {lay.shape}")
        wide = request.layouts.get(t.get("broadcast", ""))
        if wide is not None and not repeats_to(lay.shape, wide.shape):
            raise ArgumentError(f"{where} must broadcast to {wide.shape} but has {lay.shape}")


def step_data(step: Step) -> dict[str, Any]:
    """A step in the form of the manifest."""
    found = {
        "body": step.body.name,
        "axes": list(step.axes),
        "bound": [_bound(b) for b in step.bound],
        "words": list(step.words),
        "values": list(step.values),
        "groups": step.groups,
    }
    return found | {"scalars": list(step.scalars)} if step.scalars else found


def _bound(b: Bound) -> dict[str, Any]:
    view = b.view and {
        "slot": b.view.slot,
        "itemsize": b.view.dtype.itemsize,
        "shape": list(b.view.shape),
        "strides": list(b.view.strides),
        "offset": b.view.offset,
    }
    return {
        "name": b.name,
        "role": b.role,
        "view": view or None,
        "unit": b.unit,
        "elem": b.elem,
        "strides": list(b.strides),
        "readonly": b.readonly,
        "alias": b.alias,
    }
