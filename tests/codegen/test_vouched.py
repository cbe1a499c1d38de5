"""The record of validated texts: what it vouches for, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from codegen import build, vouched
from codegen.variants import Variant
from tests.codegen.toys import ROOT

VERSIONS = {"lint": "6", "naga": "1", "tint": "2"}


@pytest.fixture(scope="module")
def variants() -> list[Variant]:
    """The texts of two bodies."""
    from codegen.build import variants_of

    return [*variants_of(ROOT, "fill"), *variants_of(ROOT, "tri")]


@pytest.fixture
def root(variants: list[Variant], tmp_path: Path) -> Path:
    """A checkout with a record of both."""
    (tmp_path / "codegen").mkdir()
    vouched.write(tmp_path, VERSIONS, vouched.digests(variants))
    return tmp_path


def test_what_is_unchanged_is_vouched_for(root: Path, variants: list[Variant]) -> None:
    assert {v.spec.name for v in variants} == {"fill", "tri"}
    assert vouched.changed(root, variants, VERSIONS) == set()
    assert vouched.read(root)[0] == VERSIONS
    # A build without compilers has the lints alone.
    assert vouched.changed(root, variants[::-1], {"lint": "6"}) == set()


def test_a_changed_text_is_not(root: Path, variants: list[Variant]) -> None:
    last = variants[-1]
    others = variants[:-1]
    text = replace(last, text=last.text.replace("\n", " \n", 1))
    assert vouched.changed(root, [*others, text], VERSIONS) == {"tri"}
    feature = replace(last, features=(*last.features, "subgroups"))
    assert vouched.changed(root, [*others, feature], VERSIONS) == {"tri"}
    assert vouched.changed(root, others, VERSIONS) == {"tri"}


def test_another_validator_sees_all(root: Path, variants: list[Variant]) -> None:
    assert vouched.changed(root, variants, VERSIONS | {"naga": "9"}) == {"fill", "tri"}
    assert vouched.changed(root, variants, VERSIONS | {"new": "1"}) == {"fill", "tri"}


def test_without_a_record_all_are_seen(variants: list[Variant], tmp_path: Path) -> None:
    assert vouched.changed(tmp_path, variants, VERSIONS) == {"fill", "tri"}


@pytest.mark.parametrize(("require", "expected"), [(False, set()), (True, {"fill", "tri"})])
def test_only_a_required_validation_compares_versions(
    root: Path, variants: list[Variant], require: bool, expected: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """An install beside another naga took a minute for texts that the pinned naga accepts."""
    seen: set[str] = set()

    def validated(texts: list[Variant], *_: object) -> dict[str, str]:
        seen.update(v.spec.name for v in texts)
        return {"naga": "9"}

    monkeypatch.setattr(build, "validated", validated)
    monkeypatch.setattr(build, "versions_here", lambda: VERSIONS | {"naga": "9"})
    result = build.Build({"manifest.json": ""}, variants)
    verdicts = build._verdicts(root, result, require, False, lambda line: None)
    assert seen == expected
    assert verdicts["changed"] == sorted(expected)
    assert verdicts["validators"] == ({"naga": "9"} if require else VERSIONS)
