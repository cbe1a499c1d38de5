"""Random numbers on the device, from a seed or a state, the same on every device.

A call without seed and state draws from the state of its device, which `manual_seed` sets.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykernels import kernels
from pykernels._generated.kernels.bernoulli import KERNEL as _BERNOULLI
from pykernels._generated.kernels.rand import KERNEL as _RAND
from pykernels._generated.kernels.randint import KERNEL as _RANDINT
from pykernels._generated.kernels.randn import KERNEL as _RANDN
from pykernels.call.arrays import Array, array_of
from pykernels.call.drawing import draw, write_seed
from pykernels.call.scalars import bits_of, integer, real, seed_of
from pykernels.device import Device, Tensor, device_of, seed_all
from pykernels.dtypes import FLOATS, DTypeLike, DTypeName, dtype_of
from pykernels.errors import ArgumentError, DTypeError, either
from pykernels.plans.random.state import STATE
from pykernels.runtime.whole import whole
from pykernels.steps import Kernel, cdiv
from pykernels.tensors.host import shape_of, type_name

__all__ = [
    "bernoulli", "dropout_mask", "manual_seed", "rand", "rand_like", "randint", "randn",
    "randn_like", "random_state", "randperm",
]  # fmt: skip

Shape = int | Sequence[int]


def random_state(seed: int = 0, *, device: Device | None = None) -> Tensor:
    """The state of a random generator, a uint32 tensor (6,) on the device.

    It holds the key and the counter of Philox. The key has two words, which are the seed; the
    counter has four words, which begin at 0. A function that gets the tensor as `state=` draws from
    it and advances the counter on the device. So each call draws new numbers, and a captured call
    does so in each replay. Calls change two words of the counter; use the other two to number
    independent streams. Each device has a state of its own, `Device.random_state`, for calls
    without seed and state.

    Args:
        seed: an integer of 64 bits.
        device: None is the default device.
    """
    key = seed_of("random_state", seed)
    t = device_of(device).empty(STATE, "uint32")
    write_seed(t, key)
    return t


def manual_seed(seed: int) -> None:
    """Set the random state of every device, open now or opened later.

    The first call without a seed then draws the same numbers as with `seed=`. `Device.seed` sets
    the state of one device. A device that was not seeded begins with seed 0.

    Args:
        seed: an integer of 64 bits.

    Raises:
        ArgumentError: the seed is not an integer of 64 bits.
    """
    seed_all(seed_of("manual_seed", seed))


def rand(
    shape: Shape,
    dtype: DTypeLike = "float32",
    *,
    seed: int | None = None,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """Uniform random numbers in [0, 1), the same on every device.

    Args:
        shape: sizes of the axes.
        dtype: float32 (multiples of 2^-24), float16 (of 2^-11) or bfloat16 (of 2^-8).
        seed: an integer of 64 bits: the same seed gives the same numbers. None draws from a state.
        state: a state of `random_state`, which the call advances; None is the state of the device.
        device: None is the device of the state, or the default device.

    Raises:
        DTypeError: the dtype is not supported, or the state is not a uint32 tensor.
        ArgumentError: there are both a seed and a state, or the seed does not fit 64 bits.
        ShapeError: the state does not have 6 words.
    """
    return _drawn(_RAND, shape, dtype, FLOATS, seed, state, device)


def randn(
    shape: Shape,
    dtype: DTypeLike = "float32",
    *,
    seed: int | None = None,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """Random numbers of the standard normal distribution, the same on every device.

    They are computed by Box and Muller's method in float32, with operations that every driver
    rounds in the same way.

    Args:
        shape: sizes of the axes.
        dtype: float32, float16 or bfloat16, to which float32 is rounded.
        seed, state, device: as in `rand`.

    Raises:
        DTypeError, ArgumentError, ShapeError: as `rand`.
    """
    return _drawn(_RANDN, shape, dtype, FLOATS, seed, state, device)


def rand_like(
    x: Array,
    dtype: DTypeLike | None = None,
    *,
    seed: int | None = None,
    state: Tensor | None = None,
) -> Array:
    """Uniform random numbers in x's shape: a Tensor on its device, or a numpy array.

    Args:
        x: Tensor or numpy array; the result has its dtype unless `dtype` is given.
        dtype, seed, state: as in `rand`.
    """
    home = _home("rand_like", x)
    found: Tensor = rand(
        x.shape, x.dtype if dtype is None else dtype, seed=seed, state=state, device=home
    )
    return found if isinstance(x, Tensor) else found.numpy()


def randn_like(
    x: Array,
    dtype: DTypeLike | None = None,
    *,
    seed: int | None = None,
    state: Tensor | None = None,
) -> Array:
    """Random numbers of the standard normal distribution in x's shape; otherwise as `rand_like`."""
    home = _home("randn_like", x)
    found: Tensor = randn(
        x.shape, x.dtype if dtype is None else dtype, seed=seed, state=state, device=home
    )
    return found if isinstance(x, Tensor) else found.numpy()


def _home(op: str, x: Array) -> Device | None:
    """The device of the array that gives the shape; None is the default device."""
    given = array_of(op, "x", x)
    return given.device if isinstance(given, Tensor) else None


