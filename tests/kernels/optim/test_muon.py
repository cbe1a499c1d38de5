"""Muon: its rule in float64 over 50 steps, batches of equal shapes, captured and skipped steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from tests.harness import assert_close, assert_same_bits

pytestmark = pytest.mark.gpu
Array = np.ndarray[Any, Any]
U = 2.0**-24
COEFFICIENTS = (3.4445, -4.775, 2.0315)
SHAPES = ((4, 6), (6, 4), (4, 6))


def orthogonal(u: Array, steps: int = 5, eps: float = 1e-7) -> Array:
    """As torch.optim's `_zeropower_via_newtonschulz`, in float64."""
    a, b, c = COEFFICIENTS
    x = u.T if u.shape[0] > u.shape[1] else u
    x = x / max(np.linalg.norm(x), eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if u.shape[0] > u.shape[1] else x


def run(
    w: Array, grads: list[Array], lr: float = 1e-3, weight_decay: float = 0.1,
    momentum: float = 0.95, nesterov: bool = True, adjust_lr_fn: str | None = None,
) -> Array:  # fmt: skip
    """The parameter after all steps, as torch.optim.Muon updates it."""
    rows, cols = w.shape
    ratio = np.sqrt(max(1, rows / cols))
    if adjust_lr_fn == "match_rms_adamw":
        ratio = 0.2 * np.sqrt(max(rows, cols))
    w, buffer = w.astype(np.float64), np.zeros(w.shape)
    for g in grads:
        buffer = momentum * buffer + (1 - momentum) * g
        u = g + momentum * (buffer - g) if nesterov else buffer
        w = w * (1 - lr * weight_decay) - lr * ratio * orthogonal(u)
    return w


@pytest.mark.parametrize(
    "args", [{}, {"lr": 0.02, "nesterov": False, "momentum": 0.4, "weight_decay": 0.0},
             {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw"}],
)  # fmt: skip
def test_fifty_steps_have_the_published_values(dev: pk.Device, args: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    params = [rng.normal(0, 1, s).astype(np.float32) for s in SHAPES]
    grads = [[rng.normal(0, 1, s).astype(np.float32) for s in SHAPES] for _ in range(50)]
    ours = [dev.tensor(p) for p in params]
    optimizer = pk.Muon(ours, **args)
    for t, g in enumerate(grads):
        if t == 20:
            saved = {n: x.numpy() for n, x in optimizer.state_dict().items()}
            optimizer = pk.Muon(ours, **args)
            optimizer.load_state_dict(saved)
        optimizer.step([dev.tensor(x) for x in g])
    # An error in u grows a times a step at most; products of 6 have some 16 roundings.
    each = COEFFICIENTS[0] ** 5 * 16 * U
    for i, (w, p) in enumerate(zip(ours, params, strict=True)):
        want = run(p, [g[i].astype(np.float64) for g in grads], **args)
        lr = args.get("lr", 1e-3)
        bound = 50 * (lr * each + U * np.max(np.abs(p)) + U) + np.zeros(p.shape)
        assert np.max(bound) < 0.02 * np.max(np.abs(want - p))
        assert_close(w.numpy(), want, bound, str(args))


def test_captured_and_skipped_steps_with_a_schedule(dev: pk.Device) -> None:
    rng = np.random.default_rng(1)
    values = [rng.normal(0, 1, (3, 5)).astype(np.float32) for _ in range(2)]
    for dtype in ("float32", "float16"):
        eager, captured = ([dev.tensor(v.astype(dtype)) for v in values] for _ in range(2))
        rates = [pk.Schedule.exponential(0.1, 0.5, device=dev) for _ in range(2)]
        one, other = pk.Muon(eager, rates[0]), pk.Muon(captured, rates[1])
        grads, skip = [dev.ones((3, 5)), dev.ones((3, 5))], dev.zeros(1)
        with dev.capture() as program:
            other.step(grads, skip=skip)
        for t in range(4):
            for g in grads:
                g.write(rng.normal(0, 1, (3, 5)).astype(np.float32))
            if t == 2:
                grads[0].write(np.full((3, 5), np.inf, np.float32))
                one.momentum = other.momentum = 0.5
            kernels.fill(skip, float(t == 2))
            before = captured[0].numpy()
            program()
            one.step(grads, skip=skip)
            for a, b in zip(captured, eager, strict=True):
                assert_same_bits(a.numpy(), b.numpy())
            assert (captured[0].numpy() == before).all() == (t == 2)
        assert np.isfinite(captured[0].numpy()).all() and rates[1].count.item() == 4


def test_matrices_of_equal_shape_are_one_batch(dev: pk.Device) -> None:
    """Three products a step of Newton and Schulz, however many matrices there are."""
    counts = []
    for n in (1, 4):
        ws = [dev.ones((8, 8)) for _ in range(n)]
        optimizer = pk.Muon(ws, ns_steps=2)
        with dev.profile() as p:
            optimizer.step(ws)
        counts.append(len(p.records))
    assert counts[1] - counts[0] == 3 * 3  # buffer, update and parameter of each matrix


def test_muon_rejects(dev: pk.Device) -> None:
    w = dev.ones((2, 3))
    calls: list[tuple[str, Any, dict[str, Any]]] = [
        (r"params must be matrices but params\[1\] has \(3,\)", [w, dev.ones(3)], {}),
        ("momentum must be in", w, {"momentum": 1.0}),
        ("ns_steps must be 1 or more", w, {"ns_steps": 0}),
        ("adjust_lr_fn one of original, match_rms_adamw", w, {"adjust_lr_fn": "none"}),
        ("ns_coefficients must be three", w, {"ns_coefficients": (1, 2)}),
    ]
    for match, params, named in calls:
        with pytest.raises(pk.PyKernelsError, match=match):
            pk.Muon(params, **named)
