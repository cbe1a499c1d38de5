"""Writes the trees of `_translate.py` as JavaScript.

Small functions of module/called.js and module/5_python.js keep Python's meaning: `call` binds
positional and keyword arguments; `truth`, `same`, `add` and others treat arrays as Python treats
lists and tuples.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any

from ._expressions import BUILTINS, OF_STEPS, Node, spec_expression
from ._translate import Module

__all__ = ["expression", "plan_module", "plan_object", "safe"]

_COMPARE = {
    "Eq": "py.same({0}, {1})", "NotEq": "!py.same({0}, {1})", "Lt": "py.less({0}, {1})",
    "LtE": "!py.less({1}, {0})", "Gt": "py.less({1}, {0})", "GtE": "!py.less({0}, {1})",
    "In": "py.has({1}, {0})", "NotIn": "!py.has({1}, {0})", "Is": "{0} === {1}",
    "IsNot": "{0} !== {1}",
}  # fmt: skip
# Methods of views and index spaces; module/1_views.js defines methods of the same names.
_FLAGS = {"aligned", "columns_apart", "repeats", "vec", "vectorizable"}
_OF_VIEWS = {*_FLAGS, "as_rank", "broadcast_to", "with_layout"}
# Plain functions of JavaScript, which take their arguments only by position.
_DIRECT = {f"py.{name}" for name in BUILTINS | OF_STEPS}
# calls without keyword arguments: Python's function, and the function that replaces it
_OF_TWO = {"py.max": "py.largest", "py.min": "py.smallest"}
# Names that Python allows but JavaScript reserves, and names that the module itself uses.
_RESERVED = {
    "arguments", "case", "catch", "const", "debugger", "default", "delete", "do", "enum", "eval",
    "export", "extends", "function", "implements", "instanceof", "interface", "let", "new", "null",
    "package", "private", "protected", "public", "static", "super", "switch", "this", "throw",
    "typeof", "var", "void",
    "py", "plans", "bodies", "kernels", "item_", "first_", "parts_",
}  # fmt: skip


def safe(name: str) -> str:
    """A Python name as a JavaScript name."""
    return f"{name}_" if name in _RESERVED else name


def expression(text: str, *, test: bool = False) -> str:
    """JavaScript for the value of a spec's expression, or, with `test`, for its truth."""
    node = spec_expression(text)
    return _test(node) if test else _value(node)


def plan_object(name: str) -> str:
    """The JavaScript name of a module of plans."""
    return "plans." + name.replace(".", "$")


@functools.lru_cache(maxsize=1024)  # cached, because many kernels share a module
def plan_module(of: Module) -> str:
    """The JavaScript of a module of plans."""
    lines = [line for node in of.body for line in _statement(node)]
    inner = "\n".join(f"  {line}" for line in [f"let {', '.join(map(safe, of.names))};", *lines])
    out = ", ".join(n if safe(n) == n else f"{n}: {safe(n)}" for n in of.names)
    return f"{plan_object(of.name)} = (() => {{\n{inner}\n  return {{ {out} }};\n}})();\n"


# -- values ---------------------------------------------------------------------------------------


def _test(node: Node) -> str:
    """JavaScript for the truth of a value."""
    if _is_plain(node):
        return _value(node)
    if node[0] in _WORDS:
        return f"({_WORDS[node[0]].join(map(_test, node[1]))})"
    return f"py.truth({_value(node)})"


_WORDS = {"and": " && ", "or": " || "}


def _is_plain(node: Node) -> bool:
    """True if JavaScript and Python agree on the truth of a value. They differ for empty lists."""
    if node[0] in _WORDS:
        return all(map(_is_plain, node[1]))
    return node[0] in ("compare", "not") or (node[0] == "method" and node[2] in _FLAGS)


def _value(node: Node) -> str:
    kind, *parts = node
    simple = {"none": "null", "local": "{0}", "py": "py.{0}", "body": "bodies.{0}",
              "configs": "py.configs(bodies.{0})"}  # fmt: skip
    if kind == "local":
        return safe(parts[0])
    if kind in simple:
        return simple[kind].format(*parts)
    if kind == "const":
        return json.dumps(parts[0])
    if kind == "table":
        return f"new py.Dict({json.dumps(parts[0])})"
    if kind in ("list", "tuple"):
        return f"[{_all(parts[0])}]"
    return str(_VALUES[kind](*parts))


def _all(nodes: Iterable[Node]) -> str:
    return ", ".join(map(_value, nodes))


