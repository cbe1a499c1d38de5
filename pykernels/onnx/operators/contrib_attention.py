"""Attention of decoders in onnxruntime's domain: rotary positions, grouped heads with a cache."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk

from ..errors import ModelError
from ..graph import Array, Node
from .contrib import Kind, Known, contrib, heads_of, like, there
from .table import kept, refuse

# -- rotary positions -----------------------------------------------------------------------------


def rotated(x: Any, cos: Any, sin: Any, pairs: bool) -> Any:
    """x (N, H, L, D), with its first channels rotated in pairs. With `pairs`, a pair is two
    neighbours; otherwise it is channel i of the first half and channel i of the second half of the
    rotated channels. cos and sin are (N or 1, 1, L, number of pairs)."""
    half = cos.shape[-1]
    if pairs:
        parts = x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]
    else:
        parts = x[..., :half], x[..., half : 2 * half]
    names = {"a": parts[0], "b": parts[1], "c": cos, "s": sin}
    first = pk.elementwise("a * c - b * s", **names)
    second = pk.elementwise("b * c + a * s", **names)
    if pairs:
        turned = pk.stack([first, second], x.ndim).reshape((*x.shape[:-1], 2 * half))
        rest = [turned]
    else:
        rest = [first, second]
    if 2 * half < x.shape[-1]:
        rest.append(x[..., 2 * half :])
    return rest[0] if len(rest) == 1 else pk.concatenate(rest, -1)


def _angles(cache: Any, places: Any, length: int) -> Any:
    """Rows of a table of cosines or sines, (N or 1, 1, L, half): the rows `places`, or the first
    rows if `places` is None."""
    if places is None:
        return cache[:length][None, None]
    return pk.embedding(cache, places)[:, None]


@contrib("RotaryEmbedding", like)
def rotary_embedding(node: Node, x: Any, places: Any, cos: Any, sin: Any) -> Any:
    given, shape = node.attributes, x.shape
    if given.get("is_packed_batching"):
        raise refuse(node, "packed batches")
    count = given.get("num_heads", 0)
    if x.ndim == 3:
        width = given.get("rotary_embedding_dim", 0)
        if width and not count:
            raise ModelError("num_heads must be given with rotary_embedding_dim")
        x = heads_of(x, count or shape[2] // (2 * cos.shape[1]))
    length = x.shape[2]
    if places.size == 1:  # the position of the first element
        steps = kept(node, "steps", x.device, np.arange(length, dtype=np.int32)[None])
        places = steps + places.reshape(1, 1)
    y = rotated(
        x, _angles(cos, places, length), _angles(sin, places, length),
        bool(given.get("interleaved", 0)),
    )  # fmt: skip
    return y if len(shape) == 4 else y.transpose(0, 2, 1, 3).reshape(shape)


# -- grouped heads --------------------------------------------------------------------------------


def _grouped(
    given: dict[str, Any], kinds: list[Kind | None], known: Known
) -> list[Kind | None]:  # fmt: skip
    """The result, and the caches of keys and values after the new ones are added. A cache is as
    long as the longest batch, or as the past cache if that is longer."""
    (q, kind) = there(kinds[0])
    count, groups = given["num_heads"], given["kv_num_heads"]
    if len(q) != 3:
        raise ModelError(f"the query has {len(q)} axes, not 3")
    if kinds[3] is not None and kinds[3][1] != kind:
        raise ModelError(f"a cache of dtype {kinds[3][1]} for a query of dtype {kind}")
    wide = q[2] if kinds[1] is not None else q[2] * count // (count + 2 * groups)
    total = known[6] if len(known) > 6 else None
    if total is None:
        return [(((*q[:2], wide)), kind), None, None]
    before = 0 if kinds[3] is None else kinds[3][0][2]
    state = (q[0], groups, max(before, int(total.item())), wide // count)
    return [((*q[:2], wide), kind), (state, kind), (state, kind)]


def _extended(node: Node, past: Any, new: Any, first: Any, size: int) -> Any:
    """A cache of keys or values, (N, H, size, D): past rows, then the new rows from position
    `first` of each batch on, then zeros. If `first` is None, the new rows begin at 0, and there are
    no past rows."""
    length, old = new.shape[2], 0 if past is None else past.shape[2]
    parts: Any = [past, new]
    if first is None:
        behind = ((0, 0), (0, 0), (0, size - length), (0, 0))
        return new if size == length else pk.pad(new, behind)
    if new.shape[0] == 1 and old + length == size:
        return pk.concatenate(parts, 2)
    steps = kept(node, "rows", new.device, np.arange(size, dtype=np.int32).reshape(1, 1, -1, 1))
    ends: dict[str, Any] = {"t": steps, "f": first.reshape(-1, 1, 1, 1), "n": length}
    at = pk.elementwise("o + t - f if t >= f and t < f + n else minimum(t, o - 1)", o=old, **ends)
    both = pk.concatenate(parts, 2)
    y = pk.gather(both, 2, pk.broadcast_to(at, (*both.shape[:2], size, both.shape[3])))
    return pk.elementwise("y if t < f + n else 0.0", y=y, **ends)


@contrib("GroupQueryAttention", _grouped, host=(6,))
def group_query_attention(
    node: Node, q: Any, k: Any, v: Any, past_k: Any, past_v: Any, lengths: Any, total: Array,
    cos: Any = None, sin: Any = None, places: Any = None, added: Any = None, sinks: Any = None,
    *others: Any,
) -> Any:  # fmt: skip
    """Causal attention over a cache to which k and v are added. After that, each batch has
    `lengths` + 1 keys, and the longest batch has `total` keys."""
    given = node.attributes
    if any(o is not None for o in others) or any(node.outputs[3:]):
        raise refuse(node, "weights of norms, scales of a cache, or scores as an output")
    if given.get("smooth_softmax", 0) not in (0, -1) or given.get("qk_output", 0):
        raise refuse(node, "smooth_softmax or qk_output")
    count, groups = given["num_heads"], given["kv_num_heads"]
    if k is None:
        wide = q.shape[2] // (count + 2 * groups)
        q, k, v = pk.split(q, [count * wide, (count + groups) * wide], 2)
    q, k, v = heads_of(q, count), heads_of(k, groups), heads_of(v, groups)
    length, whole = q.shape[2], int(total.item())
    prompt = length == whole  # the cache is empty
    ends = lengths.reshape(-1) + 1
    if past_k is None and not prompt:
        raise ModelError(f"{whole} keys without a cache, where there are {length} queries")
    first = None if prompt else ends - length
    if given.get("do_rotary", 0):
        if places is None and first is not None:
            steps = kept(node, "steps", q.device, np.arange(length, dtype=np.int32)[None])
            places = steps + first[:, None]
        c, s = _angles(cos, places, length), _angles(sin, places, length)
        pairs = bool(given.get("rotary_interleaved", 0))
        q, k = rotated(q, c, s, pairs), rotated(k, c, s, pairs)
    size = max(0 if past_k is None else past_k.shape[2], whole)
    keys, values = (
        _extended(node, past, new, first, size) for past, new in ((past_k, k), (past_v, v))
    )
    window = given.get("local_window_size", -1)
    y: Any = pk.flash_attn(
        q, k if prompt else keys, v if prompt else values,
        mask=None if added is None else added[..., :length if prompt else size],
        sinks=None if sinks is None else sinks.astype("float32"),
        lengths=None if prompt else ends, causal="top-left" if prompt else True,
        scale=given.get("scale", 0.0) or None, softcap=float(given.get("softcap", 0.0)),
        window=None if window < 0 else (window - 1, None),
    )  # fmt: skip
    y = y.transpose(0, 2, 1, 3)
    return y.reshape(y.shape[0], length, -1), keys, values
