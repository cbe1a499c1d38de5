"""Shapes of language models, and their weights: random, or from safetensors files.

The names of weights are those in Hugging Face's checkpoints of gpt2 and llama.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from decoder_families import SHAPES, Config, drawn, rope_factors

__all__ = ["SHAPES", "Config", "random_weights", "read", "rope_factors", "shapes_of", "write"]

Array = np.ndarray[Any, Any]
Weights = Mapping[str, Array]

# Dtypes of a safetensors file; BF16 is the high half of float32.
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def shapes_of(config: Config) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by name."""
    wide, hidden, words = config.width, config.hidden, config.vocabulary
    found: dict[str, tuple[int, ...]] = {}
    if config.family == "gpt2":
        found |= {"wte.weight": (words, wide), "wpe.weight": (config.context, wide)}
        for i in range(config.layers):
            # The products of gpt2 have transposed weights, (inputs, outputs).
            products = {
                "attn.c_attn": (wide, 3 * wide), "attn.c_proj": (wide, wide),
                "mlp.c_fc": (wide, hidden), "mlp.c_proj": (hidden, wide),
            }  # fmt: skip
            for name, shape in products.items():
                found |= {f"h.{i}.{name}.weight": shape, f"h.{i}.{name}.bias": shape[1:]}
            for name in ("ln_1", "ln_2"):
                found |= {f"h.{i}.{name}.weight": (wide,), f"h.{i}.{name}.bias": (wide,)}
        return found | {"ln_f.weight": (wide,), "ln_f.bias": (wide,)}
    kv = config.kv_heads * config.depth
    found["model.embed_tokens.weight"] = (words, wide)
    for i in range(config.layers):
        own = {
            "self_attn.q_proj": (wide, wide), "self_attn.k_proj": (kv, wide),
            "self_attn.v_proj": (kv, wide), "self_attn.o_proj": (wide, wide),
            "mlp.gate_proj": (hidden, wide), "mlp.up_proj": (hidden, wide),
            "mlp.down_proj": (wide, hidden), "input_layernorm": (wide,),
            "post_attention_layernorm": (wide,),
        }  # fmt: skip
        found |= {f"model.layers.{i}.{name}.weight": shape for name, shape in own.items()}
    return found | {"model.norm.weight": (wide,)}


def random_weights(config: Config, seed: int = 0) -> dict[str, Array]:
    """Random weights by the names of `shapes_of`; float32."""
    gpt2 = config.family == "gpt2"
    shapes = shapes_of(config).items()
    return drawn({n: (shape, 0 if gpt2 and n[0] == "h" else -1) for n, shape in shapes}, seed)


def read(files: Iterable[Path], config: Config) -> dict[str, Array]:
    """The weights of safetensors files in their stored dtype; bfloat16 becomes float32.

    ValueError if a file is not a safetensors file, or if weights are missing or have another shape.
    """
    found: dict[str, Array] = {}
    for file in files:
        found |= _read(file)
    found = {name.removeprefix("transformer."): w for name, w in found.items()}
    for name, shape in shapes_of(config).items():
        if name not in found:
            raise ValueError(f"the files have no weight {name}")
        if found[name].shape != shape:
            raise ValueError(f"{name} must have shape {shape} but has {found[name].shape}")
    return found


def _read(file: Path) -> dict[str, Array]:
    """The arrays of one file. The file has 8 bytes with the length of the header, the header in
    JSON, and the bytes of the arrays."""
    raw = np.memmap(file, np.uint8, "r")
    try:
        (length,) = struct.unpack("<Q", raw[:8].tobytes())
        header = json.loads(raw[8 : 8 + length].tobytes())
        return dict(_entries(raw[8 + length :], header))
    except (struct.error, ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
        raise ValueError(f"{file} is no safetensors file: {e!r}") from None


def _entries(data: Array, header: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    """The arrays that a header describes."""
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] not in DTYPES:
            continue  # gpt2 stores masks as bytes
        first, end = entry["data_offsets"]
        w = data[first:end].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        yield name, (w.astype(np.uint32) << 16).view(np.float32) if entry["dtype"] == "BF16" else w


def write(file: Path, weights: Weights) -> None:
    """Write float32, float16 and float64 arrays as a safetensors file."""
    names = {np.dtype(text): name for name, text in DTYPES.items() if name != "BF16"}
    header, at = {}, 0
    for name, w in weights.items():
        end = at + w.nbytes
        header[name] = {
            "dtype": names[w.dtype], "shape": list(w.shape), "data_offsets": [at, end]
        }  # fmt: skip
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for w in weights.values():
            out.write(np.ascontiguousarray(w).tobytes())
