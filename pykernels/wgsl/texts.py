"""The rendered texts and the manifest of the installed kernels, as `codegen/store.py` writes them.

`wgsl/BODY.json` has three tables: the distinct lines of all texts of a body; its pieces (heads and
bodies, each once), as ranges of those lines; and for each text its two pieces and its features.
A text is put together when it is needed.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import weakref
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from pykernels.contract import accepted

__all__ = [
    "DebugTexts",
    "Made",
    "Text",
    "Texts",
    "add_texts",
    "any_debug_texts",
    "belongs",
    "debug_texts",
    "made",
    "names",
    "of_body",
    "output_dtypes",
    "packaged",
    "read",
    "read_manifest",
    "unpack_manifest",
    "wgsl",
]


class Text(NamedTuple):
    """One text, and the device features that it needs by WebGPU's names."""

    wgsl: str
    features: tuple[str, ...]
    entry: str = "main"


class Texts(Mapping[str, Text]):
    """The texts of one body by key, from the content of its file."""

    def __init__(self, content: str) -> None:
        tables = json.loads(content)
        self._lines: list[str] = tables["lines"]
        self._pieces: list[str] = tables["pieces"]
        self._texts: dict[str, str] = tables["texts"]

    def __getitem__(self, key: str) -> Text:
        head, body, *features = self._texts[key].split()
        return Text(self._piece(head) + self._piece(body), tuple(features))

    def body(self, key: str) -> str:
        """A text without its head."""
        return self._piece(self._texts[key].split()[1])

    def subset(self, keys: Collection[str]) -> tuple[list[str], list[str], dict[str, str]]:
        """The lines, pieces and texts ("HEAD BODY") of these keys only, with new numbers."""
        pairs = {key: self._texts[key].split()[:2] for key in keys}
        numbers = sorted({int(n) for pair in pairs.values() for n in pair})
        spans = {n: [_span(s) for s in self._pieces[n].split()] for n in numbers}
        used = sorted({i for all_ in spans.values() for a, b in all_ for i in range(a, b + 1)})
        line = {old: new for new, old in enumerate(used)}
        pieces = [
            " ".join(f"{line[a]}-{line[b]}" if b > a else f"{line[a]}" for a, b in spans[n])
            for n in numbers
        ]
        piece = {str(old): new for new, old in enumerate(numbers)}
        texts = {key: f"{piece[head]} {piece[body]}" for key, (head, body) in pairs.items()}
        return [self._lines[i] for i in used], pieces, texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def _piece(self, number: str) -> str:
        lines: list[str] = []
        for first, last in map(_span, self._pieces[int(number)].split()):
            lines += self._lines[first : last + 1]
        return "\n".join(lines)


def _span(text: str) -> tuple[int, int]:
    """The first and the last line of a span, "3" or "3-8"."""
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def read(name: str) -> str:
    """A file of `pykernels/_generated`; FileNotFoundError if it was not built."""
    path = importlib.resources.files("pykernels") / "_generated" / name
    return path.read_text(encoding="utf-8")


class DebugTexts(Texts):
    """The texts of one body that have calls of debug, and the origin of their lines."""

    def __init__(self, content: str) -> None:
        super().__init__(content)
        self._origin: dict[str, Any] = json.loads(content)["origin"]

    def where(self, key: str, line: int) -> str:
        """The source file and line that a line of a text comes from."""
        return _where(self._origin, key, line)


def _where(origin: dict[str, Any], key: str, line: int) -> str:
    head, body = origin["texts"][key]
    places = origin["bodies"][body]
    at = line - 1 - head
    return "{}:{}".format(*places[at]) if 0 <= at < len(places) else ""


def debug_texts(body: str) -> DebugTexts | None:
    """The texts of a body that have calls of debug; None if its source has none."""
    new = made(body)
    return _of_build(body) if new is None else getattr(new, "debug", None)


def any_debug_texts() -> bool:
    """True if the build or a package that is loaded has texts with calls of debug."""
    return _built_debug() or any(getattr(m, "debug", None) for m in [*_made.values()])


@functools.cache
def _built_debug() -> bool:
    folder = importlib.resources.files("pykernels") / "_generated" / "debug"
    return folder.is_dir() and any(True for _ in folder.iterdir())


