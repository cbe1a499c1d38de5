"""Tint, the shader compiler of Chromium, through wgpudawn's null backend: no GPU is needed."""

from __future__ import annotations

import functools
import logging
import operator
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from itertools import pairwise
from typing import Any

from pykernels.contract import SUBGROUP_MATRIX, SUBGROUPS

from ._apart import apart
from ._features import FORMATS
from ._lints import over_limits
from ._types import LACKS, Finding, Limits, Severity, Source
from ._usage import measure

_FEATURES = (
    "shader-f16",
    "subgroups",
    "subgroup-size-control",
    "clip-distances",
    "dual-source-blending",
    "primitive-index",
    "implicit-device-synchronization",
    # features without an `enable` directive; `_features` reports missing features of this kind
    *FORMATS,
    # features that exist only after `allow_experiments`
    SUBGROUP_MATRIX.name,
    "framebuffer-fetch",
)
_BACKEND = "WGPU_BACKEND_TYPE"
# Tint recurses along calls. Some texts larger than this overflow its stack, which ends the process.
_MOST_HERE = 100_000
_EXPERIMENT = re.compile(r"\benable\s[^;]*\bchromium_\w")
_SUBGROUPS = f"{SUBGROUPS.enable} "
_WANTS_SUBGROUPS = re.compile(r"(without|requires enabling) extension 'subgroups'")
# The message of a pipeline that exceeds the limits of the null device.
_OVER_LIMITS = re.compile(r"maximum allowed|maximum per-stage limit|infringes limits")
_HINT = re.compile(r"Did you mean ('[^'\n]*')\?")
_CYCLE = "cyclic dependency found"
_lock = threading.Lock()  # needed because the error scopes of a device form one stack


def find_tint() -> Tint | None:
    """Tint, if the package wgpudawn is installed and its null backend works; else None."""
    try:
        return Tint()
    except (ImportError, OSError, RuntimeError):
        return None


class Tint:
    """Tint as a validator.

    Besides the text, it checks a pipeline of each compute entry point on a device with WebGPU's
    default limits. If a source declares limits, a pipeline beyond the default limits is an error,
    unless the source declares higher limits and uses them.

    A text that uses subgroups without ``enable subgroups;``, the form that naga requires, gets a
    warning and is checked with the directive added.

    Texts that enable Chrome's experiments (``chromium_…``) need ``allow_unsafe_apis``, a toggle of
    the whole process. These texts are checked in separate processes, and all other texts without
    the toggle.
    """

    name = "tint"

    def __init__(self) -> None:
        import wgpudawn

        self.version = str(wgpudawn.__version__)
        _null_device(os.getpid())

    def check(self, sources: Sequence[Source]) -> list[Finding]:
        """All errors and warnings of each text, followed by the errors and warnings of its
        pipelines.

        Large texts are checked in separate processes: see `check_here`.
        """
        checker = {"name": self.name, "version": self.version, "targets": (), "ignore": ()}
        experiments = [s for s in sources if experimental(s.text)]
        plain = [s for s in sources if not experimental(s.text)]
        found = self.check_here([s for s in plain if len(s.text) <= _MOST_HERE])
        for s in plain:
            if len(s.text) > _MOST_HERE:
                found += apart(checker, [s])
        return found + (apart(checker, experiments) if experiments else [])

    def check_here(self, sources: Sequence[Source]) -> list[Finding]:
        """The same as `check`, but in this process, which ends if a text overflows Tint's stack."""
        with _lock:
            device = _null_device(os.getpid())
            return [finding for source in sources for finding in _check(device, source)]


def experimental(text: str) -> bool:
    """True if a text enables experimental features of Chrome, such as matrix units."""
    return _EXPERIMENT.search(text) is not None


def allow_experiments() -> None:
    """Let this process check experimental texts. Call it before wgpudawn's first adapter exists."""
    from wgpudawn.backends.dawn import extras

    extras.set_instance_extras(enable_toggles=["allow_unsafe_apis"])


@functools.lru_cache(maxsize=1)
def _null_device(pid: int) -> Any:
    """The null device of this process, with its own adapter.

    wgpudawn reads the backend from an environment variable only, and logs a warning about it.
    """
    import wgpudawn

    logger = logging.getLogger("wgpudawn")
    before, quiet = os.environ.get(_BACKEND), logger.disabled
    os.environ[_BACKEND], logger.disabled = "Null", True
    try:
        adapter = wgpudawn.gpu.request_adapter_sync()
    finally:
        logger.disabled = quiet
        if before is None:
            del os.environ[_BACKEND]
        else:
            os.environ[_BACKEND] = before
    if adapter.info["backend_type"] != "Null":
        raise RuntimeError(f"wgpudawn has no null backend here, but {adapter.summary}")
    return adapter.request_device_sync(
        required_features=[name for name in _FEATURES if name in adapter.features]
    )


