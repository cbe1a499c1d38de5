"""Trains both examples for 40 steps and compares their losses with torch's losses.

    python examples/curves/compare.py

A loss may differ from torch's loss in float64 by FACTOR times `spread`, which is the effect of
rounding on torch's losses in float32 (see from_torch.py). Our errors are of the same kind: sums are
added in another order, and functions are exact to a few units in the last place. Training makes
such errors grow at the same rate.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import start
from training import Training

FACTOR = 10


def compare(run: start.Start, curve: dict[str, Any]) -> bool:
    """True if the losses agree."""
    name = run.example.__name__
    for what, found in run.sums.items():
        if not np.isclose(found, curve[what], rtol=1e-6):
            raise SystemExit(f"{name}: torch began with other {what}: run from_torch.py again")
    losses = Training(run.weights, run.example.loss, *run.batches[0]).run(run.batches, run.rates)
    bounds = FACTOR * np.array(curve["spread"])
    errors = np.abs(np.array(losses) - curve["losses"])
    print(f"{name}\nstep     loss    torch  difference     bound")
    for i in sorted({*range(0, len(errors), 10), int((errors / bounds).argmax())}):
        print(
            f"{i:4} {losses[i]:8.5f} {curve['losses'][i]:8.5f} {errors[i]:11.2e} {bounds[i]:9.2e}"
        )
    return bool((errors <= bounds).all())


def main() -> None:
    curves = [
        json.loads((start.HERE / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("lenet", "transformer")
    ]
    agree = [
        compare(start.of_lenet(), curves[0]),
        compare(start.of_transformer(curves[1]["text"]), curves[1]),
    ]
    if not all(agree):
        raise SystemExit("the losses differ from torch's by more than rounding explains")


if __name__ == "__main__":
    main()
