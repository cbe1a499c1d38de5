"""Writes a folder that a web page can use: WGSL, manifest.json with its schema, and a module."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pykernels import plans
from pykernels._version import __version__
from pykernels.contract import GRID_MAX, GRID_ROW, SUBGROUP_MATRIX, as_javascript
from pykernels.errors import ArgumentError
from pykernels.tuning import as_data, load
from pykernels.wgsl.texts import belongs, read, read_manifest, wgsl

from . import _cases
from ._bundle import bundle, facts_of, file_of
from ._javascript import plan_module, plan_object
from ._layouts import Request
from ._record import DEFAULT_TUNING, record
from ._translate import Module, NotTranslated, translate

__all__ = [
    "Export", "Watch", "bundles", "collect", "generated", "live_plan", "module", "plan_of",
    "plan_trees", "runtime", "sha256", "static", "untranslated", "variants_of", "write",
]  # fmt: skip

Dialect = Literal["naga", "tint"]
Watch: TypeAlias = Callable[[str, Sequence[str]], Iterable[str]]
_MODES = ("read", "rw", "merged")
# The module is exported as one file, made of these parts.
PARTS = [f"module/{name}.js" for name in ("0_values", "1_views", "2_steps", "3_calls", "4_kernels")]


@dataclass(frozen=True)
class Export:
    """The files of an export by name, and the kernels that cannot launch any layout."""

    files: dict[str, str]
    manifest: dict[str, Any]
    variants: list[str]
    idle: list[str]


def static(name: str) -> str:
    """A file of this package."""
    return (importlib.resources.files("pykernels.export") / name).read_text(encoding="utf-8")


def generated() -> dict[str, Any]:
    """The facts that the build generated for exports."""
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
    shown: Sequence[Request] = (),
    extra: Mapping[str, str] | None = None,
    joined: bool = False,
    watch: Watch = lambda label, items: items,
) -> Export:
    """The export of these kernels, with `extra` files; `watch` wraps the long loop.

    With `joined`, the module itself contains the manifest and the texts, so it reads no files.

    A kernel that occurs in `requests` launches only their layouts. It uses recorded plans and gets
    the variants that these plans use. Without requests, or with `everything`, a kernel launches any
    layout if its plan can be translated into JavaScript. It then gets all variants, or the variants
    of `dtypes` (short names). All plans use the tuning table `tuning`, given as a name or a file.

    `shown` are calls that the page makes: they are recorded if the kernel uses recorded plans.
    """
    table = load(tuning)
    source = generated()
    built = read_manifest()
    kernels: dict[str, Any] = {}
    bodies: list[str] = []
    wanted: set[str] = set()
    idle = []
    live = {name: live_plan(source["kernels"][name]) for name in names}
    for name in names:
        facts = source["kernels"][name]
        mine = [r for r in requests if r.kernel == name]
        if mine or live[name] is None:
            mine += [r for r in shown if r.kernel == name]
        records = [record(r, facts, table) for r in mine] if facts["planned"] else []
        records = list({p["key"]: p for p in records}.values())
        steps = [s for p in records for s in p["steps"]]
        wanted |= {v for s in steps for v in _variants(built, source["bodies"], s)}
        used = [s["body"] for s in steps]
        if records and not everything:
            live[name] = None
        else:
            own, found = variants_of(built, source, name, dtypes)
            wanted |= {*found}
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
    variants = sorted(wanted)
    files = bundles(built, variants, watch)
    texts = {b: {"file": file_of(b)} if file_of(b) in files else {} for b in bodies}
    manifest = {
        "$schema": "./manifest.schema.json",
        "format": 2,
        "generator": f"pykernels {__version__}",
        "license": "MIT",
        "version": __version__,
        "build": "",
        "dialect": dialect,
        "grid": {"max": GRID_MAX, "row": GRID_ROW},
        "tuning": as_data(table),
        "kernels": kernels,
        "bodies": {
            b: {**built["bodies"][b], "grid": source["bodies"][b]["grid"], **texts[b]}
            for b in bodies
        },
    }
    files["manifest.schema.json"] = static("manifest.schema.json")
    files["pykernels.js"] = module(names, bodies, live)
    files["pykernels.d.ts"] = "\n".join(
        [
            static("module/types.d.ts"),
            _bodies_type(bodies),
            *(source["kernels"][n]["dts"] for n in names),
        ]
    )
    files["LICENSE"] = static("LICENSE")
    files |= extra or {}
    build = sha256(json.dumps([manifest, files], sort_keys=True))[:16]
    manifest["build"] = build
    for name in files:
        if name.startswith("wgsl/"):
            files[name] = f'{{"build":"{build}",{files[name][1:]}'
    notice = f"/*! pykernels {__version__}, build {build}\n\n{files['LICENSE'].strip()}\n*/\n"
    for name in ("pykernels.js", "pykernels.d.ts"):
        files[name] = notice + files[name].replace("@BUILD@", build)
    if joined:
        inside = {"manifest.json": json.dumps(manifest), **{b: files[b] for b in _texts(files)}}
        files["pykernels.js"] += "\n" + "".join(
            f"bundled.set({json.dumps(name)}, {json.dumps(text)});\n"
            for name, text in inside.items()
        )
        files = {name: text for name, text in files.items() if name not in inside}
    manifest["files"] = {n: sha256(files[n]) for n in sorted(files)}
    files["manifest.json"] = json.dumps(manifest, indent=1) + "\n"
    return Export(files, manifest, variants, idle)


def variants_of(
    built: dict[str, Any], source: dict[str, Any], name: str, dtypes: Sequence[str]
) -> tuple[list[str], list[str]]:
    """For a kernel that launches any layout, its bodies and their variants; with `dtypes`, only the
    variants of these dtypes."""
    kernel = built["kernels"][name]
    named = kernel["bodies"] + _bodies_of(live_plan(source["kernels"][name]) or {})
    own = [b for b in dict.fromkeys(named) if b in source["bodies"]]
    found = [
        v for v, entry in built["variants"].items()
        if entry["body"] in own
        and belongs({**kernel, "bodies": own}, entry)
        and _of_dtypes(built, entry, dtypes)
        # neither pages nor naga can use matrix units
        and SUBGROUP_MATRIX.name not in entry["features"]
    ]  # fmt: skip
    return own, found


def _texts(files: Mapping[str, str]) -> list[str]:
    return sorted(name for name in files if name.startswith("wgsl/"))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def live_plan(facts: dict[str, Any]) -> dict[str, str] | None:
    """The modules of a kernel's plan in JavaScript: {} if it has none, None if they use a
    construct that is not translated, or if the kernel's cases say `recorded_only`."""
    found = plan_trees(facts)
    return None if found is None else {name: plan_module(of) for name, of in found.items()}


