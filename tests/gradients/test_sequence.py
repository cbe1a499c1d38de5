"""Gradients of rope, embedding, linear, dropout: in float64, on the device, beside torch's."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.functional.random_layers import _both, _fan, _gain
from pykernels.reference.random import bernoulli
from pykernels.reference.rope import angles, rope, rope_append, rope_budget, rope_table
from pykernels.reference.rows import add_rows_budget
from tests.gradients.numeric import Example
from tests.harness import assert_close, assert_same_bits

gpu = pytest.mark.gpu
Array = np.ndarray[Any, Any]
TORCH = np.load(Path(__file__).with_name("torch") / "sequence.npz")
ROPE: dict[str, dict[str, Any]] = {
    "rope_normal": {},
    "rope_neox": {"style": "neox", "dims": 6, "base": 5e5, "freq_scale": 0.5,
                  "freq_factors": [1.0, 2.5, 8.0]},
    "rope_yarn": {"style": "neox", "freq_scale": 0.25, "ext_factor": 1.0, "n_ctx_orig": 4096},
}  # fmt: skip


def case(name: str) -> dict[str, Array]:
    """What is stored of a case, by the names of arguments and results."""
    return {k.partition(".")[2]: v for k, v in TORCH.items() if k.partition(".")[0] == name}


def appended(rng: np.random.Generator, style: str, both: bool) -> Example:
    """Queries, and with `both` the cache that is left, of two sequences of a token."""
    x, cache = (rng.normal(0, 1, shape).astype("f4") for shape in ((2, 3, 1, 3), (2, 2, 2, 3)))
    places, table = np.int32([[1], [0]]), rope_table(angles(2), 1.3)

    def device(x: Any, c: Any, p: Any, table: Any) -> Any:
        own = c.copy()
        q = pk.rope_append(x, p, own, style=style, table=table)  # type: ignore[arg-type]
        return pk.concatenate([q.reshape(-1), own.reshape(-1)]) if both else q.reshape(-1)

    def wanted(x: Array, c: Array, p: Array, table: Array) -> Array:
        own, q = rope_append(x, p, table, c, style)
        return np.concatenate([q.ravel(), own.ravel()]) if both else q.ravel()

    arrays = [x, cache, places, table]
    count = 2 if both else 1  # the queries do not depend on the cache
    return Example(device, wanted, arrays[:count], arrays[count:])


def examples() -> dict[str, Example]:
    """Against central differences of the references."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (2, 1, 2, 6)).astype("f4")
    places, table = rng.integers(0, 1 << 20, (2, 2)).astype("i4"), rope_table(angles(4), 1.3)
    found = {}
    for style, backward in itertools.product(("normal", "neox"), (False, True)):
        given: dict[str, Any] = {"style": style, "backward": backward}
        found[f"rope {style} {backward}"] = Example(
            lambda t, p, table, given=given: pk.rope(t, p, table=table, **given),
            lambda a, p, table, given=given: rope(a, p, table, **given), [x], [places, table],
        )  # fmt: skip
        found[f"rope_append {style} {backward}"] = appended(rng, style, both=not backward)
    small = rng.normal(0, 1, (2, 2, 5)).astype("f4")
    w, b = rng.normal(0, 1, (4, 5)).astype("f4"), rng.normal(0, 1, 4).astype("f4")
    found["linear"] = Example(
        lambda x, w, b: pk.linear(x, w, b, activation="silu"),
        lambda x, w, b: (h := x @ w.T + b) / (1 + np.exp(-h)), [small, w, b], units=32,
    )  # fmt: skip
    mask = bernoulli((2, 2, 5), np.dtype("f4"), 0.5, 2.0, seed=3)
    found["dropout"] = Example(
        lambda x: pk.dropout(x, 0.5, seed=3), lambda x: x * mask.astype("f8"), [small]
    )
    index = np.int32([3, 0, 3, 2])
    found["embedding"] = Example(pk.embedding, lambda w, i: w[i], [w], [index])
    return found


EXAMPLES = examples()


@gpu
@pytest.mark.parametrize("name", EXAMPLES)
def test_gradients_are_those_of_the_reference(dev: pk.Device, name: str) -> None:
    EXAMPLES[name].check(dev)


