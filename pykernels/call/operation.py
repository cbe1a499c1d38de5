"""Runs calls of the functions that `kernels/FAMILY/NAME.op.toml` declares, if the calls are not
cached. The generated function launches cached calls itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pykernels.device import Tensor
from pykernels.errors import ArgumentError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.steps import Kernel
from pykernels.tensors.layout import Layout

from .arrays import MAX_KNOWN, Array, Call

__all__ = ["Made", "Operation", "either"]

# The layout of a view, and the byte of its tensor at which it begins.
Place: TypeAlias = tuple[Layout, int]


@dataclass(slots=True)
class Made:
    """The result of a rule for the tensors and options of a call.

    Attributes:
        results: the outputs in the caller's form, by the kernel's names; `out` is the first.
        views: tensors that the kernel gets in place of arguments and results, each a view or a
            copy. Calls with copies are not cached.
        options: the kernel's options, if they differ from the function's arguments.
        bits: for each scalar that the kernel takes as the bits of a value, the two words.
        after: a function that is called after the kernel; calls with it are not cached.
    """

    results: dict[str, Tensor | None]
    views: dict[str, Tensor | None] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    bits: dict[str, tuple[int, int]] = field(default_factory=dict)
    after: Callable[[], None] | None = None


class Operation:
    """One function of layer two, which runs one kernel on views of its arguments.

    `known` caches calls on tensors: the kernel's options, bits, and a place for each of its
    tensors. For an input, the place is None if the kernel gets the argument itself, else the place
    of its view. For an output, the place is None if the output is not wanted, else the layout of
    the result and the place of the kernel's view (None without a view).
    """

    __slots__ = ("_fixed", "_kernel", "_named", "_names", "_results", "_rule", "_takes", "known")

    def __init__(
        self, name: str, kernel: Kernel, rule: Callable[..., Made], takes: tuple[str, ...],
        names: dict[str, str], results: tuple[str, ...], fixed: dict[str, Any],
        left: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """`left`: tensors of the kernel that the rule supplies if the caller does not."""
        self._kernel, self._rule, self._takes = kernel, rule, takes
        self._names, self._results, self._fixed = names, results, fixed
        args = tuple(
            [
                replace(a, name=names.get(a.name, a.name), optional=a.optional or a.name in left)
                for a in kernel.args
            ]
        )
        self._named = replace(kernel, name=name, args=args)
        self.known: dict[tuple[Hashable, ...], tuple[Any, ...]] = {}

    @whole
    def run(
        self, arrays: tuple[Array | None, ...], options: dict[str, Any],
        numbers: dict[str, float], key: tuple[Hashable, ...], asked: tuple[bool, ...],
        out: Tensor | tuple[Tensor, ...] | None,
    ) -> Any:  # fmt: skip
        """Run the kernel on arrays, and on options that were checked one by one.

        Args:
            arrays: in the order of the function's signature.
            options: the function's options, and constants for its rule.
            numbers: the kernel's scalars.
            key: further values that the result of the rule depends on.
            asked: for each result, True if the caller wants it.
            out: the Tensor to write to. If there are several, `Call` gets the first of them and the
                rule gets all.
        """
        for array in arrays:
            take_part = getattr(array, "take_part", None)
            if take_part is not None:  # the argument is quantised weights, which are not tensors
                return take_part(self._named.name, arrays, options, out)
        kernel = self._kernel
        first: Any = out
        if isinstance(out, tuple) and len(out) == len(self._results) > 1:
            first = out[0]
        call = Call(self._named, *arrays, out=first)
        tensors = {n: call.tensor(n, a) for n, a in zip(self._names.values(), arrays, strict=True)}
        there = {**tensors, **options, **numbers, "out": out}
        made = self._rule(call, **{n: there[n] for n in self._takes})
        whole = {k: tensors[n] for k, n in self._names.items()} | made.results
        views = {a.name: made.views.get(a.name, whole.get(a.name)) for a in kernel.args}
        given, scalars = self._fixed | options | made.options, self._fixed | numbers
        for name, (low, high) in made.bits.items():
            scalars |= {f"{name}_lo": low, f"{name}_hi": high}
        chosen = tuple([given[o] for o in kernel.options])
        run(kernel, tuple(views.values()), tuple([scalars[s] for s in kernel.scalars]), chosen)
        if made.after is not None:
            made.after()
        elif out is None and all(a is t for a, t in zip(arrays, tensors.values(), strict=True)):
            with suppress(_Elsewhere):
                places = [_place(a.role, whole.get(a.name), views[a.name]) for a in kernel.args]
                if len(self.known) >= MAX_KNOWN:
                    self.known.clear()
                layouts = [None if t is None else t._layout for t in tensors.values()]
                self.known[*layouts, *key] = (chosen, *made.bits.values(), *places)
        left = [made.results[n] for n, told in zip(self._results, asked, strict=True) if told]
        found = [None if t is None else call.leave(t) for t in left]
        return found[0] if len(found) == 1 else tuple(found)


class _Elsewhere(Exception):
    """A tensor of the kernel is not a view of an argument or of a new result, so the call is not
    cached."""


def _place(role: str, whole: Tensor | None, view: Tensor | None) -> Any:
    """The place of the kernel's tensor in the caller's tensor, in the form of `Operation.known`."""
    if whole is None or view is None:
        if whole is not view:
            raise _Elsewhere
        return None
    at: Place | None = None
    if view is not whole:
        if view._block is not whole._block:
            raise _Elsewhere
        at = view._layout, view._offset - whole._offset
    if role == "in":
        return at
    lay = whole._layout
    if whole._offset or lay.lo or lay.hi != lay.nbytes:
        raise _Elsewhere
    return lay, at


def either(op: str, name: str, value: Any, default: Any, other: str, given: Any) -> Any:
    """The value of an argument that has two names.

    Raises:
        ArgumentError: both are given.
    """
    if value is not default and value != default:
        raise ArgumentError(
            f"[{op}] {name} and {other} are two names of one argument: give one of them"
        )
    return given
