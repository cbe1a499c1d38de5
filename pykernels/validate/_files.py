"""The texts to validate: files, folders, or the installed collection."""

from __future__ import annotations

import errno
import fnmatch
import json
import os
import re
import stat
import tomllib
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pykernels.wgsl.texts import Text, of_body, read_manifest

from ..errors import ArgumentError
from ._types import Finding, Limits, Source, printable
from ._usage import Places, without_comments

__all__ = [
    "MOST_BYTES",
    "Skipped",
    "collection",
    "fragments",
    "gather",
    "read_limits",
    "templates",
    "unique",
]

# Larger texts are not checked, because Tint takes minutes for them.
MOST_BYTES = 5_000_000
_MOST_FUNCTIONS = 20_000

# Folders whose files belong to other projects, or that hold no sources. A folder `target` is left
# out only if it stands beside a Cargo.toml.
_LEAVE = {"node_modules", "__pycache__", "site-packages"}
_FUNCTION = re.compile(r"\bfn\s")
# Marks of templates. Shader sources are often templates, which are not WGSL.
_TEMPLATES = (
    ("jinja", re.compile(r"\{\{|\{%|\{\$|\{#|^[ \t]*\$\$", re.MULTILINE)),
    ("${}", re.compile(r"\$\{")),
    (
        "directives of a preprocessor",
        re.compile(
            r"^[ \t]*#[ \t]*(?:import|define_import_path|if|ifdef|ifndef|else|elif|endif|define"
            r"|include|undef)\b",
            re.MULTILINE,
        ),
    ),
)
_CLOSED_BY = {"{{": "}}", "{%": "%}", "${": "}", "{#": "#}", "{$": "}"}
_SPEAK = ("naga", "tint", "naga, tint")
_KERNEL = re.compile(r"\A//[ \t]*///[ \t]*kernel\b|^[ \t]*//%", re.MULTILINE)
_ENTRY = re.compile(r"@(compute|vertex|fragment)\b")
# The messages by which naga and Tint show that a text is only a part of a module.
_MISSING = re.compile(
    r"(?:no definition in scope for identifier: |unresolved [\w ]+ )['`](\w+)['`]"
)
_OUTSIDE = re.compile(r"statement found outside of function body|expected global item")
# WebGPU's names of the limits that the lints check.
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
# Limits that no text can break; they are accepted, because a file may list all limits of a device.
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
    """A file that is not checked, because it is not complete WGSL, such as a template."""

    file: str
    reason: str


def gather(
    paths: Iterable[str | Path],
    limits: Limits | None = None,
    stdin: bytes = b"",
    exclude: Sequence[str] = (),
    left_out: list[str] | None = None,
) -> tuple[list[Source], list[Skipped], list[Finding]]:
    """The texts of files and folders, each once, and the texts that cannot be checked.

    A folder stands for its ``*.wgsl`` files and ``-`` for `stdin`. Names that match a pattern of
    `exclude` are skipped. Folders that are hidden, that are links, or that hold files of other
    projects are skipped and added to `left_out`. A file that cannot be read, or is too large, gets
    an error. ArgumentError if a path does not exist.
    """
    left_out = [] if left_out is None else left_out
    sources: list[Source] = []
    skipped: list[Skipped] = []
    findings: list[Finding] = []
    seen: set[str] = set()
    for path in map(Path, paths):
        if str(path) != "-" and not os.path.lexists(path):
            raise ArgumentError(
                f"[validate] {path.as_posix()} cannot be read: there is no such file"
            )
        for file in _files(path, exclude, left_out) if path.is_dir() else [path]:
            if _matches(file, exclude):
                continue
            real = os.path.realpath(file)
            if real in seen:
                continue
            seen.add(real)
            name = "<stdin>" if str(file) == "-" else _name(file)
            try:
                data = stdin if str(file) == "-" else _read(file)
                if data.startswith(BOM_UTF8):
                    raise _Unfit("begins with a byte order mark, which compilers refuse")
                text = _text(data)
                _refuse_large(text)
            except _Unfit as e:
                message = str(e)
                findings.append(Finding(name, 1, 1, "error", message, "file", "", message))
                continue
            if _KERNEL.search(text):
                kind = "a kernel source of pykernels"
                skipped.append(Skipped(name, f"a template ({kind}): render it first"))
            elif not without_comments(text).strip():
                message = "nothing in it but blanks and comments: no shader"
                findings.append(Finding(name, 1, 1, "error", message, "file", "", message))
            else:
                sources.append(Source(name, text, limits))
    return sources, skipped, findings


class _Unfit(Exception):
    """Raised with the reason if a file cannot be checked."""


def _name(file: Path) -> str:
    """A printable name of a file, whose own name may not be UTF-8."""
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