@gpu
@pytest.mark.parametrize("name", ROPE)
def test_rope_beside_torch(dev: pk.Device, name: str) -> None:
    """Entries of the table are rounded once, by 2^-25 of the magnitude: four of them, with factors
    below 1 whose sum is at most 2 sqrt(2), in each of cosine and sine."""
    given, torch = ROPE[name], case(name)
    x, places = dev.tensor(torch["x"]), torch["positions"]
    with pk.Tape() as tape:
        y = pk.rope(x, places, **given)
    [dx] = tape.gradient(y, [x], torch["dy"])
    others = {k: v for k, v in given.items() if k not in ("style", "dims")}
    table = pk.rope_table(given.get("dims", torch["x"].shape[-1]), **others, device=dev).numpy()
    style = given.get("style", "normal")
    for got, of, want in ((y, "x", "y"), (dx, "dy", "d_x")):
        bound = rope_budget(torch[of], places, table, style)
        rounding = 2 * math.sqrt(2) * np.abs(table[0]).max() * 2.0**-25
        assert_close(got.numpy(), torch[want], bound + 2 * np.abs(torch[of]).max() * rounding, want)


@gpu
def test_rope_in_place_and_through_a_view(dev: pk.Device) -> None:
    """In place the gradient replaces that of the result; a slice of it gets its part."""
    rng = np.random.default_rng(1)
    x = dev.tensor(rng.normal(0, 1, (1, 2, 3, 8)).astype("f4"))
    places = np.int32([5, 70000, 9])
    with pk.Tape() as tape:
        h = x * 2.0
        pk.rope(h[..., :4], places, style="neox", out=h[..., :4])
        loss = pk.sum(h * h)
    [dx] = tape.gradient(loss, [x])
    # Turning keeps lengths, so the loss is 4 |x|^2.
    assert_close(dx.numpy(), 8 * x.numpy(), 8 * np.abs(x.numpy()).max() * 2.0**-19 + 0 * x.numpy())


@gpu
@pytest.mark.parametrize(("name", "padding"), [("plain", None), ("padded", 3), ("often", None)])
def test_embedding_beside_torch(dev: pk.Device, name: str, padding: int | None) -> None:
    torch = case(f"embedding_{name}")
    flat = torch["dy"].reshape(-1, 4), torch["index"].reshape(-1), np.zeros((6, 4), "f4")
    bound = add_rows_budget(*flat, skip=padding)
    got = pk.embedding_backward(dev.tensor(torch["dy"]), torch["index"], 6, padding)
    assert_close(got.numpy(), torch["d_w"], bound)
    if padding is None:
        w = dev.tensor(torch["w"])
        with pk.Tape() as tape:
            y = pk.embedding(w, torch["index"])
        assert_same_bits(y.numpy(), torch["y"].astype("f4"))
        assert_close(tape.gradient(y, [w], torch["dy"])[0].numpy(), torch["d_w"], bound)


@gpu
@pytest.mark.parametrize("name", ["linear_bias", "linear_plain", "linear_row"])
def test_linear_beside_torch(dev: pk.Device, name: str) -> None:
    """Sums of at most 7 products in f32."""
    torch = case(name)
    leaves = {n: dev.tensor(torch[n]) for n in "xwb" if n in torch}
    with pk.Tape() as tape:
        y = pk.linear(**leaves)
    found = tape.gradient(y, list(leaves.values()), torch["dy"])
    size = np.abs(torch["y"]) + (np.abs(torch["x"]) @ np.abs(torch["w"]).T)
    assert_close(y.numpy(), torch["y"], size * 8 * 2.0**-24)
    for n, got in zip(leaves, found, strict=True):
        want = torch[f"d_{n}"]
        most = np.abs(torch["dy"]).max() * max(np.abs(torch["x"]).max(), np.abs(torch["w"]).max())
        assert_close(got.numpy(), want, np.full_like(want, 8 * 8 * most * 2.0**-24), n)


@gpu
def test_dropout_has_the_same_mask_in_the_gradient(dev: pk.Device) -> None:
    for name, p, training in (("all", 1.0, True), ("none", 0.0, True), ("evaluated", 0.7, False)):
        torch = case(f"dropout_{name}")
        x = dev.tensor(torch["x"])
        with pk.Tape() as tape:
            y = pk.dropout(x, p, training) * 1.0
        [dx] = tape.gradient(y, [x], torch["dy"])
        assert_same_bits(np.abs(y.numpy()), np.abs(torch["y"]).astype("f4"))
        assert_same_bits(np.abs(dx.numpy()), np.abs(torch["d_x"]).astype("f4"))
    state, x = pk.random_state(4, device=dev), dev.ones((6, 7))
    with pk.Tape() as tape:
        y = pk.dropout(pk.dropout(x, 0.25, state=state), 0.5, seed=8)
    [dx] = tape.gradient(y, [x], 1)
    assert_same_bits(dx.numpy(), y.numpy())  # of ones the product of both masks
    assert 0 < np.count_nonzero(y.numpy()) < y.size


