"""Writes the WGSL of a typed expression: its functions, and the value of one vector."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from pykernels._generated.ops.elementwise import HELPERS, OPS
from pykernels.wgsl.rows import class_of, typed, value_type

from .language import CASTS, Call, Node, Number
from .resolve import Typed, narrowed

__all__ = ["Scalar", "functions", "operations", "scalars", "value"]

# A number of the kernel: the name of an input, or the index of a number in the text; and its type.
Scalar = tuple[str | int, str]
# The WGSL of conversions to another type. They compare bits, because drivers assume that no value
# is NaN.
_CASTS = {
    ("f32", "i32"): "select(I(clamp(x, V(-2147483648.0f), V(2147483520.0f))), "
    "select(I(), I(2147483647), x >= V(2147483648.0f)), "
    "(NAN) | (x >= V(2147483648.0f)))",
    ("f32", "u32"): "select(U(clamp(x, V(), V(4294967040.0f))), "
    "select(U(), U(4294967295u), x >= V(4294967296.0f)), "
    "(NAN) | (x >= V(4294967296.0f)))",
    ("f32", "bool"): "(bitcast<U>(x) & U(0x7fffffffu)) != U()",
    ("i32", "bool"): "x != V()",
    ("u32", "bool"): "x != V()",
    ("i32", "u32"): "bitcast<U>(x)",
    ("u32", "i32"): "bitcast<I>(x)",
}
# A value of 32 bits, wrapped to an integer type of fewer bits.
_WRAPS = {
    "uint8": "x & V(255)",
    "uint16": "x & V(65535)",
    "int8": "(x << U(24u)) >> U(24u)",
    "int16": "(x << U(16u)) >> U(16u)",
}
_NAN = "(bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u)"


def scalars(root: Typed) -> tuple[Scalar, ...]:
    """The numbers that the kernel takes, each in every type in which it is used."""
    found: dict[Scalar, None] = {}
    for t in _walk(root):
        if isinstance(t.node, Call):
            found |= {_scalar(n, "f32"): None for n in t.node.params}
        elif isinstance(t.node, Number) or t.dtype.startswith("weak "):
            found[_scalar(t.node, t.kind)] = None
    return tuple(found)


def operations(root: Typed) -> int:
    """The number of operations for one element."""
    calls = [t.node.name for t in _walk(root) if isinstance(t.node, Call)]
    return sum(OPS[name].operations if name in OPS else 1 for name in calls)


def functions(root: Typed, vec: int) -> list[str]:
    """The operations and their helpers; names include the type, because WGSL has no overloads."""
    found: dict[str, str] = {}
    for t in _walk(root):
        if not isinstance(t.node, Call) or t.node.name in CASTS:
            continue
        row, kind = OPS[t.node.name], _computing(t)
        texts = {row.name: row.texts[class_of(kind)]}
        todo = list(texts.values())
        while todo:  # the helpers that this type's text calls, directly or through other helpers
            text = todo.pop()
            called = [h for h in row.helpers if h not in texts and _calls(text, HELPERS[h])]
            texts |= {h: HELPERS[h] for h in called}
            todo += [HELPERS[h] for h in called]
        names = {f: f"{f}_{kind}" for text in texts.values() for f in _defined(text)}
        names[f"{row.name}_of"] = f"{row.name}_{kind}"
        for name, text in texts.items():
            found.setdefault(f"{name} {kind}", _renamed(typed(text, kind, vec), names))
    return list(found.values())


def _defined(text: str) -> list[str]:
    return re.findall(r"\bfn (\w+)\(", text)


def _calls(text: str, helper: str) -> bool:
    return any(re.search(rf"\b{name}\(", text) for name in _defined(helper))


def value(
    t: Typed, vec: int, let: Callable[[str], str], loads: Mapping[str, str],
    members: Mapping[Scalar, str],
) -> str:  # fmt: skip
    """The name of a node's value.

    `let` gives an expression a name, `loads` holds the values of tensors, `members` the
    params of numbers.
    """
    kind = value_type("V", t.kind, vec)
    node = t.node
    if not isinstance(node, Call):
        if not isinstance(node, Number) and node.name in loads:
            return loads[node.name]
        member = members[_scalar(node, t.kind)]
        return let(f"{kind}({member} != 0u)" if t.kind == "bool" else f"{kind}({member})")
    args = [value(a, vec, let, loads, members) for a in t.args]
    if node.name in CASTS:
        return let(_cast(args[0], t.args[0].kind, t.kind, vec))
    numbers = [members[_scalar(n, "f32")] for n in node.params]
    result = let(f"{node.name}_{_computing(t)}({', '.join([*args, *numbers])})")
    narrow = narrowed(t)
    return let(_of_value(_WRAPS[narrow], result, t.kind, vec)) if narrow else result


def _computing(t: Typed) -> str:
    """The type that an operation computes in: the type of its operands, not of its result."""
    assert isinstance(t.node, Call)
    row = OPS[t.node.name]
    values = (a.kind for a, n in zip(t.args, row.inputs, strict=True) if n not in row.conditions)
    return next(values)


def _scalar(node: Node, kind: str) -> Scalar:
    assert not isinstance(node, Call)
    return (node.index if isinstance(node, Number) else node.name, kind)


def _walk(t: Typed) -> Iterator[Typed]:
    yield t
    for a in t.args:
        yield from _walk(a)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b[a-z]\w*(?=\()", lambda m: names.get(m[0], m[0]), text)


def _cast(x: str, source: str, target: str, vec: int) -> str:
    if source == "bool" and target != "bool":
        zero, one = (f"{value_type('V', target, vec)}({n})" for n in (0, 1))
        return f"select({zero}, {one}, {x})"
    text = _CASTS.get((source, target))
    if text is None:
        return f"{value_type('V', target, vec)}({x})"
    return _of_value(text.replace("NAN", _NAN), x, source, vec)


def _of_value(text: str, x: str, kind: str, vec: int) -> str:
    """The row's text for values of this type; the expression `x` replaces the name x in it."""
    return re.sub(r"\bx\b", x, typed(text, kind, vec))
