"""The random state of a device: calls that name no seed go on from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import random as reference
from tests.harness import assert_same_bits

# Calls that draw, with what they take: a function of the device and of named arguments.
DRAWS: dict[str, Callable[..., Any]] = {
    "rand": lambda dev, **how: pk.rand((3, 5), device=dev, **how),
    "Device.rand": lambda dev, **how: dev.rand((3, 5), **how),
    "randn": lambda dev, **how: pk.randn(40, device=dev, **how),
    "rand_like": lambda dev, **how: pk.rand_like(dev.zeros(7), **how),
    "randn_like": lambda dev, **how: pk.randn_like(dev.zeros(7), **how),
    "randint": lambda dev, **how: pk.randint(0, 1 << 30, 9, device=dev, **how),
    "bernoulli": lambda dev, **how: pk.bernoulli(99, 0.5, device=dev, **how),
    "randperm": lambda dev, **how: pk.randperm(20, device=dev, **how),
    "dropout": lambda dev, **how: pk.dropout(dev.ones(99), 0.5, **how),
    "dropout_mask": lambda dev, **how: pk.dropout_mask(99, 0.5, device=dev, **how),
    "categorical": lambda dev, **how: pk.categorical(dev.zeros((20, 50)), **how),
    "kaiming_uniform": lambda dev, **how: pk.kaiming_uniform((3, 4), device=dev, **how),
    "kaiming_normal": lambda dev, **how: pk.kaiming_normal((3, 4), device=dev, **how),
    "xavier_uniform": lambda dev, **how: pk.xavier_uniform((3, 4), device=dev, **how),
    "xavier_normal": lambda dev, **how: pk.xavier_normal((3, 4), device=dev, **how),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", DRAWS)
def test_a_call_without_a_seed_goes_on(dev: pk.Device, name: str) -> None:
    draw = DRAWS[name]
    dev.seed(5)
    first, second = (draw(dev).numpy() for _ in range(2))
    assert (first != second).any()
    assert_same_bits(first, draw(dev, seed=5).numpy())
    state = pk.random_state(5, device=dev)
    if name != "Device.rand":
        for found in (first, second):
            assert_same_bits(found, draw(dev, state=state).numpy())
        assert_same_bits(dev.random_state.numpy(), state.numpy())
    dev.seed(5)
    draw(dev, seed=8)  # leaves the state as it is
    assert_same_bits(draw(dev).numpy(), first)


@pytest.mark.gpu
def test_a_seed_of_0_gives_what_the_default_gave() -> None:
    with pk.Device() as dev:
        assert_same_bits(dev.rand(9).numpy(), dev.rand(9, seed=0).numpy())
    assert_same_bits(pk.rand(9, seed=0).numpy(), reference.rand((9,), np.dtype(np.float32)))


@pytest.mark.gpu
def test_manual_seed_sets_open_devices_and_later_ones(dev: pk.Device) -> None:
    wanted = pk.rand(8, seed=-3, device=dev).numpy()
    with pk.Device() as other:
        other.rand(3)
        pk.manual_seed(-3)
        with pk.Device() as later:
            found = [d.rand(8).numpy() for d in (dev, other, later)]
    pk.manual_seed(0)
    for values in found:
        assert_same_bits(values, wanted)


@pytest.mark.gpu
def test_replays_draw_what_calls_would() -> None:
    with pk.Device() as dev:
        x = dev.ones(600)

        def step() -> list[pk.Tensor]:
            return [pk.dropout(x, 0.5), pk.randn(9, device=dev), pk.categorical(x[None])]

        with dev.capture() as program:  # in which the device's state is made, too
            captured = step()
        dev.seed(7)
        eager = [[t.numpy() for t in step()] for _ in range(4)]
        dev.seed(7)
        for i, wanted in enumerate(eager):
            if i == 2:  # between replays, calls take their turn
                found = step()
            else:
                program()
                found = captured
            for got, want in zip(found, wanted, strict=True):
                assert_same_bits(got.numpy(), want)


@pytest.mark.gpu
def test_a_captured_seed_sets_the_state_in_each_replay(dev: pk.Device) -> None:
    with dev.capture() as program:
        dev.seed(11)
        x = dev.rand(5)
    for _ in range(2):
        program()
        assert_same_bits(x.numpy(), dev.rand(5, seed=11).numpy())


@pytest.mark.gpu
def test_the_gradient_takes_the_mask_of_its_forward_pass(dev: pk.Device) -> None:
    x = dev.ones((40, 30))
    with pk.Tape() as tape:
        tape.watch(x)
        y = pk.dropout(x, 0.5)
        loss = pk.sum(pk.dropout(y, 0.5))
    dx = tape.gradient(loss, [x])[0].numpy()
    first = y.numpy()
    assert set(np.unique(dx)) == {0.0, 4.0}
    assert (first[dx != 0] == 2.0).all() and abs((first != 0).mean() - 0.5) < 0.1


@pytest.mark.gpu
def test_threads_draw_different_numbers(dev: pk.Device) -> None:
    dev.seed(13)
    found: list[pk.Tensor] = []

    def work() -> None:
        for _ in range(40):
            found.append(pk.rand(16, device=dev))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    rows = sorted(tuple(t.numpy().tolist()) for t in found)
    wanted = pk.rand((160, 16), seed=13, device=dev).numpy()
    assert rows == sorted(map(tuple, wanted.tolist()))


@pytest.mark.gpu
def test_a_state_is_kept_and_set_again(dev: pk.Device) -> None:
    dev.seed(17)
    dev.rand(100)
    kept = dev.random_state.numpy()
    first = dev.rand(10).numpy()
    dev.random_state[:] = kept
    assert_same_bits(dev.rand(10).numpy(), first)
    assert tuple(kept) == (17, 0, 25, 0, 0, 0)


@pytest.mark.gpu
def test_a_draw_is_one_call_of_two_dispatches(dev: pk.Device) -> None:
    for seed, count in ((None, 2), (1, 1)):
        with dev.capture() as program:
            dev.rand(8, seed=seed)
        assert len(program) == count
    logits = dev.zeros((3, 4))
    with dev.capture() as program:
        dev.rand(0)
        assert pk.categorical(logits, temperature=0.0).shape == (3,)
    assert len(program) == 1  # argmax; nothing is drawn


@pytest.mark.gpu
def test_a_draw_into_the_buffer_of_its_state(dev: pk.Device) -> None:
    whole = dev.zeros(64, "uint32")
    state = whole[:6]
    state[0] = 3
    out = pk.Tensor.from_buffer(whole.buffer, (5,), "int32", offset=128, device=dev)
    logits = dev.zeros((5, 7))
    assert pk.categorical(logits, state=state, out=out) is out
    assert_same_bits(out.numpy(), pk.categorical(logits, seed=3).numpy())
    assert tuple(state.numpy()) == (3, 0, 5, 0, 0, 0)


@pytest.mark.gpu
def test_randperm(dev: pk.Device) -> None:
    for n in (0, 1, 2, 1000):
        found = pk.randperm(n, seed=4, device=dev).numpy()
        assert_same_bits(np.sort(found), np.arange(n, dtype=np.int32))
    high = pk.randint(0, 1 << 32, (2, 1000), "uint32", seed=4, device=dev).numpy()
    assert_same_bits(found, np.lexsort((high[0], high[1])).astype(np.int32))
    orders = {tuple(pk.randperm(3, device=dev).numpy().tolist()) for _ in range(60)}
    assert len(orders) == 6


@pytest.mark.gpu
def test_seeds_that_are_refused(dev: pk.Device) -> None:
    before = dev.random_state.numpy()
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: dev.seed(1 << 64), pk.ArgumentError, r"\[seed\] seed must fit into 64 bits"),
        (lambda: dev.seed(1.5), pk.ArgumentError, r"\[seed\] seed must be an integer"),  # type: ignore[arg-type]
        (lambda: pk.manual_seed("a"), pk.ArgumentError, r"\[manual_seed\] seed"),  # type: ignore[arg-type]
        (lambda: pk.rand(3, seed=0, state=dev.random_state), pk.ArgumentError, "seed must be None"),
        (lambda: pk.randperm(-1, device=dev), pk.ArgumentError, r"\[randperm\] n must be from 0"),
        (lambda: pk.randperm(2.0, device=dev), pk.ArgumentError, r"\[randperm\] n must be an int"),  # type: ignore[arg-type]
        (lambda: pk.rand(3, state=dev.zeros(1, "uint32").broadcast_to(6)), pk.AliasError, "state"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
    assert_same_bits(dev.random_state.numpy(), before)