def test_first_weights_have_torchs_deviation() -> None:
    for key, want in TORCH.items():
        if not key.startswith("init."):
            continue
        _, size, name, mode = key.split(".")
        shape = tuple(map(int, size.split("x")))
        gain = _gain("test", name, 0.3)
        if mode == "both":
            assert _both("test", shape, gain) == pytest.approx(float(want), rel=1e-15)
        else:
            found = gain / math.sqrt(_fan("test", shape, mode))
            assert found == pytest.approx(float(want), rel=1e-15)


@gpu
@pytest.mark.parametrize(
    ("src", "index", "dst"),
    [((9, 5), (7,), (7, 5)), ((3, 9, 5), (3, 7), (3, 7, 5)), ((3, 9, 5), (7,), (3, 7, 5)),
     ((2, 9, 5), (4, 7), (4, 7, 5)), ((1, 9, 5), (7,), (3, 7, 5))],
)  # fmt: skip
def test_get_rows_of_batches(
    dev: pk.Device, src: tuple[int, ...], index: tuple[int, ...], dst: tuple[int, ...]
) -> None:
    """Where src or the index repeats along leading axes; small integers add up exactly."""
    rng = np.random.default_rng(3)
    places = rng.integers(0, 9, index)
    dy = rng.integers(-9, 9, dst).astype("f4")
    t, out = dev.zeros(src), dev.empty(dst)
    with pk.Tape() as tape:
        pk.kernels.get_rows(t, dev.tensor(places), out)
    want = np.zeros((*dst[:-2], 9, 5))
    for at in np.ndindex(*dst[:-1]):
        own = places.reshape((1,) * (len(dst) - 1 - places.ndim) + places.shape)
        row = own[tuple(i % n for i, n in zip(at, own.shape, strict=True))]
        want[(*at[:-1], int(row))] += dy[at]
    lead = src[:-2]
    if lead != dst[:-2]:
        repeats = dst[0] // (lead[0] if lead else 1)
        want = want.reshape(repeats, *src).sum(0) if lead else want.reshape(-1, *src).sum(0)
    assert_same_bits(tape.gradient(out, [t], dy)[0].numpy(), want.reshape(src).astype("f4"))


@gpu
def test_add_rows_and_the_rows_that_it_leaves_out(dev: pk.Device) -> None:
    rng = np.random.default_rng(4)
    index, dy = np.int32([3, 0, 3, 2]), rng.normal(0, 1, (4, 5)).astype("f4")
    src, dst = dev.zeros((4, 5)), dev.zeros((4, 5))
    with pk.Tape() as tape:
        out = dst * 2.0
        pk.kernels.add_rows(src, dev.tensor(index), out, skip=2)
    d_src, d_dst = tape.gradient(out, [src, dst], dy)
    want = dy[index]
    want[3] = 0
    assert_same_bits(d_src.numpy(), want)
    assert_same_bits(d_dst.numpy(), 2 * dy)


@gpu
def test_a_captured_step_with_gradients(dev: pk.Device) -> None:
    """Each replay draws another mask from the state, and turns by the positions of that time."""
    rng = np.random.default_rng(5)
    table = dev.tensor(rng.normal(0, 1, (9, 8)).astype("f4"))
    w = dev.tensor(rng.normal(0, 1, (6, 8)).astype("f4"))
    tokens = dev.tensor(rng.integers(0, 9, (2, 3, 5)).astype("i4"))
    places, turns = dev.zeros(5, "int32"), pk.rope_table(8, device=dev)

    def step(state: pk.Tensor) -> list[pk.Tensor]:
        with pk.Tape() as tape:
            h = pk.rope(pk.embedding(table, tokens), places, table=turns)
            y = pk.dropout(pk.linear(h, w), 0.3, state=state)
            loss = pk.sum(y * y)
        found = tape.gradient(loss, [table, w])
        pk.add(places, 1000, out=places)
        return found

    state = pk.random_state(7, device=dev)
    with dev.capture() as program:
        grads = step(state)
    other = pk.random_state(7, device=dev)
    seen = []
    for _ in range(2):
        program()
        got = [g.numpy() for g in grads]
        pk.sub(places, 1000, out=places)
        for a, b in zip(got, step(other), strict=True):
            assert_same_bits(a, b.numpy())
        seen.append(got[1])
    assert (seen[0] != seen[1]).any()
