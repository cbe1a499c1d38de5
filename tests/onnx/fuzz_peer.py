"""onnxruntime in a process of its own, as some wrong files end its process."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SECONDS = 60.0


class Peer:
    """A process that computes files; another one takes its place where a file ends it."""

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None

    def __call__(self, data: bytes, inputs: dict[str, Array]) -> dict[str, Array] | str:
        """The outputs, or what onnxruntime says of the file."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        self._pipe.send((data, inputs))
        try:
            if self._pipe.poll(SECONDS):
                found: dict[str, Array] | str = self._pipe.recv()
                return found
            told = f"onnxruntime took more than {SECONDS:.0f} s"
        except EOFError:
            told = "onnxruntime ended its process"
        self.close()
        return told

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(pipe: Connection) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # another would spin
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    while True:
        try:
            data, inputs = pipe.recv()
        except EOFError:
            return
        try:
            session = onnxruntime.InferenceSession(data, options)
            names = [o.name for o in session.get_outputs()]
            feeds = {i.name: inputs[i.name] for i in session.get_inputs()}
            pipe.send(dict(zip(names, session.run(names, feeds), strict=True)))
        except Exception as e:
            pipe.send(str(e)[:200])
