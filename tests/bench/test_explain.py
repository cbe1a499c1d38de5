"""Why a plan takes a body: what else there is, predicted, measured or ruled out."""

from __future__ import annotations

from dataclasses import replace

import click.testing
import pytest

import pykernels as pk
from pykernels.bench import explain as explain_module
from pykernels.cli import main
from pykernels.forcing import bodies, parse
from pykernels.plans.attention import select as attention
from pykernels.plans.attention.arguments import Dims
from pykernels.plans.conv import select as conv
from pykernels.plans.matmul import select as matmul
from pykernels.steps import Caps
from pykernels.tuning import load

CAPS = Caps(True, True, 256, 1024, 32768, 1 << 30, 65535, load("generic-large"))
SOFT = replace(CAPS, tuning=load("software"))


def test_each_body_of_a_product_is_taken_predicted_or_ruled_out() -> None:
    shape = matmul.GemmShape(1, 4096, 4096, 4096)
    found = {c.choice.body: c for c in matmul.candidates(CAPS, shape)}
    assert {*found} == {*matmul.BODIES}
    assert found["gemv"].why == "4096 rows: more than 8"
    assert found["gemm_tile"].seconds and found["gemm_tile"].choice == matmul.choose(CAPS, shape)
    assert found["gemm_mma/64x64"].why == "operands are not float16"
    halves = {c.choice.body: c.why for c in matmul.candidates(CAPS, shape._replace(halves=True))}
    assert halves["gemm_mma/64x64"] == "the device was not opened with such matrix units"
    assert (
        "tuning table"
        in {c.choice.body: c.why for c in matmul.candidates(SOFT, shape)}["gemm_tile"]
    )


@pytest.mark.parametrize("caps", [CAPS, SOFT])
@pytest.mark.parametrize("side", [8, 64, 512])
def test_what_is_chosen_is_a_candidate(caps: Caps, side: int) -> None:
    shape = matmul.GemmShape(1, side, side, side)
    chosen = matmul.choose(caps, shape)
    assert chosen in [c.choice for c in matmul.candidates(caps, shape) if not c.why]
    window = conv.ConvShape(1, side, 64, 64)
    body = conv.choose(caps, window).body
    assert body in [c.choice.body for c in conv.candidates(caps, window) if not c.why]
    assert {c.choice.body for c in conv.candidates(caps, window)} == {*conv.BODIES}
    d = Dims(1, 4, 4, side, side, 64, 64)
    keys = attention.choose(caps, d)
    assert keys in [c.choice for c in attention.candidates(caps, d) if not c.why]


@pytest.mark.parametrize("kernel", ["mul_mat", "conv2d", "flash_attn"])
def test_names_are_what_config_takes(kernel: str) -> None:
    for name in bodies(kernel):
        choice = parse(kernel, name)
        assert choice.body == name and explain_module.Row(choice, False).name == name
        assert parse(kernel, f"{name} splits=3").splits == 3
    with pytest.raises(pk.ArgumentError, match=f"body of {kernel} must be one of"):
        parse(kernel, "wings")


@pytest.mark.gpu
def test_a_call_is_explained(dev: pk.Device) -> None:
    a, b = dev.rand((64, 96)), dev.rand((96, 64))
    found = dev.explain(lambda: pk.softmax(pk.matmul(a, b)))
    rows = found.choices[0]
    assert rows[0].chosen and rows[0].measured is not None and rows[0].measured >= 0
    assert not any(r.chosen for r in rows[1:])
    assert all((r.measured is None) == bool(r.why) for r in rows)
    assert any(text.startswith("softmax") for text in found.bodies)
    assert dev._context.caps.asked is None
    text = str(found)
    assert text.startswith("runs ") and "measured us" in text and "gemv" in text
    assert "nothing to choose" in str(dev.explain(lambda: a + 1))
    with pytest.raises(pk.DTypeError, match=r"\[explain\] call must be a function but is int"):
        dev.explain(3)  # type: ignore[arg-type]


@pytest.mark.gpu
def test_the_command_explains(dev: pk.Device) -> None:
    args = ["explain", "mul_mat", "--shape", "40x48x64", "--device", dev.info["name"],
            "--engine", dev.engine]  # fmt: skip
    done = click.testing.CliRunner().invoke(main, args)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("mul_mat f32-40x48x64 on ") and lines[1].startswith("runs ")
    assert lines[3].startswith("*") and "e-" in lines[3]  # the error beside the time
    done = click.testing.CliRunner().invoke(main, ["explain", "paint"])
    assert done.exit_code == 2 and "there is no kernel" in done.output
    done = click.testing.CliRunner().invoke(main, ["explain", "mul_mat", "--shape", "0x4x4"])
    assert done.exit_code == 2
