"""Peers: numpy, torch and naive kernels; `pykernels.bench.onnx` has ONNX Runtime. Each peer is
optional; if it does not run, the report gives the reason.

The modules of cases have small functions, and the decorators here make peers of these functions:

    @numpy_peer   def f(case, t): ...        t: arrays by name; computes once
    @torch_peer   def f(torch, case, t): ... t: CUDA tensors by name; writes t["dst"]
    @naive_peer   def f(case): ...           WGSL with its bindings in the case's order, and the
                                             number of workgroups
    @onnx_peer    def f(case): ...           a Node whose output can be its next input
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pykernels.dtypes import numpy_dtype

from .case import Case, Loaded, Operand
from .clock import Calls, Sample
from .program import Program
from .run import Peer, Skipped

__all__ = [
    "Skipped",
    "cuda_loop",
    "cuda_sample",
    "cuda_torch",
    "host_array",
    "naive_peer",
    "numpy_peer",
    "scalar",
    "torch_peer",
]

Array = np.ndarray[Any, Any]
MOST_BYTES, MOST_OPERATIONS = 1 << 28, 5e9  # bytes and operations of the largest call for numpy
GRAPH = 1024  # number of calls in one CUDA graph
# seconds; shorter calls run in a CUDA graph, because otherwise the host's time is measured
SHORT = 5e-5


def numpy_peer(f: Callable[[Case, dict[str, Array]], object]) -> Peer:
    """A peer: numpy on this host, timed by the host's clock."""

    def start(loaded: Loaded) -> Calls:
        counts = loaded.count()
        if counts.nbytes > MOST_BYTES or counts.operations > MOST_OPERATIONS:
            raise Skipped("too large for numpy")
        arrays = {n: host_array(o, i) for i, (n, o) in enumerate(loaded.case.tensors.items())}

        def sample(n: int) -> float:
            started = time.perf_counter()
            for _ in range(n):
                f(loaded.case, arrays)
            return time.perf_counter() - started

        return Calls(sample, "wall")

    return start


def host_array(o: Operand, seed: int) -> Array:
    """An operand's array, with random numbers or with the values that the operand asks for."""
    rng = np.random.default_rng(seed)
    if o.values is not None:
        return np.ascontiguousarray(o.values(rng, o.shape), numpy_dtype(o.dtype))
    base = rng.random(o.base, np.float32) * 2 - 1
    if o.dtype == "complex64":
        base = base + 1j * (rng.random(o.base, np.float32) * 2 - 1)
    found: Array = o.view(base.astype(numpy_dtype(o.dtype)))
    return found


def torch_peer(f: Callable[[Any, Case, dict[str, Any]], object]) -> Peer:
    """A peer: torch on CUDA with TF32 off. Calls are timed by CUDA events (short calls in a CUDA
    graph), and by the host's clock in a plain loop."""

    def start(loaded: Loaded) -> Calls:
        torch = cuda_torch()
        sets = [_cuda(torch, loaded.case, i) for i in range(len(loaded.sets))]
        turn = itertools.cycle(sets)

        def call() -> None:
            f(torch, loaded.case, next(turn))

        events, loop = cuda_sample(torch, call), cuda_loop(torch, call)
        events(len(sets) + 2)  # torch's caches must be created outside of a graph
        if min(events(10) for _ in range(3)) / 10 > SHORT:
            return Calls(events, "CUDA events", loop)
        graph = torch.cuda.CUDAGraph()
        size = min(max(len(sets), 32), GRAPH)
        with torch.cuda.graph(graph):
            for i in range(size):
                f(torch, loaded.case, sets[i % len(sets)])
        replay = cuda_sample(torch, graph.replay)

        def graphs(n: int) -> float:
            times = max(n // size, 1)
            return replay(times) / times * n / size

        return Calls(graphs, "CUDA events", loop)

    return start


def cuda_sample(torch: Any, call: Callable[[], object]) -> Sample:
    """A `Sample`: the seconds of n calls by CUDA events."""

    def sample(n: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(n):
            call()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3

    return sample


def cuda_loop(torch: Any, call: Callable[[], object]) -> Sample:
    """A `Sample`: the seconds of n calls and one synchronize, by the host's clock."""

    def sample(n: int) -> float:
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(n):
            call()
        torch.cuda.synchronize()
        return time.perf_counter() - started

    return sample


def cuda_torch() -> Any:
    """torch, if it has a GPU. Turns TF32 off, and lets cuDNN search for the fastest convolution."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise Skipped("torch is not installed") from None
    if not torch.cuda.is_available():
        raise Skipped("torch sees no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def _cuda(torch: Any, case: Case, seed: int) -> dict[str, Any]:
    tensors = {}
    for n, o in case.tensors.items():
        kind = getattr(torch, o.dtype)
        if o.values is not None:
            tensors[n] = torch.from_numpy(host_array(o, seed)).cuda()
        elif kind.is_complex:
            base = torch.empty((*o.base, 2), device="cuda").uniform_(-1, 1)
            tensors[n] = o.view(torch.view_as_complex(base))
        elif kind.is_floating_point:
            base = torch.empty(o.base, device="cuda", dtype=kind).uniform_(-1, 1)
            tensors[n] = o.view(base)
        else:
            tensors[n] = o.view(torch.randint(0, 100, o.base, device="cuda").to(kind))
    return tensors


def scalar(o: Operand) -> str:
    """The WGSL type of an operand in a naive kernel."""
    if o.dtype not in ("float32", "float16"):
        raise Skipped("this peer is written for float32 and float16 only")
    return "f16" if o.dtype == "float16" else "f32"


def naive_peer(f: Callable[[Case], tuple[str, int]]) -> Peer:
    """A peer: a simple kernel without optimisation, on the same device; its output is checked as
    well."""

    def start(loaded: Loaded) -> Calls:
        case = loaded.case
        if any(o.gap or o.phase for o in case.tensors.values()):
            raise Skipped("this peer is written for whole tensors only")
        halves = any(o.dtype == "float16" for o in case.tensors.values())
        if halves and "shader-f16" not in loaded.dev.features:
            raise Skipped("the device has no shader-f16")
        code, groups = f(case)
        text = ("enable f16;\n" if halves else "") + code
        program = Program(loaded.dev, text, [list(s.values()) for s in loaded.sets], groups)
        loaded.check(lambda: program(1))
        return Calls(program, program.clock, program.loop)

    return start
