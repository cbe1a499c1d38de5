"""What becomes of each test of ONNX's backend suite, and the counts by operator.

python -m tests.onnx.census [--only REGEX] [--kind node] [--save FILE] [--verbose]

passed    the outputs are those of the suite, and the device computed them
host      the same, but the host computed the outputs, as all inputs say what is computed
refused   a ModelError
wrong     other outputs
crashed   any other exception
"""

from __future__ import annotations

import argparse
import collections
import re
import time
import tomllib
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import pykernels as pk
from pykernels.onnx import ModelError
from pykernels.onnx.backend import Backend

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")
VERDICTS = ("passed", "host", "refused", "wrong", "crashed")
EXCLUSIONS = Path(__file__).with_name("exclusions.toml")
COUNTS = Path(__file__).with_name("counts.txt")
Array = np.ndarray[Any, Any]


class Found(NamedTuple):
    """What became of a test."""

    name: str
    operator: str
    verdict: str
    told: str


def cases(kinds: tuple[str, ...] = KINDS) -> list[Any]:
    """The tests of the suite."""
    with warnings.catch_warnings(action="ignore"):
        return [case for kind in kinds for case in load_model_tests(kind=kind)]


def expected() -> dict[str, str]:
    """The verdicts of tests that do not pass."""
    groups = tomllib.loads(EXCLUSIONS.read_text(encoding="utf-8"))["group"]
    return {name: group["verdict"] for group in groups for name in group["tests"]}


def read(case: Any) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    """The network of a test, and its inputs and outputs."""
    if case.model is not None:
        return case.model, [([_array(v) for v in i], [_array(v) for v in o])
                            for i, o in case.data_sets]  # fmt: skip
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        rows = []
        for role, values in (("input", model.graph.input), ("output", model.graph.output)):
            files = sorted(data.glob(f"{role}_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
            rows.append([_value(f, v) for f, v in zip(files, values, strict=False)])
        sets.append((rows[0], rows[1]))
    return model, sets


def _array(value: Any) -> Any:
    """What the suite writes as a tensor of the file's, as an array."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _value(file: Path, info: onnx.ValueInfoProto) -> Any:
    if info.type.WhichOneof("value") == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(file.read_bytes()))
    return numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes()))


def operator_of(name: str, model: onnx.ModelProto) -> str:
    """The operation that a test is about: the first node's, of expanded tests by the name."""
    return model.graph.node[0].op_type if model.graph.node else "none"


def verdict(case: Any, dev: pk.Device) -> Found:
    """Run a test."""
    model, sets = read(case)
    op = operator_of(case.name, model)
    Backend.device = dev
    try:
        host = False
        for inputs, outputs in sets:
            prepared = Backend.prepare(model)
            got = prepared.run(inputs)
            Runner.assert_similar_outputs(*_paired(outputs, got), case.rtol, case.atol)
            (program,) = prepared.model._programs.values()
            host |= program.on_host
    except ModelError as e:
        return Found(case.name, op, "refused", str(e))
    except AssertionError as e:
        return Found(case.name, op, "wrong", " ".join(str(e).split())[:200])
    except Exception as e:
        return Found(case.name, op, "crashed", traceback.format_exc(limit=-2) + repr(e))
    return Found(case.name, op, "host" if host else "passed", "")


def _paired(wanted: Sequence[Any], got: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Both sides with the elements of sequences in the places of the sequences. The suite's runner
    compares no lengths of sequences, and no elements without axes."""
    assert len(wanted) == len(got), f"{len(got)} values, not {len(wanted)}"
    pairs: tuple[list[Any], list[Any]] = ([], [])
    for w, g in zip(wanted, got, strict=True):
        assert isinstance(g, list) == isinstance(w, list), f"{type(g)}, not {type(w)}"
        found = _paired(w, g) if isinstance(w, list) else ([w], [g])
        for side, more in zip(pairs, found, strict=True):
            side.extend(more)
    return pairs


def table(found: list[Found]) -> str:
    """Counts by operator."""
    by: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for f in found:
        by[f.operator][f.verdict] += 1
        by["all"][f.verdict] += 1
    lines = [f"{'operator':<32}" + "".join(f"{v:>9}" for v in VERDICTS)]
    for op in sorted(by):  # "all" is the last one
        lines.append(f"{op:<32}" + "".join(f"{by[op][v]:>9}" for v in VERDICTS))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--kind", action="append")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--counts", type=Path)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    found, start = [], time.perf_counter()
    with pk.Device() as dev:
        for case in cases(tuple(args.kind or KINDS)):
            if re.search(args.only, case.name):
                found.append(verdict(case, dev))
                if args.verbose and found[-1].verdict not in ("passed", "host"):
                    print(*found[-1], flush=True)
    print(table(found))
    print(f"{time.perf_counter() - start:.0f} s")
    if args.counts:
        args.counts.write_text(table(found) + "\n", encoding="utf-8")
    if args.save:
        lines = [f"{f.verdict}\t{f.operator}\t{f.name}\t{f.told!r}" for f in sorted(found)]
        args.save.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