@functools.cache
def _of_build(body: str) -> DebugTexts | None:
    try:
        return DebugTexts(read(f"debug/{body}.json"))
    except FileNotFoundError:
        return None


class Made(Protocol):
    """The texts of a body that is made while the program runs."""

    def get(self, key: str) -> Text | None: ...


_made: weakref.WeakValueDictionary[str, Made] = weakref.WeakValueDictionary()


def add_texts(body: str, texts: Made) -> Made:
    """Register the texts of a body made at run time, unless the body is registered. The entry
    exists as long as the returned object is referenced."""
    return _made.setdefault(body, texts)


def made(body: str) -> Made | None:
    """The texts of a body that was made at run time; they have not been validated."""
    return _made.get(body)


class _Packaged:
    """The texts of a body of another package; their file is read when a text is first needed."""

    def __init__(self, package: str, name: str) -> None:
        self._package, self._name = package, name

    @functools.cached_property
    def _texts(self) -> Texts:
        path = importlib.resources.files(self._package) / "wgsl" / f"{self._name}.json"
        return Texts(path.read_text(encoding="utf-8"))

    @functools.cached_property
    def debug(self) -> DebugTexts | None:
        """The texts with calls of debug; None if the sources have none."""
        path = importlib.resources.files(self._package) / "debug" / f"{self._name}.json"
        return DebugTexts(path.read_text(encoding="utf-8")) if path.is_file() else None

    def get(self, key: str) -> Text | None:
        return self._texts.get(key)

    def where(self, key: str, line: int) -> str:
        """The source file and line that a line of a text comes from; "" for a line of its head."""
        path = importlib.resources.files(self._package) / "lines" / f"{self._name}.json"
        return _where(json.loads(path.read_text(encoding="utf-8")), key, line)


def packaged(body: str, package: str | None, name: str) -> Made:
    """Register the texts of a body that `pykernels build` made: `package` contains the module of
    the body, and the folder `wgsl` beside that package contains the file."""
    home = (package or "").rpartition(".")[0]
    return add_texts(body, _Packaged(home, name))


@functools.cache
def of_body(body: str) -> Texts:
    """The texts of a body of the build; its file is read once."""
    return Texts(read(f"wgsl/{body}.json"))


def names() -> list[str]:
    """The names of all texts, "BODY KEY"."""
    return list(read_manifest()["variants"])


def wgsl(name: str) -> str:
    """A text by its name, "BODY KEY"."""
    body, _, key = name.partition(" ")
    return of_body(body)[key].wgsl


def belongs(kernel: Mapping[str, Any], variant: Mapping[str, Any]) -> bool:
    """True if a kernel launches this variant. Both are entries of the manifest."""
    fixed = kernel["fixed_axes"].items()
    ours = variant["body"] in kernel["bodies"]
    return ours and all(variant["axes"].get(axis, value) == value for axis, value in fixed)


def output_dtypes(kernel: Mapping[str, Any]) -> str:
    """The dtypes of the output of a manifest entry, as text for people."""
    outputs = [accepted(tuple(t["dtypes"])) for t in kernel["tensors"] if t["role"] == "out"]
    most = max(outputs, key=len)
    return "any" if len(most) > 8 else ", ".join(most)


def read_manifest() -> dict[str, Any]:
    """Kernels, bodies and variants."""
    return unpack_manifest(read("manifest.json"))


def unpack_manifest(content: str) -> dict[str, Any]:
    """The manifest from the content of its file.

    In the file, each variant has its hash and the number of its facts in a list, in which equal
    facts stand once.
    """
    found: dict[str, Any] = json.loads(content)
    facts = found.pop("facts")
    packed = found.pop("variants")
    found["variants"] = {}
    for body, variants in packed.items():
        axes = {
            name: {str(v): v for v in values}
            for name, values in found["bodies"][body]["axes"].items()
        }
        for key, entry in variants.items():
            sha256, number = entry.split()
            given = dict(part.split("=", 1) for part in key.split(" "))
            found["variants"][f"{body} {key}"] = {
                "sha256": sha256,
                "body": body,
                "axes": {name: values[given[name]] for name, values in axes.items()},
                "mode": given["mode"],
                **facts[int(number)],
            }
    return found
