"""pk.autocast: which functions convert what they are given, and where."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.call import autocast as module
from pykernels.call.casts import CASTS, FLOAT16, FLOAT32
from tests.harness import caps

pytestmark = pytest.mark.gpu


@pytest.fixture
def half(dev: pk.Device) -> pk.Device:
    if "shader-f16" not in dev.features:
        pytest.skip("the device has no shader-f16")
    return dev


def uniform(*shape: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(sum(shape))
    return rng.uniform(0.1, 0.9, shape).astype(np.float32)


PICTURES, QUERIES, ROWS = (2, 3, 5, 6), (1, 2, 3, 4), (4, 6)
CALLS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "matmul": (pk.matmul, [(4, 8), (8, 3)]),
    "linear": (pk.linear, [(4, 8), (3, 8)]),
    "dot": (pk.dot, [(4, 8), (8, 3)]),
    "tensordot": (lambda a, b: pk.tensordot(a, b, 1), [(4, 8), (8, 3)]),
    "einsum": (lambda *x: pk.einsum("ij,jk,kl->il", *x), [(2, 3), (3, 4), (4, 2)]),
    "conv1d": (pk.conv1d, [(2, 3, 8), (4, 3, 3)]),
    "conv2d": (pk.conv2d, [PICTURES, (4, 3, 3, 3)]),
    "conv_transpose1d": (pk.conv_transpose1d, [(2, 3, 8), (3, 4, 3)]),
    "conv_transpose2d": (pk.conv_transpose2d, [PICTURES, (3, 4, 3, 3)]),
    "flash_attn": (pk.flash_attn, [QUERIES] * 3),
    "scaled_dot_product_attention": (pk.scaled_dot_product_attention, [QUERIES] * 3),
    "softmax": (pk.softmax, [ROWS]),
    "log_softmax": (pk.log_softmax, [ROWS]),
    "layer_norm": (lambda x, w, b: pk.layer_norm(x, 6, w, b), [ROWS, (6,), (6,)]),
    "rms_norm": (lambda x, w: pk.rms_norm(x, 6, w), [ROWS, (6,)]),
    "group_norm": (lambda x, w, b: pk.group_norm(x, 3, w, b), [PICTURES, (3,), (3,)]),
    "instance_norm": (lambda x, w, b: pk.instance_norm(x, None, None, w, b),
                      [PICTURES, (3,), (3,)]),
    "l2_norm": (pk.l2_norm, [ROWS]),
    "add_layer_norm": (lambda x, r, w, b: pk.add_layer_norm(x, r, 6, w, b)[0],
                       [ROWS, ROWS, (6,), (6,)]),
    "add_rms_norm": (lambda x, r, w: pk.add_rms_norm(x, r, 6, w)[1], [ROWS, ROWS, (6,)]),
    "cross_entropy": (pk.cross_entropy, [ROWS, ROWS, (6,)]),
    "nll_loss": (lambda x, w: pk.nll_loss(x, np.array([0, 1, 2, 3], np.int32), w), [ROWS, (6,)]),
    "mse_loss": (pk.mse_loss, [ROWS, ROWS]),
    "l1_loss": (lambda x, y: pk.l1_loss(x, y * 2), [ROWS, ROWS]),
    "smooth_l1_loss": (lambda x, y: pk.smooth_l1_loss(x, y * 2), [ROWS, ROWS]),
    "huber_loss": (lambda x, y: pk.huber_loss(x, y * 2), [ROWS, ROWS]),
    "kl_div": (pk.kl_div, [ROWS, ROWS]),
    "binary_cross_entropy": (pk.binary_cross_entropy, [ROWS] * 3),
    "binary_cross_entropy_with_logits": (
        lambda x, y, w, p: pk.binary_cross_entropy_with_logits(x, y, w, pos_weight=p), [ROWS] * 4),
    "ctc_loss": (lambda x: pk.ctc_loss(x, np.array([[1, 2]], np.int32), 4, 2), [(4, 1, 6)]),
    "cosine_similarity": (pk.cosine_similarity, [ROWS, ROWS]),
}  # fmt: skip


def test_every_function_of_the_list_has_a_call() -> None:
    assert {*CALLS} == {*CASTS} and not {*FLOAT16} & {*FLOAT32}


@pytest.mark.parametrize("name", FLOAT16)
def test_a_product_is_that_of_operands_in_float16(half: pk.Device, name: str) -> None:
    f, shapes = CALLS[name]
    given = [half.tensor(uniform(*s)) for s in shapes]
    with pk.autocast("float16"):
        found, of_arrays = f(*given), f(*[t.numpy() for t in given])
    assert found.dtype == "float16" and of_arrays.dtype == np.float16
    wanted = f(*[t.astype("float16") for t in given]).numpy()
    np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal(of_arrays, wanted)
    # Operands are positive: each of at most three is rounded by 2^-11, and so is the result. An
    # error of logits below 2^-9 (four numbers below 1, scaled by 1/2) counts twice in weights.
    full = f(*given).numpy()
    bound = (2.0**-7 if "att" in name else 4.1 * 2.0**-11) * np.abs(full)
    assert full.dtype == np.float32 and (np.abs(wanted - full) <= bound).all()


@pytest.mark.parametrize("name", FLOAT32)
def test_a_loss_is_that_of_operands_in_float32(half: pk.Device, name: str) -> None:
    f, shapes = CALLS[name]
    given = [half.tensor(uniform(*s)).astype("float16") for s in shapes]
    assert f(*given).dtype == "float16"
    with pk.autocast("float16"):
        found, of_arrays = f(*given), f(*[t.numpy() for t in given])
    assert found.dtype == "float32" and of_arrays.dtype == np.float32
    wanted = f(*[t.astype("float32") for t in given]).numpy()
    np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal(of_arrays, wanted)


def test_what_follows_its_inputs(half: pk.Device) -> None:
    """Other functions, calls with `out`, integers, and masks, biases and residuals of products."""
    x, w = half.tensor(uniform(4, 8)), half.tensor(uniform(8, 3))
    big = half.full((4, 3), 1e5)  # beyond float16
    small = half.ones((4, 8), "int8")
    out = half.empty((4, 3))
    with pk.autocast("float16"):
        assert (x + x).dtype == pk.exp(x).dtype == pk.sum(x).dtype == "float32"
        assert pk.matmul(x, w, out=out).dtype == "float32"
        assert (small @ small.T).dtype == "int32"
        assert np.isfinite(pk.matmul(x, w, bias=big, residual=-big).numpy()).all()
        assert (x.astype("float16") * 2).dtype == "float16"
    np.testing.assert_array_equal(out.numpy(), (x @ w).numpy())


def test_operators_methods_and_numpy(half: pk.Device) -> None:
    x, w = half.tensor(uniform(4, 8)), half.tensor(uniform(8, 3))
    with pk.autocast("float16"):
        found = [x @ w, x.matmul(w), np.matmul(x, w), x @ w.numpy(), x.numpy() @ w]
        assert (x.astype("float16") @ w).relu().dtype == "float16"
    for y in found:
        assert y.dtype == "float16"
        np.testing.assert_array_equal(y.numpy(), found[0].numpy())


def test_dropout_in_attention(half: pk.Device) -> None:
    q = half.tensor(uniform(1, 2, 3, 4))
    with pk.autocast("float16"):
        found = pk.scaled_dot_product_attention(q, q, q, dropout_p=0.5, seed=3)
        other: Any = pk.flash_attn(q, q, q, dropout_p=0.5, seed=3)
    small = q.astype("float16")
    wanted = pk.scaled_dot_product_attention(small, small, small, dropout_p=0.5, seed=3)
    assert found.dtype == other.dtype == "float16"
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    np.testing.assert_array_equal(other.numpy(), wanted.numpy())


def test_blocks_nest_and_end(half: pk.Device) -> None:
    x = half.tensor(uniform(3, 3))

    @pk.autocast("float16")
    def decorated() -> str:
        return (x @ x).dtype

    assert decorated() == "float16" and (x @ x).dtype == "float32"
    block = pk.autocast("float16")
    with block:
        with pk.autocast("float16", enabled=False):
            assert (x @ x).dtype == "float32"
            with pk.autocast(np.float16):
                assert (x @ x).dtype == decorated() == "float16"
            assert (x @ x).dtype == "float32"
        assert (x @ x).dtype == "float16"
        with pytest.raises(pk.ArgumentError, match="open already"):
            block.__enter__()
        with pytest.raises(pk.ShapeError):
            _ = x @ half.ones((2, 2))
        with pytest.raises(ZeroDivisionError), pk.autocast("float16", enabled=False):
            _ = 1 / 0
        assert (x @ x).dtype == "float16"
    with block:  # again
        assert (x @ x).dtype == "float16"
    assert (x @ x).dtype == "float32"
    del block
    gc.collect()
    assert not module.live


def test_outside_of_blocks_nothing_is_asked(
    half: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call tests `live` and no more: the functions that would be next are gone."""
    for name, (f, shapes) in CALLS.items():
        given = [half.tensor(uniform(*s)) for s in shapes]
        for home in map(inspect.unwrap, (f, getattr(pk, name))):
            if "recast" in getattr(home, "__globals__", {}):
                monkeypatch.setitem(home.__globals__, "recast", None)
        f(*given)
        with pk.autocast("float16"), pytest.raises(TypeError, match="not callable"):
            f(*given)


