"""pk.load_kernels, and the kernels that pykernels new writes, on a device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import pykernels as pk
from pykernels.cli import main
from pykernels.own import SourceError
from pykernels.own._codegen import part
from tests.checkout import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of `pykernels new` for each kind of kernel, and a cache of their own."""
    monkeypatch.setenv("PYKERNELS_CACHE", str(tmp_path / "cache"))
    for kind in ("row", "pass", "tile"):
        args = ["new", f"my_{kind}", "--kind", kind, "--into", str(tmp_path / "shaders")]
        assert CliRunner().invoke(main, args).exit_code == 0
    return tmp_path / "shaders"


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")  # skips, or fails in CI, without a driver
def test_new_kernels_pass_the_tests_that_come_with_them(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), str(folder)],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0 and "23 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.gpu
def test_a_module_is_loaded_once_and_anew_when_a_source_changes(
    dev: pk.Device, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pk.load_kernels(folder)
    assert pk.load_kernels(str(folder)) is first
    assert sorted(first.__all__) == ["my_pass", "my_row", "my_tile"]
    x, out = dev.tensor(np.arange(12, dtype="float32").reshape(3, 4)), dev.zeros((4, 3))
    first.my_pass(x.T, x.T, out, factor=3.0)
    assert (out.numpy() == 4 * x.T.numpy()).all()
    source = folder / "my_pass.wgsl"
    before = source.read_text(encoding="utf-8")
    source.write_text(before.replace("product + y_load", "product - y_load"), encoding="utf-8")
    second = pk.load_kernels(folder)
    assert second is not first
    with dev.capture(x=x) as program:
        second.my_pass(x.T, x.T, out, factor=3.0)
    program()
    assert (out.numpy() == 2 * x.T.numpy()).all()
    first.my_pass(x.T, x.T, out, factor=3.0)  # the old one keeps working
    assert (out.numpy() == 4 * x.T.numpy()).all()

    # A folder that was built before needs no build.
    source.write_text(before, encoding="utf-8")
    sys.modules.pop(first.__name__)

    def fail(*args: object, **options: object) -> None:
        raise AssertionError("it is built already")

    monkeypatch.setattr(part("packages"), "build_package", fail)
    again = pk.load_kernels(folder)
    assert again.__name__ == first.__name__
    again.my_row(x + 1, x)  # of the same texts as before
    np.testing.assert_allclose(x.numpy().sum(1), 1, rtol=1e-6)


@pytest.mark.gpu
def test_errors_are_those_of_other_kernels(dev: pk.Device, folder: Path) -> None:
    kernels = pk.load_kernels(folder)
    x = dev.zeros((3, 4))
    with pytest.raises(pk.ShapeError, match=r"\[my_pass\] y must have the shape of x"):
        kernels.my_pass(x, x.T, dev.zeros((3, 4)))
    with pytest.raises(pk.DTypeError, match=r"\[my_pass\]"):
        kernels.my_pass(x, x, dev.zeros((3, 4), "int32"))
    with pytest.raises(pk.AliasError):
        kernels.my_pass(x, x, dev.zeros(4).broadcast_to((3, 4)))
    with pk.Tape() as tape:
        tape.watch(x)
        out = dev.zeros((3, 4))
        kernels.my_pass(x, x, out)
        loss = pk.sum(out)
    with pytest.raises(pk.TapeError):
        tape.gradient(loss, x)
    source = folder / "my_pass.wgsl"
    text = source.read_text(encoding="utf-8").replace("let product =", "let product :=")
    source.write_text(text, encoding="utf-8")
    line = text[: text.index(":=")].count("\n") + 1
    with pytest.raises(SourceError, match=rf"^shaders/my_pass\.wgsl:{line}: "):
        pk.load_kernels(folder)


@pytest.mark.gpu
def test_indices_are_checked(dev: pk.Device, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PYKERNELS_DEBUG=2: what is outside is told with its line; what is not runs as before."""
    context = dev._context
    monkeypatch.setattr(context, "checks_indices", True)
    monkeypatch.setattr(context, "guarded", True)
    kernels = pk.load_kernels(folder)
    x = dev.tensor(np.random.default_rng(0).random((4, 257), np.float32))
    memory = dev.full((4, 2 * 257), 7)
    dst = memory[:, ::2]
    kernels.my_row(x, dst)
    np.testing.assert_allclose(dst.numpy(), x.numpy() / x.numpy().sum(1, keepdims=True), rtol=1e-5)
    assert (memory.numpy()[:, 1::2] == 7).all()
    assert np.allclose(pk.softmax(x).numpy().sum(1), 1)  # ours, too
    assert np.allclose(pk.sort(x).numpy(), np.sort(x.numpy()))  # several dispatches, faults
    source = folder / "my_pass.wgsl"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("  if (i >= p.total) { return; }\n", ""), encoding="utf-8")
    broken = pk.load_kernels(folder)
    y = dev.zeros(300)
    lines = source.read_text(encoding="utf-8").split("\n")
    last = [i for i, line in enumerate(lines, 1) if "_load(" in line or "_store(" in line]
    said = (
        rf"^\[my_pass\] shaders/my_pass\.wgsl:({'|'.join(map(str, last))}) "
        r"\(line \d+ of the text my_pass-\w+ T=f32 WG=256 mode=read\), "
        r"'.*(load|store)\(.*': "
        r"(x_load|y_load|dst_store)\(.*\) has the index \d+ into (x|y|dst), of 300 elements; "
        r"invocation \((3|4|5)\d\d, 0, 0\); \d+ more$"
    )
    with pytest.raises(pk.IndexRangeError, match=said):
        broken.my_pass(dev.ones(300), dev.ones(300), y)
    assert (y.numpy()[:299] == 2).all()
    with dev.capture() as program:  # nobody can wait for its launches
        kernels.my_pass(y, y, y)
    program()
    assert (y.numpy()[:299] == 4).all()
