"""Finds the values of the generic tuning tables, which are for devices that cannot be measured
here. They are the values with the least loss over modelled devices
(pykernels/bench/tune/modelled.py).

    python -m bench.generic_tables [--write] [large | laptop ...]

It prints the loss of the new table on each device, beside the loss of the H200's table. --write
puts the values into pykernels/tuning/generic-*.toml, below the line that names this file, and the
losses of both sets of devices into docs/design/tuning.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pykernels import tuning
from pykernels.bench.tune.calibrate import calibrated
from pykernels.bench.tune.fit import Fit, Where, fit, loss
from pykernels.bench.tune.modelled import (
    LAPTOPS,
    LARGE,
    Modelled,
    ModelledTimes,
    Together,
    caps_of,
    questions,
)
from pykernels.bench.tune.scale import scaled
from pykernels.tuning import Tuning, as_data, named

MARK = "# Found by bench/generic_tables.py; docs/design/tuning.md says how."
BASE = "nvidia-h200"
PAGE = Path(__file__).parents[1] / "docs" / "design" / "tuning.md"
GAIN = 0.005
# Keys that the model cannot decide: the bodies that may be chosen, and the border between gemv and
# small tiles.
FIXED = ("bodies", "fill", "gemv_rows", "gemv_area", "gemv_depth")
SETS = {"large": LARGE, "laptop": LAPTOPS}


def times(devices: Sequence[Modelled]) -> list[ModelledTimes]:
    asked = questions(caps_of(devices[0]))
    return [ModelledTimes(d, asked) for d in devices]


def middle(devices: Sequence[Modelled], start: Tuning) -> Fit:
    """The table with the least loss on these devices. Each device gives a starting table: the
    H200's table, scaled to the device and with the device's rates. The search begins with the
    starting table of least loss."""
    each = times(devices)
    together, caps = Together(each), caps_of(devices[0])
    here = Where(caps, each[0].questions, together)

    def begun(d: Modelled) -> Tuning:
        """The starting table of a device: the H200's table, scaled and with the device's rates."""
        own = scaled(replace(named(BASE), name=start.name), d.units)
        own = replace(own, device=replace(own.device, copy=d.copy))
        never = replace(own.conv.winograd, gain=0.0)  # Winograd was not measured on these devices
        own = replace(own, conv=replace(own.conv, winograd=never))
        # attention as products was not measured on these devices, either
        unknown = replace(own.attention.products, gain=0.0)
        own = replace(own, attention=replace(own.attention, products=unknown))
        mine = next(t for t in each if t.device is d)
        return calibrated(caps, own, mine.questions, mine.known)

    begins = [begun(d) for d in devices]
    best = min(begins, key=lambda t: loss(caps, t, here.questions, together))
    # A key for which the model shows little gain keeps the value measured on one GPU.
    return fit([here], best, [], gain=GAIN, fixed=FIXED)


def table(devices: Sequence[Modelled], tables: dict[str, Tuning]) -> str:
    """The loss of each table's choices on each device."""
    lines = [f"| modelled device | {' | '.join(tables)} |", "|---|" + "--:|" * len(tables)]
    sums = dict.fromkeys(tables, 0.0)
    for t in times(devices):
        lost = {n: loss(t.caps, own, t.questions, t) for n, own in tables.items()}
        sums = {n: sums[n] + lost[n] for n in tables}
        cells = " | ".join(f"{100 * x:.0f} %" for x in lost.values())
        lines.append(f"| {t.device.name} | {cells} |")
    cells = " | ".join(f"{100 * x / len(devices):.0f} %" for x in sums.values())
    return "\n".join([*lines, f"| mean | {cells} |"])


def shown(devices: Sequence[Modelled], t: Tuning) -> str:
    """The losses, as a table for docs/design/tuning.md."""
    return table(devices, {"the generic table": t, "the table of the H200": named(BASE)})


def write(name: str, t: Tuning) -> None:
    """Write the values below the line MARK; the lines above it do not change."""
    file = Path(tuning.__path__[0]) / f"{name}.toml"
    head = file.read_text(encoding="utf-8").partition(MARK)[0]
    own: dict[str, Any] = tuning.changes(
        as_data(t) | {"name": ""}, as_data(named(BASE)) | {"name": ""}
    )
    file.write_text(f"{head.rstrip()}\n\n{MARK}\n{tuning.as_toml(own)}", encoding="utf-8")


def write_page(tables: Sequence[str]) -> None:
    """Write the tables of losses into the design page."""
    text = PAGE.read_text(encoding="utf-8")
    start, end = text.index("| modelled device |"), text.index("The model is rough")
    parts = (text[:start] + "\n\n".join(tables), text[end:])
    PAGE.write_text("\n\n".join(parts), encoding="utf-8")


def main() -> None:
    asked = [a for a in sys.argv[1:] if not a.startswith("-")] or [*SETS]
    tables = []
    for name in asked:
        before = named(f"generic-{name}")
        found = middle(SETS[name], before)
        if "--write" in sys.argv:
            write(f"generic-{name}", found.tuning)
        tables.append(shown(SETS[name], found.tuning))
    print("\n\n".join(tables))
    if "--write" in sys.argv and asked == [*SETS]:
        write_page(tables)


if __name__ == "__main__":
    main()
