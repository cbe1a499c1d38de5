"""Random numbers, bit for bit: Philox4x32-10, and the numbers computed from its words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .copy import cpy, to_bfloat16

__all__ = [
    "bernoulli", "bound_of", "categorical", "dropout", "normal", "philox", "rand", "randint",
    "randn", "random_advance", "uniform",
]  # fmt: skip

Array = np.ndarray[Any, Any]
U32, U64, F32 = np.uint32, np.uint64, np.float32
FACTORS = U64(0xD2511F53), U64(0xCD9E8D57)
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
BITS = {"float32": 24, "float16": 11, "bfloat16": 8}  # bits of a number of `rand`
# The polynomials of `randn`, with the constant term first, each interpolated at Chebyshev points of
# its range. LOGARITHM is (ln(1 + r) - r + r^2 / 2) / r^3, a polynomial in r. SINE is
# sin(pi t / 2) / t and COSINE is (cos(pi t / 2) - 1) / t^2, both polynomials in t^2.
LOGARITHM = [0.3333333134651184, -0.25000306963920593, 0.20001044869422913, -0.166412815451622,
             0.14214496314525604, -0.12998183071613312, 0.12622319161891937,
             -0.0790274366736412]  # fmt: skip
SINE = [1.5707963705062866, -0.6459634900093079, 0.07968021929264069, -0.004602149128913879]
COSINE = [-1.2337005138397217, 0.253669410943985, -0.02086152881383896, 0.0009067398495972157]


def philox(counter: Array, key: Array) -> Array:
    """Philox4x32-10 of counters (n, 4) and keys (n, 2): words (n, 4), all uint32."""
    c = [counter[:, i].astype(U64) for i in range(4)]
    k = [key[:, i].astype(U64) for i in range(2)]
    low = U64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * FACTORS[0], c[2] * FACTORS[1]
        c = [(b >> U64(32)) ^ c[1] ^ k[0], b & low, (a >> U64(32)) ^ c[3] ^ k[1], a & low]
        k = [(x + U64(step)) & low for x, step in zip(k, KEY_STEPS, strict=True)]
    return np.stack(c, axis=1).astype(U32)


def words(size: int, state: Array | None, seed: int) -> Array:
    """The first `size` random words that a call gets."""
    blocks = np.arange(-(-size // 4), dtype=U64)
    s = np.zeros(6, U32) if state is None else np.asarray(state, U32)
    if state is None:
        s[:2] = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    with np.errstate(over="ignore"):
        first = U64(s[2]) + (U64(s[3]) << U64(32)) + blocks
    counter = np.empty((len(blocks), 4), U32)
    counter[:, 0], counter[:, 1] = first & U64(0xFFFFFFFF), first >> U64(32)
    counter[:, 2:] = s[4:]
    return philox(counter, np.broadcast_to(s[:2], (len(blocks), 2))).reshape(-1)[:size]


def rand(
    shape: tuple[int, ...], dtype: np.dtype[Any], state: Array | None = None, seed: int = 0
) -> Array:
    """Numbers in [0, 1). Each number is made of the highest bits of a word: as many bits as the
    dtype holds exactly."""
    bits = BITS[dtype.name]
    w = words(math.prod(shape), state, seed) >> U32(32 - bits)
    return (w.astype(F32) * F32(2.0**-bits)).astype(dtype).reshape(shape)


def randn(
    shape: tuple[int, ...], dtype: np.dtype[Any], state: Array | None = None, seed: int = 0
) -> Array:
    """Pairs of numbers by Box and Muller's method. Each of numpy's float32 operations rounds."""
    size = math.prod(shape)
    w = words(-(-size // 2) * 2, state, seed)
    distance, (cosine, sine) = _radius(_minus_log(w[0::2])), _direction(w[1::2])
    found = np.stack([distance * cosine, distance * sine], axis=1).reshape(-1)[:size]
    if dtype.name == "bfloat16":
        found = to_bfloat16(found).view(dtype)
    rounded: Array = found.astype(dtype).reshape(shape)
    return rounded


def _horner(coefficients: list[float], x: Array) -> Array:
    y = np.full_like(x, F32(coefficients[-1]))
    for c in coefficients[-2::-1]:
        y = y * x + F32(c)
    return y


def _minus_log(x: Array) -> Array:
    given = x | U32(1)
    zeros = (31 - np.log2(given.astype(np.float64)).astype(int)).astype(U32)
    mantissa = ((given << zeros) >> U32(8)) & U32(0x7FFFFF) | U32(0x3F800000)
    large = mantissa > U32(0x3FB504F3)
    r = (mantissa - large * U32(0x800000)).view(F32) - F32(1)
    n = (zeros + U32(1) - large).astype(F32)
    square = r * r
    tail = square * r * _horner(LOGARITHM, r) - square * F32(0.5)
    found: Array = n * F32(0.6931471824645996) - (tail + r)
    return found


def _radius(w: Array) -> Array:
    twice = w + w
    y = (U32(0x5F3759DF) - (twice.view(U32) >> U32(1))).view(F32)
    for _ in range(3):
        y = y * (F32(1.5) - w * y * y)
    return twice * y


def _direction(x: Array) -> tuple[Array, Array]:
    quarter = x >> U32(30)
    t = ((x << U32(2)).view(np.int32) >> np.int32(8)).astype(F32) * F32(2.0**-24)
    square = t * t
    sine, cosine = _horner(SINE, square) * t, _horner(COSINE, square) * square + F32(1)
    odd, high = quarter % 2 == 1, quarter >= 2
    a, b = np.where(odd, sine, cosine), np.where(odd, cosine, sine)
    return np.where(high != odd, -a, a), np.where(high, -b, b)


def randint(
    shape: tuple[int, ...], dtype: np.dtype[Any], low: int, high: int, state: Array | None = None,
    seed: int = 0,
) -> Array:  # fmt: skip
    """low + floor(u (high - low) / 2^64), where the 64 bits of u are two words."""
    size = math.prod(shape)
    w = words(2 * size, state, seed).astype(U64)
    span = U64((high - low) & 0xFFFFFFFF or 1 << 32)
    carry = (w[1::2] * span) >> U64(32)
    # The sum stays below 2^64: (2^32 - 1) 2^32 + 2^32 - 1.
    found = (w[0::2] * span + carry) >> U64(32)
    with np.errstate(over="ignore"):
        out: Array = (found.astype(U32) + U32(low & 0xFFFFFFFF)).view(dtype).reshape(shape)
    return out


def bernoulli(
    shape: tuple[int, ...], dtype: np.dtype[Any], p: float, value: float = 1.0,
    state: Array | None = None, seed: int = 0,
) -> Array:  # fmt: skip
    """`value` if `rand` is below p, else 0."""
    chosen = rand(shape, np.dtype(F32), state, seed) < F32(p)
    one = cpy(np.array([value], F32), dtype)
    found: Array = np.where(chosen, one[0], np.zeros(1, dtype)[0]).astype(dtype)
    return found


def random_advance(dst: Array, blocks: int) -> Array:
    """The state after `blocks` blocks."""
    out = np.array(dst, U32)
    count = (int(out[2]) + (int(out[3]) << 32) + blocks) % (1 << 64)
    out[2], out[3] = count & 0xFFFFFFFF, count >> 32
    return out


def categorical(
    logits: Array, tokens: Array | None = None, state: Array | None = None,
    temperature: float = 1.0, top_p: float = 1.0, seed: int = 0,
) -> Array:  # fmt: skip
    """The column that is drawn in each row, or its token. First a piece of the row is drawn by the
    sums of weights, and then a column of this piece. All is computed in float64."""
    rows = logits.reshape(-1, logits.shape[-1]).astype(np.float64)
    u = (words(4 * len(rows), state, seed).reshape(-1, 4) >> U32(8)) * 2.0**-24
    found = [_drawn(x, float(F32(temperature)), float(F32(top_p)), *u[i, :2])
             for i, x in enumerate(rows)]  # fmt: skip
    chosen = np.array(found, np.int32)
    if tokens is not None:
        own = tokens.reshape(rows.shape)
        chosen = np.where(chosen < 0, -1, own[np.arange(len(own)), chosen]).astype(np.int32)
    return chosen.reshape(logits.shape[:-1])


def _drawn(x: Array, temperature: float, top_p: float, first: float, second: float) -> int:
    """The drawn column of a row; -1 if the row is not a distribution."""
    if not (x < np.inf).all() or x.max() == -np.inf:
        return -1
    w = np.exp((x - x.max()) / temperature)
    if top_p < 1.0:
        w[np.cumsum(w) - w >= top_p * w.sum()] = 0.0
    each = -(-len(x) // (256 * 256)) * 256  # columns of a piece
    sums = np.cumsum(np.add.reduceat(w, np.arange(0, len(x), each)))
    piece = int(np.searchsorted(sums, first * sums[-1], side="right"))
    own = np.cumsum(w[piece * each : (piece + 1) * each])
    return piece * each + int(np.searchsorted(own, second * own[-1], side="right"))


def dropout(x: Array, p: float, seed: int = 0) -> Array:
    """x times a factor: 0 with probability p, else 1 / (1 - p); both have the dtype of x."""
    keep = 1.0 - p
    mask = bernoulli(x.shape, x.dtype, keep, 1.0 / keep if keep else 0.0, seed=seed)
    found: Array = (x.astype(F32) * mask.astype(F32)).astype(x.dtype)
    return found


def bound_of(name: str, shape: tuple[int, ...], factor: float, mode: str = "fan_in") -> float:
    """The bound of kaiming_uniform or xavier_uniform of this gain, or the standard deviation of
    kaiming_normal or xavier_normal. He et al. 2015, Glorot and Bengio 2010."""
    receptive = math.prod(shape[2:])
    fans = {"fan_in": shape[1] * receptive, "fan_out": shape[0] * receptive}
    fan = fans[mode] if name.startswith("kaiming") else sum(fans.values()) / 2
    deviation = factor / math.sqrt(fan)
    return math.sqrt(3) * deviation if name.endswith("uniform") else deviation


def uniform(shape: tuple[int, ...], bound: float, seed: int = 0) -> Array:
    """(2 u - 1) bound in float32, with u from `rand`; 2 u - 1 is exact."""
    u = rand(shape, np.dtype(F32), seed=seed)
    found: Array = (u * F32(2) - F32(1)) * F32(bound)
    return found


def normal(shape: tuple[int, ...], deviation: float, seed: int = 0) -> Array:
    """`randn` times the deviation, in float32."""
    found: Array = randn(shape, np.dtype(F32), seed=seed) * F32(deviation)
    return found
