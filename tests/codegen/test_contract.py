"""What languages share stands once, in pykernels/contract.py; what repeats it must agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import numpy as np

from codegen.spec import DTYPE_NAMES
from pykernels import contract
from pykernels.dtypes import DTYPES, DTypeName

PACKAGE = Path(contract.__file__).parent
# Of code that runs a grid, folds it or exports it; shapes of benches and masks are no grids.
ROOMS = ("runtime", "wgsl", "export", "validate", "plans/matmul", "plans/copy")
NAMES = [name for name, *_ in contract.DTYPES]


def test_grids_and_slots_are_spelled_once() -> None:
    files = [p for room in ROOMS for p in sorted((PACKAGE / room).rglob("*.*"))]
    files = [p for p in files if p.suffix in (".py", ".js")]
    assert len(files) > 60
    found = [
        f"{p.relative_to(PACKAGE)}: {line.strip()}"
        for p in files
        for line in p.read_text(encoding="utf-8").splitlines()
        if re.search(r"\b(32_?768|65_?535|15u)\b", line)
    ]
    assert found == []


def test_features_are_spelled_once() -> None:
    """What asks a device, a head or a page for a feature takes its words from the contract."""
    files = [p for room in ("runtime", "wgsl", "export") for p in (PACKAGE / room).rglob("*.*")]
    files += [PACKAGE / "device.py", PACKAGE / "steps.py", PACKAGE / "cli" / "doctor.py"]
    words = {f.name for f in contract.FEATURES} | {f.wgpu for f in contract.FEATURES}
    spelled = re.compile("|".join(f'"{re.escape(word)}"' for word in words))
    found = [
        f"{p.relative_to(PACKAGE)}: {line.strip()}"
        for p in files
        if p.suffix in (".py", ".js")
        for line in p.read_text(encoding="utf-8").splitlines()
        if spelled.search(line)
    ]
    assert found == []


def test_dtypes_agree() -> None:
    assert list(get_args(DTypeName)) == NAMES == [*DTYPES] == [*DTYPE_NAMES.values()]
    for name, _, size, kind, array in contract.DTYPES:
        if name != "bfloat16":
            dtype = np.dtype(name)
            assert (dtype.itemsize, dtype.kind) == (size, kind)
        assert re.search(r"\d+", array)
    schema = json.loads((PACKAGE / "export" / "manifest.schema.json").read_text())
    assert f'"enum": {json.dumps(NAMES)}' in json.dumps(schema)
    types = (PACKAGE / "export" / "module" / "types.d.ts").read_text()
    declared = re.search(r"type DType\b[^;]*;", types)
    assert declared is not None and re.findall(r'"(\w+)"', declared[0]) == NAMES


def test_javascript_gets_all_of_it() -> None:
    text = contract.as_javascript()
    for key in ("grid", "paramsBytes", "units", "features", "dtypes"):
        assert f"{key}: " in text
    assert f"row: {contract.GRID_ROW}, max: {contract.GRID_MAX}" in text


def test_bfloat16_is_accepted_with_both_other_floats() -> None:
    both = contract.FLOATS[:2]
    assert contract.accepted((*both, "int32")) == ("float32", "float16", "bfloat16", "int32")
    for dtypes in (("float32",), ("float16", "int32"), contract.FLOATS, ("bool", *contract.FLOATS)):
        assert contract.accepted(dtypes) == dtypes
