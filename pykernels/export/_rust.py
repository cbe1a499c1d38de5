"""Writes a crate that runs kernels on the crate `wgpu`. It contains plans as syntax trees and
evaluates them."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pykernels._version import __version__
from pykernels.contract import DTYPES, F16, GRID_MAX, GRID_ROW, PARAMS_BYTES, SUBGROUPS, UNITS
from pykernels.errors import ArgumentError, either
from pykernels.tuning import as_data, load
from pykernels.wgsl.texts import read_manifest

from ._expressions import spec_expression
from ._record import DEFAULT_TUNING
from ._translate import Module
from ._write import (
    Export,
    Watch,
    bundles,
    generated,
    plan_of,
    plan_trees,
    sha256,
    static,
    variants_of,
)

__all__ = ["collect_crate"]

# The keys of a body's `step` data that hold expressions (codegen/javascript.py).
_OF_TENSORS = ("vec", "bind", "when", "index")
_KEYWORDS = {
    "as", "async", "await", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct",
    "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where",
    "while", "yield",
}  # fmt: skip


def collect_crate(
    names: Sequence[str],
    dtypes: Sequence[str],
    *,
    tuning: str = DEFAULT_TUNING,
    watch: Watch = lambda label, items: items,
) -> Export:
    """The crate of these kernels, whose plans accept tensors of any layout. It has all variants, or
    only the variants of `dtypes` (short names), and its plans use the tuning table `tuning`.

    ArgumentError if the plan of a kernel is not translated: a crate has no recorded plans.
    """
    table, source, built = load(tuning), generated(), read_manifest()
    modules: dict[str, Module] = {}
    kernels: dict[str, Any] = {}
    bodies: set[str] = set()
    variants: set[str] = set()
    for name in names:
        own = source["kernels"][name]
        found = plan_trees(own)
        if found is None:
            raise ArgumentError(
                f"[export] {name}: its plan is not translated, and a crate has no recorded plans"
            )
        modules |= found
        of, texts = variants_of(built, source, name, dtypes)
        bodies |= {*of}
        variants |= {*texts}
        kernels[name] = _kernel(own)
    told = {b: _body(source["bodies"][b]["step"]) for b in sorted(bodies)}
    files = {f"data/{name}": t for name, t in bundles(built, sorted(variants), watch).items()}
    texts = sorted(b for b in told if f"data/wgsl/{b}.json" in files)
    files |= {
        "data/plans.json": _json({name: _module(m) for name, m in sorted(modules.items())}),
        "data/bodies.json": _json(told),
        "data/kernels.json": _json(kernels),
        "data/tuning.json": _json(as_data(table)),
        "src/contract.rs": _contract(texts),
        "src/kernels.rs": _functions(names, source["kernels"]),
        "Cargo.toml": static("crate/Cargo.toml"),
        "LICENSE": static("LICENSE"),
    }
    folder = importlib.resources.files("pykernels.export") / "crate" / "src"
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        files[f"src/{file.name}"] = file.read_text(encoding="utf-8")
    manifest = {
        "format": 1,
        "generator": f"pykernels {__version__}",
        "license": "MIT",
        "kernels": sorted(names),
        "tuning": table.name,
        "files": {n: sha256(files[n]) for n in sorted(files)},
    }
    files["manifest.json"] = json.dumps(manifest, indent=1) + "\n"
    return Export(files, manifest, sorted(variants), [])


def _json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False) + "\n"


def _module(of: Module) -> dict[str, Any]:
    return {"names": of.names, "body": of.body}


def _kernel(own: dict[str, Any]) -> dict[str, Any]:
    """A kernel's entry of data/kernels.json."""
    return {
        "tensors": own["tensors"],
        "scalars": own["scalars"],
        "options": own["options"],
        "of": own["of"],
        # True if kernels share the plan, which then gets the name of the kernel
        "named": bool(own["plan"]),
        "module": plan_of(own) if own["planned"] else "",
        "body": own["body"],
        "fixed_axes": list(own["fixed_axes"].items()),
    }


def _body(step: Mapping[str, Any]) -> dict[str, Any]:
    """A body's entry in data/bodies.json, with expressions as trees."""

    def tree(text: str) -> Any:
        return spec_expression(text) if text else None

    space = step["space"]
    return {
        **step,
        "tensors": [
            {k: tree(v) if k in _OF_TENSORS else v for k, v in t.items()} for t in step["tensors"]
        ],
        "space": space and {**space, "of": tree(space["of"])},
        "axes": [[name, tree(pick)] for name, pick in step["axes"]],
        "values": [[kind, tree(text)] for kind, text in step["values"]],
        "groups": tree(step["groups"]),
    }


