"""How texts are stored: every line once, read back as they were, and compared as texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.store import Entry, difference, pack_manifest, pack_texts
from pykernels.wgsl import texts
from pykernels.wgsl.texts import Text, Texts, unpack_manifest

PACKAGE = Path(texts.__file__).parent
FEATURES = ("shader-f16", "subgroups")
HEADS = ["alias T = f16;\n", "alias T = f32;\n", ""]
BODIES = ["fn main() {\n  a();\n}\n", "fn main() {\n  a();\n  a();\n}", "\n\n", '// "ä\\" 1-2 \t\n']


def entries() -> list[Entry]:
    return [
        Entry(f"T={i} B={k} mode=read", head + body, head.count("\n"), FEATURES[: (i + k) % 3])
        for i, head in enumerate(HEADS)
        for k, body in enumerate(BODIES)
    ]


def test_texts_are_read_back_as_they_were() -> None:
    given = entries()
    found = Texts(pack_texts(given))
    assert list(found) == [e.key for e in given]
    assert dict(found) == {e.key: Text(e.text, tuple(e.features)) for e in given}
    assert found.get("T=3 B=0 mode=read") is None
    assert dict(Texts(pack_texts([]))) == {}


def test_lines_and_pieces_are_stored_once() -> None:
    content = pack_texts(entries())
    assert content.count("fn main() {") == 1
    assert content.count("  a();") == 1
    assert len(Texts(content)._pieces) == len({*HEADS, *BODIES})


def test_manifest_is_read_back_as_it_was() -> None:
    facts = {"features": [], "params": ["groups: u32"]}
    variants = {
        "one": {"T=f32 V=4 mode=read": ("12ab", facts), "T= V=1 mode=rw": ("34cd", facts)},
        "two": {"mode=read": ("56ef", {"features": ["subgroups"], "params": []})},
    }
    head = {"bodies": {"one": {"axes": {"V": [1, 4], "T": ["", "f32"]}}, "two": {"axes": {}}}}
    content = pack_manifest(head, variants)
    assert content.count("groups: u32") == 1
    assert unpack_manifest(content) == head | {
        "variants": {
            "one T=f32 V=4 mode=read": {
                "sha256": "12ab", "body": "one", "axes": {"V": 4, "T": "f32"}, "mode": "read",
                **facts,
            },
            "one T= V=1 mode=rw": {
                "sha256": "34cd", "body": "one", "axes": {"V": 1, "T": ""}, "mode": "rw",
                **facts,
            },
            "two mode=read": {
                "sha256": "56ef", "body": "two", "axes": {}, "mode": "read",
                "features": ["subgroups"], "params": [],
            },
        }
    }  # fmt: skip


@pytest.mark.parametrize("old", ["", "{", "[]", '{"T=f32": {"wgsl": "x"}}', None])
def test_a_difference_shows_texts(old: str | None) -> None:
    before = pack_texts(
        [Entry("mode=read", "h\na\nb\nc\n", 1, ()), Entry("mode=rw", "same", 0, ())]
    )
    after = pack_texts([Entry("mode=read", "h\na\nB\nc\n", 1, ()), Entry("mode=rw", "same", 0, ())])
    lines = difference("wgsl/k.json", before if old is None else old, after)
    assert "+B" in lines
    assert "+++ b/wgsl/k.json mode=read" in lines
    assert ("-b" in lines) == (old is None)
    assert any("mode=rw" in line for line in lines) == (old is not None)


def test_other_features_are_a_difference() -> None:
    old, new = (pack_texts([Entry("mode=read", "h\nb", 1, f)]) for f in ((), ("subgroups",)))
    assert [line for line in difference("wgsl/k.json", old, new) if "subgroups" in line]


def test_installed_texts_by_name() -> None:
    names = texts.names()
    assert len(names) == len(set(names)) > 1000
    name = next(n for n in names if n.startswith("softmax T=f16"))
    assert "enable f16;" in texts.wgsl(name)
    assert texts.wgsl(name) == texts.of_body("softmax")[name.partition(" ")[2]].wgsl


def test_the_package_is_within_its_budget() -> None:
    assert len(texts.names()) <= 8000
    files = [p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert sum(p.stat().st_size for p in files) < 10e6
