"""The features that a text needs: the features that it enables, and the features that its storage
formats need.

No `enable` directive names the features of storage formats, and compilers do not require all of
them, so this module finds them by the types.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ..contract import F16
from ..errors import ArgumentError
from ._lints import ENABLE, SUBGROUP
from ._types import Finding, Source
from ._usage import measure

__all__ = ["FORMATS", "lacking", "read_features"]

_BGRA, _TIER_1, _TIER_2 = "bgra8unorm-storage", "texture-formats-tier1", "texture-formats-tier2"
FORMATS = (_BGRA, _TIER_1, _TIER_2)
# Features that have another name in `enable`: the feature by that name. All other features have the
# same name, but with dashes in place of underscores.
_OF_NAMES = {F16.word: F16.name}
_FEATURES = {
    "bgra8unorm-storage", "clip-distances", "core-features-and-limits", "depth-clip-control",
    "depth32float-stencil8", "dual-source-blending", "float32-blendable", "float32-filterable",
    "indirect-first-instance", "primitive-index", "rg11b10ufloat-renderable", "shader-f16",
    "subgroups", "subgroup-size-control", "texture-component-swizzle", "texture-compression-astc",
    "texture-compression-astc-sliced-3d", "texture-compression-bc",
    "texture-compression-bc-sliced-3d", "texture-compression-etc2", "texture-formats-tier1",
    "texture-formats-tier2", "timestamp-query",
}  # fmt: skip
_STORAGE = re.compile(r"texture_storage_\w+\s*<\s*(\w+)\s*,\s*(\w+)\s*,?\s*>")
# Storage formats of every device, formats that every device reads and writes, formats that tier 2
# reads and writes, and formats of tier 1.
_PLAIN = {
    *("rgba8unorm", "rgba8snorm", "rgba8uint", "rgba8sint", "rgba16uint", "rgba16sint"),
    *("rgba16float", "r32uint", "r32sint", "r32float", "rg32uint", "rg32sint", "rg32float"),
    *("rgba32uint", "rgba32sint", "rgba32float"),
}
_READ_WRITE = {"r32uint", "r32sint", "r32float"}
_BOTH_BY_TIER_2 = {
    *("rgba8unorm", "rgba8uint", "rgba8sint", "rgba16uint", "rgba16sint", "rgba16float"),
    *("rgba32uint", "rgba32sint", "rgba32float", "r8unorm", "r8uint", "r8sint", "r16uint"),
    *("r16sint", "r16float"),
}
_BY_TIER_1 = re.compile(
    r"(?:r|rg)(?:8|16)(?:unorm|snorm|uint|sint)|rgba16[us]norm|(?:r|rg)16float"
    r"|rgb10a2(?:unorm|uint)|rg11b10ufloat"
)


def read_features(text: str) -> frozenset[str]:
    """The names in ``shader-f16,bgra8unorm-storage`` or ``none``; ArgumentError for other names."""
    names = frozenset(n for n in (part.strip() for part in text.split(",")) if n and n != "none")
    for name in sorted(names):
        if name not in _FEATURES and not name.startswith(("chromium-", "wgpu-")):
            known = ", ".join(sorted(_FEATURES))
            raise ArgumentError(
                f"[validate] features must be features of WebGPU ({known}), or begin with "
                f"chromium- or wgpu-, but one is {name!r}"
            )
    return names | ({_TIER_1} if _TIER_2 in names else set())


def lacking(sources: Sequence[Source], features: Collection[str] | None) -> list[Finding]:
    """An error for each feature that a text needs and the device lacks.

    `features` are the device's features. None means that the device has exactly the features that
    the text enables.
    """
    found = []
    for source in sources:
        said: set[str] = set()
        for feature, what, at in _needed(source, features is not None):
            if feature in said or feature in (features or ()):
                continue
            said.add(feature)
            message = f"{what} needs the feature {feature}, which --features does not name"
            place = measure(source.text, source.overrides).places.of(at)
            found.append(Finding(source.name, *place, "error", message, "features", "", message))
    return found


def _needed(source: Source, enabled: bool) -> Iterator[tuple[str, str, int]]:
    """The features of storage formats and, if `enabled`, of `enable` directives: each feature with
    the construct that needs it and the construct's index in the text."""
    usage = measure(source.text, source.overrides)
    if enabled:
        for m in ENABLE.finditer(usage.code):
            for name in (n.strip() for n in m[1].split(",")):
                if name:
                    feature = _OF_NAMES.get(name, name.replace("_", "-"))
                    yield feature, f"enable {name}", m.start()
        for name in source.features:
            yield name, "this text", 0
        # naga's dialect has no directive for subgroups, so this looks for subgroup functions
        if used := SUBGROUP.search(usage.code):
            yield "subgroups", used[0].rstrip("( "), used.start()
    for m in _STORAGE.finditer(usage.code):
        if feature := _of_format(m[1], m[2]):
            yield feature, f"{m[2]} access to {m[1]}", m.start()


def _of_format(name: str, access: str) -> str | None:
    if access == "read_write":
        plain = name in _READ_WRITE or name not in _BOTH_BY_TIER_2
        return None if plain else _TIER_2
    if name == "bgra8unorm":
        return _BGRA if access == "write" else None
    return _TIER_1 if name not in _PLAIN and _BY_TIER_1.fullmatch(name) else None
