"""pykernels doctor"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import platform
import re
import warnings
from typing import TYPE_CHECKING, Any

import click

from pykernels._version import __version__
from pykernels.contract import FEATURES
from pykernels.errors import SoftwareDeviceWarning

from . import Missing
from ._manifest import manifest, read, read_json

if TYPE_CHECKING:
    from pykernels.runtime.engine import Engine

__all__ = ["command"]

PACKAGES = {  # the packages of optional parts, each with the functions that need it
    "wgpu": "the engine wgpu",
    "wgpudawn": "the engine dawn; Tint for pykernels validate",
    "numpy": "all arrays",
    "click": "the command line",
    "ml_dtypes": "bfloat16 as numpy arrays",
    "jinja2": "pykernels build and new, load_kernels",
    "onnx": "networks from ONNX files",
    "gguf": "quantised weights from GGUF files",
}
LIMITS = (
    "max-buffer-size", "max-storage-buffer-binding-size", "min-storage-buffer-offset-alignment",
    "max-compute-workgroup-storage-size", "max-compute-invocations-per-workgroup",
    "max-compute-workgroups-per-dimension", "max-storage-buffers-per-shader-stage",
)  # fmt: skip


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the installed engines, adapters, validators and versions, and missing packages."""
    report = _report()
    click.echo(json.dumps(report, indent=1) if as_json else _text(report))
    if not report["adapters"]:
        ctx.exit(Missing.exit_code)


