"""The keys of a spec block, with the type of each; keys that exclude each other; and suggestions
for wrong keys.

Every key is described in docs/reference/spec.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["EXCLUDE", "TABLES", "Takes", "contradictions", "meant"]


@dataclass(frozen=True)
class Takes:
    """The type of a key's value, in words and as Python types."""

    words: str
    kinds: tuple[type, ...]


TEXT, FLAG = Takes("a text in quotes", (str,)), Takes("true or false", (bool,))
LIST, TABLE = Takes("a list", (list,)), Takes("a table", (dict,))
NUMBER, ANY = Takes("a number, true or false", (int, float)), Takes("a value", (object,))
TABLES: dict[str, dict[str, Takes]] = {
    "the block": {
        "doc": TEXT, "source": TEXT, "axes": TABLE, "configs": TABLE, "pick": TABLE, "when": LIST,
        "inputs": TABLE, "outputs": TABLE, "params": TABLE, "options": TABLE, "iterate": TEXT,
        "vectors": TEXT, "grid": TEXT, "uses": LIST, "bodies": LIST, "part_of": TEXT,
        "wrappers": TABLE, "moves_bytes": FLAG, "subgroups": TEXT, "fragments": TEXT,
        "faults": FLAG, "workgroup_bytes": TEXT, "axis": TABLE, "bytes": TEXT, "operations": TEXT,
    },
    "a tensor": {
        "dtype": TEXT, "dtypes": LIST, "same": TEXT, "bind": TEXT, "vec": TEXT, "when": TEXT,
        "optional": FLAG, "readonly": FLAG, "alias": TEXT, "like": TEXT, "broadcast": TEXT,
        "expand": TEXT, "index": FLAG, "over": TEXT, "axes": TEXT, "in_place": FLAG, "keeps": FLAG,
        "skips": FLAG, "doc": TEXT,
    },
    "a param": {
        "type": TEXT, "value": TEXT, "default": NUMBER, "arg": FLAG, "of": TEXT, "when": TEXT,
        "doc": TEXT,
    },
    "an axis": {"values": ANY, "pick": TEXT},
    "an option": {"type": TEXT, "default": ANY, "doc": TEXT},
    "axis": {"moves": LIST, "last_only": LIST},
}  # fmt: skip

# A key, the keys that it excludes, and the reason.
EXCLUDE = {
    "the block": (
        ("bodies", ("grid", "axes", "pick", "configs", "when", "iterate", "vectors", "uses",
                    "subgroups", "fragments", "faults", "workgroup_bytes"),
         "a kernel with 'bodies' has no body of its own"),
        ("part_of", ("bodies", "wrappers", "options", "axis", "moves_bytes", "bytes",
                     "operations"),
         "nobody calls a part by itself, so what is said of a call stands in the kernel's own "
         "file"),
    ),
    "a tensor": (
        ("like", ("broadcast", "expand"), "each gives the rule of the shape"),
        ("broadcast", ("expand",), "each gives the rule of the shape"),
        ("over", ("broadcast", "expand"), "each says what the index space sees"),
    ),
    "a param": (
        ("value", ("arg", "default"), "`step` computes it, or the caller gives it"),
    ),
}  # fmt: skip


def meant(key: str, known: Collection[str], table: str = "") -> str:
    """The end of the error about an unknown key: the key that was probably meant, or the known
    keys."""
    if close := difflib.get_close_matches(key, known, 1):
        return f": did you mean {close[0]!r}?"
    owners = [name for name, keys in TABLES.items() if table and key in keys]
    told = f", which is a key of {' and of '.join(owners)}" if owners else ""
    return f"{told}; known: {', '.join(sorted(known))}"


def contradictions(table: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The pairs of keys that exclude each other, and the reasons. A key whose value is false counts
    as absent."""
    said = {key for key, value in given.items() if value is not False}
    for key, others, why in EXCLUDE.get(table, ()):
        for other in others:
            if {key, other} <= said:
                yield key, other, why
