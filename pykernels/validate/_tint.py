"""Tint, the shader compiler of Chromium, through wgpudawn's null backend: no GPU is needed."""

from __future__ import annotations

import functools
import logging
import operator
import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from itertools import pairwise
from typing import Any

from ._apart import apart
from ._lints import over_limits
from ._types import Finding, Limits, Severity, Source
from ._usage import measure

_FEATURES = (
    "shader-f16",
    "subgroups",
    "subgroup-size-control",
    "implicit-device-synchronization",
    "chromium-experimental-subgroup-matrix",  # there after `allow_matrix_units` only
)
_BACKEND = "WGPU_BACKEND_TYPE"
# Tint recurses along calls: some larger texts overflow its stack, which ends the process.
_MOST_HERE = 100_000
_MATRIX = re.compile(r"\benable\s[^;]*\bchromium_experimental_subgroup_matrix\b")
_lock = threading.Lock()  # error scopes are a stack of the device


def find_tint() -> Tint | None:
    """Tint, if the package wgpudawn is there and its null backend works."""
    try:
        return Tint()
    except (ImportError, OSError, RuntimeError):
        return None


class Tint:
    """Tint as a validator.

    Besides the text it checks each compute entry point as a pipeline on a device with WebGPU's
    default limits. An entry point is spared that if the source declares higher limits and uses
    more than the default ones.

    Texts for matrix units need a toggle of the whole process, ``allow_unsafe_apis``: they are
    checked in processes of their own, and all others without it.
    """

    name = "tint"

    def __init__(self) -> None:
        import wgpudawn

        self.version = str(wgpudawn.__version__)
        _null_device(os.getpid())

    def check(self, sources: Sequence[Source]) -> list[Finding]:
        """All errors and warnings of each text, then of its pipelines.

        Large texts are checked in processes of their own: see `check_here`.
        """
        checker = {"name": self.name, "version": self.version, "targets": (), "ignore": ()}
        matrix = [s for s in sources if for_matrix_units(s.text)]
        plain = [s for s in sources if not for_matrix_units(s.text)]
        found = self.check_here([s for s in plain if len(s.text) <= _MOST_HERE])
        for s in plain:
            if len(s.text) > _MOST_HERE:
                found += apart(checker, [s])
        return found + (apart(checker, matrix) if matrix else [])

    def check_here(self, sources: Sequence[Source]) -> list[Finding]:
        """The same in this process, which ends with a text that overflows Tint's stack."""
        with _lock:
            device = _null_device(os.getpid())
            return [finding for source in sources for finding in _check(device, source)]


def for_matrix_units(text: str) -> bool:
    """Does a text speak to matrix units, in Tint's dialect?"""
    return _MATRIX.search(text) is not None


def allow_matrix_units() -> None:
    """Let this process check such texts; before anything asks wgpudawn for an adapter."""
    from wgpudawn.backends.dawn import extras

    extras.set_instance_extras(enable_toggles=["allow_unsafe_apis"])


@functools.lru_cache(maxsize=1)
def _null_device(pid: int) -> Any:
    """The null device of this process: an adapter of its own, shared with nobody.

    wgpudawn takes the backend from the environment only, and logs a warning about it.
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
    device.push_error_scope("validation")
    enable = "enable subgroups; " if "subgroups" in source.features else ""
    module = device.create_shader_module(code=enable + source.text)
    error = device.pop_error_scope_async().sync_wait()
    messages = module.get_compilation_info_async().sync_wait().messages
    starts = [index for index, message in enumerate(messages) if message.type != "info"]
    for start, end in pairwise([*starts, len(messages)]):
        first = messages[start]
        detail = "\n".join(
            f"{m.line_num}:{m.line_pos} {m.type}: {m.message}" for m in messages[start:end]
        )
        severity: Severity = "error" if first.type == "error" else "warning"
        # What stands in front of the first line does not count.
        shift = len(enable) if first.line_num == 1 else 0
        place = (first.line_num or 1, max(first.line_pos - shift, 1))
        message = first.message.partition("\n")[0]
        yield Finding(source.name, *place, severity, message, Tint.name, "", detail)
    if error is not None:
        if not any(message.type == "error" for message in messages):
            yield _refused(source, error, 1, 1)
        return
    usage = measure(source.text)
    if usage.unset:
        return  # a pipeline needs values for these overrides
    fixed = Limits()  # what the null device has
    more = source.limits and any(map(operator.gt, astuple(source.limits), astuple(fixed)))
    if more and any(over_limits(usage, fixed)):
        return
    for entry in usage.entry_points:
        device.push_error_scope("validation")
        stage = {"module": module, "entry_point": entry.name}
        device.create_compute_pipeline(layout="auto", compute=stage)
        error = device.pop_error_scope_async().sync_wait()
        if error is not None:
            yield _refused(source, error, entry.line, entry.column)


def _refused(source: Source, error: Exception, line: int, column: int) -> Finding:
    detail = str(error).strip()
    message = " ".join(detail.partition("\n - While")[0].split())
    return Finding(source.name, line, column, "error", message, Tint.name, "", detail)
