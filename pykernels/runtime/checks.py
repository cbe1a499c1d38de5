"""Checks of a call's arguments before it is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykernels.errors import AliasError, DTypeError, PyKernelsError, ShapeError, either
from pykernels.steps import Arg, Kernel
from pykernels.tensors.host import type_name
from pykernels.tensors.layout import View, expands_to, repeats_to

from .handle import Handle
from .overlap import overlaps_itself, share_elements

__all__ = ["check_arguments", "wrong_type"]


def wrong_type(kernel: Kernel, tensors: Sequence[object]) -> PyKernelsError:
    """The error for the first argument that is not a tensor."""
    for arg, t in zip(kernel.args, tensors, strict=True):
        if not isinstance(t, Handle) and not (t is None and arg.optional):
            return DTypeError(
                f"[{kernel.name}] {arg.name} must be a pykernels.Tensor but is {type_name(t)}"
            )
    raise AssertionError("unreachable")


def check_arguments(kernel: Kernel, tensors: Sequence[Handle | None]) -> None:
    """Raise if a tensor breaks a rule of its argument."""
    args = dict(zip(kernel.args, tensors, strict=True))
    _check_dtypes(kernel, args)
    _check_shapes(kernel, args)
    _check_axes(kernel, args)
    _check_outputs(kernel, args)


def _check_dtypes(kernel: Kernel, args: Mapping[Arg, Handle | None]) -> None:
    op = kernel.name
    same: dict[str, Arg] = {}
    for arg, t in args.items():
        if t is None and arg.optional:
            continue
        if not isinstance(t, Handle):
            raise wrong_type(kernel, tuple(args.values()))
        dtype = t._layout.dtype.name
        if dtype not in arg.accepted:
            allowed = either(arg.accepted)
            raise DTypeError(f"[{op}] {arg.name} must be {allowed} but is {dtype}")
        if arg.same:
            first = same.setdefault(arg.same, arg)
            other = args[first]
            if other is not None and other._layout.dtype.name != dtype:
                raise DTypeError(
                    f"[{op}] {arg.name} must have the dtype of {first.name}, "
                    f"{other._layout.dtype.name}, but is {dtype}"
                )
        if arg.role == "out" and overlaps_itself(t._layout):
            raise AliasError(
                f"[{op}] {arg.name} is broadcast or overlaps itself (shape {t._layout.shape}, "
                f"strides {t._layout.strides}): an output needs memory of its own for each element"
            )


def _check_shapes(kernel: Kernel, args: Mapping[Arg, Handle | None]) -> None:
    op = kernel.name
    shapes = {a.name: t._layout.shape for a, t in args.items() if t is not None}
    for arg, t in args.items():
        if t is None:
            continue
        shape = t._layout.shape
        other = shapes.get(arg.like)
        if other is not None and other != shape:
            raise ShapeError(
                f"[{op}] {arg.name} must have the shape of {arg.like}, {other}, "
                f"but has shape {shape}"
            )
        for name, fits in ((arg.expand, expands_to), (arg.broadcast, repeats_to)):
            if name and not fits(shape, shapes[name]):
                raise ShapeError(
                    f"[{op}] {arg.name} must broadcast to {shapes[name]} but has shape {shape}"
                )


def _check_axes(kernel: Kernel, args: Mapping[Arg, Handle | None]) -> None:
    op = kernel.name
    known: dict[str, tuple[str, int]] = {}
    for arg, t in args.items():
        if t is None or not arg.axes:
            continue
        shape = t._layout.shape
        if len(shape) != len(arg.axes):
            raise ShapeError(
                f"[{op}] {arg.name} must have {len(arg.axes)} axes ({' '.join(arg.axes)}) but has "
                f"shape {shape}"
            )
        for letter, size in zip(arg.axes, shape, strict=True):
            name, first = known.setdefault(letter, (arg.name, size))
            if size != first:
                raise ShapeError(
                    f"[{op}] axis {letter} must have one size but is {first} in {name} and {size} "
                    f"in {arg.name}"
                )


def _check_outputs(kernel: Kernel, args: Mapping[Arg, Handle | None]) -> None:
    outputs = [(a.name, t) for a, t in args.items() if a.role == "out" and t is not None]
    for i, (name, t) in enumerate(outputs):
        for other, u in outputs[i + 1 :]:
            if t._block is u._block and share_elements(_view(t), _view(u)):
                raise AliasError(
                    f"[{kernel.name}] {name} and {other} share elements: outputs need memory of "
                    "their own"
                )


def _view(t: Handle) -> View:
    return View(0, t._layout.dtype, t._layout.shape, t._layout.strides, t._offset)
