"""`import pykernels` and `pykernels --help` load nothing; the public names are there and typed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import pykernels as pk

ROOT = Path(__file__).parents[2]


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_import_loads_nothing() -> None:
    code = (
        "import sys, time; t = time.process_time(); import pykernels; "
        "print(time.process_time() - t); "
        "print({'numpy', 'wgpu', 'wgpudawn', 'click', 'pykernels.wgsl'} & set(sys.modules)); "
        "t = time.process_time(); import numpy; print(time.process_time() - t)"
    )
    times, yardstick = [], []
    for _ in range(5):
        seconds, loaded, numpy = python(code).splitlines()
        assert loaded == "set()"
        times.append(float(seconds))
        yardstick.append(float(numpy))
    # 0.02 s and 0.18 s; on a slow or busy machine both are longer.
    assert min(times) < min(yardstick) / 2


def test_a_module_by_its_name_loads_nothing_else() -> None:
    """`from pykernels import contract` asks the package for the name before the module is there."""
    out = python("import sys; from pykernels import contract; print('numpy' in sys.modules)")
    assert out == "False\n"


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["--version"], ["list"]])
def test_command_line_loads_no_gpu_library(args: list[str]) -> None:
    code = (
        "import sys\nfrom pykernels.cli import main\n"
        f"main({args!r}, standalone_mode=False)\n"
        "print({'numpy', 'wgpu', 'wgpudawn'} & set(sys.modules))"
    )
    assert python(code).splitlines()[-1] == "set()"


def test_help_is_fast() -> None:
    def least(code: str) -> float:
        times = []
        for _ in range(5):
            start = resource.getrusage(resource.RUSAGE_CHILDREN)
            python(code)
            end = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
        return min(times)

    told = least("from pykernels.cli import main; main(['--help'], standalone_mode=False)")
    assert told < 2 * least("import numpy")  # 0.1 s and 0.2 s


@pytest.mark.parametrize(
    "module",
    ["pykernels.kernels", "pykernels.functional", "pykernels._generated.functional",
     "pykernels.tensors.views", "pykernels.device", "pykernels.runtime.launch",
     "pykernels.call.arrays", "pykernels.validate"],
)  # fmt: skip
def test_any_module_may_be_imported_first(module: str) -> None:
    out = python(f"import sys, {module}; print('wgpu' in sys.modules)")
    assert out == "False\n"


def test_public_names() -> None:
    assert pk.__all__ == sorted(pk.__all__)
    assert pk.__all__ == dir(pk)
    for name in pk.__all__:
        assert getattr(pk, name) is not None
    for name in ("Device", "Tensor", "softmax", "log_softmax", "fill", "memset", "ShapeError"):
        assert name in pk.__all__
    assert set(pk.errors.__all__) <= set(pk.__all__)
    assert set(pk.functional.__all__) <= set(pk.__all__)


def test_star_import() -> None:
    out = python("from pykernels import *; print(softmax.__name__, Device.__name__)")
    assert out == "softmax Device\n"


@pytest.mark.parametrize("module", [pk.errors, pk.kernels, pk.functional, pk.validate])
def test_modules_have_what_they_list(module: object) -> None:
    names = module.__all__  # type: ignore[attr-defined]
    assert len(names) == len(set(names))
    for name in names:
        assert hasattr(module, name)


def test_errors_derive_from_what_people_catch() -> None:
    for name in pk.errors.__all__:
        error = getattr(pk, name)
        if issubclass(error, Warning):
            continue
        assert issubclass(error, pk.PyKernelsError)
        if error is not pk.PyKernelsError:
            assert len(error.__mro__) > 4, f"{name} has no built-in base"


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'pykernels' has no attribute 'sofmax'"):
        pk.sofmax  # noqa: B018


def test_every_public_function_says_what_it_does() -> None:
    for module in (pk.kernels, pk.functional):
        for name in module.__all__:
            doc = getattr(module, name).__doc__
            assert doc and len(doc) > 30, name


def test_not_built_says_how_to_build(tmp_path: Path) -> None:
    package = tmp_path / "pykernels"
    package.mkdir()
    for name in ("__init__.py", "_version.py", "errors.py", "kernels.py", "lazy.py"):
        (package / name).write_text((ROOT / "pykernels" / name).read_text(encoding="utf-8"))
    done = subprocess.run(
        [sys.executable, "-c", "import pykernels; pykernels.kernels"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: the kernels are not built: run python -m codegen"
    )
