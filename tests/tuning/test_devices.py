"""Plans for devices that nobody here has: whatever they choose, the device's limits allow.

`devices.toml` has the limits and features of twelve devices. The plans of the bench's named cases
and of the sweep's grid run for each of them, without a GPU: every step's text may be compiled
there, and every binding bound.
"""

from __future__ import annotations

import functools
import inspect
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pykernels import kernels
from pykernels.bench import cases as named_cases
from pykernels.bench import sweep
from pykernels.bench.case import Case, Operand, kernel_of
from pykernels.dtypes import DTYPES
from pykernels.errors import LimitError
from pykernels.runtime.dispatch import fold
from pykernels.runtime.lower import _window
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.tuning import for_adapter
from pykernels.wgsl.texts import read_manifest

FILE = Path(__file__).with_name("devices.toml")
# A convolution is cut along images, not inside of one: an image larger than a binding is refused.
REFUSED = {("conv2d", "f32-1x64x1024x1024x64x3x3")}
MOST_GROUPS = 65535  # of a dimension, on all of them
ALIGNMENT = 256  # WebGPU's default: the largest
# WebGPU's defaults, which every device has at least.
DEFAULTS: dict[str, Any] = {
    "max_invocations": 256, "max_workgroup_bytes": 16384, "max_binding": 1 << 27,
    "max_buffer": 1 << 28, "storage_buffers": 8, "f16": False, "subgroups": False,
    "subgroup_sizes": [4, 128],
}  # fmt: skip
# Functions of the sweep that are one kernel, and the shape of its problem.
SWEPT: dict[str, tuple[str, Any]] = {
    "linear": ("mul_mat", lambda d: (d[0], d[2], d[1])),
    "matmul": ("mul_mat", lambda d: d if d[0] > 1 else d[1:]),
    "conv2d": ("conv2d", lambda d: (*d[:6], d[5], d[6], d[7])),
    "attention": ("flash_attn", lambda d: d[:6]),
    "softmax": ("softmax", lambda d: d),
    "log_softmax": ("log_softmax", lambda d: d),
    "layer_norm": ("layer_norm", lambda d: d),
    "rms_norm": ("rms_norm", lambda d: d),
    "add": ("add", lambda d: d),
    "mul": ("mul", lambda d: d),
    "gelu": ("gelu", lambda d: d),
    "exp": ("exp", lambda d: d),
    "sort": ("sort", lambda d: d if len(d) > 1 else (1, *d)),
    "argsort": ("argsort", lambda d: d if len(d) > 1 else (1, *d)),
}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """A device of the file."""

    name: str
    kind: str
    values: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def caps(self) -> Caps:
        found = for_adapter(self.name, self.kind, workgroup_bytes=self.max_workgroup_bytes)
        return Caps(
            self.f16, self.subgroups, ALIGNMENT, self.max_invocations, self.max_workgroup_bytes,
            self.max_binding, MOST_GROUPS, found.tuning,
        )  # fmt: skip


def _read() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _devices() -> list[Limits]:
    return [
        Limits(d["name"], d["type"], {name: d[name]["value"] for name in DEFAULTS})
        for d in _read()["device"]
    ]


DEVICES = _devices()


def test_the_file_has_twelve_devices_and_a_source_for_each_value() -> None:
    data = _read()
    assert len({d["name"] for d in data["device"]}) == len(data["device"]) == 12
    for d in data["device"]:
        for name, default in DEFAULTS.items():
            value, source = d[name]["value"], d[name]["source"]
            assert data["sources"][source].startswith("https://")
            if source == "default":
                assert value == default, (d["name"], name)
            elif not isinstance(value, list):
                assert value >= default, (d["name"], name)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name.replace(" ", "_"))