def _report() -> dict[str, Any]:
    engines = {name: _engine(name) for name in ("wgpu", "dawn")}
    adapters = [a for e in engines.values() for a in e.pop("adapters")]
    packages = {name: _version(name) for name in PACKAGES}
    validators = _validators()
    return {
        "pykernels": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "missing": _missing(packages, validators),
        "engines": engines,
        "adapters": adapters,
        "default_device": _default_device(),
        "validators": validators,
        "build": _build(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _missing(packages: dict[str, str | None], validators: dict[str, Any]) -> list[dict[str, str]]:
    """Missing packages, with their use and the command that installs them."""
    lines = [
        {"what": name, "gives": PACKAGES[name], "install": f"pip install '{_requirement(name)}'"}
        for name, version in packages.items()
        if version is None
    ]
    if validators["naga"] is None:
        how = "cargo install naga-cli --version 29.0.4 --locked"
        gives = "naga for pykernels validate; pykernels show --to"
        lines.append({"what": "naga-cli", "gives": gives, "install": how})
    return lines


def _requirement(package: str) -> str:
    """The package with the versions that pykernels requires, if pykernels lists it."""
    try:
        lines = importlib.metadata.requires("pykernels") or ()
    except importlib.metadata.PackageNotFoundError:
        # there are no requirements, because pykernels is not installed
        return package
    for line in lines:
        spec = line.partition(";")[0].strip()
        if re.match(rf"{package}\b", spec):
            return spec
    return package


def _engine(name: str) -> dict[str, Any]:
    """One engine's version and adapters, or the reason why it has none."""
    try:
        from pykernels.runtime.adapters import advice
        from pykernels.runtime.engine import get_engine
        from pykernels.runtime.matrix import allow

        engine = get_engine(name)
        if name == "dawn":
            allow(engine)  # because otherwise Dawn does not report matrix units
        found = [
            _adapter(engine, index, adapter) for index, adapter in enumerate(engine.adapters())
        ]
    except Exception as e:  # the report continues after any error of a driver
        return {"version": None, "problem": " ".join(str(e).split()), "adapters": []}
    problem = None if found else f"no adapter that this engine can use: {advice(engine)}"
    return {"version": engine.version, "problem": problem, "adapters": found}


def _adapter(engine: Engine, index: int, adapter: Any) -> dict[str, Any]:
    from pykernels.runtime.matrix import units_of

    info, features, units = adapter.info, engine.features(adapter), units_of(engine, adapter)
    return {
        "engine": engine.name,
        "index": index,
        "name": info["device"],
        "type": info["adapter_type"],
        "backend": info["backend_type"],
        "driver": info["description"],
        "features": [f.name for f in FEATURES if f.told and f.name in features],
        "limits": {k: adapter.limits[k] for k in LIMITS if k in adapter.limits},
        "tuning": _tuning(info, engine.name, adapter.limits),
        "matrix_units": list(units.described) if units else [],
    }


def _tuning(info: Any, engine: str, limits: Any) -> dict[str, str | None]:
    """The tuning table that a device of this adapter uses, and the reason for it; "ignored" has the
    reason why a measured table is not used."""
    from pykernels.errors import ArgumentError
    from pykernels.tuning import OFF, Adapter, for_adapter, path_of

    name, driver = info["device"], info["description"]
    off = path_of(Adapter(name, driver, engine))
    off = off.with_name(off.name + OFF)
    told: dict[str, str | None] = {"ignored": f"{off}: it is off"} if off.is_file() else {}
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = for_adapter(
                name, info["adapter_type"], driver=driver, engine=engine,
                workgroup_bytes=limits["max-compute-workgroup-storage-size"],
            )  # fmt: skip
    except ArgumentError as e:
        return {"name": None, "problem": str(e)}
    for warning in caught:
        told["ignored"] = str(warning.message)
    return {"name": found.tuning.name, "why": found.why, **told}


def _default_device() -> dict[str, Any]:
    """The device for numpy arguments, and the features of its adapter that it does not use."""
    try:
        from pykernels.device import default_device

        with warnings.catch_warnings():
            # the report shows the type of the device, so the warning is not needed
            warnings.simplefilter("ignore", SoftwareDeviceWarning)
            device = default_device()
        adapter = device._context.engine.features(device._context.raw.adapter)
        asked = (f.name for f in FEATURES if f.asked)
        off = [f for f in asked if f in adapter and f not in device.features]
        info = device.info
        return {"name": info["name"], "type": info["type"], "engine": device.engine, "off": off}
    except Exception as e:  # any error of a driver is caught, so that the report continues
        return {"name": None, "problem": " ".join(str(e).split())}


def _validators() -> dict[str, Any]:
    from pykernels.errors import ArgumentError
    from pykernels.validate import find_naga, find_tint

    try:
        naga = find_naga()
        found: dict[str, Any] = {"naga": naga and {"version": naga.version, "path": naga.path}}
    except ArgumentError as e:
        found = {"naga": None, "problem": str(e)}
    # Tint runs on its own null device, which needs only the package wgpudawn.
    tint = find_tint()
    return found | {"tint": tint and {"version": tint.version}}


def _build() -> dict[str, Any]:
    try:
        built = manifest()
    except Missing as e:
        return {"problem": e.message}
    try:
        verdict = read_json("validation.json")
    except Missing:
        verdict = {}
    # A build fails unless the validators accept all texts. The manifest has the hashes of the
    # texts, so the hash of the manifest shows if these texts were accepted.
    digest = hashlib.sha256(read("manifest.json").encode()).hexdigest()
    passed = verdict.get("manifest") == digest
    return {
        "generator": built["generator"],
        "kernels": len(built["kernels"]),
        "bodies": len(built["bodies"]),
        "variants": len(built["variants"]),
        "validated": len(built["variants"]) if passed else 0,
        "validated_with": verdict.get("validators", {}),
    }


def _text(r: dict[str, Any]) -> str:
    out = [f"pykernels {r['pykernels']}, Python {r['python']}, {r['platform']}"]
    out.append(", ".join(f"{k} {v or 'not installed'}" for k, v in r["packages"].items()))
    for name, e in r["engines"].items():
        out.append(f"\nengine {name}: {e['version'] or 'not available'}")
        if e["problem"]:
            out.append(f"  {e['problem']}")
        for a in (a for a in r["adapters"] if a["engine"] == name):
            out.append(f"  [{a['index']}] {a['name']} ({a['type']}, {a['backend']}, {a['driver']})")
            out.append(f"      features: {', '.join(a['features']) or 'none'}")
            out += [f"      {k}: {v}" for k, v in a["limits"].items()]
            t = a["tuning"]
            out.append(f"      tuning: {t['name'] or 'none'} ({t.get('why') or t['problem']})")
            out += [f"      tuning: {t['ignored']}"] if t.get("ignored") else []
            out += [f"      matrix units: {m}" for m in a["matrix_units"]]
    d = r["default_device"]
    if d["name"] is None:
        out.append(f"\ndefault device: none ({d['problem']})")
    else:
        off = f", off: {', '.join(d['off'])}" if d["off"] else ""
        on = ", on the CPU: no GPU was found" if d["type"] == "CPU" else ""
        out.append(f"\ndefault device: {d['name']}, engine {d['engine']}{off}{on}")
    v = r["validators"]
    for name in ("naga", "tint"):
        known = f"{v[name]['version']} {v[name].get('path', '')}" if v[name] else "not found"
        out.append(f"validator {name}: {known.rstrip()}")
    if "problem" in v:
        out.append(f"  {v['problem']}")
    out += [f"missing: {m['what']} ({m['gives']}): {m['install']}" for m in r["missing"]]
    b = r["build"]
    if "problem" in b:
        out.append(f"build: {b['problem']}")
    else:
        tools = ", ".join(f"{k} {n}" for k, n in b["validated_with"].items()) or "nothing"
        out.append(
            f"build: {b['kernels']} kernels, {b['bodies']} bodies, {b['variants']} variants; "
            f"{b['validated']} validated with {tools}"
        )
    return "\n".join(out)
