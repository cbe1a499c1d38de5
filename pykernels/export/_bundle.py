"""The texts of an export: one file for each body, which stores equal lines once.

    {"lines": [...],          the distinct lines
     "pieces": ["0-3 7"],     runs of lines: heads and bodies of texts
     "facts": [{...}],        distinct sets of bindings, params, workgroup size and so on
     "variants": {"T=f32 … mode=read": "HEAD BODY FACTS"}}

A text consists of a head and a body. `enable subgroups;` precedes them if the facts name that
feature and the dialect is Tint's. `4_kernels.js` reads these files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pykernels.validate._sizes import Sizes
from pykernels.wgsl.texts import of_body

__all__ = ["bundle", "facts_of", "file_of"]

_MEMBERS = re.compile(r"struct Params \{(.*?)\}", re.DOTALL)
_MEMBER = re.compile(r"(\w+: \w+)")
_BINDING = re.compile(
    r"@binding\((\d+)\) var<(storage, (?:read|read_write)|uniform)> (\w+): ([^;]+);"
)
_CONST = re.compile(r"^const (\w+)[^=;\n]*=([^;]+);", re.MULTILINE)
_ENTRY = re.compile(r"@compute\s*@workgroup_size\(([^)]*)\)\s*fn (\w+)")


def file_of(body: str) -> str:
    return f"wgsl/{body}.json"


def bundle(body: str, variants: Mapping[str, Mapping[str, Any]]) -> str:
    """The file of a body's texts; `variants` maps their keys to their facts."""
    lines, pieces, pairs = of_body(body).subset(variants)
    numbers: dict[str, int] = {}
    packed = {
        key: f"{pairs[key]} {numbers.setdefault(json.dumps(facts), len(numbers))}"
        for key, facts in variants.items()
    }
    whole = {
        "lines": lines, "pieces": pieces, "facts": [json.loads(n) for n in numbers],
        "variants": packed,
    }  # fmt: skip
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False) + "\n"


def facts_of(entry: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The facts of a text that a page needs, from the text's entry in the build's manifest."""
    [(sizes, name)] = _ENTRY.findall(text)
    known = Sizes({n: re.sub(r"\s", "", value) for n, value in _CONST.findall(text)})
    counts = [known.number(size) for size in sizes.split(",") if size.strip()]
    return {
        "features": entry["features"],
        "entry_point": name,
        "workgroup_size": [*counts, 1, 1][:3],
        "workgroup_bytes": entry["workgroup_bytes"],
        "bindings": [
            {
                "binding": int(number), "name": variable.removesuffix("_mem"),
                "access": space.removeprefix("storage, "), "type": kind,
            }
            for number, space, variable, kind in _BINDING.findall(text)
        ],
        "params": _MEMBER.findall(_MEMBERS.search(text)[1]),  # type: ignore[index]
    }  # fmt: skip