def test_plans_of_named_shapes_are_valid(device: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYKERNELS_TUNING", raising=False)
    wrong, planned = [], 0
    for case in _problems():
        if fits(device, case):
            planned += 1
            found = [f"{case.kernel} {case.id}: {why}" for why in faults(device, case)]
            if (case.kernel, case.id) in REFUSED and device.max_binding < 1 << 28:
                assert found and all("refused: x spans" in why for why in found)
            else:
                wrong += found
    assert not wrong, "\n".join(wrong[:20])
    assert planned > 500


def test_a_plan_beyond_the_limits_is_found() -> None:
    """The plans of a large device, on one of 256 invocations, 16 KiB and no f16."""
    small = next(d for d in DEVICES if d.max_invocations == 256)
    large = next(d for d in DEVICES if d.max_workgroup_bytes > 32768)
    some = [c for c in _problems() if fits(large, c)]
    told = {f.split()[0] for c in some for f in faults(small, c, large.caps)}
    assert {"features", "binding", "workgroup_bytes"} <= told, told


@functools.cache
def _problems() -> list[Case]:
    """The named cases of the bench, and the grid of the sweep where a kernel is the function."""
    found = {(c.kernel, c.id): c for c in named_cases.cases(0) if c.function is None}
    for call in sweep.calls():
        if call.function in SWEPT:
            kernel, shape = SWEPT[call.function]
            case = named_cases.problem(kernel, shape(call.dims), call.dtype)
            found.setdefault((case.kernel, case.id), case)
    return [*found.values()]


def fits(device: Limits, case: Case) -> bool:
    """Can the device hold the tensors of a case?"""
    operands = case.tensors.values()
    halves = any(o.dtype == "float16" for o in operands)
    if halves and not device.f16 and not kernel_of(case.kernel).moves_bytes:
        return False
    return all(math.prod(o.base) * DTYPES[o.dtype].itemsize <= device.max_buffer for o in operands)


def faults(device: Limits, case: Case, caps: Caps | None = None) -> Iterator[str]:
    """What the device does not allow of the plan of a case; its words begin with the limit."""
    try:
        steps = steps_of(case, caps or device.caps)
    except LimitError as e:
        yield f"refused: {e}"
        return
    for step in steps:
        facts = _facts(step)
        threads = math.prod(facts["workgroup_size"])
        x, y = fold(case.kernel, step.groups, MOST_GROUPS)
        checks = {
            "invocations": threads <= device.max_invocations,
            "workgroup_bytes": facts["workgroup_bytes"] <= device.max_workgroup_bytes,
            "storage_buffers": len(facts["bindings"]) <= device.storage_buffers,
            "features": set(facts["features"]) <= features_of(device),
            "groups": max(x, y) <= MOST_GROUPS,
        }
        for b in step.bound:
            if b.view is not None:
                start, end = _window(b, ALIGNMENT)
                checks[f"binding {b.name}"] = end - start <= device.max_binding
        text = f"{step.body.name} {step.axes}"
        yield from (f"{name} of {text}" for name, ok in checks.items() if not ok)


def features_of(device: Limits | Caps) -> set[str]:
    """The features of texts that a device compiles."""
    return {n for n, has in (("shader-f16", device.f16), ("subgroups", device.subgroups)) if has}


def steps_of(case: Case, caps: Caps) -> list[Step]:
    kernel = kernel_of(case.kernel)
    views = [
        _view(i, case.tensors[a.name]) if a.name in case.tensors else None
        for i, a in enumerate(kernel.args)
    ]
    known = inspect.signature(getattr(kernels, case.kernel)).parameters
    options = [case.args.get(o, known[o].default) for o in kernel.options]
    steps = kernel.plan(caps, Scratch(), *views, *options)
    return [s for s in steps if s.groups > 0]


def _view(slot: int, o: Operand) -> View:
    """What a plan sees of an operand, without its memory."""
    dt = DTYPES[o.dtype]
    item = np.dtype(f"V{dt.itemsize}")
    strides = [dt.itemsize * math.prod(o.base[i + 1 :]) for i in range(len(o.base))]
    nowhere = np.lib.stride_tricks.as_strided(np.zeros(1, item), o.base, strides)
    at = o.view(nowhere)
    offset = at.__array_interface__["data"][0] - nowhere.__array_interface__["data"][0]
    return View(slot, dt, at.shape, at.strides, offset)


@functools.cache
def variants() -> dict[str, Any]:
    found: dict[str, Any] = read_manifest()["variants"]
    return found


def _facts(step: Step) -> dict[str, Any]:
    """What is known of the text of a step."""
    read, rw = (f"{step.body.name} {step.body.key(step.axes, mode)}" for mode in ("read", "rw"))
    found: dict[str, Any] = variants().get(read) or variants()[rw]
    return found


def test_tables_of_the_devices() -> None:
    """Laptops and small computers get the table that was made for them, and phones theirs."""
    tables: dict[str, set[str]] = {}
    for d in DEVICES:
        tables.setdefault(d.caps.tuning.name, set()).add(d.name)
    assert {n: len(names) for n, names in tables.items()} == {
        "generic-laptop": 5, "generic-large": 3, "generic-small": 3, "software": 1,
    }  # fmt: skip
    assert tables["generic-small"] == {"Adreno (TM) 740", "Mali-G710", "V3D 4.2"}
    assert tables["software"] == {"Microsoft Basic Render Driver"}
