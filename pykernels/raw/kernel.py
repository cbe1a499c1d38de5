"""Turns a text in WGSL into a function of tensors and numbers."""

from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pykernels.call.scalars import integer, real
from pykernels.device import Device, Tensor
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError, DTypeError, FeatureError, ShapeError
from pykernels.lazy import load
from pykernels.runtime.blocks import storage_of
from pykernels.runtime.handle import Handle
from pykernels.runtime.launch import run
from pykernels.steps import Arg, Body, Bound, Caps, Kernel, Scratch, Step, touched
from pykernels.tensors.host import type_name
from pykernels.tensors.layout import View, contiguous_layout
from pykernels.validate._instrument import without_debug
from pykernels.wgsl.texts import Text, add_texts

from . import grids, textures
from .grids import Groups
from .reflect import OFFSET, Interface, Member, reflect

__all__ = ["RawKernel", "raw_kernel"]

Grid = int | Sequence[int] | Callable[..., int | Sequence[int]] | None


@dataclass(frozen=True, slots=True)
class _Launch(Step):
    """One dispatch of a text. Its uniform struct holds the offsets that the text asks for, then the
    numbers."""

    op: str = ""
    asked: tuple[str, ...] = ()

    def prefix(self, offsets: Sequence[int]) -> bytes:
        first = dict(zip([b.name for b in self.bound], offsets, strict=True))
        for name, index in first.items():
            if index and name not in self.asked:
                raise ArgumentError(
                    f"[{self.op}] {name} begins {index} elements after an offset that this device "
                    f"can bind: give the text's uniform struct a first member "
                    f"{name}{OFFSET}: u32 and add it to each index into {name}, or pass a copy"
                )
        return struct.pack(f"<{len(self.asked)}I", *[first.get(name, 0) for name in self.asked])


