"""Random numbers on the device: the same ones on every device, from a seed or from a state."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels import kernels
from pykernels.arrays import Array
from pykernels.device import Device, Tensor, device_of
from pykernels.dtypes import DTypeLike, DTypeName, dtype_of
from pykernels.errors import ArgumentError, DTypeError
from pykernels.host import shape_of, type_name
from pykernels.plan import cdiv
from pykernels.plans.random.state import STATE
from pykernels.scalars import integer, real

__all__ = [
    "bernoulli", "dropout_mask", "rand", "rand_like", "randint", "randn", "randn_like",
    "random_state",
]  # fmt: skip

Shape = int | Sequence[int]
FLOATS: tuple[DTypeName, ...] = ("float32", "float16", "bfloat16")


def random_state(seed: int = 0, *, device: Device | None = None) -> Tensor:
    """The state of a random generator, a uint32 tensor (6,) on the device.

    It holds Philox's key in two words, which are the seed, and its counter in four, which begin at
    0. A function that gets it as `state=` draws from there and counts it on, on the device: so each
    call draws other numbers, and a captured call does so in each replay. Of the counter calls
    change two words; the other two are free, to number streams with.

    Args:
        seed: an integer of 64 bits.
        device: None for the default one.
    """
    t = device_of(device).zeros(STATE, "uint32")
    words = _seed("random_state", seed) % (1 << 64)
    kernels.fill(t[:1], words & 0xFFFFFFFF)
    kernels.fill(t[1:2], words >> 32)
    return t


def rand(
    shape: Shape,
    dtype: DTypeLike = "float32",
    *,
    seed: int = 0,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """Uniform random numbers in [0, 1), the same on every device.

    Args:
        shape: sizes of the axes.
        dtype: float32 (multiples of 2^-24), float16 (of 2^-11) or bfloat16 (of 2^-8).
        seed: an integer of 64 bits: the same seed gives the same numbers.
        state: of `random_state`, in place of a seed: it is counted on.
        device: None for that of the state, or the default one.

    Raises:
        DTypeError: another dtype, or a state that is no uint32 tensor.
        ArgumentError: a seed beside a state, or beyond 64 bits.
        ShapeError: a state that does not have 6 words.
    """
    dst = _new("rand", shape, dtype, FLOATS, state, device)
    kernels.rand(dst, state=state, seed=key_of("rand", seed, state))
    count_on(state, cdiv(dst.size, 4))
    return dst


def randn(
    shape: Shape,
    dtype: DTypeLike = "float32",
    *,
    seed: int = 0,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """Random numbers of the standard normal distribution, the same on every device.

    Box and Muller's method in float32, in operations that every driver rounds alike.

    Args:
        shape: sizes of the axes.
        dtype: float32, float16 or bfloat16, to which float32 is rounded.
        seed, state, device: as in `rand`.

    Raises:
        DTypeError, ArgumentError, ShapeError: as `rand`.
    """
    dst = _new("randn", shape, dtype, FLOATS, state, device)
    kernels.randn(dst, state=state, seed=key_of("randn", seed, state))
    count_on(state, cdiv(dst.size, 4))
    return dst


def rand_like(
    x: Array, dtype: DTypeLike | None = None, *, seed: int = 0, state: Tensor | None = None
) -> Array:
    """Uniform random numbers in x's shape: a Tensor on its device, or a numpy array.

    Args:
        x: Tensor or numpy array, whose dtype they have where none is given.
        dtype, seed, state: as in `rand`.
    """
    found: Tensor = rand(
        x.shape,
        x.dtype if dtype is None else dtype,
        seed=seed,
        state=state,
        device=x.device if isinstance(x, Tensor) else None,
    )
    return found if isinstance(x, Tensor) else found.numpy()


def randn_like(
    x: Array, dtype: DTypeLike | None = None, *, seed: int = 0, state: Tensor | None = None
) -> Array:
    """Random numbers of the standard normal distribution in x's shape; else as `rand_like`."""
    found: Tensor = randn(
        x.shape,
        x.dtype if dtype is None else dtype,
        seed=seed,
        state=state,
        device=x.device if isinstance(x, Tensor) else None,
    )
    return found if isinstance(x, Tensor) else found.numpy()


