"""The door through which tests and benches force choices: on caps, and on a device."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.forcing import choice, force, parse, with_forced
from pykernels.plans.matmul import mul_mat
from pykernels.plans.matmul.select import GemmChoice, GemmTail
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.tuning import named

CAPS = Caps(True, True, 32, 1024, 49152, 1 << 31, 65535, named("generic-large"))
CHOICES = {
    "mul_mat": "body=gemm_tile splits=2",
    "conv2d": "body=implicit_gemm/64x64 splits=2 pack=true",
    "conv_transpose2d": "body=implicit_gemm/64x64",
    "conv2d_backward_input": "body=implicit_gemm/64x64",
    "conv2d_backward_weight": "body=64x64 splits=3",
    "flash_attn": "body=decode splits=5",
    "flash_attn_backward": "tile=32 heads=2 queries=64 keys=32",
}


def bodies(caps: Caps) -> list[str]:
    n = (96, 96)
    views = [View(i, DTYPES["float32"], n, contiguous_strides(n, 4), 0) for i in range(3)]
    steps = mul_mat.plan(caps, Scratch(), views[0], views[1], None, None, views[2])
    return [s.body.name for s in steps]


def test_a_plan_takes_what_caps_force() -> None:
    own = bodies(CAPS)
    forced = with_forced(CAPS, GemmChoice("gemm_tile", 2))
    assert bodies(forced) != own
    assert bodies(forced)[-2:] == ["gemm_tile", "splitk_reduce"]
    assert bodies(with_forced(forced, GemmChoice("mul_mat/64"))) == ["mul_mat"]  # the last one
    assert bodies(CAPS) == own
    assert hash(forced) != hash(CAPS)


@pytest.mark.parametrize("kernel", CHOICES)
def test_choices_as_text(kernel: str) -> None:
    found = parse(kernel, CHOICES[kernel])
    assert found == choice(kernel, **found._asdict())
    for field in CHOICES[kernel].split():
        name, _, value = field.partition("=")
        assert str(getattr(found, name)).lower() == value
    with pytest.raises(pk.ArgumentError, match=f"a choice of {kernel} has the fields .* depth"):
        choice(kernel, depth=3)


def test_choices_that_are_none() -> None:
    assert parse("mul_mat", "body=gemm_tile tail=3,4").tail == GemmTail(3, 4)
    with pytest.raises(pk.ArgumentError, match="body must be given, but has splits"):
        parse("mul_mat", "splits=3")
    assert parse("mul_mat", "gemm_tile splits=2") == parse("mul_mat", "body=gemm_tile splits=2")
    with pytest.raises(pk.ArgumentError, match=r"NAME=VALUE .* but has 'tail'"):
        parse("mul_mat", "gemm_tile tail")
    with pytest.raises(pk.ArgumentError, match="the plan of cpy has nothing to choose"):
        choice("cpy", body="cpy_tile")
    with pytest.raises(pk.ArgumentError, match="there is no kernel 'gemm'"):
        choice("gemm", body="x")


@pytest.mark.gpu
def test_a_device_forgets_what_was_forced(dev: pk.Device) -> None:
    """Plans and bind groups that were made inside serve no call outside, nor the other way."""
    a, b, dst = (
        dev.rand((33, 40), seed=0),
        dev.rand((35, 40), seed=0),
        dev.empty((35, 33), "float32"),
    )

    def ran() -> list[str]:
        for _ in range(2):  # the second call finds what the first one left
            with dev.profile() as p:
                pk.kernels.mul_mat(a, b, dst)
        return [r.kernel.split()[0] for r in p.records]

    own = ran()
    with force(dev, GemmChoice("mul_mat/32", 2)):
        assert ran() == ["mul_mat", "splitk_reduce"]
        with force(dev, GemmChoice("gemm_tile")):
            assert ran()[-1] == "gemm_tile"
        assert ran() == ["mul_mat", "splitk_reduce"]
    assert ran() == own
    np.testing.assert_allclose(dst.numpy(), b.numpy() @ a.numpy().T, rtol=1e-5)


@pytest.mark.gpu
def test_forces_end_in_any_order(dev: pk.Device) -> None:
    """Two threads force choices, and the first one ends first."""
    caps = dev._context.caps
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with force(dev, GemmChoice("mul_mat/64")):
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    with force(dev, GemmChoice("mul_mat/32")):
        thread.start()
        assert inside.wait(10)
    assert dev._context.caps.forced == (GemmChoice("mul_mat/64"),)
    done.set()
    thread.join()
    assert dev._context.caps == caps


@pytest.mark.gpu
def test_a_table_is_forced(dev: pk.Device) -> None:
    before = dev._context.caps.tuning
    with force(dev, tuning="generic-small"):
        assert dev._context.caps.tuning is named("generic-small")
    assert dev._context.caps.tuning is before