class RawKernel:
    """A kernel from `raw_kernel`. Call it with tensors and numbers by their names in the text.

    Attributes:
        name: The name in errors, profiles and captures.
        wgsl: The text.
        workgroup: The workgroup size along x, y and z; 0 if the text does not show it.
        inputs: Names of the read-only bindings and the sampled textures, in the order of their
            numbers.
        outputs: Names of the bindings and the storage textures that it may write.
        samplers: Names of the samplers.
        numbers: Names of the members of its uniform struct, without the members that hold offsets.
    """

    def __init__(self, wgsl: str, entry: str, constants: Mapping[str, str], name: str) -> None:
        self.name, self.wgsl, self.entry = name, wgsl, entry
        self.__name__ = name  # the name in tables of functions
        self._text, self._constants = without_debug(name, wgsl), constants
        self._instrumented = False  # True for the text that debugging.py makes from another text
        self._interface = found = reflect(name, self._text, entry, constants)
        self.workgroup = found.workgroup
        self.outputs = found.written
        self.samplers = tuple(s.name for s in found.shown if not s.dimension)
        self.inputs = tuple(n for n in found.names if n not in {*self.outputs, *self.samplers})
        self._members = found.members[len(found.offsets) :]
        self.numbers = tuple(m.name for m in self._members)
        self._packed = tuple(_packed(found))
        told = repr((entry, found.text))
        self._body = Body(
            name=f"raw-{hashlib.sha256(told.encode()).hexdigest()[:24]}", axes=(), values="",
            args=tuple(n for n, _ in self._packed),
            args_format="".join(letter for _, letter in self._packed),
        )  # fmt: skip
        args = [
            Arg(b.name, "out" if b.written else "in", b.dtypes, in_place=b.written)
            for b in found.bindings
        ] or [Arg("device", "in", ("uint32",))]  # only shows the device; it is not bound
        options = ("grid", "textures") if found.shown else ("grid",)
        self._kernel = Kernel(
            name=name, family="raw", args=tuple(args), scalars=self._body.args, plan=self._plan,
            nbytes=touched, operations=_uncounted, options=options, source=self,
        )  # fmt: skip
        self._texts = add_texts(self._body.name, self)

    def get(self, key: str) -> Text | None:
        """The text of a binding mode, for pipelines."""
        text = self._interface.text[key == "mode=rw"]
        return Text(text, self._interface.features, self.entry)

    def __repr__(self) -> str:
        found = self._interface.declared
        parts = [f"{n}: {found[n].type}" for n in self._interface.names]
        parts += [f"{m.name}: {m.type}" for m in self._members]
        return f"<pykernels.raw.RawKernel {self.name}({', '.join(parts)})>"

    def __call__(self, *tensors: Any, grid: Grid = None, **values: Any) -> Any:
        """Run the text once.

        Args:
            tensors: The bindings that `values` does not name, in the order of their numbers:
                tensors, and for textures and samplers the objects of wgpu.
            grid: The number of workgroups, or the numbers along x and y, or x, y and z; or a
                function that computes them from the tensors and numbers by name. None runs one
                invocation for each element of the first output. If the workgroup extends along x
                alone, all elements count along x; if it extends along two or three axes, the output
                must have as many axes, and the last one is x. If the output is a texture, there is
                one invocation for each texel of its first level.
            values: Bindings and members of the uniform struct by name; vectors as sequences.
                Inputs may be numpy arrays. A texture is a GPUTexture or a GPUTextureView, and must
                have the usage TEXTURE_BINDING, or STORAGE_BINDING where the text writes it.

        Returns:
            The output, or a tuple of the outputs.

        Raises:
            ArgumentError: a name that is missing or unknown, a grid that does not work, or a
                texture or sampler of another kind, such as one with several samples.
            DTypeError, ShapeError: a tensor does not fit its binding; the format of a texture does
                not fit.
            AliasError: an output shares elements or texels with another output, or texels with an
                input.
            BufferStateError: a texture is of another device, is destroyed, or lacks the usage flag.
            ShaderError: the device's compiler refuses the text.
            The errors of `pykernels.kernels`.
        """
        given = self._named(tensors, values)
        device = self._device(given)
        operands = self._tensors(given, device)
        scalars = self._scalars(given)
        if callable(grid):
            grid = grid(**given)
        context = device._context
        given |= dict(zip(self._tensor_names, operands, strict=True))
        if (context.debugging or context.checks_indices) and not self._instrumented:
            if load("pykernels.raw.debugging").instrumented_call(self, device, given, grid):
                return self._results(given)
        missing = set(self._interface.features) - device.features
        if missing:
            raise FeatureError(f"[{self.name}] the device lacks {', '.join(sorted(missing))}")
        groups = None if grid is None else grids.given(self.name, grid)
        found = self._interface
        if not found.shown:
            run(self._kernel, operands, scalars, (groups,))
            return self._results(given)
        context.check()
        with context.lock:
            shown = textures.resources_of(self.name, context, found.shown, found.pairs, given)
        first = next((s for s in found.shown if s.name == self.outputs[0]), None)
        if groups is None and first is not None:
            size = textures.extents(self.name, first.name, given[first.name])
            groups = grids.covering(self.name, self.workgroup, first.name, size)
        run(self._kernel, operands or (_nothing(context),), scalars, (groups, shown))
        return self._results(given)

    def _results(self, given: dict[str, Any]) -> Any:
        found = [given[name] for name in self.outputs]
        return found[0] if len(found) == 1 else tuple(found)

    @property
    def _tensor_names(self) -> tuple[str, ...]:
        return tuple(b.name for b in self._interface.bindings)

    def _device(self, given: dict[str, Any]) -> Device:
        """The device of the tensors; without tensors, the device of the textures."""
        tensors = (given[name] for name in self._tensor_names)
        first = next((t for t in tensors if isinstance(t, Tensor)), None)
        if first is not None:
            return first.device
        for s in self._interface.shown:
            owner = getattr(given[s.name], "_device", None)
            if owner is None:
                kind = "GPUTexture" if s.dimension else "GPUSampler"
                raise DTypeError(
                    f"[{self.name}] {s.name} must be a {kind} but is {type_name(given[s.name])}"
                )
            return Device.from_wgpu(owner)
        b = self._interface.bindings[0]
        raise DTypeError(
            f"[{self.name}] {b.name} must be a pykernels.Tensor but is {type_name(given[b.name])}"
        )

    def _named(self, tensors: tuple[Any, ...], values: dict[str, Any]) -> dict[str, Any]:
        names = self._interface.names
        if len(tensors) > len(names):
            raise ArgumentError(
                f"[{self.name}] {len(tensors)} tensors are given, but the text has {len(names)}: "
                f"{', '.join(names)}"
            )
        given = dict(zip(names, tensors, strict=False))
        for name, value in values.items():
            if name in given:
                raise ArgumentError(f"[{self.name}] {name} is given twice")
            if name not in names and name not in self.numbers:
                known = ", ".join((*names, *self.numbers))
                raise ArgumentError(f"[{self.name}] the text has no {name!r}; it has {known}")
            given[name] = value
        for name in (*names, *self.numbers):
            if given.get(name) is None:
                raise ArgumentError(f"[{self.name}] {name} is missing")
        return given

    def _tensors(self, given: dict[str, Any], device: Device) -> tuple[Tensor, ...]:
        """The tensors in order. Arrays for read-only bindings are copied to the device."""
        found = []
        for b in self._interface.bindings:
            value = given[b.name]
            if isinstance(value, np.ndarray) and not b.written:
                value = device.tensor(value)
            if not isinstance(value, Tensor):
                raise DTypeError(
                    f"[{self.name}] {b.name} must be a pykernels.Tensor but is {type_name(value)}"
                )
            if not value._layout.contiguous:
                raise ShapeError(
                    f"[{self.name}] {b.name} must be contiguous, as the text counts its elements: "
                    f"pass a copy (t.copy()) of the view of shape {value.shape}"
                )
            uneven = value.nbytes % b.stride or value.nbytes < max(b.count, 1) * b.stride
            if (
                uneven and value._layout.dtype.name in b.dtypes
            ):  # for another dtype the launch raises the error
                least = f"{b.count} elements" if b.count else "at least one element"
                raise ShapeError(
                    f"[{self.name}] {b.name}: {b.type} needs whole elements of {b.stride} bytes, "
                    f"{least}, but the tensor has {value.nbytes} bytes"
                )
            found.append(value)
        return tuple(found)

    def _scalars(self, given: dict[str, Any]) -> tuple[float, ...]:
        numbers: dict[str, Any] = {}
        for m in self._members:
            value = given[m.name]
            parts = [value] if m.count == 1 else value
            if m.count > 1 and (
                not isinstance(value, Sequence | np.ndarray) or len(value) != m.count
            ):
                raise ArgumentError(f"[{self.name}] {m.name} must be {m.count} numbers")
            for part, one in zip(_parts(m), parts, strict=True):
                numbers[part] = (real if m.letter in "fe" else integer)(self.name, part, one)
        return tuple(numbers.get(name, 0) for name, _ in self._packed)

    def _plan(self, caps: Caps, scratch: Scratch, *args: Any) -> list[Step]:
        bindings = self._interface.bindings
        count = max(len(bindings), 1)
        views, grid, resources = args[: len(bindings)], args[count], args[count + 1 :]
        bound = []
        for b, view in zip(bindings, views, strict=True):
            if view.offset % caps.alignment % b.stride:
                raise ShapeError(
                    f"[{self.name}] {b.name} begins within an element of {b.stride} bytes: pass a "
                    "copy"
                )
            bound.append(Bound(b.name, "out" if b.written else "in", view, b.stride, b.stride))
        if grid is None:
            grid = self._derived(views)
        return [
            _Launch(
                self._body, (), tuple(bound), (), (), math.prod(grid), grid=grid, op=self.name,
                asked=self._interface.offsets, resources=resources[0] if resources else (),
            )
        ]  # fmt: skip

    def _derived(self, views: Sequence[View]) -> Groups:
        """The number of workgroups that gives one invocation for each element of the first
        output."""
        view, b = next(
            (v, b) for v, b in zip(views, self._interface.bindings, strict=True) if b.written
        )
        extents = grids.elements(self.name, self.workgroup, b.name, view, b.stride)
        return grids.covering(self.name, self.workgroup, b.name, extents)


