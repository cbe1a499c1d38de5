"""Answers questions about kernels of a checkout: python -m tests.codegen.ask_toys FILE

FILE has a question by the name of its kernel, as JSON; the answers are printed so, too. An error
is answered by the name of its class. A question may use

    pk, np      the packages
    x           [1, 2, 3, 4] in float32
    call        runs the kernel on arrays and scalars and gives its output as a list
    doc         the docstring of the kernel's wrapper
    data        its `Kernel`
    texts       the manifest's facts on each of its texts, by key
    of_body     gives its texts, by key
    view        an array as plans see it
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.tensors.layout import View
from pykernels.wgsl import texts
from tests.conftest import COLUMN, DRIVERS

X = np.array([1, 2, 3, 4], "f4")


def main() -> None:
    engine, _, driver = COLUMN.partition("-")
    questions = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with pk.Device(DRIVERS.get(driver), engine=engine or "wgpu") as dev:  # type: ignore[arg-type]
        print(json.dumps({name: answer(dev, name, ask) for name, ask in questions.items()}))


def answer(dev: pk.Device, name: str, ask: str) -> Any:
    """The value of a question, or the name of an error's class."""
    wrapper = getattr(pk.kernels, name, None)

    def call(
        *given: Any, kernel: Any = wrapper, shape: Any = None, dtype: str = "float32", **named: Any
    ) -> Any:
        arrays = [dev.tensor(a) for a in given if isinstance(a, np.ndarray)]
        rest = [a for a in given if not isinstance(a, np.ndarray)]
        dst = dev.zeros(given[0].shape if shape is None else shape, dtype)  # type: ignore[arg-type]
        kernel(*arrays, dst, *rest, **named)
        return dst.numpy().tolist()

    manifest = texts.read_manifest()["variants"]
    scope = {"pk": pk, "np": np, "x": X, "call": call, "view": view, "of_body": texts.of_body}
    scope["texts"] = {k.partition(" ")[2]: v for k, v in manifest.items() if v["body"] == name}
    if wrapper is not None:
        scope["doc"] = wrapper.__doc__
        scope["data"] = importlib.import_module(f"pykernels._generated.kernels.{name}").KERNEL
    try:
        return eval(ask.replace("NAME", name), scope)
    except Exception as e:
        return type(e).__name__


def view(array: np.ndarray[Any, Any]) -> View:
    dtype = pk.dtypes.DTYPES[str(array.dtype)]  # type: ignore[index]
    return View(0, dtype, array.shape, array.strides, 0)


if __name__ == "__main__":
    main()