def test_threads_and_tasks(half: pk.Device) -> None:
    x, found = half.tensor(uniform(3, 3)), []

    def work() -> None:
        found.append((x @ x).dtype)

    async def task(*, own: bool) -> str:
        if own:
            with pk.autocast("float16", enabled=False):
                await asyncio.sleep(0)
                return (x @ x).dtype
        await asyncio.sleep(0)
        return (x @ x).dtype

    async def main() -> list[str]:
        with pk.autocast("float16"):
            inside = [asyncio.create_task(task(own=own)) for own in (True, False)]
        return [*await asyncio.gather(*inside), (x @ x).dtype]

    with pk.autocast("float16"):
        copied = contextvars.copy_context()
        for of in (contextvars.Context().run, copied.run):
            thread = threading.Thread(target=of, args=(work,))
            thread.start()
            thread.join()
        work()
    copied.run(work)  # a copy keeps the state
    work()
    assert found == ["float32", "float16", "float16", "float16", "float32"]
    assert asyncio.run(main()) == ["float32", "float16", "float32"]


def test_gradients_have_the_dtypes_of_the_parameters(half: pk.Device) -> None:
    x, w = half.tensor(uniform(4, 8)), half.tensor(uniform(8, 8))

    def loss(weights: pk.Tensor, *, by_hand: bool) -> pk.Tensor:
        h = x
        for _ in range(2):  # the weights are converted twice
            if by_hand:
                h = pk.tanh(h.astype("float16") @ weights.astype("float16"))
            else:
                h = pk.tanh(h @ weights)
        return pk.mse_loss(h.astype("float32") if by_hand else h, x)

    with pk.Tape() as plain:
        y = loss(w, by_hand=True)
    wanted = plain.gradient(y, w)
    with pk.autocast("float16"):
        with pk.Tape() as tape:
            y = loss(w, by_hand=False)
        inside = tape.gradient(y, w)
    calls = [entry.kernel.name for entry in tape.entries]  # type: ignore[union-attr]
    assert calls.count("cpy") == 4 and y.dtype == "float32"
    for grad in (inside, tape.gradient(y, w)):
        assert grad.dtype == "float32"
        np.testing.assert_array_equal(grad.numpy(), wanted.numpy())


