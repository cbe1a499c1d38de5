"""What is to be validated: files, folders, or the installed collection."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ArgumentError
from ..texts import of_body, read_manifest
from ._types import Finding, Limits, Source, printable
from ._usage import without_comments

__all__ = ["MOST_BYTES", "Skipped", "collection", "fragments", "gather", "read_limits", "unique"]

# Larger texts are not checked: programs that write them know better, and Tint takes minutes.
MOST_BYTES = 5_000_000
_MOST_FUNCTIONS = 20_000

# Folders that hold other people's files, or none at all.
_LEAVE = {"node_modules", "__pycache__", "site-packages", "target"}
_FUNCTION = re.compile(r"\bfn\s")
# What stands where WGSL has no such text: shader sources are often templates.
_TEMPLATES = (
    ("jinja", re.compile(r"\{\{|\{%|\{\$|\{#|^[ \t]*\$\$", re.MULTILINE)),
    ("${}", re.compile(r"\$\{")),
    ("directives of a preprocessor", re.compile(r"^[ \t]*#[ \t]*[a-z_]+", re.MULTILINE)),
)
_KERNEL = re.compile(r"\A//[ \t]*///[ \t]*kernel\b|^[ \t]*//%", re.MULTILINE)
_ENTRY = re.compile(r"@(compute|vertex|fragment)\b")
# How naga and Tint say that a text is a piece of another one.
_MISSING = re.compile(
    r"(?:no definition in scope for identifier: |unresolved [\w ]+ )['`](\w+)['`]"
)
_OUTSIDE = re.compile(r"statement found outside of function body|expected global item")
# WebGPU's names of the limits that the lints know.
_LIMITS = {
    "maxComputeWorkgroupStorageSize": "max_workgroup_storage",
    "maxComputeInvocationsPerWorkgroup": "max_invocations",
    "maxStorageBuffersPerShaderStage": "max_storage_buffers",
    "maxComputeWorkgroupSizeX": "max_size_x",
    "maxComputeWorkgroupSizeY": "max_size_y",
    "maxComputeWorkgroupSizeZ": "max_size_z",
    "maxBindGroups": "max_bind_groups",
    "maxBindingsPerBindGroup": "max_bindings",
    "maxUniformBuffersPerShaderStage": "max_uniform_buffers",
    "maxSampledTexturesPerShaderStage": "max_textures",
    "maxSamplersPerShaderStage": "max_samplers",
    "maxStorageTexturesPerShaderStage": "max_storage_textures",
}
# Limits that no text can break: a file may be a dump of all limits of a device.
_OTHERS = {
    "maxTextureDimension1D", "maxTextureDimension2D", "maxTextureDimension3D",
    "maxTextureArrayLayers", "maxBindGroupsPlusVertexBuffers", "maxImmediateSize",
    "maxDynamicUniformBuffersPerPipelineLayout", "maxDynamicStorageBuffersPerPipelineLayout",
    "maxUniformBufferBindingSize", "maxStorageBufferBindingSize", "maxVertexBuffers",
    "minUniformBufferOffsetAlignment", "minStorageBufferOffsetAlignment", "maxBufferSize",
    "maxVertexAttributes", "maxVertexBufferArrayStride", "maxInterStageShaderVariables",
    "maxColorAttachments", "maxColorAttachmentBytesPerSample",
    "maxComputeWorkgroupsPerDimension", "maxInterStageShaderComponents",
    "maxStorageBuffersInVertexStage", "maxStorageBuffersInFragmentStage",
    "maxStorageTexturesInVertexStage", "maxStorageTexturesInFragmentStage",
}  # fmt: skip


@dataclass(frozen=True)
class Skipped:
    """A file that is no WGSL as it stands."""

    file: str
    reason: str


def gather(
    paths: Iterable[str | Path], limits: Limits | None = None, stdin: bytes = b""
) -> tuple[list[Source], list[Skipped], list[Finding]]:
    """The texts under files and folders, each once, and those that cannot be checked.

    A folder stands for its ``*.wgsl`` files, hidden folders left out, and ``-`` for `stdin`. A
    file that cannot be read, or is too large, is an error of that file. ArgumentError if there is
    nothing of a name.
    """
    sources: list[Source] = []
    skipped: list[Skipped] = []
    findings: list[Finding] = []
    seen: set[str] = set()
    for path in map(Path, paths):
        if str(path) != "-" and not os.path.lexists(path):
            raise ArgumentError(
                f"[validate] {path.as_posix()} cannot be read: there is no such file"
            )
        for file in _files(path) if path.is_dir() else [path]:
            real = os.path.realpath(file)
            if real in seen:
                continue
            seen.add(real)
            name = "<stdin>" if str(file) == "-" else _name(file)
            try:
                text = _text(stdin if str(file) == "-" else _read(file))
                _refuse_large(text)
            except _Unfit as e:
                message = str(e)
                findings.append(Finding(name, 1, 1, "error", message, "file", "", message))
                continue
            if kind := _template(text):
                skipped.append(Skipped(name, f"a template ({kind}): render it first"))
            else:
                sources.append(Source(name, text, limits))
    return sources, skipped, findings


class _Unfit(Exception):
    """Why a file cannot be checked."""


def _name(file: Path) -> str:
    """A file's name as it can be printed: file systems know more than UTF-8 does."""
    return printable(file.as_posix().encode(errors="backslashreplace").decode())


