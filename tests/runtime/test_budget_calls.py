"""A call that the budget refuses has taken nothing, has run nothing, and has changed nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import open_device

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]


def kinds_of_calls(dev: pk.Device) -> dict[str, Callable[[], Any]]:
    """Calls of layer two that take several blocks, of each kind one."""
    x, w = dev.rand((200, 300), seed=1), dev.rand((300, 200), seed=2)
    long, numbers = dev.rand((2, 100_000), seed=3), pk.randint(0, 99, (20_000,), device=dev)
    images, filters = dev.rand((2, 4, 20, 20), seed=5), dev.rand((8, 4, 3, 3), seed=6)
    params = [dev.rand((200, 300), seed=i) for i in range(3)]
    adam, skip = pk.Adam(params, lr=0.1), dev.zeros(1)
    rms = pk.RMSprop([{"params": p, "lr": 0.1} for p in params], momentum=0.9)
    muon, averages = pk.Muon(params), pk.EMA(params)
    with pk.Tape() as tape:
        loss = pk.mean(pk.square(pk.softmax(x @ w)))
    with pk.Tape() as windows:
        mean = pk.mean(pk.square(pk.conv2d(images, filters, padding=1)))
    return {
        "one kernel with scratch": lambda: pk.softmax(long),
        "two outputs": lambda: pk.topk(long, 9),
        "dispatches in parts": lambda: pk.std(long, axis=1),
        "expression": lambda: pk.reduction("where(y > 0, y, 0) * y", "sum", 1, y=long),
        "split-K": lambda: long @ long.T,
        "sort": lambda: pk.sort(numbers),
        "median": lambda: pk.median(numbers),
        "quantile": lambda: pk.quantile(long, [0.1, 0.9], axis=1),
        "unique": lambda: pk.unique(numbers, return_counts=True),
        "conv2d": lambda: windows.gradient(mean, [images, filters]),
        "assignment": lambda: x.__setitem__([1, 2], np.ones((2, 300), np.float32)),
        "optimiser": lambda: adam.step([x] * 3, skip=skip),
        "groups": lambda: rms.step([x] * 3, skip=skip),
        "muon": lambda: muon.step([x] * 3, skip=skip),
        "averages": lambda: averages.update(skip=skip),
        "new optimiser": lambda: [*pk.NAdam(params).state_dict().values()],
        "einsum": lambda: pk.einsum("ij,jk,kl->il", x, w, x),
        "clip": lambda: pk.clip_grad_norm([x, *params], 0.5),
        "gradient": lambda: tape.gradient(loss, [x, w]),
    }


KINDS = (
    "one kernel with scratch", "two outputs", "dispatches in parts", "expression", "split-K",
    "sort", "median", "quantile", "unique", "conv2d", "assignment", "optimiser", "groups",
    "muon", "averages", "new optimiser", "einsum", "clip", "gradient",
)  # fmt: skip


def outcome(call: Callable[[], Any]) -> list[np.ndarray[Any, Any]] | str:
    """The arrays that a call gives, or the message of its refusal. Nothing else is kept."""
    try:
        found = call()
    except pk.OutOfMemoryError as e:
        return str(e)
    many = found if isinstance(found, (list, tuple)) else [] if found is None else [found]
    return [t.numpy() for t in many]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_is_refused_as_a_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a buffer is made and anything runs; with the room that it needs it goes through."""
    with open_device() as dev:
        call = kinds_of_calls(dev)[kind]
        context = dev._context
        pool, recorder, made = context.pool, context.recorder, list[int]()
        make = pool.buffers.make

        def counted(size: int, *usage: int) -> Any:
            made.append(size)
            return make(size, *usage)

        monkeypatch.setattr(pool.buffers, "make", counted)
        dev.sync()
        dev.trim()
        want = outcome(call)
        assert dev.memory_stats().pooled_buffers > 1, "the case takes several blocks"
        needed = dev.trim()
        context.forget_calls()
        # `unique` reads how many values there are, and takes more then.
        room = needed // 2 if kind == "unique" else needed - 1
        used = dev.memory_stats().current
        given = [s for lease in pool._taken.values() if lease and (s := lease()) is not None]
        dev.empty(300, "uint8")  # is pooled, and would be of no use
        dev.set_memory_budget(used + room)

        def seen() -> tuple[Any, ...]:
            stats = dev.memory_stats()
            memory = stats.current, stats.pooled, stats.live_buffers, stats.pooled_buffers
            return *memory, stats.peak, recorder.submits, len(recorder._queue)

        def contents() -> list[bytes]:
            return [bytes(context.transfers.read(s.block, 0, s.block.size)) for s in given]

        held, before = contents(), seen()
        assert before[:2] == (used, 320)
        made.clear()
        told = outcome(call)
        assert isinstance(told, str)
        found = re.match(r"\[memory\] (\d+) more bytes do not fit: (.*)", told)
        assert found and room < int(found[1]) <= needed
        assert found[2] == f"{used} are in use and 320 pooled, and the budget is {used + room}"
        assert seen() == before and not made
        assert contents() == held
        dev.set_memory_budget(used + needed)
        got = outcome(call)
        assert len(got) == len(want) and not isinstance(got, str)
        if kind != "clip":
            assert all(map(np.array_equal, got, want))
        assert dev.memory_stats().peak <= max(before[4], used + needed)


