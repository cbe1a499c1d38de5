"""Facts that Python, the heads of shaders and the JavaScript of an export share.

Each fact is defined only here. The build reads this module, too, so it needs only the standard
library.
"""

from __future__ import annotations

import json
from typing import NamedTuple

__all__ = [
    "ALONE", "COOPERATIVE_MATRIX", "DTYPES", "F16", "FEATURES", "FLOATS", "GRID_MAX", "GRID_ROW",
    "PARAMS_BYTES", "SUBGROUPS", "SUBGROUP_MATRIX", "TIMESTAMPS", "UNITS", "Feature", "accepted",
    "as_javascript",
]  # fmt: skip

# Workgroups: a grid with more workgroups than a device allows along x is folded into rows of
# GRID_ROW workgroups.
GRID_ROW = 1 << 15
GRID_MAX = 65535  # most rows; every device allows this number of workgroups along an axis
# Bytes of the params of one dispatch, which are a slot of a uniform buffer. No device may require a
# larger alignment of an offset. The windows that stand for missing tensors are this far apart, too.
PARAMS_BYTES = 256
# Buffers are bound as arrays of words or of vectors of words. Bytes of one element of each type:
UNITS = {"u32": 4, "atomic<u32>": 4, "vec2<u32>": 8, "vec4<u32>": 16}
# Dtypes: numpy's name, the name in kernels, bytes, kind, and the JavaScript array.
DTYPES = (
    ("float32", "f32", 4, "f", "Float32Array"),
    ("float16", "f16", 2, "f", "Float16Array"),
    ("bfloat16", "bf16", 2, "f", "Uint16Array"),
    ("int32", "i32", 4, "i", "Int32Array"),
    ("uint32", "u32", 4, "u", "Uint32Array"),
    ("int16", "i16", 2, "i", "Int16Array"),
    ("uint16", "u16", 2, "u", "Uint16Array"),
    ("int8", "i8", 1, "i", "Int8Array"),
    ("uint8", "u8", 1, "u", "Uint8Array"),
    ("int64", "i64", 8, "i", "BigInt64Array"),
    ("bool", "bool", 1, "b", "Uint8Array"),
    ("complex64", "c64", 8, "c", "Float32Array"),
)


# The dtypes of floats.
FLOATS = ("float32", "float16", "bfloat16")


def accepted(dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """The dtypes that an argument accepts if its shaders compute with `dtypes`. If float32 and
    float16 are among them, it also accepts bfloat16, which the launcher converts to float32."""
    if "bfloat16" in dtypes or not {"float32", "float16"} <= {*dtypes}:
        return dtypes
    at = dtypes.index("float16") + 1
    return (*dtypes[:at], "bfloat16", *dtypes[at:])


class Feature(NamedTuple):
    """A feature of devices."""

    name: str  # the name in WebGPU and Dawn, which pykernels uses
    wgpu: str  # wgpu's name
    word: str = ""  # the name in WGSL's `enable`
    asked: bool = False  # True: every device enables it if the adapter has it
    told: bool = True  # True: `pykernels doctor` lists it

    @property
    def enable(self) -> str:
        """The line of WGSL that enables the feature."""
        return f"enable {self.word};"


F16 = Feature("shader-f16", "shader-f16", "f16", asked=True)
SUBGROUPS = Feature("subgroups", "subgroup", "subgroups", asked=True)
TIMESTAMPS = Feature("timestamp-query", "timestamp-query", asked=True)
# The features of matrix units in Dawn, and in wgpu. wgpu's feature does not exist yet, so no device
# requests it.
_DAWN, _WGPU = "chromium-experimental-subgroup-matrix", "wgpu-cooperative-matrix"
SUBGROUP_MATRIX = Feature(_DAWN, _DAWN, "chromium_experimental_subgroup_matrix")
COOPERATIVE_MATRIX = Feature(_WGPU, _WGPU, "wgpu_cooperative_matrix", told=False)
# Without this feature, a Dawn device works only on the thread that made it.
ALONE = Feature("implicit-device-synchronization", "implicit-device-synchronization")
FEATURES = (F16, SUBGROUPS, TIMESTAMPS, SUBGROUP_MATRIX, COOPERATIVE_MATRIX, ALONE)


def as_javascript() -> str:
    """These facts as a JavaScript object."""
    rows = ",\n".join(f"    {json.dumps(row)}" for row in DTYPES)
    return (
        f"{{\n  grid: {{ row: {GRID_ROW}, max: {GRID_MAX} }},\n  paramsBytes: {PARAMS_BYTES},\n"
        f"  units: {json.dumps(UNITS)},\n"
        f"  features: {json.dumps({'f16': F16.name, 'subgroups': SUBGROUPS.name})},\n"
        f"  dtypes: [\n{rows},\n  ],\n}}"
    )
