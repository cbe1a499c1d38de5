"""TAB in IPython: jedi completes the names of our objects."""

from __future__ import annotations

import pytest

import pykernels as pk
from pykernels.runtime.profile import Profile
from pykernels.runtime.program import Program

jedi = pytest.importorskip("jedi")


@pytest.mark.parametrize("kind", (pk.Tensor, pk.Device, Program, Profile))
def test_objects_complete(kind: type) -> None:
    """jedi runs no code of theirs, so an object that was never filled will do."""
    thing = kind.__new__(kind)
    public = {name for name in dir(kind) if not name.startswith("_")}
    found = {c.name for c in jedi.Interpreter("thing.", [{"thing": thing}]).complete()}
    assert public <= found


def test_a_dtype_completes_as_a_word() -> None:
    thing = pk.Tensor.__new__(pk.Tensor)
    found = jedi.Interpreter("thing.dtype.upp", [{"thing": thing}]).complete()
    assert [c.name for c in found] == ["upper"]
