"""Writes a folder that a web page can use: WGSL, manifest.json with its schema, and a module."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pykernels import plans
from pykernels._version import __version__
from pykernels.errors import ArgumentError
from pykernels.plan import MATRIX_FEATURE
from pykernels.texts import belongs, read, read_manifest, wgsl
from pykernels.tuning import as_data, load
from pykernels.validate._usage import measure

from . import _cases
from ._layouts import Request
from ._record import DEFAULT_TUNING, record
from ._translate import NotTranslated, plan_object, translate

__all__ = ["Export", "collect", "live_plan", "module", "static", "write"]

Dialect = Literal["naga", "tint"]
Watch: TypeAlias = Callable[[str, Sequence[str]], Iterable[str]]
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
    extra: Mapping[str, str] | None = None,
    watch: Watch = lambda label, items: items,
) -> Export:
    """Everything for these kernels, and `extra` files; `watch` sees the long loop go.

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
                and MATRIX_FEATURE not in entry["features"]  # which no page reaches
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
    rendered = _texts(built, watch("texts", sorted(wanted)), dialect)
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
    files["manifest.schema.json"] = static("manifest.schema.json")
    files["pykernels.js"] = module(names, bodies, live)
    files["pykernels.d.ts"] = "\n".join(
        [
            static("module/types.d.ts"),
            _bodies_type(bodies),
            *(source["kernels"][n]["dts"] for n in names),
        ]
    )
    files |= extra or {}
    manifest["files"] = {n: _sha256(files[n]) for n in sorted(files) if not n.startswith("wgsl/")}
    files["manifest.json"] = json.dumps(manifest, indent=1) + "\n"
    return Export(files, manifest, idle)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
    return f"{facts['family']}.{facts['plan'] or facts['of']}"


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
            named = f'{{ name: "{facts["of"]}" }}' if facts["plan"] else "{}"
            parts.append(
                f"kernels.{name}.plan = (caps, views, scratch, options) =>\n  py.call("
                f"{plan_object(plan_of(facts))}.plan, [caps, scratch{views}, ...options], {named});"
                "\n"
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
    built: dict[str, Any], wanted: Iterable[str], dialect: Dialect
) -> dict[str, tuple[dict[str, Any], str]]:
    """Manifest entry and text of each variant."""
    out = {}
    for name in wanted:
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
        "sha256": _sha256(text),
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


def write(folder: Path, files: dict[str, str], *, force: bool = False) -> None:
    """Write the files; what else lies there stays.

    ArgumentError, before anything is written, if a file is there that is not as an export left it,
    or a link in its place, or on the way from the folder to it. With `force` such a file is
    replaced, and a link with it.
    """
    if not force:
        ours = _hashes(folder)
        alien = [why for name, text in files.items() if (why := _alien(folder, name, text, ours))]
        if alien:
            more = f", and {len(alien) - 3} more" if len(alien) > 3 else ""
            raise ArgumentError(f"[export] {', '.join(alien[:3])}{more}: --force overwrites")
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():
                path.unlink()
            path.write_text(text, encoding="utf-8", newline="\n")
        except OSError as e:
            raise ArgumentError(f"[export] {path} cannot be written: {e.strerror}") from None


def _hashes(folder: Path) -> dict[str, str]:
    """The hashes of the files that an export has written there, as its manifest has them."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        files = {v["file"]: v["sha256"] for v in manifest["variants"].values()}
        return {**files, **manifest["files"], "manifest.json": ""}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _alien(folder: Path, name: str, text: str, ours: dict[str, str]) -> str:
    """What stands where a file belongs and is not an export's, "" for nothing."""
    path = folder / name
    links = [p for p in (path, *path.parents) if p.is_symlink() and p.is_relative_to(folder)]
    if any(p != folder for p in links):
        return f"{next(p for p in links if p != folder)} is a link"
    if not path.exists() or ours.get(name) == "":
        return ""
    if not path.is_file():
        return f"{path} is no file"
    data = path.read_bytes()
    known = {ours.get(name), _sha256(text)}
    return "" if hashlib.sha256(data).hexdigest() in known else f"{path} is not from an export"
