"""Writes a folder that a web page can use: WGSL, manifest.json with its schema, and a module."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pykernels import plans
from pykernels._version import __version__
from pykernels.texts import belongs, read, read_manifest, wgsl
from pykernels.tuning import as_data, load
from pykernels.validate._usage import measure

from . import _cases
from ._layouts import Request
from ._record import DEFAULT_TUNING, record
from ._translate import NotTranslated, plan_object, translate

__all__ = ["Export", "collect", "live_plan", "module", "static", "write"]

Dialect = Literal["naga", "tint"]
_MEMBERS = re.compile(r"struct Params \{(.*?)\}", re.DOTALL)
_BINDING = re.compile(
    r"@binding\((\d+)\) var<(storage, (?:read|read_write)|uniform)> (\w+): ([^;]+);"
)
_MODES = ("read", "rw", "merged")
# The module is one file for those who use it.
PARTS = [f"module/{name}.js" for name in ("1_views", "2_steps", "3_calls", "4_kernels")]


@dataclass(frozen=True)
class Export:
    """The files of an export by name, and the kernels that launch no layout at all."""

    files: dict[str, str]
    manifest: dict[str, Any]
    idle: list[str]


def static(name: str) -> str:
    """A file of this package."""
    return (importlib.resources.files("pykernels.export") / name).read_text(encoding="utf-8")


def _facts() -> dict[str, Any]:
    """What is generated for JavaScript."""
    found: dict[str, Any] = json.loads(read("javascript.json"))
    return found


def collect(
    names: Sequence[str],
    dialect: Dialect,
    dtypes: Sequence[str],
    requests: Sequence[Request],
    *,
    everything: bool = False,
    tuning: str = DEFAULT_TUNING,
) -> Export:
    """Everything for these kernels.

    A kernel with `requests` launches their layouts, by recorded plans, and gets the variants that
    those use. Without one, or with `everything`, it launches any layout if its plan is translated
    into JavaScript, and gets all variants, or those of `dtypes` (short names). Plans that are
    recorded and those that run in the page take the table `tuning`, a name or a file.
    """
    table = load(tuning)
    source = _facts()
    built = read_manifest()
    kernels: dict[str, Any] = {}
    bodies: list[str] = []
    wanted: set[str] = set()
    idle = []
    live = {name: live_plan(source["kernels"][name]) for name in names}
    for name in names:
        facts = source["kernels"][name]
        mine = [r for r in requests if r.kernel == name]
        records = [record(r, facts, table) for r in mine] if facts["planned"] else []
        records = list({p["key"]: p for p in records}.values())
        steps = [s for p in records for s in p["steps"]]
        wanted |= {v for s in steps for v in _variants(built, source["bodies"], s)}
        used = [s["body"] for s in steps]
        if records and not everything:
            live[name] = None
        else:
            named = built["kernels"][name]["bodies"] + _bodies_of(live[name] or {})
            own = [b for b in dict.fromkeys(named) if b in source["bodies"]]
            wanted |= {
                v for v, entry in built["variants"].items()
                if entry["body"] in own
                and belongs({**built["kernels"][name], "bodies": own}, entry)
                and _of_dtypes(built, entry, dtypes)
            }  # fmt: skip
            used += own
        if live[name] is None and not records:
            idle.append(name)
        bodies += used
        kernels[name] = {
            "doc": facts["doc"],
            "launches": "recorded" if live[name] is None else "any",
            "bodies": list(dict.fromkeys(used)),
            "tensors": facts["tensors"],
            "scalars": facts["scalars"],
            "options": facts["options"],
            "plans": records,
        }
    bodies = sorted(set(bodies))
    rendered = _texts(built, wanted, dialect)
    manifest = {
        "$schema": "./manifest.schema.json",
        "format": 1,
        "generator": f"pykernels {__version__}",
        "dialect": dialect,
        "grid": {"max": 65535, "row": 32768},
        "tuning": as_data(table),
        "kernels": kernels,
        "bodies": {b: {**built["bodies"][b], "grid": source["bodies"][b]["grid"]} for b in bodies},
        "variants": {name: entry for name, (entry, _) in sorted(rendered.items())},
    }
    files = {entry["file"]: text for entry, text in rendered.values()}
    files["manifest.json"] = json.dumps(manifest, indent=1) + "\n"
    files["manifest.schema.json"] = static("manifest.schema.json")
    files["pykernels.js"] = module(names, bodies, live)
    files["pykernels.d.ts"] = "\n".join(
        [
            static("module/types.d.ts"),
            _bodies_type(bodies),
            *(source["kernels"][n]["dts"] for n in names),
        ]
    )
    return Export(files, manifest, idle)


def live_plan(facts: dict[str, Any]) -> dict[str, str] | None:
    """The modules of a kernel's plan in JavaScript: {} if it has none, None if they use something
    that is not translated, or if the kernel's cases say `recorded_only`."""
    done: dict[str, str] = {}
    if facts["planned"]:
        if _cases.table(facts["of"], facts).get("recorded_only"):
            return None
        try:
            translate(plan_of(facts), Path(plans.__path__[0]), done)
        except NotTranslated:
            return None
    return done