@pytest.mark.parametrize("name", ["softmax", "sort", "exp", "median"])
def test_a_refused_call_of_arrays_leaves_nothing(name: str) -> None:
    """Uploads of arguments are of the call, too."""
    dev, function = pk.default_device(), getattr(pk, name)
    x = np.ones(200_000, np.float32)
    function(x)
    dev.trim()
    before = dev.memory_stats()
    dev.set_memory_budget(before.current + x.nbytes * 5 // 4)  # room for x alone
    try:
        with pytest.raises(pk.OutOfMemoryError, match="more bytes do not fit"):
            function(x)
        after = dev.memory_stats()
    finally:
        dev.set_memory_budget(None)
    assert (after.current, after.pooled) == (before.current, 0)


def test_a_refused_step_changes_nothing_and_tapes_forget_it() -> None:
    with open_device() as dev:
        a, b = dev.full((64, 64), 2.0), dev.full((64, 64), 3.0)
        sgd = pk.SGD([a, b], lr=1.0)
        skip = dev.zeros(1)
        with pk.Tape() as tape:
            loss = pk.sum(a * a)
            dev.trim()
            dev.set_memory_budget(dev.memory_stats().current + 256)  # of two temporaries of `skip`
            assert "more bytes do not fit" in str(outcome(lambda: sgd.step([b, a], skip=skip)))
            dev.set_memory_budget(None)
        assert (a.numpy() == 2).all() and (b.numpy() == 3).all()
        assert (tape.gradient(loss, a).numpy() == 4).all(), "a was not written since"
        sgd.step([b, a], skip=skip)
        assert (a.numpy() == -1).all() and (b.numpy() != 3).all()


def test_a_read_inside_a_call_runs_what_is_held() -> None:
    with open_device() as dev:
        dev.set_memory_budget(64 << 20)
        x = dev.tensor([3.0, -1.0, 2.0, 3.0])
        values, counts = pk.unique(x, return_counts=True)
        assert values.tolist() == [-1, 2, 3] and counts.tolist() == [1, 1, 2]

        @pk.custom_gradient
        def square(t: pk.Tensor) -> Any:
            def gradient(dy: pk.Tensor) -> tuple[pk.Tensor]:
                assert t.numpy().shape == (4,)
                with dev.capture() as program:
                    y = dy * t * 2.0
                program()
                return (y,)

            return t * t, gradient

        with pk.Tape() as tape:
            loss = pk.sum(square(x * 1.0))
        assert tape.gradient(loss, x).tolist() == [6, -2, 4, 6]
        assert not dev._context.scopes


def test_a_refused_setting_can_be_set_later() -> None:
    with open_device() as dev:
        params = [dev.ones((64, 64)) for _ in range(2)]
        sgd = pk.SGD(params, lr=1.0)
        dev.set_memory_budget(dev.memory_stats().current + params[0].nbytes)  # one buffer of two
        assert "more bytes do not fit" in str(outcome(lambda: setattr(sgd, "momentum", 0.5)))
        assert sgd.momentum == 0 and not sgd.state_dict()
        dev.set_memory_budget(None)
        sgd.momentum = 0.5
        for _ in range(2):
            sgd.step([dev.ones((64, 64))] * 2)
        assert all((p.numpy() == -1.5).all() for p in params)


def test_a_capture_needs_room_for_its_plan_alone() -> None:
    """Its blocks are promised, too, and those that share memory count once; if the plan does not
    fit, the program has taken nothing."""
    with open_device() as dev:
        x = dev.rand((64, 64), seed=1)

        def captured() -> tuple[pk.Program, pk.Tensor]:
            with dev.capture() as program:
                y = x
                for _ in range(8):
                    y = pk.exp(y * 0.5)
            return program, y

        program, y = captured()
        program()
        want, needed = y.numpy(), program.nbytes
        assert needed < 4 * x.nbytes
        del program, y
        dev.trim()
        before = dev.memory_stats()
        dev.set_memory_budget(before.current + needed - 1)
        assert "more bytes do not fit" in str(outcome(captured))
        after = dev.memory_stats()
        assert (after.current, after.pooled) == (before.current, 0)
        dev.set_memory_budget(before.current + needed)
        program, y = captured()
        program()
        assert np.array_equal(y.numpy(), want)
