"""Peers: numpy, torch, ONNX Runtime on WebGPU, naive kernels. Each is optional and says why not.

A bench file gives small functions; the decorators here make peers of them:

    @numpy_peer   def f(case, t): ...        t: arrays by name; computes once
    @torch_peer   def f(torch, case, t): ... t: CUDA tensors by name; writes t["dst"]
    @naive_peer   def f(case): ...           WGSL and its workgroups; bindings in the case's order
    @onnx_peer    def f(case): ...           a Node whose output can be its input again
"""

from __future__ import annotations

import importlib
import itertools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from bench.onnx_session import modules, run_time
from bench.onnx_session import start as start_session
from pykernels.bench.case import Case, Loaded, Operand
from pykernels.bench.clock import Sample
from pykernels.bench.program import GROUP_ID, Program
from pykernels.bench.run import Peer, Skipped
from pykernels.dtypes import numpy_dtype

__all__ = [
    "GROUP_ID",
    "Node",
    "Skipped",
    "cuda_sample",
    "naive_peer",
    "numpy_peer",
    "onnx_peer",
    "scalar",
    "torch_peer",
]

Array = np.ndarray[Any, Any]
MOST_BYTES, MOST_OPERATIONS = 1 << 28, 5e9  # of a call that numpy is asked to make
MOST_MODEL = 160 << 20  # bytes that a model file holds; a larger one takes ten seconds to load
GRAPH = 1024  # calls in one CUDA graph
SHORT = 5e-5  # s: shorter calls are launched by a graph, or the host would be measured


def numpy_peer(f: Callable[[Case, dict[str, Array]], object]) -> Peer:
    """numpy on this host, by its clock."""

    def start(loaded: Loaded) -> tuple[Sample, str]:
        counts = loaded.count()
        if counts.nbytes > MOST_BYTES or counts.operations > MOST_OPERATIONS:
            raise Skipped("too large for numpy")
        arrays = {n: _host(o, i) for i, (n, o) in enumerate(loaded.case.tensors.items())}

        def sample(n: int) -> float:
            started = time.perf_counter()
            for _ in range(n):
                f(loaded.case, arrays)
            return time.perf_counter() - started

        return sample, "wall"

    return start