def plan_of(facts: dict[str, Any]) -> str:
    """The module of a kernel's plan, from the folder of plans."""
    return f"{facts['family']}.{facts['of']}"


def _bodies_of(modules: dict[str, str]) -> list[str]:
    """The bodies that translated plans name."""
    return sorted({b for text in modules.values() for b in re.findall(r"\bbodies\.(\w+)", text)})


def module(
    kernels: Sequence[str], bodies: Sequence[str], live: dict[str, dict[str, str] | None]
) -> str:
    """The JavaScript module of these kernels and bodies, with the plans that run in it."""
    source = _facts()
    parts = [*map(static, PARTS)]
    found = (plan.items() for plan in live.values() if plan)
    translated = {name: text for plan in found for name, text in plan}
    parts += ["// -- generated from the specs " + "-" * 69 + "\n"]
    parts += [source["bodies"][b]["js"] for b in bodies]  # plans read their configurations
    parts += [static("module/5_python.js"), *translated.values()] if translated else []
    for name in kernels:
        facts = source["kernels"][name]
        parts.append(facts["js"])
        if live[name]:
            views = "".join(f", views.{t['name']}" for t in facts["tensors"])
            parts.append(
                f"kernels.{name}.plan = (caps, views, scratch, options) =>\n  py.call("
                f"{plan_object(plan_of(facts))}.plan, [caps, scratch{views}, ...options], {{}});\n"
            )
    return "\n".join(parts)


def _variants(built: dict[str, Any], bodies: dict[str, Any], step: dict[str, Any]) -> Iterable[str]:
    """The variants of a step, one for each binding mode that it has."""
    axes = bodies[step["body"]]["axes"]
    parts = [f"{k}={v}" for k, v in zip(axes, step["axes"], strict=True)]
    names = (" ".join([step["body"], *parts, f"mode={mode}"]) for mode in _MODES)
    return (n for n in names if n in built["variants"])


def _of_dtypes(built: dict[str, Any], entry: dict[str, Any], dtypes: Sequence[str]) -> bool:
    axes = built["bodies"][entry["body"]]["dtype_axes"]
    return not dtypes or all(not entry["axes"][a] or entry["axes"][a] in dtypes for a in axes)


def _texts(
    built: dict[str, Any], wanted: set[str], dialect: Dialect
) -> dict[str, tuple[dict[str, Any], str]]:
    """Manifest entry and text of each variant."""
    out = {}
    for name in sorted(wanted):
        entry = built["variants"][name]
        enable = "enable subgroups;\n" if "subgroups" in entry["features"] else ""
        text = (enable if dialect == "tint" else "") + wgsl(name)
        out[name] = (_entry(entry, name, text), text)
    return out


def _entry(entry: dict[str, Any], name: str, text: str) -> dict[str, Any]:
    usage = measure(text)
    [point] = usage.entry_points
    members = re.findall(r"(\w+): (\w+)", _MEMBERS.search(text)[1])  # type: ignore[index]
    sizes = [*usage.size(point.name), 1, 1][:3]
    return {
        "file": f"wgsl/{_file_name(name)}.wgsl",
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "body": entry["body"],
        "axes": entry["axes"],
        "mode": entry["mode"],
        "features": entry["features"],
        "entry_point": point.name,
        "workgroup_size": sizes,
        "workgroup_bytes": entry["workgroup_bytes"],
        "bindings": [
            {
                "binding": int(number), "name": variable.removesuffix("_mem"),
                "access": space.removeprefix("storage, "), "type": kind,
            }
            for number, space, variable, kind in _BINDING.findall(text)
        ],
        "params": [{"name": n, "type": t, "offset": 4 * i} for i, (n, t) in enumerate(members)],
    }  # fmt: skip


def _file_name(variant: str) -> str:
    body, *rest = variant.split(" ")
    return f"{body}/" + "_".join(re.sub(r"[^A-Za-z0-9.-]", "", w.replace("=", "-")) for w in rest)


def _bodies_type(bodies: Sequence[str]) -> str:
    names = " | ".join(f'"{b}"' for b in bodies)
    return (
        "/** For plans of your own: see docs/guide/exporting.md. */\n"
        f"export const bodies: Readonly<Record<{names}, Body>>;\n"
    )


def write(folder: Path, files: dict[str, str]) -> None:
    """Write the files; what else lies there stays."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