def _plan(module: str, name: str | None) -> str:
    return plan_object(module) + (f".{name}" if name else "")


def _cut(of: Node, *ends: Node | None) -> str:
    return f"py.cut({_value(of)}, {', '.join(_value(x) if x else 'null' for x in ends)})"


def _named(named: list[Any]) -> str:
    return ", ".join(
        f"{name}: {_value(v)}" if name else f"...py.keywords({_value(v)})" for name, v in named
    )


def _method(of: Node, name: str, args: list[Node], named: list[Any]) -> str:
    owner = _value(of)
    if name in _OF_VIEWS and not named and not owner.startswith("plans."):
        return f"{owner}.{name}({_all(args)})"
    return f"py.method({owner}, {json.dumps(name)}, [{_all(args)}], {{ {_named(named)} }})"


def _call(called: Node, given: list[Node], named: list[Any]) -> str:
    function, args = _value(called), _all(given)
    if not named and function in _OF_TWO and len(given) > 1 and "..." not in args:
        return f"{_OF_TWO[function]}({args})"
    if not named and function in _DIRECT:
        return f"{function}({args})"
    return f"py.call({function}, [{args}], {{ {_named(named)} }})"


def _neg(of: Node) -> str:
    return f"-{_value(of)}" if of[0] == "const" else f"-({_value(of)})"


def _bool_op(kind: str, nodes: list[Node]) -> str:
    if all(map(_is_plain, nodes[:-1])):
        return f"({_WORDS[kind].join(map(_value, nodes))})"
    name = "all_of" if kind == "and" else "one_of"
    return f"py.{name}({', '.join(f'() => {_returned(v)}' for v in nodes)})"


def _returned(node: Node) -> str:
    text = _value(node)
    return f"({text})" if text.startswith("{") else text


def _compare(left: Node, rest: list[tuple[str, Node]]) -> str:
    """Comparisons. Equality with a text, a number or None is identity in JavaScript."""
    parts = []
    for op, right in rest:
        if right[0] == "const":
            op = {"Eq": "Is", "NotEq": "IsNot"}.get(op, op)
        parts.append(_COMPARE[op].format(_value(left), _value(right)))
        left = right
    return f"({' && '.join(parts)})"


def _dict(pairs: list[tuple[Node | None, Node]]) -> str:
    parts = [f"[{_value(k)}, {_value(v)}]" if k else f"...py.items({_value(v)})" for k, v in pairs]
    return f"new py.Dict([{', '.join(parts)}])"


def _def(
    marks: dict[str, Any], defaults: list[Any], local: list[str], body: list[Node], star: bool
) -> str:
    given = ", ".join(f"{n}: () => {_value(d)}" for n, d in defaults)
    extra = [marks[k] for k in ("rest", "named") if marks[k]]
    params = ", ".join(map(safe, [*marks["names"], *extra]))
    lines = [f"  let {', '.join(sorted(map(safe, local)))};"] if local else []
    text = "\n".join([*lines, *_block(body)])
    word = "function*" if star else "function"
    return f"py.def({json.dumps(marks)}, {{ {given} }}, {word} ({params}) {{\n{text}\n}})"


def _comp(kind: str, names: list[str], each: list[Any], element: Node) -> str:
    lines = [f"yield {_value(element)};"]
    for i, (target, source, tests) in reversed(list(enumerate(each))):
        for test in reversed(tests):
            lines = [f"if ({_test(test)}) {{", *lines, "}"]
        of = f"py.iter({_value(source)})" if i else "first_"
        lines = [f"for (const item_ of {of}) {{", _assign(target, "item_"), *lines, "}"]
    declared = f"let {', '.join(sorted(map(safe, names)))};"
    first = f"(py.iter({_value(each[0][1])}))"
    made = f"(function* (first_) {{ {declared} {' '.join(lines)} }}){first}"
    forms = {
        "list": "[...{0}]",
        "generator": "{0}",
        "set": "py.set({0})",
        "dict": "new py.Dict({0})",
    }
    return forms[kind].replace("{0}", made)


