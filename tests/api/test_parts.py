"""Calls in parts: every element is in one of them, and each view of a part fits one binding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.plans.parts import fits_binding, parts, row_parts
from pykernels.steps import Caps
from pykernels.tensors.layout import Rows, View, contiguous_strides
from pykernels.tuning import named
from tests.api.test_layout import positions
from tests.harness import random_form

CAPS = Caps(True, False, 32, 256, 16384, 4096, 65535, named("generic-large"))
F32 = DTYPES["float32"]


def view(shape: tuple[int, ...], strides: tuple[int, ...] | None = None, offset: int = 0) -> View:
    return View(0, F32, shape, strides or contiguous_strides(shape, 4), offset)


def places(v: View) -> np.ndarray:
    """The byte of each element."""
    return positions(v.shape, v.strides, v.offset).reshape(v.shape)


def test_views_that_fit_are_one_part() -> None:
    x, mask = view((4, 256)), view((1, 256))
    (part,) = parts(CAPS, {"x": x, "mask": mask}, [{"x": 0}])
    assert part.views == {"x": x, "mask": mask} and part.first == (0,)
    assert part.views["x"] is x


def test_a_binding_begins_aligned_and_ends_with_a_vector() -> None:
    assert fits_binding(CAPS, view((1024,)))
    assert not fits_binding(CAPS, view((1025,)))
    assert fits_binding(CAPS, view((1024,), offset=96))
    assert not fits_binding(CAPS, view((1024,), offset=100))
    assert fits_binding(CAPS, view((1023,), offset=100))
    assert not fits_binding(replace(CAPS, max_binding=4092), view((1023,)))
    assert fits_binding(CAPS, view((1 << 30,), (0,)))


@pytest.mark.parametrize("seed", range(30))
def test_each_element_is_in_one_part_beside_its_partners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    caps = replace(CAPS, max_binding=512)
    shape = tuple(int(n) for n in rng.integers(1, 15, rng.integers(1, 4)))
    views = {}
    for name in "xyz":
        strides = random_form(rng, len(shape), repeats=name != "z").strides(shape, 4)
        low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
        views[name] = view(shape, strides, 4 * int(rng.integers(0, 9)) - low)
    found = parts(caps, views, [{name: axis for name in views} for axis in range(len(shape))])
    seen = np.zeros(shape, int)
    for part in found:
        own = part.views["x"].shape
        where = tuple(slice(at, at + n) for at, n in zip(part.first, own, strict=True))
        seen[where] += 1
        for name, v in part.views.items():
            assert fits_binding(caps, v) and v.shape == own
            assert (places(v) == places(views[name])[where]).all()
    assert (seen == 1).all()


def test_axes_of_a_product() -> None:
    """A view that an axis does not name is the same in both halves along it."""
    sizes = {"a": (2, 40, 16), "w": (30, 16), "dst": (2, 40, 30)}
    views = {name: view(shape) for name, shape in sizes.items()}
    axes = [{"a": 0, "dst": 0}, {"a": 1, "dst": 1}, {"w": 0, "dst": 2}]
    for most in (9600, 9599, 4096, 1500, 200):
        caps = replace(CAPS, max_binding=most)
        found = parts(caps, views, axes)
        assert (len(found) == 1) == (most == 9600)
        seen = np.zeros((2, 40, 30), int)
        for part in found:
            a, w, dst = (part.views[name] for name in ("a", "w", "dst"))
            b, m, n = part.first
            assert all(fits_binding(caps, v) for v in (a, w, dst))
            assert dst.shape == (*a.shape[:2], w.shape[0])
            assert (places(a) == places(views["a"])[b : b + a.shape[0], m : m + a.shape[1]]).all()
            assert (places(w) == places(views["w"])[n : n + w.shape[0]]).all()
            seen[b : b + dst.shape[0], m : m + dst.shape[1], n : n + dst.shape[2]] += 1
        assert (seen == 1).all()


def test_cuts_are_where_vectors_begin() -> None:
    x = view((3001, 4))
    for part in parts(CAPS, {"x": x}, [{"x": 0}]):
        assert part.first[0] % 64 == 0
    for part in parts(CAPS, {"x": view((9999,))}, [{"x": 0}]):
        assert part.first[0] % 64 == 0 and part.views["x"].offset % 256 == 0


def test_a_row_that_no_binding_holds_is_refused() -> None:
    with pytest.raises(pk.LimitError, match=r"x spans 4112 bytes .* device holds 4096"):
        parts(CAPS, {"mask": view((9,)), "x": view((9, 1025))}, [{"x": 0, "mask": 0}])
    with pytest.raises(
        pk.LimitError, match="dst spans 40000 bytes in a part that cannot be cut further"
    ):
        parts(CAPS, {"dst": view((100, 100))}, [])


@pytest.mark.parametrize("most", (1 << 20, 96))
def test_rows_of_many_axes_are_parts_of_few(most: int) -> None:
    """A mask that repeats by modulo makes two of an axis; a part has no more than rows may have."""
    caps = replace(CAPS, max_binding=most)
    for shape, own in (
        ((3, 4, 4, 7, 7), (3, 2, 2, 1, 7)), ((4, 4, 4, 6, 5), (2, 2, 2, 3, 1)), ((6, 5), (3, 1)),
        ((2, 2, 2, 2, 2, 2, 2, 3), (2, 1, 2, 1, 2, 1, 2, 3)), ((2, 3, 5), (2, 3, 5)),
    ):  # fmt: skip
        views = {"x": view(shape), "mask": view(own)}
        want = np.tile(
            places(views["mask"]),
            [1 if n == 1 else m // n for n, m in zip(own, shape, strict=True)],
        )
        want = np.broadcast_to(want, shape)
        beside = dict(zip(places(views["x"]).ravel().tolist(), want.ravel().tolist(), strict=True))
        found = row_parts(caps, shape, views, ("mask",))
        if len(found) == 1:
            assert found[0].views == views
            continue
        for part in found:
            x, mask = part.views["x"], part.views["mask"]
            Rows(x.shape, part.views, ("mask",))  # raises for too many
            for at, m in zip(places(x).ravel(), places(mask).ravel(), strict=True):
                assert beside.pop(int(at)) == m
        assert not beside


def test_too_many_parts_are_refused_at_once() -> None:
    x = view((1 << 30, 1024))
    with pytest.raises(pk.LimitError, match="more than 1024 parts"):
        parts(CAPS, {"x": x}, [{"x": 0}])
    assert len(parts(CAPS, {"x": view((1024, 1024))}, [{"x": 0}])) == 1024
    turned = view((99,) * 8, contiguous_strides((99,) * 8, 4)[::-1])
    with pytest.raises(pk.LimitError, match="more than 1024 parts"):
        row_parts(
            replace(CAPS, max_binding=1 << 60), (99,) * 8, {"x": turned, "y": view((99,) * 8)}
        )
