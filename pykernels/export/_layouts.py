"""Reads calls that are written as text, for `--shape` and for the files in cases/FAMILY/.

    x=f32[8,1000] dst=f32[8,1000] scale=0.5
    a=f32[64,32]:1,64 b=f32[16,32] dst=f32[16,64] activation=relu     strides in elements behind :

A tensor that must have the shape of another may be left out; `dst=x` gives dst the memory of x.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pykernels.dtypes import DTYPES, dtype_of
from pykernels.errors import ArgumentError
from pykernels.tensors.layout import Layout, contiguous_strides, layout

__all__ = ["Request", "parse"]

_TENSOR = re.compile(r"(\w+)\[([\d,]*)\](?::([-\d,]*))?")


@dataclass(frozen=True)
class Request:
    """One call of a kernel: layouts by argument, and the values of other arguments."""

    kernel: str
    layouts: dict[str, Layout]
    given: dict[str, Any]
    shares: dict[str, str]  # for an output, the name of the input whose memory it shares
    text: str


def parse(kernel: str, text: str, facts: Mapping[str, Any]) -> Request:
    """The call that a text describes; `facts` is the kernel's entry of javascript.json."""
    tensors = {t["name"]: t for t in facts["tensors"]}
    known = {a["name"] for a in (*facts["scalars"], *facts["options"]) if "fixed" not in a}
    layouts: dict[str, Layout] = {}
    given: dict[str, Any] = {}
    shares: dict[str, str] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals or (name not in tensors and name not in known):
            names = ", ".join([*tensors, *sorted(known)])
            raise ArgumentError(f"[export] {kernel} has {names}, but the shape says {word!r}")
        if name in known:
            given[name] = _value(value)
        elif value in layouts:
            layouts[name] = layouts[value]
            shares[name] = value
        else:
            layouts[name] = _layout(kernel, word, value)
    for name, t in tensors.items():
        if name not in layouts and not t["optional"]:
            other = t.get("like")
            if other not in layouts:
                raise ArgumentError(f"[export] {kernel} needs {name}, but the shape says {text!r}")
            same = layouts[other]
            dtype = same.dtype
            if len(t["dtypes"]) == 1:
                dtype = DTYPES[t["dtypes"][0]]
            strides = contiguous_strides(same.shape, dtype.itemsize)
            layouts[name] = layout(same.shape, strides, dtype)
    return Request(kernel, layouts, given, shares, text)


def _layout(kernel: str, word: str, value: str) -> Layout:
    m = _TENSOR.fullmatch(value)
    if not m:
        raise ArgumentError(f"[export] {kernel}: {word!r} is not like x=f32[8,1000]")
    dtype = dtype_of(m[1], f"[export] {kernel}: in {word!r} the dtype")
    try:
        shape = tuple(int(n) for n in m[2].split(",") if n)
        strides = contiguous_strides(shape, dtype.itemsize)
        if m[3] is not None:
            strides = tuple(int(n) * dtype.itemsize for n in m[3].split(",") if n)
    except ValueError:
        raise ArgumentError(f"[export] {kernel}: {word!r} is not like x=f32[8,1000]") from None
    if len(strides) != len(shape):
        raise ArgumentError(f"[export] {kernel}: {word!r} has {len(strides)} strides")
    return layout(shape, strides, dtype)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError):
        return text