def plan_trees(facts: dict[str, Any]) -> dict[str, Module] | None:
    """The modules of a kernel's plan as trees; {} and None have the same meaning as in
    `live_plan`."""
    done: dict[str, Module] = {}
    if facts["planned"]:
        if _cases.table(facts["of"], facts).get("recorded_only"):
            return None
        try:
            translate(plan_of(facts), Path(plans.__path__[0]), done)
        except NotTranslated:
            return None
    return done


def untranslated() -> Iterator[str]:
    """The reasons that plans have no JavaScript, with file and line. Kernels whose cases say
    `recorded_only` give their reason there."""
    for name, facts in generated()["kernels"].items():
        if facts["planned"] and not _cases.table(facts["of"], facts).get("recorded_only"):
            try:
                translate(plan_of(facts), Path(plans.__path__[0]), {})
            except NotTranslated as e:
                yield f"{e} (the plan of {name})"


def plan_of(facts: Mapping[str, Any]) -> str:
    """The module of a kernel's plan, from the folder of plans."""
    return f"{facts['family']}.{facts['plan'] or facts['of']}"


def _bodies_of(modules: dict[str, str]) -> list[str]:
    """The bodies that translated plans name."""
    return sorted({b for text in modules.values() for b in re.findall(r"\bbodies\.(\w+)", text)})


