"""The inputs and results of a validator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

from pykernels.contract import COOPERATIVE_MATRIX, SUBGROUP_MATRIX

Severity: TypeAlias = Literal["error", "warning", "note"]
Target: TypeAlias = Literal["spv", "msl", "hlsl", "glsl"]
TARGETS: tuple[Target, ...] = get_args(Target)
# The code of findings on constructs that a compiler lacks; they are no errors of the text.
LACKS = "lacks"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Limits:
    """The limits that a shader declares as its needs; the defaults are the limits that WebGPU
    guarantees."""

    max_workgroup_storage: int = 16384  # bytes of workgroup memory
    max_invocations: int = 256  # invocations of a workgroup
    max_storage_buffers: int = 8  # storage buffers of a shader stage
    max_size_x: int = 256  # invocations of a workgroup along x
    max_size_y: int = 256
    max_size_z: int = 64
    max_bind_groups: int = 4
    max_bindings: int = 1000  # bindings of a bind group; binding numbers are below this number
    max_uniform_buffers: int = 12  # uniform buffers of a shader stage
    max_textures: int = 16
    max_samplers: int = 16
    max_storage_textures: int = 4


@dataclass(frozen=True)
class Source:
    """One WGSL text under a readable, unique name, such as ``softmax T=f16 WG=256``.

    Without ``limits``, a use beyond the guaranteed limits is reported as a note. ``features`` are
    features that the compiler must enable. With ``subgroups``, for example, Tint gets a text that
    begins with ``enable subgroups;``.
    ``overrides`` are pairs of a name, or the number of an ``@id``, and a value ("64", "true"), for
    pipelines and translations; names that do not occur in the text are ignored.
    """

    name: str
    text: str
    limits: Limits | None = None
    features: tuple[str, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Finding:
    """One finding about a source; ``line`` and ``column`` count from 1 (both are 1 if unknown)."""

    source: str
    line: int
    column: int
    severity: Severity
    message: str  # a message of one line
    validator: str  # "naga", "tint", "naga, tint" if both report it, "lint", "features", or "file"
    code: str = ""  # a lint ("PK001"), a failed translation ("translate-msl"), "timeout", "lacks"
    detail: str = ""  # the whole output of the validator

    def __str__(self) -> str:
        label = f"{self.validator} {self.code}".rstrip()
        where = f"{self.source}:{self.line}:{self.column}"
        return printable(f"{where}: {self.severity}: {self.message} [{label}]")


# For each compiler, the name that only the other compiler has for the feature of matrix units. The
# compiler cannot check texts with this name.
_UNKNOWN = {"naga": SUBGROUP_MATRIX.name, "tint": COOPERATIVE_MATRIX.name}


def knows(validator: str, source: Source) -> bool:
    """True if this validator can check the text, because the text is in its dialect."""
    return _UNKNOWN.get(validator) not in source.features


def printable(text: str) -> str:
    """A text with escapes in place of its control characters, for a terminal."""
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", text)


class Validator(Protocol):
    """A tool that checks texts."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def check(self, sources: Sequence[Source]) -> list[Finding]: ...
