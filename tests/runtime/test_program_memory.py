"""The memory of captured programs: what is kept, what shares buffers, and how much it takes."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import check_works, open_device, refusal

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]

Array = np.ndarray[Any, Any]
ROWS, WIDTH, LAYERS = 16, 96, 5


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


class Net:
    """Layers of several kernels, and a loss; `kept` has what the caller keeps of the way."""

    def __init__(self, dev: pk.Device) -> None:
        self.flat, self.weights = pk.flatten_parameters(
            [dev.tensor(normal(i, WIDTH, WIDTH) / 10) for i in range(LAYERS)]
        )
        self.optimizer = pk.SGD(self.flat, lr=1e-3, momentum=0.9)
        self.x = dev.tensor(normal(9, ROWS, WIDTH))

    def forward(self, kept: list[pk.Tensor]) -> pk.Tensor:
        h = self.x
        for i, w in enumerate(self.weights):
            h = pk.softmax(pk.linear(h, w)) + pk.tanh(h)
            h = pk.layer_norm(h, WIDTH)
            if i % 2:
                kept.append(h[1::3, 5:70])
        return pk.mean(h * h * h)

    def step(self, kept: list[pk.Tensor]) -> pk.Tape:
        with pk.Tape() as tape:
            tape.watch(self.flat)
            loss = self.forward(kept)
        gradient = tape.gradient(loss, self.flat)
        kept += [loss, gradient]
        self.optimizer.step(gradient)
        return tape


def test_what_is_kept_has_a_place_of_its_own(dev: pk.Device) -> None:
    """Tensors, views of tensors that are gone, gradients: after three replays with other inputs
    each has the bits of the plain step."""
    plain, captured = Net(dev), Net(dev)
    kept: list[pk.Tensor] = []
    with dev.capture(x=captured.x) as program:
        captured.step(kept)
    memory = program.memory()
    assert memory.kept >= sum(t.nbytes for t in kept)
    for seed in (20, 21, 22):
        x = dev.tensor(normal(seed, ROWS, WIDTH))
        plain.x = x
        want: list[pk.Tensor] = []
        plain.step(want)
        program(x=x)
        for a, b in zip(kept, want, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_array_equal(captured.flat.numpy(), plain.flat.numpy())
    check_works(dev)


def test_a_living_tape_keeps_what_its_rules_read(dev: pk.Device) -> None:
    """The way back is another program, which reads what the first one left."""
    net = Net(dev)
    with dev.capture() as forward, pk.Tape() as tape:
        tape.watch(net.flat)
        loss = net.forward([])
    with dev.capture() as backward:
        found = tape.gradient(loss, net.flat)
    for seed in (30, 31, 32):
        net.x.write(normal(seed, ROWS, WIDTH))
        forward()
        backward()
        with pk.Tape() as plain:
            plain.watch(net.flat)
            want = net.forward([])
        np.testing.assert_array_equal(loss.numpy(), want.numpy())
        np.testing.assert_array_equal(found.numpy(), plain.gradient(want, net.flat).numpy())
    with dev.capture() as without:
        net.forward([])
    assert without.memory().kept < forward.memory().kept


def test_an_output_of_one_program_is_the_input_of_another(dev: pk.Device) -> None:
    first, second = Net(dev), Net(dev)
    with dev.capture(x=first.x) as a:
        made = pk.softmax(pk.tanh(pk.linear(first.x, first.weights[0])))
    second.x = made
    with dev.capture(x=made) as b:
        found = second.forward([])
    other = dev.tensor(normal(40, ROWS, WIDTH))
    for seed in (41, 42, 43):
        first.x.write(normal(seed, ROWS, WIDTH))
        a()
        b()
        middle = pk.softmax(pk.tanh(pk.linear(first.x, first.weights[0])))
        np.testing.assert_array_equal(made.numpy(), middle.numpy())
        for given in (middle, other):
            second.x = given
            want = second.forward([]).numpy()
            if given is other:
                b(x=other)
            np.testing.assert_array_equal(found.numpy(), want)
    check_works(dev)


def test_a_step_takes_little_more_than_lives_at_once(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net(dev)
    net.x = dev.tensor(normal(9, 256, WIDTH))  # what lives is the way there, not gradients
    with dev.capture() as program:
        net.step([])
    memory = program.memory()
    assert program.nbytes == memory.nbytes
    assert max(memory.live) == memory.bound <= memory.nbytes <= 1.1 * memory.bound
    assert len(memory.live) == len(memory.calls)
    assert sum(memory.shared) == min(memory.methods.values())
    text = str(memory)
    assert f"{memory.bound:,} bytes in use at once" in text
    assert len(text.splitlines()) == 4 + len(memory.calls)
    pytest.importorskip("matplotlib")
    memory.plot(tmp_path / "memory.png")
    assert (tmp_path / "memory.png").stat().st_size > 1000
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    memory.plot(tmp_path / "memory.png")
    heights = [line.get_ydata()[0] for line in drawn[0].axes[0].lines]
    assert heights == [memory.nbytes / 2**20, memory.kept / 2**20]


def test_scratch_and_long_chains_share(dev: pk.Device) -> None:
    """Temporaries of calls, and a hundred results of which two live at a time."""
    x = dev.tensor(normal(50, 1, 70_000))

    def chain() -> pk.Tensor:
        h = x
        for _ in range(50):
            h = pk.cumsum(pk.tanh(h), axis=-1)
        return pk.sum(h)

    with dev.capture() as program:
        found = chain()
    assert program.nbytes < 5 * x.nbytes
    for seed in (51, 52):
        x.write(normal(seed, 1, 70_000))
        program()
        np.testing.assert_array_equal(found.numpy(), chain().numpy())


def test_memory_is_taken_at_the_end_and_given_back() -> None:
    with open_device() as dev:
        x = dev.rand((64, 256))
        before = dev.memory_stats().current
        with dev.capture() as program:
            y = pk.tanh(pk.softmax(x))
            assert dev.memory_stats().current == before
        assert dev.memory_stats().current == before + program.nbytes
        program()
        want = np.tanh(pk.softmax(x).numpy())
        del program
        gc.collect()
        assert dev.memory_stats().current < before + 2 * y.nbytes
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)
        del y
        assert dev.memory_stats().current == before


def test_a_buffer_that_somebody_asks_for_in_a_capture(dev: pk.Device) -> None:
    """A tensor made inside has its buffer at once then, and keeps it."""
    x = dev.tensor(normal(60, 8, 32))
    with dev.capture() as program:
        h = pk.tanh(x)
        same = pk.Tensor.from_buffer(h.buffer, (8, 32), "float32", device=dev)
        y = pk.softmax(h)
        z = pk.softmax(pk.sin(y))
        del h
    for seed in (61, 62):
        x.write(normal(seed, 8, 32))
        program()
        want = pk.tanh(x)
        np.testing.assert_array_equal(same.numpy(), want.numpy())
        np.testing.assert_array_equal(z.numpy(), pk.softmax(pk.sin(pk.softmax(want))).numpy())


def test_a_capture_that_fails_leaves_nothing() -> None:
    with open_device() as dev:
        x = dev.rand((64, 256))
        pk.tanh(x)  # no thread compiles while the device closes
        before = dev.memory_stats().current
        kept = []
        with pytest.raises(ZeroDivisionError), dev.capture() as program:
            kept.append(pk.tanh(x))
            raise ZeroDivisionError
        with pytest.raises(pk.BufferStateError, match="was not captured to its end"):
            program.memory()
        assert dev.memory_stats().current == before
        pk.kernels.fill(kept[0], 2.0)  # it gets its buffer
        assert (kept[0].numpy() == 2).all()
        del program, kept
        assert dev.memory_stats().current == before


def test_a_capture_that_gets_no_memory_keeps_no_tensor(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inputs are released with it, without a garbage collection."""

    def create(**options: Any) -> Any:
        raise refusal(dev)

    def refused() -> None:
        x = dev.tensor(np.ones(1000, "f4"))
        dev.trim()
        with monkeypatch.context() as m, dev.capture(x=x):
            m.setattr(dev.wgpu_device, "create_buffer", create)
            pk.neg(pk.add(x, x))
        raise AssertionError("the end of the capture was not refused")

    gc.collect()
    before = dev.memory_stats().live_buffers
    gc.disable()
    try:
        with contextlib.suppress(pk.OutOfMemoryError):
            refused()
        assert dev.memory_stats().live_buffers == before
    finally:
        gc.enable()