def raw_kernel(
    wgsl: str | os.PathLike[str], entry: str = "main", *,
    constants: Mapping[str, float] | None = None, name: str | None = None,
) -> RawKernel:  # fmt: skip
    """Create a kernel from a text in WGSL. Its bindings and its uniform struct are read from the
    text.

        double = pk.raw_kernel('''
            @group(0) @binding(0) var<storage, read> x: array<f32>;
            @group(0) @binding(1) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) i: vec3u) {
              if (i.x < arrayLength(&y)) { y[i.x] = 2.0 * x[i.x]; }
            }''')
        double(x, y)

    Bindings may have any group and number. They are `var<storage>` (arrays of numbers, vectors,
    atomics or structs), and at most one of them is `var<uniform>` (a struct of numbers and vectors,
    or a single number or vector). A call is a launch like the launches of `pykernels.kernels`: it
    works in batches, captures and profiles and in several threads, copies an input first if it
    shares memory with an output, and the device checks indices into storage. Gradients do not go
    through a call; `custom_gradient` adds a gradient rule.

    Textures are `texture_2d` and `texture_3d` of f32, i32 or u32, and `texture_storage_2d` and
    `texture_storage_3d` with `write`. A call passes textures and samplers as objects of wgpu or
    wgpudawn, which must belong to the GPUDevice of the tensors. Without tensors, a call runs on the
    device of the textures. A captured program keeps its textures. A launch on a texture is
    submitted at once, except in a `batch` of the device.

    A device binds a buffer at multiples of 16 to 256 bytes, depending on the device. A view that
    begins between two multiples is bound from the lower multiple, so the index of its first element
    is not 0. A text supports such views if the first members of its struct take that index:
    `x_offset: u32` for the binding x. For such a view, `arrayLength` also counts from the lower
    multiple.

    A call needs only the bindings that its entry point uses. So a text may have one entry point
    that uses an optional input, and another one that does not. The offset of a binding that is not
    used is 0.

    Args:
        wgsl: The text, or the path of its file.
        entry: Its entry point, a function with `@compute`.
        constants: Values of overrides by name.
        name: The name in errors and profiles. None takes the name of the entry point; for a file,
            the name of the file without suffix, followed by the entry point unless that is main.

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read as text.
        ArgumentError: the text cannot be launched: no such entry point, an override without a
            value, a texture of another type, two uniforms, no output, a member that is no number.
        LimitError: a uniform struct above 256 bytes.
    """
    if isinstance(wgsl, os.PathLike):
        path = Path(wgsl)
        wgsl = path.read_text(encoding="utf-8")
        name = name or (path.stem if entry == "main" else f"{path.stem}.{entry}")
    if not isinstance(wgsl, str):
        raise ArgumentError(f"[raw_kernel] wgsl must be a str or a path but is {type_name(wgsl)}")
    if wgsl.endswith(".wgsl"):
        raise ArgumentError(
            f"[raw_kernel] a str is the text itself: pass Path({wgsl[-60:]!r}) for the file"
        )
    for word, told in (("entry", entry), ("name", entry if name is None else name)):
        if not isinstance(told, str):
            raise ArgumentError(f"[raw_kernel] {word} must be a str but is {type_name(told)}")
    if not isinstance(constants, Mapping | None):
        raise ArgumentError(
            f"[raw_kernel] constants must be values by name but is {type_name(constants)}"
        )
    given = {k: _literal(k, v) for k, v in (constants or {}).items()}
    return RawKernel(wgsl, entry, given, name or entry)


def _literal(name: str, value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value):
        return repr(value.item() if isinstance(value, np.generic) else value)
    raise ArgumentError(f"[raw_kernel] constants: {name} must be a number but is {value!r:.40}")


def _nothing(context: Any) -> Handle:
    """A tensor that tells the device of a launch without tensors."""
    return Handle(context, storage_of(context.null), 0, contiguous_layout((1,), DTYPES["uint32"]))


def _parts(m: Member) -> list[str]:
    return [m.name] if m.count == 1 else [f"{m.name}[{i}]" for i in range(m.count)]


def _packed(interface: Interface) -> Iterator[tuple[str, str]]:
    """The name and the format letter of each number behind the offsets, in order. A gap between
    members counts as numbers that are zero."""
    at = 4 * len(interface.offsets)
    for m in interface.members[len(interface.offsets) :]:
        gap = m.offset - at
        if gap % 4:
            yield f"_{at}", "H"
        for word in range(gap // 4):
            yield f"_{at}_{word}", "I"
        for part in _parts(m):
            yield part, m.letter
        at = m.offset + m.nbytes


def _uncounted(*views: View | None, **options: object) -> int:
    return 0
