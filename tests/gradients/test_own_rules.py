"""Functions with a rule of their own, and those that are computed again on the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

A = np.array([0.5, -1.0, 2.0], "f4")


@pytest.fixture
def a(dev: pk.Device) -> pk.Tensor:
    return dev.tensor(A)


@pk.custom_gradient
def doubled(x: Any) -> Any:
    """Whose rule says 3 in place of 2."""
    return x * 2, lambda dy: (dy * 3,)


@pk.custom_gradient
def product(pair: Any, factor: float) -> Any:
    x, y = pair["x"], pair["y"]

    def rule(dy: Any) -> Any:
        return {"x": dy["z"] * y * factor, "y": dy["z"] * x * factor}, None

    return {"z": x * y * factor, "unused": x + 1}, rule


def test_a_rule_is_asked(a: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = pk.sum(doubled(a * a))
    assert len(tape) == 3
    np.testing.assert_allclose(tape.gradient(y, a).numpy(), 6 * A)
    assert doubled(a).numpy().tolist() == (2 * A).tolist()  # without a tape


def test_trees_go_in_and_out(a: pk.Tensor) -> None:
    with pk.Tape() as tape:
        out = product({"x": a, "y": a + 1}, 2.0)
        y = pk.sum(out["z"])
    np.testing.assert_allclose(tape.gradient(y, a).numpy(), 2 * (A + 1) + 2 * A)


def test_rules_have_gradients(a: pk.Tensor) -> None:
    """The rule's calls are recorded by the outer tape, arguments being the way."""
    second = pk.grad(lambda x: pk.sum(pk.grad(lambda x: pk.sum(cube(x)))(x) ** 2))
    np.testing.assert_allclose(second(a).numpy(), 36 * A**3, rtol=1e-6)


@pk.custom_gradient
def cube(x: Any) -> Any:
    return x * x * x, lambda dy: (3 * x * x * dy,)


@pk.custom_gradient
def exponential(x: Any) -> Any:
    y = pk.exp(x)
    z = y + 0
    return z, lambda dy: (dy * y,)


def test_what_f_computed_is_no_way(a: pk.Tensor) -> None:
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            y = pk.sum(exponential(a))
        loss = pk.sum(inner.gradient(y, a) ** 2)
    np.testing.assert_allclose(inner.gradient(y, a).numpy(), np.exp(A), rtol=1e-6)
    with pytest.raises(pk.TapeError, match="through a value inside of exponential"):
        outer.gradient(loss, a)


def test_what_f_reads_besides_is_refused(a: pk.Tensor) -> None:
    w = a + 1
    scaled = pk.custom_gradient(lambda x: (x * w, lambda dy: (dy * w,)))
    with pk.Tape() as tape:
        y = pk.sum(scaled(a))
    assert tape.gradient(y, a).numpy().tolist() == (A + 1).tolist()
    with pytest.raises(pk.TapeError, match="depends on a source but is no argument"):
        tape.gradient(y, w)


def test_other_elements_of_an_arguments_memory_are_besides_it(a: pk.Tensor) -> None:
    scaled = pk.custom_gradient(lambda x: (x * a[2:], lambda dy: (dy * a[2:],)))
    with pk.Tape() as tape:
        y = pk.sum(scaled(a[:1]))
    assert tape.gradient(y, a[:1]).item() == A[2]
    with pytest.raises(pk.TapeError, match="depends on a source but is no argument"):
        tape.gradient(y, a)


def test_wrong_rules_are_refused(a: pk.Tensor) -> None:
    def tried(f: Any) -> None:
        with pk.Tape() as tape:
            y = pk.sum(pk.custom_gradient(f)(a))
        tape.gradient(y, a)

    with pytest.raises(pk.ArgumentError, match="must give a pair"):
        tried(lambda x: x)
    with pytest.raises(pk.ArgumentError, match="a tuple of 1 gradients"):
        tried(lambda x: (x * 2, lambda dy: dy))
    with pytest.raises(pk.TapeError, match="writes to a tensor that existed before"):
        tried(lambda x: (pk.mul(x, 2, out=x), lambda dy: (dy,)))
    with pytest.raises(pk.ArgumentError, match="f must be a function"):
        pk.custom_gradient(3)  # type: ignore[arg-type]
    assert a.device.sync() is None


