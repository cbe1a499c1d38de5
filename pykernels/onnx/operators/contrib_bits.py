"""Weights of 4 and 8 bits in onnxruntime's domain: products with them, and their rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk

from ..errors import ModelError
from ..graph import Array, Node, stored_name
from .contrib import Kind, contrib, there
from .table import kept, refuse


def _product(given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    a, kind = there(kinds[0])
    if not a or a[-1] != given["K"]:
        raise ModelError(f"rows of shape {a}, which do not have {given['K']} elements")
    return [((*a[:-1], given["N"]), kind)]


@contrib("MatMulNBits", _product, either=(1, 2, 3, 4))
def matmul_nbits(
    node: Node, a: Any, data: Any, scales: Any, zeros: Any = None, order: Any = None,
    bias: Any = None,
) -> Any:  # fmt: skip
    """The product of a with weights that stay quantised on the device and that all programs of a
    network share. If `order` mixes the groups and each group is whole, the columns of the weights
    and of a are moved, so that a group's columns are neighbours."""
    given = node.attributes
    n, k, bits, block = given["N"], given["K"], given.get("bits", 4), given.get("block_size", 32)
    if bits not in (4, 8):
        raise refuse(node, f"{bits} bits")
    if not all(isinstance(v, np.ndarray) for v in (data, scales, order) if v is not None):
        raise refuse(node, "weights that are no constants")
    groups, places = _groups(node, order, k, block)
    key = ("bits", *node.inputs[1:5])
    if key not in node.shared:
        if places is not None:
            data = _moved(data.reshape(n, -1), places, bits)
        node.shared[key] = _weights(a, data, scales, zeros, (n, k), bits, block, groups)
    w = node.shared[key]
    if places is not None:
        a = pk.index_select(a, -1, kept(node, "order", a.device, places))
    return pk.matmul(a, w.T, bias=bias)


def _groups(
    node: Node, order: Array | None, k: int, block: int
) -> tuple[Array | None, Array | None]:
    """The group of each column, and an order of the columns in which whole groups are neighbours.
    At most one of the two is given; both are None if the groups are in order already."""
    if order is None:
        return None, None
    count = -(-k // block)
    groups = order.reshape(-1)[:k].astype(np.int64)
    if groups.size != k or groups.min(initial=0) < 0 or groups.max(initial=0) >= count:
        raise refuse(node, f"groups other than 0 to {count - 1} for each of {k} columns")
    if (groups == np.arange(k) // block).all():
        return None, None
    places = np.argsort(groups, kind="stable").astype(np.int32)
    if k % 32 == 0 and (groups[places] == np.arange(k) // block).all():
        return None, places
    return groups, None


def _moved(data: Array, places: Array, bits: int) -> Array:
    """Rows of packed numbers, with the numbers of each row in another order."""
    q = unpacked(data, bits)
    k = places.size
    q = np.concatenate([q[:, places], q[:, k:]], 1)
    return q if bits == 8 else np.asarray(q[:, ::2] | q[:, 1::2] << 4, np.uint8)


def _weights(
    a: Any, data: Array, scales: Array, zeros: Array | None, shape: tuple[int, int], bits: int,
    block: int, groups: Array | None,
) -> Any:  # fmt: skip
    """A tensor (n, k): quantised if k is a multiple of 32 and `groups` is None, else of floats."""
    if shape[1] % 32 == 0 and groups is None:
        return pk.QTensor.from_nbits(
            data, scales, zeros, shape=shape, bits=bits, block=block, device=a.device
        )
    n, k = shape
    count = -(-k // block)
    groups = np.arange(k) // block if groups is None else groups
    q = unpacked(data.reshape(n, -1), bits)[:, :k].astype(np.float32)
    if zeros is None:
        z = np.full((n, count), 1 << (bits - 1), np.float32)
    elif zeros.dtype == np.uint8:
        z = unpacked(zeros.reshape(n, -1), bits)[:, :count].astype(np.float32)
    else:
        z = zeros.reshape(n, count).astype(np.float32)
    d = scales.reshape(n, count).astype(np.float32)
    w = (q - z[:, groups]) * d[:, groups]
    return a.device.tensor(np.ascontiguousarray(w.astype(a.dtype)))


def unpacked(packed: Array, bits: int) -> Array:
    """The numbers in bytes: two of 4 bits in each byte, the lower one first, or one of 8 bits."""
    if bits == 8:
        return packed
    return np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)


def _rows(given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    (data, stored), (index, _i), (_s, kind) = (there(k) for k in kinds[:3])
    axis = given.get("gather_axis", 0) % len(data)
    packed = stored == "uint8" and given.get("bits", 4) == 4
    shape = (*data[:-1], data[-1] * (2 if packed else 1))
    return [((*shape[:axis], *index, *shape[axis + 1 :]), kind)]


@contrib("GatherBlockQuantized", _rows, either=(0, 1, 2, 3))
def gather_block_quantized(
    node: Node, data: Any, index: Any, scales: Any, zeros: Any = None
) -> Any:
    given, bits = node.attributes, node.attributes.get("bits", 4)
    if not all(isinstance(v, np.ndarray) for v in (data, scales) if v is not None):
        raise refuse(node, "weights that are no constants")
    last, block = data.ndim - 1, given.get("block_size", 128)
    if given.get("gather_axis", 0) % data.ndim or given.get("quantize_axis", 1) % data.ndim != last:
        raise refuse(node, "other axes than the first one of rows and the last one of blocks")
    device = node.device
    names = {"q": data, "s": scales} if zeros is None else {"q": data, "s": scales, "z": zeros}
    tensors = {}
    for name, array in names.items():
        key = ("rows", name, *node.inputs)
        if key not in node.shared:
            kind = {"i": "i1", "u": "u1"}.get(np.dtype(stored_name(array.dtype.name)).kind)
            node.shared[key] = device.tensor(array if kind is None else array.astype(kind))
        tensors[name] = node.shared[key]
    if isinstance(index, np.ndarray):
        at = np.where(index < 0, index + data.shape[0], index).astype(np.int32)
        flat = kept(node, "index", device, at.reshape(-1))
    else:
        flat = pk.where(index < 0, index + data.shape[0], index).reshape(-1)
    found: dict[str, Any] = {n: pk.index_select(t, 0, flat) for n, t in tensors.items()}
    is_bytes = data.dtype == np.uint8
    if is_bytes and bits == 4:
        found |= {n: _spread(found[n]) for n in ("q", "z") if n in found}
    size = found["q"].shape[-1]
    found |= {n: pk.repeat(t, block, last)[..., :size] for n, t in found.items() if n != "q"}
    usual = float(1 << (bits - 1)) if is_bytes else 0.0
    zero = f"{usual}" if zeros is None else "float32(z)"
    y = pk.elementwise(f"(float32(q) - {zero}) * s", **found)
    return y.reshape((*index.shape, *y.shape[1:]))


def _spread(t: Any) -> Any:
    """The two numbers of 4 bits in each byte, on the device, the lower one first."""
    both = pk.stack([pk.elementwise(text, x=t) for text in ("x & 15", "x >> 4")], t.ndim)
    return both.reshape((*t.shape[:-1], 2 * t.shape[-1]))