def _check(device: Any, source: Source) -> Iterator[Finding]:
    ahead = _SUBGROUPS if "subgroups" in source.features else ""
    module, error, messages = _compiled(device, ahead + source.text)
    wants = [m for m in messages if m.type == "error" and _WANTS_SUBGROUPS.search(m.message)]
    if wants and not ahead:
        place = (wants[0].line_num or 1, max(wants[0].line_pos, 1))
        said = "Tint has no subgroup built-ins without `enable subgroups;`: checked with it"
        yield Finding(source.name, *place, "warning", said, Tint.name, LACKS, wants[0].message)
        ahead = _SUBGROUPS
        module, error, messages = _compiled(device, ahead + source.text)
    yield from _once_a_line(_once_a_cycle(_told(source, messages, len(ahead))))
    if error is None:
        yield from _pipelines(device, source, module)
    elif not any(message.type == "error" for message in messages):
        yield _refused(source, error, 1, 1)


def _compiled(device: Any, code: str) -> tuple[Any, Exception | None, list[Any]]:
    """A module, its error (None if it is valid), and the compiler's messages."""
    if code.lstrip().startswith("#version "):
        # without this, wgpudawn parses the text as GLSL, and raises an error
        code += "\n// @compute"
    device.push_error_scope("validation")
    module = device.create_shader_module(code=code)
    error = device.pop_error_scope_async().sync_wait()
    return module, error, list(module.get_compilation_info_async().sync_wait().messages)


def _told(source: Source, messages: Sequence[Any], ahead: int) -> Iterator[Finding]:
    """The findings of the messages; `ahead` characters come before the text."""
    lines = source.text.split("\n")
    starts = [index for index, message in enumerate(messages) if message.type != "info"]
    for start, end in pairwise([*starts, len(messages)]):
        first = messages[start]
        detail = "\n".join(
            f"{m.line_num}:{m.line_pos} {m.type}: {m.message}" for m in messages[start:end]
        )
        severity: Severity = "error" if first.type == "error" else "warning"
        shift = ahead if first.line_num == 1 else 0
        line = first.line_num or 1
        place = (line, _column(lines, line, max(first.line_pos - shift, 1)))
        message, _, more = first.message.partition("\n")
        hint = _HINT.match(more)
        message += f" (did you mean {hint[1]}?)" if hint else ""
        yield Finding(source.name, *place, severity, message, Tint.name, "", detail)


def _column(lines: Sequence[str], line: int, byte: int) -> int:
    """The column, in characters, of this byte of a line; both count from 1."""
    text = lines[line - 1] if line <= len(lines) else ""
    return len(text.encode()[: byte - 1].decode(errors="ignore")) + 1


def _once_a_line(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings without repeated "expected" errors on one line: after the first of them the
    parser has lost its place until the end of a statement."""
    lost = 0
    for f in findings:
        expected = f.severity == "error" and f.message.startswith("expected ")
        if not (expected and f.line == lost):
            yield f
        lost = f.line if expected else 0


def _once_a_cycle(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, with only the first of several cycles that share a declaration.

    Tint lists every cycle, and a few functions that call each other can have dozens.
    """
    seen: set[str] = set()
    for f in findings:
        names = set(re.findall(r"'([^']*)'", f.message)) if _CYCLE in f.message else set()
        if not names & seen:
            yield f
        seen |= names


def _pipelines(device: Any, source: Source, module: Any) -> Iterator[Finding]:
    """The first error of the pipeline of each compute entry point."""
    usage = measure(source.text, source.overrides)
    if usage.unset(source.overrides):
        return  # skipped: a pipeline would need values for these overrides
    constants = usage.constants(source.overrides)
    fixed = Limits()  # these are the limits of the null device
    more = source.limits and any(map(operator.gt, astuple(source.limits), astuple(fixed)))
    if more and any(over_limits(usage, fixed)):
        return
    for entry in usage.entry_points:
        device.push_error_scope("validation")
        stage = {"module": module, "entry_point": entry.name, "constants": constants}
        device.create_compute_pipeline(layout="auto", compute=stage)
        error = device.pop_error_scope_async().sync_wait()
        if error is not None and (source.limits or not _OVER_LIMITS.search(str(error))):
            yield _refused(source, error, entry.line, entry.column)


def _refused(source: Source, error: Exception, line: int, column: int) -> Finding:
    detail = str(error).strip()
    message = " ".join(detail.partition("\n - While")[0].split())
    return Finding(source.name, line, column, "error", message, Tint.name, "", detail)
