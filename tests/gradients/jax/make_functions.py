"""Values and derivatives of JAX, in float64: `python -m tests.gradients.jax.make_functions` writes
functions.npz beside this file. Needs jax and numpy (0.10.2, on the CPU, made what is there)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from tests.gradients.jax.functions import Array, Call, calls


def directions(number: int, call: Call, shape: tuple[int, ...]) -> tuple[Array, list[list[Array]]]:
    """What a result, and each derivative by each input, is multiplied by and summed."""
    rng = np.random.default_rng(number)
    first = rng.normal(0, 1, shape).astype(np.float32)
    return first, [[rng.normal(0, 1, a.shape).astype(np.float32) for a in call.inputs]
                   for _ in range(call.order - 1)]  # fmt: skip


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    found: dict[str, Array] = {}
    for number, call in enumerate(calls(None, jax)):
        inputs = [jax.numpy.asarray(a, "float64") for a in call.inputs]
        found[f"{number} 0"] = y = np.asarray(call.theirs(*inputs, *call.others))
        dy, ways = directions(number, call, y.shape)
        places = tuple(range(len(inputs)))

        def along(*a: Any, call: Call = call, dy: Array = dy) -> Any:
            return (call.theirs(*a, *call.others) * dy).sum()

        for order in range(1, call.order + 1):
            slopes = jax.grad(along, places)
            for i, g in enumerate(slopes(*inputs)):
                found[f"{number} {order} {i}"] = np.asarray(g)
            if order < call.order:

                def along(*a: Any, slopes: Any = slopes, way: Any = ways[order - 1]) -> Any:
                    return sum((g * u).sum() for g, u in zip(slopes(*a), way, strict=True))

    file = Path(__file__).with_name("functions.npz")
    np.savez_compressed(file, **found)
    print(f"{len(found)} arrays, {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