def randint(
    low: int,
    high: int,
    shape: Shape,
    dtype: DTypeLike = "int32",
    *,
    seed: int = 0,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """Random integers in [low, high), the same on every device.

    Of 64 random bits each, so that probabilities differ by 2^-32 of themselves at most.

    Args:
        low: the least integer.
        high: one more than the largest one; the dtype holds high - 1.
        shape: sizes of the axes.
        dtype: int32 or uint32.
        seed, state, device: as in `rand`.

    Raises:
        DTypeError, ShapeError: as `rand`.
        ArgumentError: as `rand`, and for an empty range or one beyond the dtype.
    """
    low, high = integer("randint", "low", low), integer("randint", "high", high)
    name = dtype_of(dtype).name
    least, most = (0, 1 << 32) if name == "uint32" else (-(1 << 31), 1 << 31)
    if name in ("int32", "uint32") and not least <= low < high <= most:
        raise ArgumentError(
            f"[randint] low and high must be {least} <= low < high <= {most} for {name} but are "
            f"{low} and {high}"
        )
    dst = _new("randint", shape, dtype, ("int32", "uint32"), state, device)
    kernels.randint(dst, low, high, state=state, seed=key_of("randint", seed, state))
    count_on(state, cdiv(dst.size, 2))
    return dst


def bernoulli(
    shape: Shape,
    p: float = 0.5,
    dtype: DTypeLike = "bool",
    *,
    seed: int = 0,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """1 (True) with probability p, else 0: `rand(shape) < p` of the same seed or state.

    Args:
        shape: sizes of the axes.
        p: the probability, in [0, 1]; rounded to float32, and in effect to multiples of 2^-24.
        dtype: bool, float32, float16, bfloat16 or uint8.
        seed, state, device: as in `rand`.

    Raises:
        DTypeError, ShapeError: as `rand`.
        ArgumentError: as `rand`, and for a p outside [0, 1].
    """
    return drawn("bernoulli", shape, probability("bernoulli", p), 1.0, dtype, seed, state,
                 device)  # fmt: skip


def dropout_mask(
    shape: Shape,
    p: float = 0.5,
    dtype: DTypeLike = "float32",
    *,
    seed: int = 0,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """What dropout multiplies by: 0 with probability p, else 1 / (1 - p).

    Args:
        shape: sizes of the axes.
        p: the probability of 0, in [0, 1]; with 1 all are 0.
        dtype: float32, float16 or bfloat16.
        seed, state, device: as in `rand`.

    Raises:
        DTypeError, ShapeError: as `rand`.
        ArgumentError: as `rand`, and for a p outside [0, 1].
    """
    keep = 1.0 - probability("dropout_mask", p)
    if dtype_of(dtype).name not in FLOATS:
        raise DTypeError(f"[dropout_mask] dtype must be {' or '.join(FLOATS)} but is {dtype}")
    return drawn("dropout_mask", shape, keep, 1.0 / keep if keep else 0.0, dtype, seed, state,
                 device)  # fmt: skip


def drawn(
    op: str, shape: Shape, p: float, value: float, dtype: DTypeLike, seed: int,
    state: Tensor | None, device: Device | None,
) -> Tensor:  # fmt: skip
    """What `bernoulli` is, for a function named `op`: `value` with probability p, else 0."""
    dst = _new(op, shape, dtype, ("bool", *FLOATS, "uint8"), state, device)
    kernels.bernoulli(dst, p, value=value, state=state, seed=key_of(op, seed, state))
    count_on(state, cdiv(dst.size, 4))
    return dst


def probability(op: str, p: float) -> float:
    """p, in [0, 1]."""
    p = real(op, "p", p)
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"[{op}] p must be in [0, 1] but is {p!r}")
    return p


def _new(
    op: str, shape: Shape, dtype: DTypeLike, allowed: tuple[DTypeName, ...],
    state: Tensor | None, device: Device | None,
) -> Tensor:  # fmt: skip
    """The tensor to fill, on the device of the state."""
    name = dtype_of(dtype, f"[{op}] dtype").name
    if name not in allowed:
        raise DTypeError(f"[{op}] dtype must be {' or '.join(allowed)} but is {name}")
    if state is None:
        return device_of(device).empty(shape_of(shape), name)
    if not isinstance(state, Tensor):
        raise DTypeError(f"[{op}] state must be a pykernels.Tensor but is {type_name(state)}")
    if device is not None and device is not state.device:
        raise ArgumentError(f"[{op}] device must be None or that of the state but is {device!r}")
    return state.device.empty(shape_of(shape), name)


def _seed(op: str, seed: int) -> int:
    seed = integer(op, "seed", seed)
    if not -(1 << 63) <= seed < 1 << 64:
        raise ArgumentError(f"[{op}] seed must have 64 bits but is {seed}")
    return seed


def key_of(op: str, seed: int, state: Tensor | None) -> int:
    """The seed as the kernels take it, an int64."""
    seed = _seed(op, seed)
    if state is not None and seed != 0:
        raise ArgumentError(f"[{op}] seed goes without a state, which has one, but is {seed}")
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)


def count_on(state: Tensor | None, blocks: int) -> None:
    """Pass over the blocks that a call took, where it has a state."""
    if state is not None:
        kernels.random_advance(state, blocks)
