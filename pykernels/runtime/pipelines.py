"""The compiled variants of one device, and the layouts that they share."""

from __future__ import annotations

from collections import deque
from typing import Any

from pykernels.errors import ShaderError
from pykernels.texts import made, of_body

from .engine import Engine

__all__ = ["Pipelines"]

MAX_MADE = 1024  # variants of bodies made while the program runs; the oldest ones make room


class Pipelines:
    """The compiled variants of one device, and the bind group layouts that they share."""

    def __init__(self, engine: Engine, device: Any, checks: bool) -> None:
        self._engine, self._device, self._checks = engine, device, checks
        self._layouts: dict[tuple[bool, ...], tuple[Any, Any]] = {}
        self._pipelines: dict[tuple[str, str], Any] = {}
        self._made: deque[tuple[str, str]] = deque()  # those of bodies made while the program runs

    def __len__(self) -> int:
        return len(self._pipelines)

    def get(self, body: str, key: str, writable: tuple[bool, ...]) -> tuple[Any, Any]:
        """Pipeline and bind group layout of one variant."""
        group_layout, pipeline_layout = self._layout(writable)
        pipeline = self._pipelines.get((body, key))
        if pipeline is None:
            new = made(body)
            text = (new or of_body(body)).get(key)
            if text is None:
                raise ShaderError(f"[{body}] has no variant {key}")
            engine, checks = self._engine, self._checks or new is not None
            try:
                module = engine.shader(
                    self._device, text.wgsl, f"{body} {key}", checks,
                    "subgroups" in text.features,
                )  # fmt: skip
                pipeline = self._device.create_compute_pipeline(
                    label=f"{body} {key}",
                    layout=pipeline_layout,
                    compute={"module": module, "entry_point": "main"},
                )
            except (engine.error_class, engine.module.GPUPipelineError) as e:
                raise engine.error(e, "shader") from None
            self._pipelines[body, key] = pipeline
            if new is not None:
                self._made.append((body, key))
                if len(self._made) > MAX_MADE:
                    del self._pipelines[self._made.popleft()]
        return pipeline, group_layout

    def _layout(self, writable: tuple[bool, ...]) -> tuple[Any, Any]:
        found = self._layouts.get(writable)
        if found is None:
            kinds: list[dict[str, Any]] = [
                {"type": "storage" if w else "read-only-storage"} for w in writable
            ]
            kinds.append({"type": "uniform", "has_dynamic_offset": True})
            entries = [
                {"binding": i, "visibility": 4, "buffer": kind} for i, kind in enumerate(kinds)
            ]
            device, engine = self._device, self._engine
            try:
                group_layout = device.create_bind_group_layout(entries=entries)
                pipeline_layout = device.create_pipeline_layout(bind_group_layouts=[group_layout])
            except engine.error_class as e:
                raise engine.error(e, "layout") from None
            self._layouts[writable] = found = (group_layout, pipeline_layout)
        return found