def _read(file: Path) -> bytes:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise _Unfit("no regular file (- reads standard input)")
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as e:
        if e.errno == errno.ENOENT and file.is_symlink():
            raise _Unfit("a link to nothing") from None
        raise _Unfit(f"cannot be read: {e.strerror}") from None


def _text(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise _Unfit(f"more than {MOST_BYTES / 1e6:g} MB: not checked")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise _Unfit(f"no UTF-8 in line {line} (byte {e.start})") from None


def _refuse_large(text: str) -> None:
    functions = len(_FUNCTION.findall(text))
    if functions > _MOST_FUNCTIONS:
        raise _Unfit(f"{functions:,} functions, more than {_MOST_FUNCTIONS:,}: not checked")


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _LEAVE and not f.startswith("."))
        for name in sorted(files):
            if name.endswith(".wgsl"):
                yield Path(root, name)


def _template(text: str) -> str:
    """The kind of template that a text is, "" for plain WGSL."""
    if _KERNEL.search(text):
        return "a kernel source of pykernels"
    code = without_comments(text)
    return next((kind for kind, pattern in _TEMPLATES if pattern.search(code)), "")


def collection(limits: Limits | None = None) -> list[Source]:
    """Every text of the installed kernels, each once, with the limits that it declares."""
    try:
        variants = read_manifest()["variants"]
    except FileNotFoundError:
        return []
    sources: dict[tuple[str, tuple[str, ...]], Source] = {}
    for name, entry in variants.items():
        text = of_body(entry["body"])[name.partition(" ")[2]]
        own = limits or Limits(**entry["limits"])
        sources.setdefault(text, Source(name, text.wgsl, own, text.features))
    return list(sources.values())


def read_limits(value: str) -> Limits:
    """``webgpu`` (the guaranteed ones), or a JSON or TOML file of limits by WebGPU's names.

    Names may be those of ``GPUDevice.limits`` in JavaScript or in wgpu (``max-bind-groups``).
    What the file does not name is as in WebGPU.
    """
    if value == "webgpu":
        return Limits()
    path = Path(value)
    try:
        text = _text(_read(path))
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (_Unfit, ValueError, RecursionError) as e:
        raise ArgumentError(
            f"[validate] limits must be webgpu, or a JSON or TOML file, but {value} is none: {e}"
        ) from None
    if not isinstance(table, dict):
        raise ArgumentError(f"[validate] limits in {value} must be a table of names and numbers")
    known = {name.lower(): field for name, field in _LIMITS.items()}
    others = {name.lower() for name in _OTHERS}
    given: dict[str, int] = {}
    for name, number in table.items():
        plain = str(name).replace("-", "").replace("_", "").lower()
        if plain not in known and plain not in others:
            raise ArgumentError(f"[validate] {value}: WebGPU has no limit {name!r}")
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise ArgumentError(f"[validate] {value}: {name} must be a number but is {number!r}")
        if plain in known:
            given[known[plain]] = number
    return replace(Limits(), **given)


def unique(sources: Sequence[Source]) -> dict[Source, list[Source]]:
    """Sources by the first one with the same text, limits and features."""
    first: dict[tuple[object, ...], Source] = {}
    groups: dict[Source, list[Source]] = {}
    for s in sources:
        one = first.setdefault((s.text, s.limits, s.features), s)
        groups.setdefault(one, []).append(s)
    return groups


def fragments(
    sources: Sequence[Source], findings: Sequence[Finding]
) -> tuple[list[Finding], list[Skipped]]:
    """Findings without those on fragments, and the fragments.

    A fragment is a text without an entry point of which the compilers say no more than that it
    uses names which it does not define, or that it has statements outside functions.
    """
    by_source: dict[str, list[Finding]] = {}
    for f in findings:
        by_source.setdefault(f.source, []).append(f)
    skipped: list[Skipped] = []
    for s in sources:
        if _ENTRY.search(s.text):
            continue
        errors = [f for f in by_source.get(s.name, ()) if f.severity == "error"]
        needs = [_MISSING.search(f.message) for f in errors]
        if not errors or not all(
            m or _OUTSIDE.search(f.message) for m, f in zip(needs, errors, strict=True)
        ):
            continue
        names = ", ".join(sorted({m[1] for m in needs if m}))
        what = f"names not defined here: {names}" if names else "statements outside functions"
        skipped.append(Skipped(s.name, f"a fragment without an entry point ({what})"))
        del by_source[s.name]
    return [f for f in findings if f.source in by_source], skipped