def _files(folder: Path, exclude: Sequence[str], left_out: list[str]) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        kept = []
        for name in sorted(folders):
            path = Path(root, name)
            if _matches(path, exclude):
                continue
            cargo = name == "target" and Path(root, "Cargo.toml").is_file()
            if cargo or name in _LEAVE or name.startswith(".") or path.is_symlink():
                left_out.append(_name(path))
            else:
                kept.append(name)
        folders[:] = kept
        for name in sorted(files):
            if name.lower().endswith(".wgsl"):
                yield Path(root, name)


def _matches(path: Path, patterns: Sequence[str]) -> bool:
    """True if a pattern matches the path, its name, or one of its folders."""
    name = path.as_posix()
    return any(
        fnmatch.fnmatch(n, p)
        # Path removes a leading ./ and a trailing /
        for p in (Path(p).as_posix() for p in patterns)
        for n in (name, path.name, *(f.as_posix() for f in path.parents))
    )


def templates(
    sources: Sequence[Source], findings: Sequence[Finding], compilers: Collection[str]
) -> tuple[list[Finding], list[Skipped]]:
    """The findings, but not the findings on templates; and the templates.

    A template has marks (``{{``, ``#import``, …) and does not compile: the first error of each
    compiler is at a mark or inside it. Without compilers, every text with marks is a template.
    """
    errors: dict[str, dict[str, tuple[int, int]]] = {}
    for f in findings:  # findings are in the order of lines
        if f.severity == "error" and f.validator in _SPEAK and not f.code:
            errors.setdefault(f.source, {}).setdefault(f.validator, (f.line, f.column))
    skipped: list[Skipped] = []
    for s in sources:
        if s.name not in errors and compilers:
            continue
        marks = _marks(s.text)
        if marks and all(_within(marks, *at) for at in errors.get(s.name, {}).values()):
            skipped.append(Skipped(s.name, f"a template ({marks[0][2]}): render it first"))
    names = {s.file for s in skipped}
    return [f for f in findings if f.source not in names], skipped


_Place: TypeAlias = tuple[int, int]


def _marks(text: str) -> list[tuple[_Place, _Place, str]]:
    """The start, end and kind of each mark of a template, in order."""
    code = without_comments(text)
    places = Places(code)
    found: list[tuple[_Place, _Place, str]] = []
    for kind, pattern in _TEMPLATES:
        end = 0
        for m in pattern.finditer(code):
            if m.start() < end:
                continue
            opening = m[0].strip()
            closing = _CLOSED_BY.get(opening, "\n")
            end = code.find(closing, m.end())
            end = len(code) if end < 0 else end + len(closing)
            # In `array<{{T}}>` a compiler reports the text before the mark, so it is included.
            start = m.end() - len(opening)
            before = code[max(0, start - 8) : start]
            start -= len(before) - len(before.rstrip(" <(,=+-*/"))
            found.append((places.of(start), places.of(end), kind))
    return sorted(found)


def _within(marks: Sequence[tuple[_Place, _Place, str]], line: int, column: int) -> bool:
    return any(start <= (line, column) <= end for start, end, _ in marks)


def collection(limits: Limits | None = None) -> list[Source]:
    """Every text of the installed kernels, each once, with the limits that it declares."""
    try:
        variants = read_manifest()["variants"]
    except FileNotFoundError:
        return []
    sources: dict[Text, Source] = {}
    for name, entry in variants.items():
        text = of_body(entry["body"])[name.partition(" ")[2]]
        own = limits or Limits(**entry["limits"])
        sources.setdefault(text, Source(name, text.wgsl, own, text.features))
    return list(sources.values())


def read_limits(value: str) -> Limits:
    """``webgpu`` (the guaranteed limits), or a JSON or TOML file of limits by WebGPU's names.

    Names may be spelled as in JavaScript's ``GPUDevice.limits`` or as in wgpu
    (``max-bind-groups``). Limits that the file does not name have WebGPU's guaranteed values.
    """
    if value == "webgpu":
        return Limits()
    path = Path(value)
    try:
        text = _text(_read(path))
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (_Unfit, ValueError, RecursionError) as e:
        raise ArgumentError(
            f"[validate] limits must be webgpu, or a JSON or TOML file, but {value} is neither: {e}"
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
    """The sources in groups of equal text, limits, features and overrides; the key of a group is
    its first source."""
    first: dict[tuple[object, ...], Source] = {}
    groups: dict[Source, list[Source]] = {}
    for s in sources:
        one = first.setdefault((s.text, s.limits, s.features, s.overrides), s)
        groups.setdefault(one, []).append(s)
    return groups


def fragments(
    sources: Sequence[Source], findings: Sequence[Finding]
) -> tuple[list[Finding], list[Skipped]]:
    """The findings, but not the findings on fragments; and the fragments.

    A fragment is a text without an entry point whose only errors are that it uses names which it
    does not define, or that it has statements outside functions.
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