def randint(
    low: int,
    high: int,
    shape: Shape,
    dtype: DTypeLike = "int32",
    *,
    seed: int | None = None,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """Random integers in [low, high), the same on every device.

    Each integer uses 64 random bits, so its probability has a relative error of at most 2^-32.

    Args:
        low: the least integer.
        high: one more than the largest integer; the dtype must hold high - 1.
        shape: sizes of the axes.
        dtype: int32 or uint32.
        seed, state, device: as in `rand`.

    Raises:
        DTypeError, ShapeError: as `rand`.
        ArgumentError: as `rand`, and for a range that is empty or does not fit the dtype.
    """
    low, high = integer("randint", "low", low), integer("randint", "high", high)
    name = dtype_of(dtype).name
    least, most = (0, 1 << 32) if name == "uint32" else (-(1 << 31), 1 << 31)
    if name in ("int32", "uint32") and not least <= low < high <= most:
        raise ArgumentError(
            f"[randint] low and high must be {least} <= low < high <= {most} for {name} but are "
            f"{low} and {high}"
        )
    range_ = *bits_of("randint", low, "int64"), *bits_of("randint", high, "int64")
    return _drawn(_RANDINT, shape, dtype, ("int32", "uint32"), seed, state, device, range_, 2)


@whole
def randperm(
    n: int, *, seed: int | None = None, state: Tensor | None = None, device: Device | None = None
) -> Tensor:
    """The numbers from 0 to n - 1 in random order, the same on every device.

    The numbers are sorted by keys of 64 random bits, so all orders are equally likely unless two
    keys are equal. The probability that two keys are equal is at most n^2 / 2^65.

    Args:
        n: the count of numbers, 0 or more.
        seed, state, device: as in `rand`; a state advances by n blocks.

    Returns:
        int32 (n,).

    Raises:
        ArgumentError: as `rand`, and for an n below 0. DTypeError, ShapeError: as `rand`.
    """
    count = integer("randperm", "n", n)
    if not 0 <= count < 1 << 31:
        raise ArgumentError(f"[randperm] n must be from 0 to 2^31 - 1 but is {count}")
    whole = *bits_of("randperm", 0, "int64"), *bits_of("randperm", 1 << 32, "int64")
    given = seed, state, device, whole, 2, "randperm"
    words = _drawn(_RANDINT, (2, count), "uint32", ("uint32",), *given)
    order, again = (words.device.empty(count, "int32") for _ in range(2))
    # The numbers are sorted by the low words first, and then by the high words; a stable sort keeps
    # the order of equal keys.
    kernels.argsort(words[0], order)
    kernels.argsort(words[1][order], again)
    return order[again]


def bernoulli(
    shape: Shape,
    p: float = 0.5,
    dtype: DTypeLike = "bool",
    *,
    seed: int | None = None,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """1 (True) with probability p, else 0: `rand(shape) < p` with the same seed or state.

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
    seed: int | None = None,
    state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:
    """The factors of dropout: 0 with probability p, else 1 / (1 - p).

    Args:
        shape: sizes of the axes.
        p: the probability of 0, in [0, 1]; with 1 all factors are 0.
        dtype: float32, float16 or bfloat16.
        seed, state, device: as in `rand`.

    Raises:
        DTypeError, ShapeError: as `rand`.
        ArgumentError: as `rand`, and for a p outside [0, 1].
    """
    keep = 1.0 - probability("dropout_mask", p)
    if dtype_of(dtype).name not in FLOATS:
        raise DTypeError(f"[dropout_mask] dtype must be {either(FLOATS)} but is {dtype}")
    return drawn("dropout_mask", shape, keep, 1.0 / keep if keep else 0.0, dtype, seed, state,
                 device)  # fmt: skip


def drawn(
    op: str, shape: Shape, p: float, value: float, dtype: DTypeLike, seed: int | None,
    state: Tensor | None, device: Device | None,
) -> Tensor:  # fmt: skip
    """Like `bernoulli`, but the result is `value` with probability p, else 0; errors name the
    function `op`."""
    allowed = ("bool", *FLOATS, "uint8")
    return _drawn(_BERNOULLI, shape, dtype, allowed, seed, state, device, (p, value), op=op)


def probability(op: str, p: float, name: str = "p") -> float:
    """Check that p is in [0, 1], and return it."""
    p = real(op, name, p)
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"[{op}] {name} must be in [0, 1] but is {p!r}")
    return p


def _drawn(
    kernel: Kernel, shape: Shape, dtype: DTypeLike, allowed: tuple[DTypeName, ...],
    seed: int | None, state: Tensor | None, device: Device | None,
    scalars: tuple[float, ...] = (), each: int = 4, op: str = "",
) -> Tensor:  # fmt: skip
    """A new tensor that a kernel fills; the kernel uses a random block for every `each`
    elements."""
    op = op or kernel.name
    name = dtype_of(dtype, f"[{op}] dtype").name
    if name not in allowed:
        raise DTypeError(f"[{op}] dtype must be {either(allowed)} but is {name}")
    sizes = shape_of(shape)
    key, source = source_of(op, seed, state, device)
    home = device_of(device) if source is None else source.device
    dst = home.empty(sizes, name)
    draw(kernel, (source, dst), (*scalars, *key), cdiv(dst.size, each))
    return dst


def source_of(
    op: str, seed: int | None, state: Tensor | None, device: Device | None
) -> tuple[tuple[int, int], Tensor | None]:
    """The source of a call's numbers: the words of a key, or a state. Without seed and state, it is
    the state of the device."""
    if state is not None and not isinstance(state, Tensor):
        raise DTypeError(f"[{op}] state must be a pykernels.Tensor but is {type_name(state)}")
    if seed is not None:
        if state is not None:
            raise ArgumentError(f"[{op}] seed must be None if a state is given but is {seed}")
        return bits_of(op, seed_of(op, seed), "int64", "seed"), None
    if state is None:
        return (0, 0), device_of(device).random_state
    if device is not None and device is not state.device:
        raise ArgumentError(f"[{op}] device must be None or the state's device but is {device!r}")
    return (0, 0), state