_VALUES: dict[str, Any] = {
    "plan": _plan, "cut": _cut, "method": _method, "call": _call, "neg": _neg, "compare": _compare,
    "dict": _dict, "def": _def, "comp": _comp,
    "attr": lambda of, name: f"{_value(of)}.{name}",
    "at": lambda of, index: f"py.at({_value(of)}, {_value(index)})",
    "star": lambda of: f"...py.iter({_value(of)})",
    "bin": lambda op, a, b: f"py.{op}({_value(a)}, {_value(b)})",
    "not": lambda of: f"!{_test(of)}",
    "invert": lambda of: f"(-({_value(of)}) - 1)",
    "and": lambda nodes: _bool_op("and", nodes),
    "or": lambda nodes: _bool_op("or", nodes),
    "if": lambda test, a, b: f"({_test(test)} ? {_value(a)} : {_value(b)})",
    "set": lambda nodes: f"py.set([{_all(nodes)}])",
    "text": lambda nodes: f"[{_all(nodes)}].join('')",
    "walrus": lambda to, value: f"({_value(to)} = {_value(value)})",
    "yield": lambda of: f"(yield {_value(of)})",
    "yieldfrom": lambda of: f"(yield* py.iter({_value(of)}))",
}  # fmt: skip

# -- targets --------------------------------------------------------------------------------------


def _assign(target: Node, value: str) -> str:
    kind, *parts = target
    if kind == "to":
        return f"{_value(parts[0])} = {value};"
    if kind == "item":
        return f"py.put({_value(parts[0])}, {_value(parts[1])}, {value});"
    unpacked = f"py.unpack({value}, {_shape(target)})"
    if not any(n[0] == "item" for n in parts[0]):
        return f"{_pattern(target)} = {unpacked};"
    each = (_assign(n, f"parts_[{i}]") for i, n in enumerate(parts[0]))
    return f"{{ const parts_ = {unpacked}; {' '.join(each)} }}"


def _pattern(target: Node) -> str:
    """A target as an array pattern, for a value that `py.unpack` has already taken apart by the
    target's `_shape`."""
    if target[0] == "to":
        return _value(target[1])
    if target[0] == "star":
        return _pattern(target[1])
    return f"[{', '.join(map(_pattern, target[1]))}]"


def _shape(target: Node) -> str:
    """The shape of a target that takes a value apart: numbers stand for names, "*" for a starred
    name, and lists for nested targets."""
    if target[0] == "parts":
        return f"[{', '.join(map(_shape, target[1]))}]"
    return '"*"' if target[0] == "star" else "1"


# -- statements -----------------------------------------------------------------------------------


def _block(body: list[Node]) -> list[str]:
    return ["  " + line for node in body for line in _statement(node)]


def _statement(node: Node) -> list[str]:
    kind, *parts = node
    return list(_STATEMENTS[kind](*parts))


def _if(test: Node, body: list[Node], other: list[Node]) -> list[str]:
    more = ["} else {", *_block(other)] if other else []
    return [f"if ({_test(test)}) {{", *_block(body), *more, "}"]


def _augment(target: Node, op: str, left: Node, right: Node) -> list[str]:
    name = "grow" if op == "add" else op  # += changes a list in place
    return [_assign(target, f"py.{name}({_value(left)}, {_value(right)})")]


def _class(made: dict[str, Any]) -> list[str]:
    def entries(key: str) -> list[str]:
        return [f"{name}: {_value(f)}" for name, f in made[key]]

    defaults = ", ".join(f"{name}: () => {_value(v)}" for name, v in made["defaults"])
    methods = [*entries("methods"), *(f"_class_{name}: true" for name in made["of_class"])]
    return [
        f"{made['name']} = py.type({json.dumps(made['name'])}, {json.dumps(made['kind'])}, "
        f"{json.dumps(made['fields'])}, {{ {defaults} }}, {{ {', '.join(methods)} }}, "
        f"{{ {', '.join(entries('getters'))} }}, {{ {', '.join(entries('statics'))} }});"
    ]


_STATEMENTS: dict[str, Any] = {
    "if": _if, "augment": _augment, "class": _class,
    "define": lambda name, f: [f"{safe(name)} = {_value(f)};"],
    "assign": lambda target, value: [_assign(target, _value(value))],
    "return": lambda value: [f"return {_value(value)};"],
    "expr": lambda value: [f"{_value(value)};"],
    "raise": lambda value: [f"throw {_value(value)};"],
    "assert": lambda test: [f"if (!({_test(test)})) throw py.Failure('assertion');"],
    "while": lambda test, body: [f"while ({_test(test)}) {{", *_block(body), "}"],
    "for": lambda target, source, body: [
        f"for (const item_ of py.iter({_value(source)})) {{",
        "  " + _assign(target, "item_"), *_block(body), "}",
    ],
    "try": lambda body, other: ["try {", *_block(body), "} catch {", *_block(other), "}"],
    "break": lambda: ["break;"],
    "continue": lambda: ["continue;"],
}  # fmt: skip
