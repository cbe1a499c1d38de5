"""Calls of `debug` in the sources of kernels of the build and of packages.

A build keeps the texts with their calls of `debug` beside the texts that launches run. A launch
inside of `Device.debug` runs the kept texts, after their calls are replaced by code that writes
records to one more output.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pykernels.errors import BufferStateError, LimitError
from pykernels.runtime.launch import launch
from pykernels.steps import Body, Kernel, Step
from pykernels.validate._instrument import Site, debugging
from pykernels.wgsl.texts import Text, add_texts, any_debug_texts, debug_texts

from .telling import NAME, telling

__all__ = ["Call", "call_of", "recorded_launch"]

MOST_CALLS = 4096  # most calls of debug in a text


class Call(NamedTuple):
    """A call of debug, and the file and line of its source."""

    site: Site
    place: str


class _Recording:
    """The texts of a body with calls of debug that write records."""

    def __init__(self, body: Body, members: int) -> None:
        self._name, self._members = body.name, members
        self.body = replace(body, name=f"{body.name} debug {members}")
        self._held = add_texts(self.body.name, self)

    def get(self, key: str) -> Text | None:
        """The text of a variant."""
        texts = debug_texts(self._name)
        text = None if texts is None else texts.get(key)
        if texts is None or text is None:
            return None
        # The device identifies a call by the number of its text times MOST_CALLS, plus the number
        # of the call in the text.
        number = next(_numbers)  # atomic, because two devices may ask in two threads
        made = debugging(self._name, text.wgsl, self._members, number * MOST_CALLS)
        _calls[number] = tuple(Call(s, texts.where(key, s.line)) for s in made.sites)
        return text._replace(wgsl=made.text)


_calls: dict[int, tuple[Call, ...]] = {}  # the calls of each text, by the number of the text
_numbers = itertools.count()


def call_of(number: int) -> Call:
    """The call that a record names by this number."""
    return _calls[number // MOST_CALLS][number % MOST_CALLS]


@functools.lru_cache(maxsize=1024)
def _recording(body: Body, members: int) -> _Recording:
    return _Recording(body, members)


@functools.lru_cache(maxsize=1024)
def _recording_kernel(kernel: Kernel) -> Kernel:
    def body_of(step: Step, members: int, room: bool) -> Body | None:
        texts = debug_texts(step.body.name)
        if texts is None or step.body.key(step.axes, "read") not in texts:
            return None
        if not room:
            raise LimitError(
                f"[{kernel.name}] the params of {step.body.name} leave no room for debug"
            )
        return _recording(step.body, members).body

    return telling(kernel, body_of)


def recorded_launch(
    context: Any, key: tuple[Any, ...], tensors: Sequence[Any], scalars: tuple[float, ...]
) -> bool:
    """Make a launch with records for the block of `Device.debug`. Returns False if it must run
    without records."""
    kernel: Kernel = key[0]
    if kernel.family == "raw" or kernel.args[0].name == NAME or not any_debug_texts():
        return False
    try:
        context.refuse("debug", "inside a capture or a recorded pass")
    except BufferStateError:
        return False  # a program would write records after the block
    memory = context.debugging.memory_of_kernel(kernel)
    places = (_recording_kernel(kernel), key[1], memory._location, *key[2:])
    launch(places, (memory, *tensors), scalars, True)
    return True
