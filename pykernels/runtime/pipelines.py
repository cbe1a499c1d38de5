"""The compiled variants of one device, and the layouts that they share."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from pykernels.contract import SUBGROUPS
from pykernels.errors import ShaderError
from pykernels.wgsl.texts import Text, made, of_body

from .engine import Engine
from .log import logger
from .resources import Kind, entry_of

__all__ = ["Compiling", "Pipeline", "Pipelines"]

LONG = 0.1  # seconds; a compilation that takes longer gets a line in the log
MAX_THREADS = 8  # threads that compile at the same time
MAX_MADE = 1024  # most variants of bodies made at run time; the oldest are dropped first


class Pipeline:
    """One variant. The raw pipeline exists once any thread has called `compile`."""

    __slots__ = ("_lock", "_made", "_make", "raw")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make: Callable[[], Any] | None = make
        self._made: Any = None
        self._lock = threading.Lock()
        self.raw: Any = None

    def compile(self) -> None:
        """Compile the pipeline, or wait for the thread that compiles it. Raises ShaderError."""
        if self.raw is None:
            with self._lock:
                if self._make is not None:
                    self._made = self._make()
                    self.raw = self._made._internal
                    self._make = None


class Compiling:
    """Threads that compile pipelines for a capture while the capture continues.

    A caller that needs a pipeline compiles it, or waits for the thread that compiles it. So nothing
    depends on these threads, and their exceptions are raised again in the caller.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._started: set[Pipeline] = set()

    def start(self, pipelines: Iterable[Pipeline]) -> None:
        """Compile these pipelines in the background."""
        for pipeline in pipelines:
            if pipeline.raw is None and pipeline not in self._started:
                self._started.add(pipeline)
                if self._threads is None:
                    count = min(os.cpu_count() or 1, MAX_THREADS)
                    self._threads = ThreadPoolExecutor(count, "pykernels-compile")
                self._threads.submit(pipeline.compile)

    def end(self, cancel: bool) -> None:
        """End the background compilation. With `cancel`, pipelines that no thread has started are
        dropped."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=cancel)


class Pipelines:
    """The compiled variants of one device, and the bind group layouts that they share."""

    def __init__(self, engine: Engine, device: Any, checks: bool) -> None:
        self._engine, self._device, self._checks = engine, device, checks
        self._layouts: dict[tuple[tuple[bool, ...], tuple[Kind, ...]], tuple[Any, Any]] = {}
        self._empty: dict[tuple[Kind, ...], tuple[Any, Any]] = {}
        self._pipelines: dict[tuple[str, str, tuple[Kind, ...]], Pipeline] = {}
        self._made: deque[tuple[str, str, tuple[Kind, ...]]] = (
            deque()
        )  # variants of bodies made at run time

    def __len__(self) -> int:
        return len(self._pipelines)

    def get(
        self, body: str, key: str, writable: tuple[bool, ...], kinds: tuple[Kind, ...] = ()
    ) -> tuple[Pipeline, Any]:
        """Pipeline and bind group layout of one variant. Compile the pipeline before encoding.
        `kinds` has the kind of each of its textures and samplers."""
        group_layout, pipeline_layout = self._layout(writable, kinds)
        pipeline = self._pipelines.get((body, key, kinds))
        if pipeline is None:
            new = made(body)
            text = (new or of_body(body)).get(key)
            if text is None:
                raise ShaderError(f"[{body}] has no variant {key}")
            checks = self._checks or new is not None
            pipeline = Pipeline(
                partial(self._compile, f"{body} {key}", text, checks, pipeline_layout)
            )
            self._pipelines[body, key, kinds] = pipeline
            if new is not None:
                self._made.append((body, key, kinds))
                if len(self._made) > MAX_MADE:
                    del self._pipelines[self._made.popleft()]
        return pipeline, group_layout

    def _compile(self, label: str, text: Text, checks: bool, layout: Any) -> Any:
        engine, begun = self._engine, time.perf_counter()
        try:
            module = engine.shader(
                self._device, text.wgsl, label, checks, SUBGROUPS.name in text.features
            )
            pipeline = self._device.create_compute_pipeline(
                label=label,
                layout=layout,
                compute={"module": module, "entry_point": text.entry},
            )
        except (engine.error_class, engine.module.GPUPipelineError) as e:
            raise engine.error(e, "shader") from None
        if (taken := time.perf_counter() - begun) > LONG:
            logger.info("compiled %s in %.2f s", label, taken)
        return pipeline

    def empty(self, kinds: tuple[Kind, ...]) -> tuple[Any, Any]:
        """The raw pipeline of an empty text that binds textures alone, and its bind group
        layout. Both are kept, because a kernel that reads one level of a texture and writes another
        one asks for them at each launch."""
        found = self._empty.get(kinds)
        if found is None:
            device = self._device
            layout = device.create_bind_group_layout(
                entries=[entry_of(i, kind) for i, kind in enumerate(kinds)]
            )
            text = device.create_shader_module(code="@compute @workgroup_size(1) fn main() {}")
            pipeline = device.create_compute_pipeline(
                layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
                compute={"module": text, "entry_point": "main"},
            )
            self._empty[kinds] = found = pipeline, layout
        return found

    def _layout(self, writable: tuple[bool, ...], kinds: tuple[Kind, ...]) -> tuple[Any, Any]:
        found = self._layouts.get((writable, kinds))
        if found is None:
            buffers: list[dict[str, Any]] = [
                {"type": "storage" if w else "read-only-storage"} for w in writable
            ]
            buffers.append({"type": "uniform", "has_dynamic_offset": True})
            entries = [
                {"binding": i, "visibility": 4, "buffer": kind} for i, kind in enumerate(buffers)
            ]
            entries += [entry_of(i, kind) for i, kind in enumerate(kinds, len(buffers))]
            device, engine = self._device, self._engine
            try:
                group_layout = device.create_bind_group_layout(entries=entries)
                pipeline_layout = device.create_pipeline_layout(bind_group_layouts=[group_layout])
            except engine.error_class as e:
                raise engine.error(e, "layout") from None
            self._layouts[writable, kinds] = found = (group_layout, pipeline_layout)
        return found
