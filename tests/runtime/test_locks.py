"""Bodies under a lock hold no loop of their own.

CPython 3.12 and 3.13 leave the jump backwards of some loops out of the exception table of the
`with` around them: an interrupt at one leaves the lock held. A loop in a function that the body
calls has a frame of its own, and is safe.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pykernels

PACKAGE = Path(pykernels.__file__).parent


def loops(source: str) -> Iterator[int]:
    """Lines of loops inside `with` of a lock."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.With):
            continue
        if any(ast.unparse(item.context_expr).endswith("lock") for item in node.items):
            for inner in ast.walk(node):
                if isinstance(inner, (ast.For, ast.While)):
                    yield inner.lineno


def test_no_loop_under_a_lock() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in loops(path.read_text())
    ]
    assert not found


def test_the_rule_sees_loops() -> None:
    assert [*loops("with self._lock:\n    while x:\n        y()\n")] == [2]
    assert not [*loops("with open(p):\n    while x:\n        y()\n")]
