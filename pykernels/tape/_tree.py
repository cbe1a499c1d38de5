"""Trees of tensors: nested dicts, lists, tuples and dataclasses."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from pykernels.errors import ArgumentError

__all__ = ["leaves", "rebuilt"]

MAX_DEPTH = 64


def leaves(tree: Any, name: str, op: str) -> list[tuple[str, Any]]:
    """The leaves of a tree in order, each with the expression by which a caller reaches it. None is
    not a leaf."""
    return [*_leaves(tree, name, op, MAX_DEPTH)]


def _leaves(tree: Any, name: str, op: str, depth: int) -> Iterator[tuple[str, Any]]:
    if tree is None:
        return
    branches = _branches(tree)
    if branches is None:
        yield name, tree
        return
    if not depth:
        raise ArgumentError(f"[{op}] a tree must have at most {MAX_DEPTH} levels: {name:.40}...")
    for suffix, branch in branches:
        yield from _leaves(branch, name + suffix, op, depth - 1)


def _branches(tree: Any) -> list[tuple[str, Any]] | None:
    """The children of a node with their names; None for a leaf."""
    if isinstance(tree, Mapping):
        return [(f"[{key!r}]", tree[key]) for key in tree]
    if isinstance(tree, (list, tuple)):
        return [(f"[{i}]", branch) for i, branch in enumerate(tree)]
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return [(f".{f.name}", getattr(tree, f.name)) for f in dataclasses.fields(tree)]
    return None


def rebuilt(tree: Any, new: Iterator[Any]) -> Any:
    """A tree of the same shape with other leaves, which come in the order of `leaves`.

    A mapping becomes a dict, a subclass of list a list; named tuples and dataclasses keep their
    type.
    """
    if tree is None:
        return None
    if isinstance(tree, Mapping):
        return {key: rebuilt(tree[key], new) for key in tree}
    if isinstance(tree, tuple):
        branches = [rebuilt(branch, new) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)
    if isinstance(tree, list):
        return [rebuilt(branch, new) for branch in tree]
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        node = copy.copy(tree)
        for f in dataclasses.fields(tree):
            object.__setattr__(node, f.name, rebuilt(getattr(tree, f.name), new))
        return node
    return next(new)
