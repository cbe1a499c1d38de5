"""Small cases on devices that nobody here has: the driver at hand, cut down to their limits.

Plans think that the device is one of devices.toml: its invocations, workgroup memory, bindings,
halves, its table, and subgroups of each of its widths (emulated). What the driver lacks stays
lacking: SwiftShader has 256 invocations, whatever the device has. Devices that plans cannot tell
apart are one, and kernels are dealt out among them; PYKERNELS_TEST_FULL=1 runs every case on every
device (and `-s` prints how many).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

import pykernels as pk
from pykernels.bench import cases as named_cases
from pykernels.bench.case import Case, kernel_of, load
from pykernels.steps import Caps
from tests.conftest import FULL
from tests.harness import caps
from tests.subgroups import subgroups_of
from tests.tuning.test_devices import DEVICES, Limits, features_of, fits, variants

EDGE = 32
LIGHT = 1 << 20  # elements
# Kernels whose bodies use subgroups: their cases run with each width that the device has.
WIDTHS = ("flash_attn", "softmax")


def lowered(device: Limits, real: Caps) -> Caps:
    """What plans may use of the device on a driver that has `real`."""
    meant = device.caps
    sizes = ("max_invocations", "max_workgroup_bytes", "max_binding", "max_groups")
    least = {name: min(getattr(meant, name), getattr(real, name)) for name in sizes}
    return replace(
        meant, f16=meant.f16 and real.f16, subgroups=meant.subgroups and real.subgroups,
        alignment=max(meant.alignment, real.alignment), **least,
    )  # fmt: skip


def widths(device: Limits, real: Caps) -> list[int]:
    """The subgroup sizes of a device; 0 where there are none."""
    if not (device.subgroups and real.subgroups):
        return [0]
    low, high = device.subgroup_sizes
    found = [w for w in (4, 8, 16, 32, 64, 128) if low <= w <= high]
    return found if FULL else found[:1]


@functools.cache
def cases() -> list[Case]:
    """The small named cases of kernels."""
    return [c for c in named_cases.cases(EDGE) if c.function is None]


def distinct() -> list[Limits]:
    """One device of each class that plans tell apart."""
    found: dict[object, Limits] = {}
    for d in DEVICES:
        sizes = tuple(d.subgroup_sizes) if d.subgroups else ()
        found.setdefault((d.caps, d.storage_buffers, sizes), d)
    return [*found.values()]


def share(device: Limits) -> Iterator[Case]:
    """The cases that a device runs: all, or the first light one of some kernels."""
    if FULL:
        yield from (c for c in cases() if fits(device, c))
        return
    devices = distinct()
    known: set[str] = set()
    for case in cases():
        light = all(math.prod(o.base) <= LIGHT for o in case.tensors.values())
        if light and case.kernel not in known and fits(device, case):
            known.add(case.kernel)
            if (len(known) + devices.index(device)) % len(devices) == 0:
                yield case


@dataclass
class Count:
    """What ran on a device."""

    cases: int = 0
    dispatches: int = 0
    elements: int = 0
    wrong: list[str] = field(default_factory=list)

    def run(self, dev: pk.Device, device: Limits, case: Case) -> None:
        """A case: its numbers, and what its dispatches use."""
        name = f"{case.kernel} {case.id}"
        try:
            loaded = load(dev, case)
            with dev.profile() as p:
                loaded()
            verdict = loaded.check()
        except pk.PyKernelsError as e:
            self.wrong.append(f"{name}: {type(e).__name__}: {e}")
            return
        self.cases, self.dispatches = self.cases + 1, self.dispatches + len(p.records)
        self.elements += verdict.size
        if verdict.wrong or not verdict.size or not p.records:
            self.wrong.append(f"{name}: {verdict}, {len(p.records)} dispatches")
        used = dev._context.caps
        for record in p.records:
            text = variants()[record.label]
            fine = (
                math.prod(text["workgroup_size"]) <= used.max_invocations,
                text["workgroup_bytes"] <= used.max_workgroup_bytes,
                len(text["bindings"]) <= device.storage_buffers,
                set(text["features"]) <= features_of(used),
            )
            if not all(fine):
                self.wrong.append(f"{name}: {record.label} uses too much")


@contextmanager
def opened(dev: pk.Device, width: int) -> Iterator[pk.Device]:
    """The device, or one of the same adapter whose subgroups have this width."""
    if not width:
        yield dev
        return
    with subgroups_of(width), pk.Device(dev.info["name"], engine=dev.engine) as own:
        yield own


@pytest.mark.gpu
@pytest.mark.crowd
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "device", DEVICES if FULL else distinct(), ids=lambda d: d.name.replace(" ", "_")
)
def test_small_cases_with_the_limits_of_a_device(dev: pk.Device, device: Limits) -> None:
    real, count = dev._context.caps, Count()
    mine = [*share(device)]
    for i, width in enumerate(widths(device, real)):
        with opened(dev, width) as own, caps(own, **_changes(lowered(device, real))):
            for case in mine:
                if (i == 0 or case.kernel in WIDTHS) and _holds(own, case):
                    count.run(own, device, case)
    print(f"{device.name}: {count.cases} cases, {count.dispatches} dispatches, "
          f"{count.elements} elements, {len(count.wrong)} failures")  # fmt: skip
    assert not count.wrong, "\n".join(count.wrong[:20])
    assert count.dispatches >= count.cases > 0


def _changes(wanted: Caps) -> dict[str, object]:
    names = (
        "f16", "subgroups", "alignment", "max_invocations", "max_workgroup_bytes", "max_binding",
        "max_groups", "tuning",
    )  # fmt: skip
    return {name: getattr(wanted, name) for name in names} | {"matrix": None, "forced": ()}


def _holds(dev: pk.Device, case: Case) -> bool:
    """Has the driver the halves of a case?"""
    halves = any(o.dtype == "float16" for o in case.tensors.values())
    return not halves or dev._context.caps.f16 or kernel_of(case.kernel).moves_bytes
