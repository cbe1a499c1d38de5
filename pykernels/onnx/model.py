"""A network from a file, as a function."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import onnx

from pykernels.device import Device, Tensor, default_device
from pykernels.runtime.profile import Profile

from . import reader
from .errors import ModelError, NeedsValues, blamed
from .files import open_file
from .fusion import fuse
from .graph import Array, Graph
from .lists import gathered, list_inputs, opened, spread
from .plans import Saved, read_plan, write_plan
from .program import Constants, Program
from .shapes import Value, described, graph_inputs, input_shapes
from .stages import READ, Stages, split

__all__ = ["Model", "load", "load_plan"]

BUDGET = 1 << 30  # default limit for the bytes of kept programs, weights not counted
Given = Array | Tensor


def load(
    file: str | Path | onnx.ModelProto,
    *,
    device: Device | None = None,
    shapes: Mapping[str, Iterable[int]] | None = None,
    budget: int = BUDGET,
) -> Model:
    """A network from an ONNX file.

        model = pk.onnx.load("file.onnx")
        y = model(x=image)["y"]

    Args:
        file: A path, or a model that onnx has read. External data must lie in the folder of the
            file.
        device: The device that runs the network; None is the default device.
        shapes: The shapes of inputs whose dimensions the file leaves open. If the shapes of all
            inputs are known, the file is checked now, else at the first call.
        budget: The bytes of device memory that programs may take. Each combination of input shapes
            has a program; the least recently used programs are dropped.

    Raises:
        ModelError: The file cannot be read, or an operation in it cannot be run.
    """
    proto = file if isinstance(file, onnx.ModelProto) else open_file(file)
    return Model(proto, device or default_device(), dict(shapes or {}), budget)


class Model:
    """A network. A call of the model returns a dict of outputs by their names.

    Attributes:
        inputs: Names, shapes and dtypes of the inputs. For an open dimension, the shape has its
            name, or None.
        outputs: Names, shapes and dtypes of the outputs.
        metadata: The metadata of the file, such as its producer.
    """

    def __init__(
        self, proto: onnx.ModelProto, device: Device, shapes: Mapping[str, Iterable[int]],
        budget: int = BUDGET, whole: Model | None = None,
    ) -> None:  # fmt: skip
        self.proto, self.device, self.budget = proto, device, budget
        self.inputs = described(graph_inputs(proto))
        self.outputs = described(proto.graph.output)
        self.metadata = {p.key: p.value for p in proto.metadata_props}
        self._shapes = {n: tuple(int(i) for i in s) for n, s in shapes.items()}
        self._dtypes = {v.name: v.dtype for v in self.inputs}
        self._lists = list_inputs(self.inputs)
        self._constants: Constants = Constants(device) if whole is None else whole._constants
        self._files: dict[str, Array] = {} if whole is None else whole._files
        self._programs: OrderedDict[tuple[Any, ...], Program | Stages] = OrderedDict()
        self._pinned: frozenset[str] = frozenset()
        self._absent: set[str] = set()  # names of optional inputs that a call may leave out
        self._lock = RLock()
        for name in self._shapes:
            self._known(name)
        if all(v.name in self._shapes or _is_closed(v) for v in self.inputs):
            self._check_file()

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """The outputs by name: tensors if any input is a tensor, else numpy arrays. A sequence is a
        list of them. An optional value that is absent is None. Maps by class are lists of dicts,
        and strings are numpy arrays. But if any input is a tensor, maps by class are a tensor of
        the scores, and strings are a tensor of their positions in the list of possible strings.

        Args:
            inputs: Inputs by name, for names that are not Python identifiers. An input that is a
                sequence is a list. An optional input may be None or left out.
            named: Inputs as keywords.

        Raises:
            ModelError: An input is missing or does not fit, or a node cannot be run.
        """
        with self._lock:
            program, values = self._prepared({**(inputs or {}), **named})
            try:
                on_device = any(isinstance(v, Tensor) for v in values.values())
                found = program.run_on_device(values) if on_device else program.run(values)
                return gathered((v.name for v in self.outputs), program.lists, found)
            finally:
                self.forget()

    def profile(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> Profile:
        """The time of each kernel in a call of the model with these arguments."""
        with self._lock:
            program, values = self._prepared({**(inputs or {}), **named})
            return program.profile(values)

    def program(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> Program | Stages:
        """The program for the shapes of these inputs."""
        with self._lock:
            return self._prepared({**(inputs or {}), **named})[0]

    def save_plan(self, path: str | Path) -> None:
        """Write the programs for the shapes of all calls so far, with their weights, into one file
        for `load_plan`. Their graphs are folded and fused, so loading this file takes less time
        than loading the network's file.

        Raises:
            ModelError: There was no call yet, or the host reads values inside the network.
        """
        with self._lock:
            programs = dict(self._programs)
        graphs: dict[tuple[Any, ...], Graph] = {}
        for key, program in programs.items():
            if isinstance(program, Stages):
                raise ModelError("a network that reads values between two programs has no plan")
            graphs[key] = program.graph
        if not graphs:
            raise ModelError("a plan has the programs of calls: call the network once before")
        with blamed():
            write_plan(path, Saved(self.inputs, self.outputs, self.metadata, graphs))

    @property
    def nbytes(self) -> int:
        """Bytes of device memory: weights, and the kept programs."""
        return self._constants.nbytes + self.own_bytes

    @property
    def own_bytes(self) -> int:
        """Bytes of device memory of the programs, without weights."""
        return sum(p.nbytes for p in self._programs.values())

    def part(self, proto: onnx.ModelProto) -> Model:
        """A network of a part of this file, which shares its weights."""
        return Model(proto, self.device, {}, self.budget, self)

    def __len__(self) -> int:
        """The number of kept programs."""
        return len(self._programs)

    def __repr__(self) -> str:
        names = ", ".join(v.name for v in self.inputs), ", ".join(v.name for v in self.outputs)
        return f"<pykernels.onnx.Model of {names[0]} -> {names[1]}>"

    def _known(self, name: str) -> None:
        if name not in self._dtypes:
            names = ", ".join(self._dtypes) or "none"
            raise ModelError(f"there is no input {name}: inputs are {names}")

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Given]:
        """The inputs as arrays and tensors, with the dtypes of the file."""
        found: dict[str, Given] = {}
        for name, value in given.items():
            self._known(name)
            if name not in self._lists:
                found[name] = _one(name, value, self._dtypes[name])
        for name, dtype in self._lists.items():
            for part, value, kind in spread(name, dtype, given.get(name)):
                found[part] = _one(part, value, kind)
        for name in self._dtypes:
            if name not in found and name not in self._lists:
                raise ModelError(f"input {name} is missing")
        return found

    def _prepared(self, given: Mapping[str, Any]) -> tuple[Program | Stages, dict[str, Given]]:
        values = self._checked(given)
        key = self._key(values)
        program = self._programs.get(key)
        if program is None:
            program = self._made(values)
            key = self._key(values)  # the key now includes the values that the reader needed
            self._programs[key] = program
        self._programs.move_to_end(key)
        return program, {n: v for n, v in values.items() if n not in self._absent}

    def _key(self, values: Mapping[str, Given]) -> tuple[Any, ...]:
        """The key of a program: the shapes of inputs, and the values of inputs such as axes and
        sizes."""
        shapes = tuple((n, tuple(v.shape)) for n, v in sorted(values.items()))
        told = tuple((n, _array(values[n]).tobytes()) for n in sorted(self._pinned))
        return shapes, told

    def _made(self, values: Mapping[str, Given]) -> Program | Stages:
        proto, none = opened(self.proto, {n: tuple(v.shape) for n, v in values.items()})
        self._absent |= none
        values = {n: v for n, v in values.items() if n not in none}
        shapes = {n: tuple(v.shape) for n, v in values.items()}
        known = {n: v for n, v in values.items() if not isinstance(v, Tensor)}
        left: tuple[str, ...] = READ
        while True:
            try:
                graph = reader.load(proto, shapes, known, self._files, left)
                break
            except NeedsValues as e:
                parts = split(proto, e)
                if parts is not None:
                    return Stages(parts, self)
                new = {n: _array(values[n]) for n in e.inputs if n in values and n not in known}
                if not new and e.operator not in left:
                    raise
                known |= new
                left = left if new else ()
        self._pinned |= frozenset(graph.pinned)
        return Program(fuse(graph), self.device, self._constants)

    def forget(self) -> None:
        """Drop programs beyond the budget, but never the newest."""
        while len(self._programs) > 1:
            if self.own_bytes <= self.budget:
                return
            self._programs.popitem(last=False)

    def _check_file(self) -> None:
        """Read the file for the shapes that are known, so that errors come early."""
        try:
            graph = reader.load(self.proto, self._shapes, None, self._files)
        except NeedsValues as e:
            if e.inputs:  # the file needs values that only a call gives
                return
            raise
        Program(fuse(graph), self.device, self._constants)


def load_plan(path: str | Path, *, device: Device | None = None) -> Model:
    """A network from a file that `Model.save_plan` has written, for the shapes that it was called
    with.

    Args:
        path: The file. The file contains no code.
        device: The device that runs the network; it may be another device than the plan was made
            on. None is the default device.

    Raises:
        ModelError: The file is no plan, or it is damaged.
    """
    return _Planned(read_plan(path), device or default_device())


class _Planned(Model):
    """A network whose programs come from a plan."""

    def __init__(self, saved: Saved, device: Device) -> None:
        super().__init__(onnx.ModelProto(), device, {})
        self._saved = saved
        self.inputs, self.outputs, self.metadata = saved.inputs, saved.outputs, saved.metadata
        self._dtypes = {v.name: v.dtype for v in self.inputs}
        self._lists = list_inputs(self.inputs)
        self._pinned = frozenset(n for _, told in saved.graphs for n, _ in told)

    def _check_file(self) -> None:
        """Do nothing, because a plan has no file to check."""

    def _made(self, values: Mapping[str, Given]) -> Program | Stages:
        graph = self._saved.graphs.get(self._key(values))
        if graph is None:
            told = "; ".join(str(dict(shapes)) for shapes, _ in self._saved.graphs)
            raise ModelError(f"the plan has no program for these inputs, but for shapes {told}")
        return Program(graph, self.device, self._constants)


def _is_closed(value: Value) -> bool:
    return value.shape is not None and all(isinstance(d, int) for d in value.shape)


def _one(name: str, value: Any, wanted: str) -> Given:
    return value if isinstance(value, Tensor) else _as_file(name, value, wanted)


def _as_file(name: str, value: Any, wanted: str) -> Array:
    """An input, converted to the dtype that it has in the file."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as e:
        raise ModelError(f"input {name}: {e}") from None
    if array.dtype.name != wanted:
        known = array.dtype.kind in "fiub" and wanted in np.sctypeDict
        if not known or not np.can_cast(array.dtype, wanted, "same_kind"):
            raise ModelError(f"input {name} has dtype {array.dtype.name}, not {wanted}")
        array = array.astype(wanted)
    elif array.dtype.kind in "OUSMm":
        raise ModelError(f"input {name} has dtype {wanted}: not supported")
    return array


def _array(value: Given) -> Array:
    return value.numpy() if isinstance(value, Tensor) else value


def shapes_of(model: Model) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs before a call gives them."""
    return input_shapes(model.proto, model._shapes)
