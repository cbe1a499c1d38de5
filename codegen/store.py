"""Packs texts and manifest into files in which every line and every fact stands once.

`pykernels/wgsl/texts.py` reads them. No compression library is used, so equal builds are equal byte
for byte on every machine. A wheel compresses the files.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pykernels.wgsl.texts import Texts

from .variants import Variant

__all__ = ["Entry", "difference", "pack_debug", "pack_lines", "pack_manifest", "pack_texts"]

MOST = 40  # most lines of a difference that are printed for one file


class Entry(NamedTuple):
    """One text of a body: its key, the number of lines of its head, and the features that it
    needs."""

    key: str
    text: str
    head_lines: int
    features: Iterable[str]

    @property
    def pieces(self) -> tuple[str, str]:
        """The head and the body, which together are the text."""
        lines = self.text.split("\n")
        head = "".join(f"{line}\n" for line in lines[: self.head_lines])
        return head, self.text[len(head) :]


def pack_texts(entries: Iterable[Entry]) -> str:
    """The file of one body: distinct lines, distinct pieces, texts."""
    lines: dict[str, int] = {}
    pieces: dict[str, int] = {}
    texts: dict[str, str] = {}
    for entry in entries:
        numbers = [pieces.setdefault(piece, len(pieces)) for piece in entry.pieces]
        texts[entry.key] = " ".join([*map(str, numbers), *entry.features])
    packed = [
        " ".join(_spans([lines.setdefault(line, len(lines)) for line in piece.split("\n")]))
        for piece in pieces
    ]
    tables = {"lines": list(lines), "pieces": packed, "texts": texts}
    return json.dumps(tables, separators=(",\n", ": ")) + "\n"


def pack_lines(variants: Iterable[Variant]) -> str:
    """The origin of each text's lines: the length of its head, then file and line of each line
    after it. An error message about a wrong index uses it to name the line of the source."""
    return json.dumps(_lines(variants), separators=(",", ":")) + "\n"


def pack_debug(variants: Iterable[Variant]) -> str:
    """The texts with calls of debug and the origin of their lines, in one file."""
    known = [*variants]
    texts = pack_texts(Entry(v.key, v.text, v.head_lines, v.features) for v in known)
    return (
        json.dumps({**json.loads(texts), "origin": _lines(known)}, separators=(",\n", ": ")) + "\n"
    )


def _lines(variants: Iterable[Variant]) -> dict[str, Any]:
    bodies: dict[str, int] = {}
    texts = {}
    for v in variants:
        lines = json.dumps([list(place) for place in v.origin])
        texts[v.key] = [v.head_lines, bodies.setdefault(lines, len(bodies))]
    return {"bodies": [json.loads(lines) for lines in bodies], "texts": texts}


def _spans(numbers: list[int]) -> Iterator[str]:
    """Runs of consecutive numbers as "first-last"."""
    first = 0
    for i, number in enumerate(numbers):
        if i + 1 < len(numbers) and numbers[i + 1] == number + 1:
            continue
        yield str(number) if i == first else f"{numbers[first]}-{number}"
        first = i + 1


def pack_manifest(
    head: Mapping[str, Any], variants: Mapping[str, Mapping[str, tuple[str, dict[str, Any]]]]
) -> str:
    """The manifest's file; `variants` has the hash and the facts of each text, by body and key."""
    facts: dict[str, int] = {}
    packed: dict[str, dict[str, str]] = {}
    for body, texts in variants.items():
        packed[body] = {}
        for key, (sha256, fact) in texts.items():
            number = facts.setdefault(json.dumps(fact, sort_keys=True), len(facts))
            packed[body][key] = f"{sha256} {number}"
    found = {**head, "facts": [json.loads(fact) for fact in facts], "variants": packed}
    return json.dumps(found, indent=1) + "\n"


def difference(name: str, old: str, new: str) -> list[str]:
    """A readable diff of two states of a generated file, shortened if it is long; it compares
    texts, not packed tables."""
    found: list[str] = []
    if name.startswith("wgsl/"):
        before, after = _texts(old), _texts(new)
        for key in dict.fromkeys([*before, *after]):
            if len(found) < MOST:
                found += _diff(f"{name} {key}", before.get(key, ""), after.get(key, ""))
    return (found or _diff(name, old, new))[:MOST]


def _texts(content: str) -> dict[str, str]:
    """The texts of a body by key; empty if the file is missing or has another form."""
    try:
        return {key: text.wgsl for key, text in Texts(content).items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _diff(name: str, old: str, new: str) -> list[str]:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"a/{name}", f"b/{name}", lineterm="", n=1
    )
    return list(lines)
