"""Makes plans use a given choice or a given tuning table, instead of their own choice or table.

Tests and benches use it. A choice is the result of the function `choose` of a kernel's plan. `Caps`
holds the forced choices, so this works without a GPU, and a prepared call is used only with the
choices that it was prepared with.

    with force(dev, choice("mul_mat", body="gemm_tile", splits=2)):
        pk.matmul(a, b)
    with force(dev, tuning="generic-large"):
        ...
    plan(with_forced(caps, choice("flash_attn", body="decode", splits=5)), ...)
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_type_hints

from .errors import ArgumentError
from .steps import Caps, Kernel
from .tuning import Tuning, load

if TYPE_CHECKING:
    from .device import Device

__all__ = ["choice", "force", "parse", "with_forced"]


def with_forced(caps: Caps, *choices: Any, tuning: str | Tuning | None = None) -> Caps:
    """Caps with which plans use these choices (the first of each kind) and this tuning table."""
    table = (
        tuning if isinstance(tuning, Tuning) else caps.tuning if tuning is None else load(tuning)
    )
    return replace(caps, forced=(*choices, *caps.forced), tuning=table)


@contextmanager
def force(device: Device, *choices: Any, tuning: str | Tuning | None = None) -> Iterator[None]:
    """Inside the block, all calls on the device use these choices, even calls of other threads.

    `tuning` is a table, or names a table or a file, as `PYKERNELS_TUNING` does. If the call or the
    device does not allow a choice, the body or its pipeline raises an error.
    """
    context = device._context
    with context.lock:
        before = context.caps.tuning
        context.caps = with_forced(context.caps, *choices, tuning=tuning)
        context.calls.clear()
    try:
        yield
    finally:
        with context.lock:
            table = context.caps.tuning if tuning is None else before
            left = _without(context.caps.forced, choices)
            context.caps = replace(context.caps, forced=left, tuning=table)
            context.calls.clear()


def _without(forced: tuple[Any, ...], choices: tuple[Any, ...]) -> tuple[Any, ...]:
    left = list(forced)
    for mine in choices:
        del left[next(i for i, c in enumerate(left) if c is mine)]
    return tuple(left)


def choice(kernel: str, **fields: Any) -> Any:
    """A choice that can be forced on the plan of a kernel: a result of its `choose`, with these
    fields.

    If a field has fields of its own, a tuple is converted to it. The text of an ArgumentError lists
    the fields.
    """
    kind = _kind(kernel)
    defaults = kind._field_defaults
    unknown = [name for name in fields if name not in kind._fields]
    missing = [n for n in kind._fields if n not in fields and n not in defaults]
    if unknown or missing:
        raise ArgumentError(
            f"[force] a choice of {kernel} has the fields {', '.join(kind._fields)}, of which "
            f"{', '.join(n for n in kind._fields if n not in defaults)} must be given, but has "
            f"{', '.join(fields) or 'none'}"
        )
    for name, value in fields.items():
        inner = type(defaults.get(name))
        if isinstance(value, tuple) and hasattr(inner, "_fields"):
            fields[name] = inner(*value)
    return kind(**fields)


def parse(kernel: str, text: str) -> Any:
    """A choice as text: a body as `pykernels explain` names it, and fields: "gemm_tile splits=2"
    or "body=gemm_tile splits=1 tail=3,4"."""
    fields: dict[str, Any] = {}
    for i, word in enumerate(text.split()):
        name, equals, value = word.partition("=")
        if not equals and i == 0:
            name, equals, value = "body", "=", word
        if not equals:
            raise ArgumentError(f"[force] a choice is BODY NAME=VALUE ... but has {word!r}")
        fields[name] = tuple(map(_value, value.split(","))) if "," in value else _value(value)
    found = choice(kernel, **fields)
    known = bodies(kernel)
    if known and found.body not in known:
        raise ArgumentError(
            f"[force] body of {kernel} must be one of {', '.join(known)} but is {found.body!r}"
        )
    return found


def bodies(kernel: str) -> tuple[str, ...]:
    """The bodies among which the plan of a kernel chooses by name; () if the plan does not choose
    bodies."""
    module = importlib.import_module(_kind(kernel).__module__)
    found: tuple[str, ...] = getattr(module, "BODIES", ())
    return found


def _value(text: str) -> int | str | bool:
    known = {"true": True, "false": False}
    return known[text] if text in known else int(text) if text.isdecimal() else text


def _kind(kernel: str) -> Any:
    try:
        found: Kernel = importlib.import_module(f"pykernels._generated.kernels.{kernel}").KERNEL
    except ModuleNotFoundError:
        raise ArgumentError(f"[force] there is no kernel {kernel!r}") from None
    choose = getattr(importlib.import_module(found.plan.__module__), "choose", None)
    if choose is None:
        raise ArgumentError(f"[force] the plan of {kernel} has nothing to choose")
    return get_type_hints(choose)["return"]