def test_gradients_are_checked(dev: pk.Device, a: pk.Tensor) -> None:
    w = dev.tensor(np.random.default_rng(1).normal(0, 1, (3, 4)).astype("f4"))

    def f(m: Any, x: Any) -> Any:
        return [pk.tanh(pk.matmul(x, m["w"])), pk.exp(x) * 1e3]

    for seed in range(20):
        pk.check_gradients(f, [{"w": w}, a], seed=seed)
        pk.check_gradients(cube, [a], seed=seed)
        with pytest.raises(pk.TapeError, match=r"the gradient of args\[0\] along"):
            pk.check_gradients(doubled, [a], seed=seed)
    slightly = pk.custom_gradient(lambda x: (pk.sin(x), lambda dy: (dy * pk.cos(x) * 1.01,)))
    with pytest.raises(pk.TapeError, match="finite differences give"):
        pk.check_gradients(slightly, [a])
    for wrong, error in (([], pk.ArgumentError), ([3], pk.DTypeError),
                         ([a.astype("float16")], pk.DTypeError)):  # fmt: skip
        with pytest.raises(error):
            pk.check_gradients(lambda *x: x[0], wrong)


# -- checkpoint -----------------------------------------------------------------------------------


def layer(x: Any, w: Any, b: Any) -> Any:
    return pk.dropout(pk.tanh(pk.matmul(x, w) + b), 0.4)


def both(dev: pk.Device, dtype: str) -> list[list[Any]]:
    """Gradients of two layers, plain and checkpointed; biases and the second layer's weights are
    reached by closure."""
    rng = np.random.default_rng(0)
    x, v, w = (
        dev.tensor(rng.normal(0, 1, s).astype("f4"), dtype) for s in ((5, 4), (4, 4), (4, 4))
    )
    b = dev.tensor(rng.normal(0, 1, 4).astype("f4"), dtype)

    def loss(call: Any) -> list[Any]:
        dev.seed(11)
        with pk.Tape() as tape:
            h = call(lambda x, w: layer(x, w, b), x, v)
            y = pk.sum(pk.square(call(lambda x: layer(x, w, b[:]), h)))
        state = dev.random_state.numpy()
        found = [g.numpy() for g in tape.gradient(y, [x, v, w, b])]
        assert (dev.random_state.numpy() == state).all()  # it did not move
        return [y.numpy(), len(tape), *found]

    return [loss(lambda f, *args: f(*args)), loss(pk.checkpoint)]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_checkpoints_have_the_bits_of_the_plain_step(dev: pk.Device, dtype: str) -> None:
    plain, again = both(dev, dtype)
    assert again[1] < plain[1]
    for a, b in zip([plain[0], *plain[2:]], [again[0], *again[2:]], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_checkpoint_keeps_less(dev: pk.Device) -> None:
    x = dev.tensor(np.ones((1 << 16,), "f4"))

    def chain(x: Any) -> Any:
        for _ in range(12):
            x = pk.sin(x)
        return x

    def kept(call: Any) -> int:
        dev.sync()
        before = dev.memory_stats().current
        with pk.Tape() as tape:
            y = pk.sum(call(chain, x))
        used = dev.memory_stats().current - before
        np.testing.assert_allclose(tape.gradient(y, x).numpy()[0], dy, rtol=1e-5)
        return used

    value, dy = 1.0, 1.0
    for _ in range(12):
        value, dy = np.sin(value), dy * np.cos(value)
    assert kept(pk.checkpoint) <= x.nbytes * 2 < kept(lambda f, x: f(x))


def test_a_checkpoint_of_second_order(a: pk.Tensor) -> None:
    def f(x: Any) -> Any:
        return pk.sum(pk.checkpoint(lambda x: pk.exp(x) * x * x, x))

    second = pk.hvp(f, a, a).numpy()
    want = np.exp(A) * (A * A + 4 * A + 2) * A
    np.testing.assert_allclose(second, want, rtol=1e-5)


def test_a_checkpoint_in_a_capture(dev: pk.Device, a: pk.Tensor) -> None:
    with dev.capture() as program:
        with pk.Tape() as tape:
            y = pk.sum(pk.checkpoint(lambda x: pk.dropout(x * x, 0.5), a))
        g = tape.gradient(y, a)
    for i in range(3):
        a.write(A + i)
        program()
        kept = g.numpy() != 0
        assert y.item() == pytest.approx((2 * (A + i) ** 2)[kept].sum(), rel=1e-5, abs=1e-6)
        np.testing.assert_allclose(g.numpy()[kept], 4 * (A + i)[kept], rtol=1e-6)


def test_a_write_in_between_is_refused(a: pk.Tensor) -> None:
    w = a + 1
    with pk.Tape() as tape:
        y = pk.sum(pk.checkpoint(lambda x: x * w, a))
        w += 1
    with pytest.raises(pk.TapeError, match="written since"):
        tape.gradient(y, a)


def test_views_in_a_closure_count_once(a: pk.Tensor) -> None:
    """The whole and a part of the same memory."""
    with pk.Tape() as tape:
        y = pk.sum(pk.checkpoint(lambda: a * a + a[1:2]))
    want = 2 * A + np.array([0, 3, 0])
    np.testing.assert_allclose(tape.gradient(y, a).numpy(), want)