def _host(o: Operand, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if o.values is not None:
        return o.values(rng, o.shape)
    base = rng.random(o.base, np.float32) * 2 - 1
    found: Array = o.view(base.astype(numpy_dtype(o.dtype)))
    return found


def torch_peer(f: Callable[[Any, Case, dict[str, Any]], object]) -> Peer:
    """torch on CUDA, TF32 off, timed by CUDA events; short calls through a CUDA graph."""

    def start(loaded: Loaded) -> tuple[Sample, str]:
        torch = _torch()
        sets = [_cuda(torch, loaded.case, i) for i in range(len(loaded.sets))]
        turn = itertools.cycle(sets)
        loop = cuda_sample(torch, lambda: f(torch, loaded.case, next(turn)))
        loop(3)
        if min(loop(10) for _ in range(3)) / 10 > SHORT:
            return loop, "CUDA events"
        graph = torch.cuda.CUDAGraph()
        size = min(max(len(sets), 32), GRAPH)
        with torch.cuda.graph(graph):
            for i in range(size):
                f(torch, loaded.case, sets[i % len(sets)])
        replay = cuda_sample(torch, graph.replay)
        return lambda n: replay(max(n // size, 1)) / max(n // size, 1) * n / size, "CUDA events"

    return start


def cuda_sample(torch: Any, call: Callable[[], object]) -> Sample:
    """n calls by CUDA events."""

    def sample(n: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(n):
            call()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3

    return sample


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise Skipped("torch is not installed") from None
    if not torch.cuda.is_available():
        raise Skipped("torch sees no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True  # it searches for its fastest convolution first
    return torch


def _cuda(torch: Any, case: Case, seed: int) -> dict[str, Any]:
    tensors = {}
    for n, o in case.tensors.items():
        kind = getattr(torch, o.dtype)
        if o.values is not None:
            tensors[n] = torch.from_numpy(_host(o, seed)).cuda()
        elif kind.is_floating_point:
            base = torch.empty(o.base, device="cuda", dtype=kind).uniform_(-1, 1)
            tensors[n] = o.view(base)
        else:
            tensors[n] = o.view(torch.randint(0, 100, o.base, device="cuda").to(kind))
    return tensors


def scalar(o: Operand) -> str:
    """The WGSL type of an operand of a naive kernel."""
    if o.dtype not in ("float32", "float16"):
        raise Skipped("written for float32 and float16")
    return "f16" if o.dtype == "float16" else "f32"


def naive_peer(f: Callable[[Case], tuple[str, int]]) -> Peer:
    """A kernel as one writes it first, on the same device, checked too."""

    def start(loaded: Loaded) -> tuple[Sample, str]:
        case = loaded.case
        if any(o.gap or o.phase for o in case.tensors.values()):
            raise Skipped("written for whole tensors")
        halves = any(o.dtype == "float16" for o in case.tensors.values())
        if halves and "shader-f16" not in loaded.dev.features:
            raise Skipped("the device has no shader-f16")
        code, groups = f(case)
        text = ("enable f16;\n" if halves else "") + code
        program = Program(loaded.dev, text, [list(s.values()) for s in loaded.sets], groups)
        loaded.check(lambda: program(1))
        return program, program.clock

    return start


@dataclass(frozen=True)
class Node:
    """One ONNX operation. `flow` names the tensor that its output replaces in the next one;
    `inputs` are its inputs in order, `attributes` its attributes."""

    op: str
    flow: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 1.0  # of the numbers that do not flow: keeps a long chain finite
    domain: str = ""
    arrange: Callable[[str, Array], Array] = lambda name, a: a  # as the operation wants it


def onnx_peer(f: Callable[[Case], Node]) -> Peer:
    """ONNX Runtime's WebGPU provider. A run has a cost of its own (submits, transfers), so the time
    is that of chains of two lengths, subtracted; only the first element is read back. The output of
    one node is compared with our kernel's on the same numbers."""

    def start(loaded: Loaded) -> tuple[Sample, str]:
        onnx, ort = modules()
        node, case = f(loaded.case), loaded.case
        flow, out = case.tensors[node.flow], case.output
        if (flow.shape, flow.dtype) != (out.shape, out.dtype):
            raise Skipped("its output cannot be its input again")
        if sum(case.tensors[n].nbytes for n in node.inputs) > MOST_MODEL:
            raise Skipped("its inputs are too large for a model file")
        arrays = {n: _input(case.tensors[n], i, node) for i, n in enumerate(node.inputs)}
        chain = partial(_session, onnx, ort, case, node, arrays)
        _compare(loaded, node, arrays, chain(1, whole=True).run(None, {})[0])
        short = chain(4)
        more = min(max(math.ceil(0.03 / max(run_time(short) / 4, 1e-7)), 4), 200)
        long = chain(4 + more)

        def sample(n: int) -> float:
            spent = run_time(long)
            return max(spent - run_time(short), 0.01 * spent) / more * n

        return sample, "wall"

    return start


def _input(o: Operand, seed: int, node: Node) -> Array:
    """An operand's numbers; those that flow keep their size."""
    found = _host(o, seed)
    small = seed != node.inputs.index(node.flow) and found.dtype.kind == "f"
    return (found * node.scale).astype(found.dtype) if small else found


def _compare(loaded: Loaded, node: Node, arrays: Mapping[str, Array], got: Array) -> None:
    """Is it the same operation? In half precision a sum may be off by a few per cent."""
    tensors = loaded.sets[0]
    for name, array in arrays.items():
        tensors[name].write(np.ascontiguousarray(array))
    loaded.call(**tensors, **loaded.case.args)
    out = loaded.outputs[-1]
    want = node.arrange(out, tensors[out].numpy()).astype(np.float32)
    error, size = np.abs(got.astype(np.float32) - want).max(), np.abs(want).max()
    if not error <= (0.05 if got.dtype == np.float16 else 1e-3) * size:
        raise Skipped(f"its output is wrong on this device, by {error / size:.0%}")


def _session(
    onnx: Any, ort: Any, case: Case, node: Node, arrays: Mapping[str, Array], length: int,
    whole: bool = False,
) -> Any:  # fmt: skip
    """`length` times the node, one after the other; the result is an element, or all."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    given = {n: np.ascontiguousarray(node.arrange(n, a)) for n, a in arrays.items()}
    initial = [numpy_helper.from_array(a, n) for n, a in given.items()]
    rank = given[node.flow].ndim
    names = [node.flow, *(f"v{i}" for i in range(length))]
    nodes = [
        helper.make_node(
            node.op, [before if n == node.flow else n for n in node.inputs], [after],
            domain=node.domain, **node.attributes,
        )
        for before, after in itertools.pairwise(names)
    ]  # fmt: skip
    if not whole:
        for name, value in (("zeros", 0), ("ones", 1)):
            initial.append(numpy_helper.from_array(np.full(rank, value, np.int64), name))
        nodes.append(helper.make_node("Slice", [names[-1], "zeros", "ones"], ["first"]))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(case.output.dtype))
    size = list(given[node.flow].shape) if whole else [1] * rank
    last = helper.make_tensor_value_info(nodes[-1].output[0], kind, size)
    graph = helper.make_graph(nodes, case.kernel, [], [last], initial)
    return start_session(onnx, ort, graph)