def runtime(texts: Sequence[str]) -> list[str]:
    """The parts of the module that are not generated and that these texts need."""
    parts = [static(part).replace("@CONTRACT@", as_javascript()) for part in PARTS]
    return [*parts, _called(texts)]


def _called(texts: Sequence[str]) -> str:
    """The functions of module/called.js that these texts call, directly or through other
    functions."""
    title = "// -- what Python means " + "-" * 76
    blocks = re.split(r"^(?=/\*\*|py\.)", static("module/called.js"), flags=re.MULTILINE)
    found: dict[str, str] = {}
    comment = ""
    for block in blocks:
        name = re.match(r"py\.(\w+) =", block)
        if name:
            found[name[1]] = comment + block
        comment = "" if name else block
    wanted, new = set[str](), "\n".join(texts)
    while names := {*re.findall(r"\bpy\.(\w+)", new)} & found.keys() - wanted:
        wanted |= names
        new = "".join(found[name] for name in names)
    return f"{title}\n\nconst py = {{}};\n" + "".join(t for n, t in found.items() if n in wanted)


def module(
    kernels: Sequence[str], bodies: Sequence[str], live: dict[str, dict[str, str] | None]
) -> str:
    """The JavaScript module of these kernels and bodies, with the plans that run in it."""
    source = generated()
    found = (plan.items() for plan in live.values() if plan)
    translated = {name: text for plan in found for name, text in plan}
    # the plans read the configurations of these bodies
    made = [source["bodies"][b]["js"] for b in bodies]
    made += [static("module/5_python.js"), *translated.values()] if translated else []
    parts = [*runtime(made), "// -- generated from the specs " + "-" * 69 + "\n", *made]
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


def bundles(built: dict[str, Any], wanted: Sequence[str], watch: Watch) -> dict[str, str]:
    """The content of each file of shader texts, by the name of the file."""
    facts: dict[str, dict[str, dict[str, Any]]] = {}
    for name in watch("texts", wanted):
        body, _, key = name.partition(" ")
        facts.setdefault(body, {})[key] = facts_of(built["variants"][name], wgsl(name))
    return {file_of(body): bundle(body, found) for body, found in facts.items()}


def _bodies_type(bodies: Sequence[str]) -> str:
    names = " | ".join(f'"{b}"' for b in bodies)
    return (
        "/** For plans of your own: see docs/guide/exporting.md. */\n"
        f"export const bodies: Readonly<Record<{names}, Body>>;\n"
    )


def write(folder: Path, files: dict[str, str], *, force: bool = False) -> None:
    """Write the files; other files in the folder are kept.

    Raises ArgumentError, before anything is written, if a file to replace was not written by an
    export, or was changed after the export. A link at the place of a file, or on the path to it, is
    also an error. With `force`, such a file is replaced, and so is a link in its place.
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
    """The hashes of the files that an earlier export has written to the folder, from its
    manifest."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return {**manifest["files"], "manifest.json": ""}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _alien(folder: Path, name: str, text: str, ours: dict[str, str]) -> str:
    """The reason why a file or link must not be replaced by a file of the export; "" if it may
    be."""
    path = folder / name
    links = [p for p in (path, *path.parents) if p.is_symlink() and p.is_relative_to(folder)]
    if any(p != folder for p in links):
        return f"{next(p for p in links if p != folder)} is a link"
    if not path.exists() or ours.get(name) == "":
        return ""
    if not path.is_file():
        return f"{path} is no file"
    data = path.read_bytes()
    known = {ours.get(name), sha256(text)}
    return "" if hashlib.sha256(data).hexdigest() in known else f"{path} is not from an export"
