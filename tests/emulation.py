"""Matrix units emulated on a device that has none: for tests of the texts that use them.

The texts are rendered here, from the same templates with `kernels/lib/mma/emulated.wgsl`; the
package does not have them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pykernels as pk
from codegen.build import variants_of
from pykernels.steps import MatrixUnits
from pykernels.wgsl.texts import Text, add_texts, of_body
from tests.checkout import ROOT

__all__ = ["UNITS", "emulated", "texts_of"]

# What an H200 reports.
_SUMS = [("f16", "f32"), ("f16", "f16")]
UNITS = MatrixUnits(
    "emulated",
    frozenset(
        [(x, y, m, n, k) for x, y in _SUMS for m, n, k in ((16, 16, 16), (16, 8, 16), (16, 8, 8))]
        + [(x, y, 16, n, 32) for x, y in (("i8", "i32"), ("u8", "u32")) for n in (16, 8)]
    ),
)


class Emulated:
    """The texts of a body, with those that the package does not have. `edit` changes a text."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._texts = {
            v.key: Text(v.text, v.features)
            for v in variants_of(ROOT, body)
            if v.spec.dialect(v.axes) == "emulated"
        }
        self.edit: Callable[[str], str] | None = None

    def get(self, key: str) -> Text | None:
        found = self._texts.get(key)
        if found is None:
            return of_body(self._body).get(key)
        return found if self.edit is None else found._replace(wgsl=self.edit(found.wgsl))


@functools.cache
def texts_of(body: str) -> Emulated:
    """Rendered once."""
    return Emulated(body)


@contextmanager
def emulated(dev: pk.Device, *bodies: str) -> Iterator[None]:
    """Plans for the device choose matrix units, and these bodies have the texts for that; those of
    the device itself, where it has some."""
    context = dev._context
    if context.caps.matrix is not None:
        yield
        return
    held = [add_texts(body, texts_of(body)) for body in bodies]
    before = context.caps
    with context.lock:
        context.caps = replace(context.caps, matrix=UNITS)
        context.calls.clear()
    try:
        yield
    finally:
        with context.lock:
            context.caps = before
            context.calls.clear()
        del held
