"""The WGSL of dispatches that work on several tensors of different sizes, each in its own binding.

A workgroup works on one tensor. For each tensor k, Params has its size (`size_k`) and the start of
its part in the shared tensors (`start_k`), both in vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykernels.steps import cdiv
from pykernels.tensors.layout import View

__all__ = ["WORKGROUP", "branches", "groups", "placing", "vector", "words"]

WORKGROUP = 256


def words(count: int) -> list[str]:
    """The members of Params."""
    return [f"{what}_{k}" for what in ("size", "start") for k in range(count)]


def vector(views: Sequence[View], sizes: Sequence[int], starts: Sequence[int]) -> int:
    """4 if all tensors consist of whole vectors of 4 elements and are aligned to them, else 1."""
    whole = all(v.offset % 16 == 0 for v in views)
    return 4 if whole and all(n % 4 == 0 for n in (*sizes, *starts)) else 1


def groups(sizes: Sequence[int], vec: int) -> int:
    """The number of workgroups for all tensors."""
    return sum(cdiv(n // vec, WORKGROUP) for n in sizes)


def placing(count: int) -> list[str]:
    """The function that finds the tensor of a workgroup, its size and its start, and returns the
    number of the vector on which an invocation works."""
    lines = ["var<private> slot: u32;", "var<private> here: u32;", "var<private> start: u32;"]
    lines += ["fn place(group: u32, li: u32) -> u32 {", "  var g = group;"]
    for k in range(count):
        lines += [
            f"  if (g < (p.size_{k} + 255u) / 256u) {{",
            f"    slot = {k}u; here = p.size_{k}; start = p.start_{k};",
            "    return g * 256u + li;",
            "  }",
            f"  g -= (p.size_{k} + 255u) / 256u;",
        ]
    return [*lines, "  return 0u;", "}"]


def branches(count: int, text: str) -> list[str]:
    """A switch over the tensors; K in `text` stands for the number of a tensor."""
    lines = ["  switch slot {"]
    for k in range(count):
        case = "default" if k == count - 1 else f"case {k}u"
        lines.append(f"    {case}: {{ {text.replace('K', str(k))} }}")
    return [*lines, "  }"]