def test_a_gradient_has_the_dtypes_of_what_was_recorded(half: pk.Device) -> None:
    """A block around `gradient` alone changes nothing."""
    x, w = half.tensor(uniform(4, 8)), half.tensor(uniform(8, 8))
    with pk.Tape() as tape:
        loss = pk.mean(pk.square(x @ w))
    wanted = tape.gradient(loss, w).numpy()
    with pk.autocast("float16"):
        np.testing.assert_array_equal(tape.gradient(loss, w).numpy(), wanted)
        assert (x @ w).dtype == "float16"


def test_gradients_of_gradients_and_functional_forms(half: pk.Device) -> None:
    x, w = half.tensor(uniform(4, 8)), half.tensor(uniform(8, 8))

    def f(weights: pk.Tensor) -> Any:
        return pk.mse_loss(pk.tanh(x @ weights), half.zeros((4, 8)))

    def of_f(weights: pk.Tensor) -> Any:
        with pk.autocast("float16"):
            return f(weights)

    with pk.autocast("float16"):
        inside = pk.hvp(f, w, half.ones((8, 8)))
    outside: Any = pk.hvp(of_f, w, half.ones((8, 8)))
    full: Any = pk.hvp(f, w, half.ones((8, 8)))
    assert outside.dtype == "float32"
    np.testing.assert_array_equal(inside.numpy(), outside.numpy())
    np.testing.assert_allclose(outside.numpy(), full.numpy(), rtol=0.05, atol=1e-4)
    assert (outside.numpy() != full.numpy()).any()


