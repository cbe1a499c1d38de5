"""Facts that Python, the heads of shaders and the JavaScript of an export share.

Each stands here alone. The build reads them, too: this module needs the standard library only.
"""

from __future__ import annotations

import json

__all__ = ["DTYPES", "GRID_MAX", "GRID_ROW", "PARAMS_BYTES", "UNITS", "as_javascript"]

# Workgroups: a grid of more than a device takes along x is folded into rows.
GRID_ROW = 1 << 15
GRID_MAX = 65535  # rows, and what every device takes along an axis
# Bytes of the params of one dispatch, which are a slot of a uniform buffer. It is the largest
# alignment of an offset that a device may require; null tensors have this distance, too.
PARAMS_BYTES = 256
# Bytes of the words that a buffer is bound as.
UNITS = {"u32": 4, "atomic<u32>": 4, "vec2<u32>": 8, "vec4<u32>": 16}
# Dtypes: numpy's name, that in kernels, bytes, kind, and the array of JavaScript.
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
)


def as_javascript() -> str:
    """The same as an object of JavaScript."""
    rows = ",\n".join(f"    {json.dumps(row)}" for row in DTYPES)
    return (
        f"{{\n  grid: {{ row: {GRID_ROW}, max: {GRID_MAX} }},\n  paramsBytes: {PARAMS_BYTES},\n"
        f"  units: {json.dumps(UNITS)},\n  dtypes: [\n{rows},\n  ],\n}}"
    )
