"""Ensembles of decision trees as tables: a row for each leaf, then a row for each inner node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import numpy_helper

from .errors import ModelError
from .graph import Array

__all__ = ["MODES", "Forest", "from_lists", "from_tensors"]

# The comparisons of a feature with a node's number, in the order of TreeEnsemble's enumeration.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = len(MODES)  # one more comparison: true if the feature is one of several numbers
LARGEST = 1 << 28  # most elements of the table of leaves


@dataclass(frozen=True)
class Forest:
    """Trees as tables. The children of a leaf are the leaf itself.

    Attributes:
        roots: The row of each tree's root.
        feature, mode, missing, yes, no: For each row: the feature that it reads, its comparison,
            the side for NaN (1 is the true side), and the rows of the true and the false side.
        split: The number that each row compares with.
        weights: (leaves, targets); NaN where a leaf has no weight for a target.
        depth: The most inner nodes between a root and a leaf.
    """

    roots: Array
    feature: Array
    mode: Array
    missing: Array
    yes: Array
    no: Array
    split: Array
    weights: Array
    depth: int


def from_lists(given: Mapping[str, Any], kind: str, targets: int) -> Forest:
    """The trees of TreeEnsembleRegressor (kind "target") and TreeEnsembleClassifier ("class")."""
    trees, ids = _ints(given, "nodes_treeids"), _ints(given, "nodes_nodeids")
    count = len(ids)
    modes = [m.decode() for m in given.get("nodes_modes", [])]
    if len(modes) != count or len(trees) != count:
        raise ModelError(f"{count} nodes, {len(trees)} trees of nodes and {len(modes)} modes")
    for mode in modes:
        if mode not in (*MODES, "LEAF"):
            raise ModelError(f"nodes of mode {mode!r:.40}: not supported")
    leaf = np.array([m == "LEAF" for m in modes], bool)
    order = np.argsort(~leaf, kind="stable")  # leaves come first
    rows = {(int(trees[i]), int(ids[i])): row for row, i in enumerate(order)}
    if len(rows) != count:
        raise ModelError("two nodes of a tree have the same number")

    def child(side: str) -> Array:
        named = _ints(given, f"nodes_{side}nodeids", count)
        found = [
            row if leaf[i] else rows.get((int(trees[i]), int(named[i])), -1)
            for row, i in enumerate(order)
        ]
        if -1 in found:
            raise ModelError("a node leads to a node that is not there")
        return np.array(found, np.int32)

    yes, no = child("true"), child("false")
    leaves = int(leaf.sum())
    first = {int(t): i for i, t in reversed(list(enumerate(trees)))}  # a tree's root comes first
    return _forest(
        np.array([rows[t, int(ids[i])] for t, i in sorted(first.items())], np.int32),
        _ints(given, "nodes_featureids", count)[order],
        np.array([0 if leaf[i] else MODES.index(modes[i]) for i in order], np.int32),
        _ints(given, "nodes_missing_value_tracks_true", count, 0)[order], yes, no,
        _floats(given, "nodes_values", count)[order],
        _weights(given, kind, targets, rows, leaves),
    )  # fmt: skip


def _weights(
    given: Mapping[str, Any], kind: str, targets: int, rows: Mapping[tuple[int, int], int],
    leaves: int,
) -> Array:  # fmt: skip
    at = _ints(given, f"{kind}_ids")
    numbers = _floats(given, f"{kind}_weights", len(at))
    table = _table(leaves, targets)
    trees = _ints(given, f"{kind}_treeids", len(at)).tolist()
    nodes = _ints(given, f"{kind}_nodeids", len(at)).tolist()
    for tree, node, target, number in zip(trees, nodes, at.tolist(), numbers, strict=True):
        row = rows.get((tree, node), leaves)
        if row >= leaves or not 0 <= target < targets:
            raise ModelError(f"a weight for node {node} of tree {tree}, target {target}")
        table[row, target] = number + (0 if math.isnan(table[row, target]) else table[row, target])
    return table


def from_tensors(given: Mapping[str, Any]) -> Forest:
    """The trees of TreeEnsemble."""
    targets = int(given.get("n_targets", 1))
    at = _ints(given, "leaf_targetids")
    leaves = len(at)
    table = _table(leaves, targets)
    if leaves and not (0 <= at.min() and at.max() < targets):
        raise ModelError(f"leaves of targets {at.min()} to {at.max()}, where there are {targets}")
    table[np.arange(leaves), at] = _tensor(given, "leaf_weights", leaves)
    feature = _ints(given, "nodes_featureids")
    count = len(feature)
    mode = _tensor(given, "nodes_modes", count).astype(np.int32)
    if count and mode.max() > MEMBER:
        raise ModelError(f"nodes of mode {mode.max()}: not supported")
    missing = _ints(given, "nodes_missing_value_tracks_true", count, 0)
    sides = []
    for side in ("true", "false"):
        ids = _ints(given, f"nodes_{side}nodeids", count)
        ends = _ints(given, f"nodes_{side}leafs", count) != 0
        most = np.where(ends, leaves, count)
        if ((ids < 0) | (ids >= most)).any():
            raise ModelError("a node leads to a node that is not there")
        sides.append(np.where(ends, ids, ids + leaves).astype(np.int32))
    roots = _ints(given, "tree_roots")
    if not len(roots) or roots.min() < 0 or roots.max() >= count:
        raise ModelError("a root that is no node")
    nodes = _Nodes(leaves, feature, mode, missing, *sides, _tensor(given, "nodes_splits", count))
    nodes.spell_out_members(given)
    same, none = np.arange(leaves), np.zeros(leaves)
    return _forest(
        roots + leaves, np.append(none, nodes.feature), np.append(none, nodes.mode),
        np.append(none, nodes.missing), np.append(same, nodes.yes), np.append(same, nodes.no),
        np.append(none, nodes.split), table,
    )  # fmt: skip


class _Nodes:
    """The columns of the table for inner nodes, whose rows follow the rows of the leaves."""

    def __init__(self, leaves: int, *columns: Array) -> None:
        self.leaves = leaves
        self.feature, self.mode, self.missing, self.yes, self.no, self.split = columns

    def spell_out_members(self, given: Mapping[str, Any]) -> None:
        """Replace each node that compares a feature with several numbers by a chain of nodes that
        compare with one number each."""
        places = np.flatnonzero(self.mode == MEMBER)
        if not len(places):
            return
        sets: list[list[float]] = [[]]
        for number in _tensor(given, "membership_values", None).tolist():
            if math.isnan(number):
                sets.append([])
            else:
                sets[-1].append(number)
        if len(sets) < len(places):
            raise ModelError(f"{len(places)} nodes with sets of numbers, and {len(sets)} sets")
        for i, members in zip(places.tolist(), sets, strict=False):
            if not members:
                raise ModelError("a node whose set of numbers is empty")
            self.mode[i], self.split[i] = MODES.index("BRANCH_EQ"), members[0]
            chain, last = i, self.no[i]
            for number in members[1:]:
                row = len(self.mode)
                self.no[chain] = row + self.leaves
                for name, value in (("feature", self.feature[i]), ("mode", self.mode[i]),
                                    ("missing", self.missing[i]), ("yes", self.yes[i]),
                                    ("no", last), ("split", number)):  # fmt: skip
                    setattr(self, name, np.append(getattr(self, name), value))
                chain = row


def _forest(
    roots: Array, feature: Array, mode: Array, missing: Array, yes: Array, no: Array,
    split: Array, weights: Array,
) -> Forest:  # fmt: skip
    if feature.size and feature.min() < 0:
        raise ModelError(f"a node reads feature {int(feature.min())}")
    leaves, depth = len(weights), 0
    level = np.unique(roots)
    level = level[level >= leaves].astype(np.int32)
    while level.size:
        depth += 1
        if depth > len(yes):
            raise ModelError("nodes that lead to themselves")
        level = np.unique(np.append(yes[level], no[level]))
        level = level[level >= leaves].astype(np.int32)
    i = np.int32
    return Forest(
        roots.astype(i), feature.astype(i), mode.astype(i), missing.astype(i), yes.astype(i),
        no.astype(i), split.astype(np.float32), weights, depth,
    )  # fmt: skip


def _table(leaves: int, targets: int) -> Array:
    if not 0 < leaves * targets <= LARGEST:
        raise ModelError(f"{leaves} leaves with {targets} targets: not supported")
    return np.full((leaves, targets), np.nan, np.float32)


def _ints(
    given: Mapping[str, Any], name: str, count: int | None = None, usual: int | None = None
) -> Array:
    found = np.array(given.get(name, []), np.int64)
    if usual is not None and not found.size:
        return np.full(count or 0, usual, np.int64)
    if count is not None and found.size != count:
        raise ModelError(f"{name} has {found.size} elements, not {count}")
    return found


def _floats(given: Mapping[str, Any], name: str, count: int) -> Array:
    """Numbers of a list, or of a tensor if they are float64."""
    if f"{name}_as_tensor" in given:
        return _tensor(given, f"{name}_as_tensor", count)
    found = np.array(given.get(name, []), np.float32)
    if found.size != count:
        raise ModelError(f"{name} has {found.size} elements, not {count}")
    return found


def _tensor(given: Mapping[str, Any], name: str, count: int | None) -> Array:
    if name not in given:
        raise ModelError(f"no {name}")
    found = np.array(numpy_helper.to_array(given[name])).reshape(-1)
    if count is not None and found.size != count:
        raise ModelError(f"{name} has {found.size} elements, not {count}")
    return found
