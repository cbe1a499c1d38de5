"""PYKERNELS_DEBUG=2 for kernels of the build and of packages: each index into storage is checked.

A launch gets one more output, a buffer for the first index out of range, and bodies whose texts
check each index. In these texts most indices are in functions of the head, such as `x_load` and
`dst_store`. So each call of such a function passes its own number, and an error reports the line of
the call.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pykernels.errors import BufferStateError, IndexRangeError
from pykernels.runtime.launch import launch
from pykernels.runtime.log import logger
from pykernels.steps import Body, Kernel, Step
from pykernels.validate._instrument import CHECK, CHECKED_WORDS, Site, bind_memory, prepare
from pykernels.validate._rewrite import Rewriting
from pykernels.validate._usage import Function
from pykernels.wgsl.texts import Text, add_texts, made, of_body

from .telling import NAME, telling

__all__ = ["checked_launch"]

_ACCESSOR = re.compile(r"\w+_(?:load|store)\Z")


class _Told(NamedTuple):
    """The facts about a text with checks that its error messages need."""

    body: str
    key: str
    lines: list[str]
    sites: tuple[Site, ...]

    def place(self, site: Site) -> str:
        """The line of a site in the text, and also in the source file if the body knows it."""
        where = getattr(made(self.body), "where", lambda key, line: "")(self.key, site.line)
        of = f"line {site.line} of the text {self.body} {self.key}"
        return f"{where} ({of})" if where else of


# The device identifies a site by the number of its text times MOST_SITES, plus the number of the
# site in the text.
_texts: list[_Told] = []
MOST_SITES = 4096


class _Checked:
    """The texts of a body with checks."""

    def __init__(self, body: Body, members: int) -> None:
        self._of, self._members = body, members
        self.body = replace(body, name=f"{body.name} checked {members}")
        self._held = add_texts(self.body.name, self)

    def get(self, key: str) -> Text | None:
        """The text of a variant."""
        name = self._of.name
        text = (made(name) or of_body(name)).get(key)
        if text is None:
            return None
        found, sites = _rewritten(text.wgsl, self._members, len(_texts) * MOST_SITES)
        _texts.append(_Told(name, key, text.wgsl.split("\n"), sites))
        return text._replace(wgsl=found)


@functools.lru_cache(maxsize=1024)
def _checked_body(body: Body, members: int) -> _Checked:
    return _Checked(body, members)


@functools.cache
def _tell_unchecked(body: str) -> None:
    logger.warning("%s: its params leave no room, so its indices are not checked", body)


@functools.lru_cache(maxsize=1024)
def _checked_kernel(kernel: Kernel) -> Kernel:
    def body_of(step: Step, members: int, room: bool) -> Body | None:
        if not room:
            _tell_unchecked(step.body.name)
            return None
        return _checked_body(step.body, members).body

    return telling(kernel, body_of)


def _rewritten(text: str, members: int, first: int) -> tuple[str, tuple[Site, ...]]:
    """Add checks to a text of the build, and also a binding for the buffer and a member of Params
    for the buffer's offset. Returns the new text and the sites that are checked."""
    sites = Rewriting(text)
    accessors = {f.name: f for f in sites.functions() if _ACCESSOR.fullmatch(f.name)}
    found: list[Site] = []
    for index in sites.indices("storage"):
        function = _around(index.start, accessors.values())
        number = "pk_site" if function else f"{first + len(found)}u"
        if not function:
            expression = sites.original(index.start, index.end)
            found.append(Site(index.line, expression, name=index.name))
        sites.insert(index.start, "pk_debug_at(u32(")
        sites.insert(index.end, f"), {index.length}, {number})")
    for name, function in accessors.items():
        sites.insert(function.params[1], ", pk_site: u32")
        for call in sites.calls(name):
            sites.insert(call.end - 1, f", {first + len(found)}u")
            expression = sites.original(call.start, call.end)
            found.append(Site(call.line, expression, name=name.rpartition("_")[0]))
    prepare(sites, (0, bind_memory(sites, members)), CHECK)
    return sites.text(), tuple(found)


def _around(at: int, functions: Iterable[Function]) -> Function | None:
    return next((f for f in functions if f.body[0] <= at < f.body[1]), None)


def checked_launch(
    context: Any, key: tuple[Any, ...], tensors: Sequence[Any], scalars: tuple[float, ...]
) -> bool:
    """Make a launch with checks and wait for it. Returns False if it must run without checks.

    Raises:
        IndexRangeError: an index was outside of its binding.
    """
    kernel: Kernel = key[0]
    if kernel.family == "raw" or kernel.args[0].name == NAME:
        return False
    try:
        context.refuse("debug", "inside a capture or a recorded pass")
    except BufferStateError:
        return False  # inside a capture or a recorded pass, launches cannot be waited for
    checked = _checked_kernel(kernel)
    memory = context.facade.tensor(np.zeros(CHECKED_WORDS, np.uint32))
    given = (memory, *tensors)
    places = (checked, key[1], memory._location, *key[2:])
    launch(places, given, scalars, True)
    count, number, index, elements, x, y, z = memory.numpy()[:7].tolist()
    if not count:
        return True
    index -= (index >> 31) << 32
    told = _texts[number // MOST_SITES]
    site = told.sites[number % MOST_SITES]
    more = f"; {count - 1} more" if count > 1 else ""
    raise IndexRangeError(
        f"[{kernel.name}] {told.place(site)}, {told.lines[site.line - 1].strip()!r}: "
        f"{site.label} has the index {index} into {site.name}, of {elements} elements; invocation "
        f"({x}, {y}, {z}){more}"
    )
