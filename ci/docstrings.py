"""Signatures and docstrings as Markdown, for ci/docs.py."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

__all__ = ["WIDTH", "docstring", "signature"]

WIDTH = 80  # width of a signature, and of the help of commands, in characters
_SECTIONS = re.compile(r"^(Args|Returns|Raises|Yields):(.*)$")


def signature(name: str, f: Callable[..., Any]) -> str:
    """A signature as a block of code; a long signature has a line for each argument."""
    s = inspect.signature(f)
    parts: list[str] = []
    for p in s.parameters.values():
        if p.name in ("self", "cls"):
            continue
        if p.kind is p.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        default = "" if p.default is p.empty else f" = {p.default!r}"
        parts.append(f"{star}{p.name}: {_annotation(p.annotation)}{default}")
    result = f.__name__ if isinstance(f, type) else _annotation(s.return_annotation)
    context = re.fullmatch(r"(?:Iterator|AbstractContextManager)\[(.*)\]", result)
    if context and inspect.isfunction(f):
        result = f"ContextManager[{context[1]}]"
    text = f"{name}({', '.join(parts)}) -> {result}"
    if len(text) > WIDTH:
        lines = "".join(f"    {part},\n" for part in parts)
        text = f"{name}(\n{lines}) -> {result}"
    return f"```python\n{text}\n```"


def _annotation(a: object) -> str:
    if a in (None, inspect.Signature.empty):
        return "None"
    return a if isinstance(a, str) else getattr(a, "__name__", str(a))


def docstring(thing: object) -> list[str]:
    """A docstring as Markdown: paragraphs unchanged, arguments and errors as lists."""
    text = re.sub(r":class:(`\w+`)", r"\1", inspect.getdoc(thing) or "").replace("``", "`")
    out: list[str] = []
    inside = False  # True inside a list of arguments, results or errors
    for line in text.splitlines():
        section = _SECTIONS.match(line)
        if section:
            inside = True
            out += ["", f"**{section[1]}**{section[2]}", ""]
        elif inside and line and not line.startswith(" "):
            inside = False
            out.append(line)
        elif not inside:
            out.append(line)
        elif re.match(r" {4}\S", line):
            name, colon, rest = line.strip().partition(": ")
            named = colon and re.fullmatch(r"[\w*., ]+", name)
            out.append(f"- `{name}`: {rest}" if named else f"- {line.strip()}")
        else:
            out.append("  " + line.strip() if line.strip() else "")
    return _blocks(out)


def _blocks(lines: list[str]) -> list[str]:
    """The lines with literal blocks (`::`) in fences, and the text of a `Returns:` without its
    bullet."""
    out: list[str] = []
    fence = False
    for i, line in enumerate(lines):
        if out and not fence and line.startswith("    ") and out[-1] == "":
            out.append("```text")
            fence = True
        if fence and line and not line.startswith("    "):
            while out[-1] == "":
                out.pop()
            out += ["```", ""]
            fence = False
        before = next((entry for entry in reversed(lines[:i]) if entry), "")
        text = line[4:] if fence else line
        if before.startswith(("**Returns**", "**Yields**")) and text.startswith("- "):
            text = text[2:]
        out.append(re.sub(r"::$", ":", text))
    return [*out, "```"] if fence else out