def test_what_a_checkpoint_computes_again(half: pk.Device) -> None:
    """In the dtypes of the first time, inside of the block or outside."""
    x, w = half.tensor(uniform(4, 8)), half.tensor(uniform(8, 8))

    def f(weights: pk.Tensor) -> pk.Tensor:
        return pk.mean(pk.square(pk.tanh(x @ weights).astype("float32")))

    with pk.Tape() as tape, pk.autocast("float16"):
        plain, again = f(w), pk.checkpoint(f, w)
    wanted = tape.gradient(plain, w).numpy()
    np.testing.assert_array_equal(tape.gradient(again, w).numpy(), wanted)
    with pk.autocast("float16"):
        np.testing.assert_array_equal(tape.gradient(again, w).numpy(), wanted)
        with pk.Tape() as tape, pk.autocast("float16", enabled=False):
            again = pk.checkpoint(f, w)
        full = tape.gradient(again, w).numpy()
    assert (full != wanted).any()


def test_muon_is_not_changed(half: pk.Device) -> None:
    weights = [half.tensor(uniform(4, 6)) for _ in range(2)]
    grads = half.tensor(uniform(4, 6) - 0.5)
    pk.Muon(weights[0], lr=0.1).step(grads)
    with pk.autocast("float16"):
        pk.Muon(weights[1], lr=0.1).step(grads)
    np.testing.assert_array_equal(weights[0].numpy(), weights[1].numpy())


def trained(dev: pk.Device, batches: list[Any], *, captured: bool) -> list[Any]:
    """The overflows of each step, the weights and the factor."""
    x, w = dev.tensor(batches[0]), dev.tensor(uniform(8, 8))
    optimizer, scale = pk.Adam([w], lr=0.01), pk.LossScale(init=64, device=dev)

    def step() -> Any:
        with pk.autocast("float16"), pk.Tape() as tape:
            loss = scale.scale(pk.mse_loss(x @ w, x))
        grads, overflow = scale.unscale(tape.gradient(loss, [w]))
        optimizer.step(grads, skip=overflow)
        scale.update(overflow)
        return overflow

    program: Any = None
    overflow: Any = None
    if captured:
        with dev.capture() as program:
            overflow = step()
    overflows = []
    for batch in batches:
        x.write(batch)
        if program is None:
            overflow = step()
        else:
            program()
        overflows.append(overflow.item())
    return [overflows, w.numpy(), scale.value.numpy()]


def test_a_captured_step_is_the_plain_one(half: pk.Device) -> None:
    """With an overflow in the third step, which `LossScale` finds."""
    batches = [uniform(4, 8), uniform(4, 8) / 2, np.full((4, 8), 1e5, np.float32), uniform(4, 8)]
    plain, other = (trained(half, batches, captured=c) for c in (False, True))
    assert plain[0] == other[0] == [0, 0, 1, 0]
    for a, b in zip(plain[1:], other[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_device_without_shader_f16(dev: pk.Device) -> None:
    x = dev.tensor(uniform(3, 3))
    calls: list[Callable[[], Any]] = [
        lambda: x @ x, lambda: pk.flash_attn(*[x[None, None]] * 3),
        lambda: pk.einsum("ij,jk->ik", x, x),
    ]  # fmt: skip
    with caps(dev, f16=False), pk.autocast("float16"):
        with pk.Tape() as tape:
            for call in calls:
                with pytest.raises(pk.FeatureError, match="shader-f16"):
                    call()
        assert len(tape) == 0
        assert pk.softmax(x).dtype == "float32"
        with pk.autocast("float16", enabled=False):
            assert (x @ x).dtype == "float32"


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", 3])
def test_only_float16_is_taken(dtype: Any) -> None:
    with pytest.raises(pk.DTypeError, match="float16"):
        pk.autocast(dtype)


def test_wrong_arguments() -> None:
    with pytest.raises(pk.ArgumentError, match="enabled"):
        pk.autocast("float16", enabled="no")  # type: ignore[arg-type]

    def generate() -> Any:
        yield 1

    with pytest.raises(pk.ArgumentError, match="generator"):
        pk.autocast("float16")(generate)
    with pytest.raises(pk.ArgumentError, match="coroutine"):
        pk.autocast("float16")(asyncio.sleep)