def _contract(texts: Iterable[str]) -> str:
    """src/contract.rs: the facts of pykernels/contract.py, and the files of texts."""
    dtypes = [
        f'    DType {{ name: "{n}", short: "{s}", itemsize: {size}, kind: "{k}" }},'
        for n, s, size, k, _ in DTYPES
    ]
    units = [f'    ("{name}", {size}),' for name, size in UNITS.items()]
    found = [f'        "{b}" => Some(include_str!("../data/wgsl/{b}.json")),' for b in texts]
    return "\n".join(
        [
            "//! Facts that this crate shares with pykernels; written by the export.",
            "",
            "use crate::layout::DType;",
            "",
            f"pub const PARAMS_BYTES: usize = {PARAMS_BYTES};",
            f"pub const GRID_ROW: i128 = {GRID_ROW};",
            f"pub const GRID_MAX: i128 = {GRID_MAX};",
            f'pub const FEATURES: [&str; 2] = ["{F16.name}", "{SUBGROUPS.name}"];',
            f"pub const UNITS: [(&str, i128); {len(units)}] = [", *units, "];",
            f"pub static DTYPES: [DType; {len(dtypes)}] = [", *dtypes, "];",
            "",
            "/// The file with the texts of a body.",
            "pub fn texts_of(body: &str) -> Option<&'static str> {",
            "    match body {", *found, "        _ => None,", "    }", "}", "",
        ]
    )  # fmt: skip


# -- functions ------------------------------------------------------------------------------------


def _functions(names: Iterable[str], source: Mapping[str, Any]) -> str:
    """src/kernels.rs: a function for each kernel; its result has methods for optional arguments."""
    head = (
        "//! A function for each kernel: tensors first, optional arguments by the methods of its\n"
        "//! result, which [`crate::Gpu::prepare`] takes.\n\n"
        "use crate::{Arguments, Choice, Number, Tensor};\n"
    )
    return "\n".join([head, *(_function(name, source[name]) for name in names)])


def _function(name: str, own: Mapping[str, Any]) -> str:
    title = "".join(part.capitalize() for part in name.split("_")) + "Arguments"
    inputs = [t for t in own["tensors"] if not t["optional"]]
    free = [s for s in own["scalars"] if "fixed" not in s]
    needed = [s for s in free if "default" not in s]
    params = [f"{_safe(t['name'])}: &Tensor" for t in inputs]
    params += [f"{_safe(s['name'])}: impl Into<Number>" for s in needed]
    made = [f'.tensor("{t["name"]}", {_safe(t["name"])})' for t in inputs]
    made += [f'.scalar("{s["name"]}", {_safe(s["name"])}.into())' for s in needed]
    lines = [*_doc(own["doc"]), f"pub fn {_safe(name)}({', '.join(params)}) -> {title} {{"]
    lines += [
        f'    {title}(Arguments::new("{name}")',
        *(f"        {m}" for m in made),
        "    )",
        "}",
    ]
    lines += ["", f"/// The arguments of [`{name}`].", "#[derive(Clone)]"]
    lines += [f"pub struct {title}(Arguments);", "", f"impl {title} {{"]
    for t in own["tensors"]:
        if t["optional"]:
            doc = f"{'An output' if t['role'] == 'out' else 'An input'}, {either(t['dtypes'])}."
            lines += _method(title, t["name"], doc, "&Tensor", f'tensor("{t["name"]}", {{}})')
    for s in free:
        if "default" in s:
            doc = f"Default: {_show(s['default'])}."
            kind, call = "impl Into<Number>", f'scalar("{s["name"]}", {{}}.into())'
            lines += _method(title, s["name"], doc, kind, call)
    for o in own["options"]:
        doc = f"`{o['type']}` in Python. Default: {_show(o['default'])}."
        kind, call = "impl Into<Choice>", f'option("{o["name"]}", {{}}.into())'
        lines += _method(title, o["name"], doc, kind, call)
    lines += ["}", "", f"impl AsRef<Arguments> for {title} {{"]
    lines += ["    fn as_ref(&self) -> &Arguments {", "        &self.0", "    }", "}", ""]
    return "\n".join(lines)


def _method(title: str, name: str, doc: str, kind: str, call: str) -> list[str]:
    own = _safe(name)
    return [
        f"    /// {doc}",
        f"    pub fn {own}(self, {own}: {kind}) -> {title} {{",
        f"        {title}(self.0.{call.format(own)})",
        "    }",
    ]


def _doc(text: str) -> list[str]:
    return [f"/// {line}".rstrip() for line in text.split("\n")]


def _show(value: Any) -> str:
    return "none" if value is None else json.dumps(value)


def _safe(name: str) -> str:
    return f"r#{name}" if name in _KEYWORDS else name
