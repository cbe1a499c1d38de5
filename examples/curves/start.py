"""The start of the curves of torch and of pykernels: weights, batches and rates of both
examples."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import lenet  # noqa: E402
import training  # noqa: E402
import transformer  # noqa: E402

STEPS = 40


class Start(NamedTuple):
    """The start of a curve: weights, batches and rates. `sums` are checksums, which are equal for
    equal starts."""

    example: ModuleType
    weights: dict[str, Any]
    batches: list[Any]
    rates: Any
    sums: dict[str, float]


def of_lenet() -> Start:
    return _start(lenet, list(islice(lenet.batches(), STEPS)))


def of_transformer(text: str) -> Start:
    batches = list(transformer.batches(transformer.encode(text), STEPS))
    return _start(transformer, batches)


def _start(example: ModuleType, batches: list[Any]) -> Start:
    weights = example.initial_weights()
    rates = training.rates(example.STEPS, example.RATE, example.WARM_UP)[:STEPS]
    sums = {
        "weights": sum(float(a.sum(dtype=np.float64)) for a in weights.values()),
        "inputs": sum(float(x.sum(dtype=np.float64)) for x, _ in batches),
    }
    return Start(example, weights, batches, rates, sums)
