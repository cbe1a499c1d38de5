"""Gradients of windows of one tensor: written to their places, or copied and added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
import pykernels.runtime.recorder as recorder
from pykernels.functional._copy_together import BUFFERS
from pykernels.plans.copy.together import MOST
from pykernels.steps import cdiv
from pykernels.validate._types import Limits
from tests.harness import assert_same_bits

pytestmark = pytest.mark.gpu
N, T, H, D = 2, 5, 3, 4
TO_MOVE = ("cpy", "fill", "add")  # what moves gradients and adds them up


def moved(dev: pk.Device, call: Callable[[], Any]) -> tuple[Any, Counter[str]]:
    """The result of a call, and its launches by kernel."""
    names: Counter[str] = Counter()
    record = recorder.Recorder.record

    def counted(self: Any, known: Any, *args: Any) -> Any:
        found = record(self, known, *args)
        if found is not False:
            names.update({d.op for d in known.prepared.dispatches} & {*TO_MOVE})
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder.Recorder, "record", counted)
        return call(), names


def heads(qkv: pk.Tensor) -> pk.Tensor:
    """(3, N, H, T, D), as the queries, keys and values of one product lie."""
    return qkv.reshape(N, T, 3, H, D).transpose(2, 0, 3, 1, 4)


def attention(q: pk.Tensor, k: pk.Tensor, v: pk.Tensor) -> pk.Tensor:
    return pk.sum(pk.square(pk.scaled_dot_product_attention(q, k, v, is_causal=True)))


def turned(parts: pk.Tensor) -> pk.Tensor:
    q, k = pk.rope(parts[:2], pk.arange(T, dtype="int32", device=parts.device), style="neox")
    return attention(q, k, parts[2])


def gated(x: pk.Tensor) -> pk.Tensor:
    a, b = pk.split(x.reshape(N * T, -1), 2, axis=1)
    return pk.sum(pk.sigmoid(a) * pk.square(b))


# What is computed of three windows, by name, and how many launches move their gradients: none where
# one rule gives all of them, a copy where the last ones come later, else zeros, copies and sums.
USES: dict[str, tuple[Callable[[pk.Tensor], pk.Tensor], int]] = {
    "all": (lambda x: attention(*heads(x)), 0),
    "rope": (lambda x: turned(heads(x)), 1),
    "gates": (gated, 1),
    "two of three": (lambda x: attention(heads(x)[0], heads(x)[1], heads(x)[0] * 2), 6),
    "one twice": (lambda x: attention(heads(x)[0], heads(x)[0], heads(x)[2]), 4),
    "sliding": (lambda x: attention(*[heads(x)[0, :, i : i + 2] for i in (0, 1, 0)]), 6),
    "and whole": (lambda x: attention(*heads(x)) + pk.sum(pk.sin(x)), 4),
    "whole before": (lambda x: pk.sum(pk.sin(x)) + attention(*heads(x)), 1),
    "backwards": (lambda x: attention(*heads(x)[::-1]) + pk.sum(heads(x)[:, :, :, ::-1][0]), 5),
}


def grads(
    dev: pk.Device, use: Callable[[pk.Tensor], pk.Tensor], apart: bool
) -> tuple[list[Any], int]:
    """The gradients of two factors whose product has the windows, and how many launches moved
    gradients. `apart`: an outer tape records, so nothing is written to its place."""
    rng = np.random.default_rng(0)
    a, b = (dev.tensor(rng.standard_normal(s).astype("f")) for s in ((N * T, 6), (6, 3 * H * D)))
    with pk.Tape(), pk.Tape() as tape:
        loss = use(pk.matmul(a, b))
        if apart:
            found, launches = moved(dev, lambda: tape.gradient(loss, [a, b]))
    if not apart:
        found, launches = moved(dev, lambda: tape.gradient(loss, [a, b]))
    # The gradient of the loss itself is filled, and that of a copied, as it is transposed.
    return found, launches.total() - 2


@pytest.mark.parametrize("name", USES)
def test_gradients_of_windows(dev: pk.Device, name: str) -> None:
    """Where nothing has to be added the bits are those of copies and sums."""
    use, launches = USES[name]
    (found, count), (want, other) = (grads(dev, use, apart) for apart in (False, True))
    assert (count, count <= other) == (launches, True)
    for got, exact in zip(found, want, strict=True):
        assert np.abs(exact.numpy()).max() > 0
        np.testing.assert_allclose(got.numpy(), exact.numpy(), rtol=2e-5, atol=1e-5)
        if launches < 2:
            assert_same_bits(got.numpy() + 0.0, exact.numpy() + 0.0, name)


@pytest.mark.parametrize(("layout", "axis"), [("NCHW", 1), ("NHWC", 3)])
def test_windows_of_convolutions(dev: pk.Device, layout: Any, axis: int) -> None:
    """The last of several convolutions on parts of one result writes its gradient to its place:
    one copy of the other part, and no zeros and sums."""
    rng = np.random.default_rng(5)
    shape = (2, 4, 9, 7) if axis == 1 else (2, 9, 7, 4)
    given = [shape, (8, 4, 3, 3), (5, 4, 3, 3), (5, 4, 3, 3)]
    x, first, left, right = (dev.tensor(rng.normal(0, 1, s).astype(np.float32)) for s in given)
    found = []
    for whole in (False, True):
        with pk.Tape() as tape:
            h = pk.conv2d(x, first, padding=1, layout=layout)
            parts = pk.split(h, 2, axis=axis)
            a, b = (t * 1.0 for t in parts) if whole else parts
            y = pk.conv2d(a, left, padding=1, layout=layout)
            y = pk.mul(y, pk.conv2d(b, right, padding=1, layout=layout))
            loss = pk.sum(y)
        grads, launches = moved(dev, lambda t=tape, of=loss: t.gradient(of, [x, first, left]))
        found.append([g.numpy() for g in grads])
        if not whole:
            assert (launches["cpy"], launches["add"]) == (1, 0)
    for mine, other in zip(*found, strict=True):
        assert_same_bits(mine, other)


def test_sums_are_part_of_products(dev: pk.Device) -> None:
    """Of what several products read, and of what is read besides: no launch adds gradients. A
    tensor times itself, and a tape outside, keep theirs."""
    rng = np.random.default_rng(3)
    x, u, v = (rng.standard_normal(s).astype("f") for s in ((6, 5), (5, 5), (5, 5)))
    a, b, c = (dev.tensor(t) for t in (x, u, v))

    def loss_of(y: pk.Tensor) -> pk.Tensor:
        return pk.sum(pk.matmul(y, b) * pk.matmul(y, c) + pk.square(y))

    with pk.Tape() as tape:
        loss = loss_of(a * 2.0)
    [da], launches = moved(dev, lambda: tape.gradient(loss, [a]))
    assert launches["add"] == 0
    y = 2.0 * x.astype(np.float64)
    want = 2 * (y @ v @ u.T + y @ u @ v.T + 2 * y)
    np.testing.assert_allclose(da.numpy(), want, rtol=1e-5, atol=1e-5)
    with pk.Tape(), pk.Tape() as tape:
        [other], launches = moved(dev, lambda: tape.gradient(loss_of(a * 2.0), [a]))
    assert launches["add"] == 3  # one of them is the loss's
    np.testing.assert_allclose(other.numpy(), da.numpy(), rtol=1e-6, atol=1e-6)
    with pk.Tape() as tape:
        square = b * 1.0
        loss = pk.sum(pk.square(pk.matmul(square, square) + square))
    w = u.astype(np.float64)
    d = 2 * (w @ w + w)
    want = d @ w.T + w.T @ d + d
    np.testing.assert_allclose(tape.gradient(loss, b).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_sums_are_part_of_norms(dev: pk.Device, norm: str) -> None:
    """Of a residual stream; with the values of a tape that others record."""
    rng = np.random.default_rng(4)
    a, b = (dev.tensor(rng.standard_normal(s).astype("f")) for s in ((6, 8), (8, 8)))

    def loss_of(x: pk.Tensor) -> pk.Tensor:
        h = x * 2.0
        normed: pk.Tensor = getattr(pk, norm)(h, 8)
        return pk.sum(pk.square(h + pk.matmul(normed, b)))

    with pk.Tape() as tape:
        loss = loss_of(a)
    [da], launches = moved(dev, lambda: tape.gradient(loss, [a]))
    assert launches["add"] == 0
    with pk.Tape(), pk.Tape() as tape:
        [other] = tape.gradient(loss_of(a), [a])
    assert np.abs(da.numpy()).max() > 1
    np.testing.assert_allclose(da.numpy(), other.numpy(), rtol=1e-5, atol=1e-5)


def test_a_window_that_is_asked_for(dev: pk.Device) -> None:
    """Of the whole, and of windows of it, that are sources themselves."""
    rng = np.random.default_rng(1)
    x = dev.tensor(rng.standard_normal((N * T, 3 * H * D)).astype("f"))
    with pk.Tape() as tape:
        y = x * 2.0
        loss = attention(*heads(y))
    dx, dy, dk, dv = tape.gradient(loss, [x, y, heads(y)[1], heads(y)[2]])
    assert_same_bits(heads(dy)[1].numpy(), dk.numpy())
    assert_same_bits(heads(dy)[2].numpy(), dv.numpy())
    assert_same_bits(dx.numpy(), 2 * dy.numpy())


@pytest.mark.parametrize("limit", [Limits().max_storage_buffers, None])
def test_gradients_of_a_flat_tensor_are_copied_together(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    """As many as the device has storage buffers for; with the bits of each."""
    most = min((limit or dev.limits[BUFFERS]) - 1, MOST)
    monkeypatch.setitem(dev.limits, BUFFERS, limit or dev.limits[BUFFERS])
    rng = np.random.default_rng(2)
    shapes = [(4, 8)] * 17 + [(3, 3), (5,), (1,), (257,), (2, 3)]
    flat, parts = pk.flatten_parameters(
        [rng.standard_normal(s).astype("f") for s in shapes], device=dev
    )
    with pk.Tape() as tape:
        loss = pk.sum(flat[:1]) * 0.0
        for p in parts:
            loss = loss + pk.sum(pk.sin(p))
    each = tape.gradient(loss, parts)
    [whole], launches = moved(dev, lambda: tape.gradient(loss, [flat]))
    fours = sum(int(np.prod(s)) % 4 == 0 for s in shapes)
    at_most = cdiv(fours, most) + cdiv(len(shapes) - fours, most)
    assert launches["cpy"] <= at_most + 1
    for p, g in zip(parts, each, strict=True):
        start = (p._offset - flat._offset) // 4
        assert_same_bits(whole[start : start + p.size].numpy(), g.numpy().ravel())
