"""Arguments of wrong kinds, to every public method of devices, tensors, tapes, programs and
optimisers: an error that is documented or none, and a device that works as before."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime.program import Program
from tests.runtime._helpers import check_works, isolated, open_device

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]

SHAPE = (2, 3)
CLASSES = (pk.Device, pk.Tensor, pk.Tape, Program, pk.SGD, pk.Adam)
SPECIAL = {"__array__", "__call__", "__dlpack__", "__getitem__", "__setitem__"}
# What launches tell a tape, and the end of the device, are not for wrong arguments.
LEFT_OUT = {
    "begin", "clear", "close", "derived", "done", "drop", "interrupted", "needs", "written",
}  # fmt: skip


class Odd:
    """Neither a number nor a sequence, though it says that it has a length."""

    def __len__(self) -> int:
        return 2

    def __bool__(self) -> bool:
        raise KeyError("nobody asks for its truth")


def wrong_kinds(dev: pk.Device) -> list[Any]:
    """A value of each kind: for some argument each is wrong."""
    return [
        None, True, 0, -1, 3, 1.5, float("nan"), float("inf"), 10**30, 10**400, 1j, Fraction(1, 3),
        "", "text", b"bytes", [], [1, 2], [[1], [2, 3]], ["a"], (), (2, 3), (2, "3"), (-1, 2),
        {}, {"a": 1}, {1, 2}, slice(None), slice("a", 2), ..., int, object(), Odd(), len,
        iter([1, 2]), np.array([1, 2]), np.array([1.5]), np.array(3), np.float64(2), np.int64(1),
        np.array(["a"]), np.array([None]), np.zeros((0, 3), "f4"), np.ones(SHAPE, "f4"),
        np.array([True, False]), np.dtype("f8"), np.ones(2, "f4,i4"), np.datetime64("2020"),
        dev, dev.ones((2,), "int32"), dev.ones(SHAPE, "bool"), dev.ones((0,)), dev.wgpu_device,
    ]  # fmt: skip


def good(dev: pk.Device, name: str, parameter: str) -> Any:
    """An argument that a method takes."""
    x = dev.ones(SHAPE)
    known: dict[str, Any] = {
        "array": np.ones(SHAPE, "f4"), "axis": 0, "axis1": 0, "axis2": 1, "buffer": x.buffer,
        "chunks": 2, "destination": 0, "device": dev, "dtype": "float32", "grads": [x],
        "index": 0, "loss": x, "nbytes": None, "offset": 0, "out": None, "shape": SHAPE,
        "source": 1, "sources": [x], "start_axis": 0, "state": {}, "stop": 1, "value": 1.0,
    }  # fmt: skip
    return known.get(parameter)


def methods() -> Iterator[tuple[type, str]]:
    for kind in CLASSES:
        for name in dir(kind):
            public = not name.startswith("_") or name in SPECIAL
            if public and name not in LEFT_OUT and callable(getattr(kind, name)):
                if name != "__call__" or kind is Program:
                    yield kind, name


def subjects(dev: pk.Device) -> dict[type, Callable[[], Any]]:
    """What methods are called on, a new one for each."""

    def program() -> Any:
        x = dev.ones(SHAPE)
        with dev.capture(x=x) as found:
            pk.kernels.add(x, x, dev.empty(SHAPE))
        return found

    return {
        pk.Device: lambda: dev, pk.Tensor: lambda: dev.ones(SHAPE), pk.Tape: pk.Tape,
        Program: program, pk.SGD: lambda: pk.SGD([dev.ones(SHAPE)], lr=0.1, momentum=0.9),
        pk.Adam: lambda: pk.Adam([dev.ones(SHAPE)], lr=0.1),
    }  # fmt: skip


def use(found: Any) -> None:
    """What a caller does with what a method gives."""
    if isinstance(found, AbstractContextManager) and not isinstance(found, pk.Device):
        with found:
            pass
    elif inspect.iscoroutine(found):
        found.close()


def calls(
    dev: pk.Device, method: Callable[..., Any], name: str
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The method with a wrong value in each place."""
    parameters = inspect.signature(method).parameters
    if not parameters:
        yield "nothing", method
    for value in wrong_kinds(dev):
        for p in parameters.values():
            needed = [
                q for q in parameters.values()
                if q is not p and q.default is q.empty and q.kind is q.POSITIONAL_OR_KEYWORD
            ]  # fmt: skip
            named = {q.name: good(dev, name, q.name) for q in needed}
            told = f"{p.name}={value!r:.60}"
            if p.kind is p.VAR_POSITIONAL:
                yield told, lambda v=value: method(v)
                yield f"{told} and 1", lambda v=value: method(v, 1)
            elif p.kind is p.VAR_KEYWORD:
                yield told, lambda v=value: method(x=v)
            else:
                named[p.name] = value
                yield told, lambda n=named: method(**n)


def all_idle(dev: pk.Device) -> bool:
    """Nothing that a block of a caller's begins is left behind."""
    context = dev._context
    pace = context.recorder.pace
    return pace.held == pace.whole == 0 and not context.scopes and not context.recorder.timer


@isolated
def test_wrong_kinds_leave_a_device_that_works() -> None:
    dev = open_device()
    found = []
    for kind, name in methods():
        make = subjects(dev)[kind]
        for told, call in calls(dev, getattr(make(), name), name):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # what becomes of it is for other tests
                    use(call())
            except (pk.PyKernelsError, TypeError, BufferError):
                pass
            except ValueError as e:  # numpy's, of what it makes no array of
                if name not in ("__array__", "__dlpack__"):
                    found.append(f"{kind.__name__}.{name}({told}): {e!r:.100}")
            except Exception as e:
                found.append(f"{kind.__name__}.{name}({told}): {e!r:.100}")
            dev.set_memory_budget(None)
            if dev._context.faults.open:  # found on the device: the next read would tell
                with suppress(pk.IndexRangeError):
                    dev.sync()
            if not all_idle(dev):
                raise AssertionError(f"{kind.__name__}.{name}({told}) leaves state behind")
        check_works(dev)
    dev.close()
    assert not found, f"{len(found)} other errors\n" + "\n".join(found[:40])


def test_whether_batches_are_timed_is_a_bool(dev: pk.Device) -> None:
    with pytest.raises(pk.ArgumentError, match="batches must be"):
        with dev.profile(batches=np.array([1, 2])):  # type: ignore[arg-type]
            raise AssertionError
    check_works(dev)
    for value in (True, np.True_, False):
        with dev.profile(batches=value) as p:  # type: ignore[arg-type]
            check_works(dev)
        assert p.records
    assert all_idle(dev)
