"""Linear recurrences with a matrix as state: gated linear attention, RWKV, state-space models."""

from __future__ import annotations

from typing import Any

from pykernels._generated.wrappers import linear_recurrence as _wrapper
from pykernels.call.arrays import Array
from pykernels.call.scalars import flag, real
from pykernels.errors import ShapeError
from pykernels.runtime.whole import whole

from ._recurrent_base import leave, tensors
from .elementwise import elementwise
from .move import repeat, stack
from .reduce_expressions import reduction

__all__ = ["gated_delta_net", "gated_linear_attn", "rwkv6", "rwkv7", "ssm_scan"]


@whole
def gated_linear_attn(
    q: Array, k: Array, v: Array, g: Array, state: Array | None = None, *,
    scale: float | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Gated linear attention: each head has a state S (K, V). Each step multiplies S by factors,
    and adds the product of a key and a value.

    S becomes g[t] S + k[t] v[t]^T, where g[t] multiplies the rows of S; result[t] = scale q[t]^T S.
    All arithmetic is f32. The columns of S do not depend on each other, so one launch computes all
    time steps; each group of invocations computes one column.

    Args:
        q: Tensor or numpy array, float32, float16 or bfloat16, (B, T, H, K), K up to 1,024.
        k: As q.
        v: (B, T, H, V).
        g: Factors, (B, T, H, K), or (B, T, H) for one factor for each head.
        state: S before the first step, (B, H, K, V); None is zeros.
        scale: None is 1 / sqrt(K).

    Returns:
        The result, (B, T, H, V), of the dtype of v; and S after the last step, (B, H, K, V),
        float32. Numpy arrays if all arguments are, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.
        LimitError: K is above 1,024.

    Source: Yang and others 2024; ggml GATED_LINEAR_ATTN.
    """
    op = "gated_linear_attn"
    of = _Given(op, q=q, k=k, v=v, g=g, state=state)
    of.shapes("q", "k", g=of.gate("g"))
    return of.run(of.scaled(scale), of["k"], of["v"], of.full("g"))


@whole
def gated_delta_net(
    q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array | None = None, *,
    scale: float | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """The gated delta rule: before a step adds a new value for a key, it removes the old value from
    the state.

    S becomes exp(g[t]) S, then S + beta[t] k[t] (v[t] - S^T k[t])^T; result[t] = scale q[t]^T S.
    All arithmetic is f32; keys are taken as they are, so normalise them first (`l2_norm`).

    Args:
        q: Tensor or numpy array, float32, float16 or bfloat16, (B, T, H, K), K up to 1,024.
        k: As q.
        v: (B, T, H, V).
        g: Logarithms of factors, (B, T, H), or (B, T, H, K) for a factor for each row of S.
        beta: The share of the new value that is learnt, (B, T, H).
        state: S before the first step, (B, H, K, V); None is zeros.
        scale: None is 1 / sqrt(K).

    Returns:
        The result, (B, T, H, V), of the dtype of v; and S after the last step, (B, H, K, V),
        float32. Numpy arrays if all arguments are, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.
        LimitError: K is above 1,024.

    Source: Yang and others 2025; ggml GATED_DELTA_NET.
    """
    op = "gated_delta_net"
    of = _Given(op, q=q, k=k, v=v, g=g, beta=beta, state=state)
    of.shapes("q", "k", g=of.gate("g"), beta=of.sizes[:3])
    keys, rate, factors = of["k"], of["beta"][..., None], of.full("g", "exp(g)")
    pair = stack([factors * keys, elementwise("-b * k", b=rate, k=keys)], 3)
    return of.run(of.scaled(scale), rate * keys, of["v"], factors, pair)


@whole
def rwkv6(
    r: Array, k: Array, v: Array, w: Array, u: Array, state: Array | None = None
) -> tuple[Array, Array]:
    """The recurrence of RWKV 6: a step reads the state from before the step, and its own key times
    a bonus.

    result[t] = r[t]^T (S + (u k[t]) v[t]^T), and then S becomes w[t] S + k[t] v[t]^T, where w[t]
    multiplies the rows of S. All arithmetic is f32.

    Args:
        r: Tensor or numpy array, float32, float16 or bfloat16, (B, T, H, K), K up to 1,024.
        k: As r.
        v: (B, T, H, V).
        w: Factors, (B, T, H, K).
        u: The bonus of each row of the keys, (H, K).
        state: S before the first step, (B, H, K, V); None is zeros.

    Returns:
        The result, (B, T, H, V), of the dtype of v; and S after the last step, (B, H, K, V),
        float32. Numpy arrays if all arguments are, else Tensors.

    Raises:
        ShapeError, DTypeError: the arguments do not fit each other.
        LimitError: K is above 1,024.

    Source: Peng and others 2024; ggml RWKV_WKV6, whose names are r, k, v, td and tf.
    """
    op = "rwkv6"
    of = _Given(op, r=r, k=k, v=v, w=w, u=u, state=state)
    of.shapes("r", "k", w=of.sizes, u=of.sizes[2:])
    own = reduction("r * u * k", "sum", axis=-1, keepdims=True, r=of["r"], u=of["u"], k=of["k"])
    bonus = elementwise("s * v", s=own, v=of["v"])
    return of.run(of["r"], of["k"], of["v"], of["w"], more=bonus, before=True)


@whole
def rwkv7(
    r: Array, w: Array, k: Array, v: Array, a: Array, b: Array, state: Array | None = None
) -> tuple[Array, Array]:
    """The recurrence of RWKV 7: the value that the state has for `a` is added to the rows that `b`
    selects.

    S becomes w[t] S + b[t] (a[t]^T S) + k[t] v[t]^T, where w[t] multiplies the rows of S, and each
    S in this sum is the state before the step; result[t] = r[t]^T S with the new S. All arithmetic
    is f32.

    Args:
        r: Tensor or numpy array, float32, float16 or bfloat16, (B, T, H, K), K up to 1,024.
        w: Factors, (B, T, H, K).
        k: As r.
        v: (B, T, H, V).
        a: Like r; in the model, it is the negative of the normalised key.
        b: Like r; in the model, it is the normalised key times its rate of learning.
        state: S before the first step, (B, H, K, V), where ggml has (B, H, V, K); None is zeros.

    Returns:
        The result, (B, T, H, V), of the dtype of v; and S after the last step, (B, H, K, V),
        float32. Numpy arrays if all arguments are, else Tensors.

    Raises:
        ShapeError, DTypeError: the arguments do not fit each other.
        LimitError: K is above 1,024.

    Source: Peng and others 2025; ggml RWKV_WKV7.
    """
    op = "rwkv7"
    of = _Given(op, r=r, w=w, k=k, v=v, a=a, b=b, state=state)
    of.shapes("r", "k", w=of.sizes, a=of.sizes, b=of.sizes)
    return of.run(of["r"], of["k"], of["v"], of["w"], stack([of["a"], of["b"]], 3))


@whole
def ssm_scan(
    x: Array, dt: Array, a: Array, b: Array, c: Array, state: Array | None = None, *,
    d: Array | None = None, softplus: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """The selective scan of state-space models: Mamba (1) and Mamba 2.

    A head of P channels has a state S (N, P). S becomes exp(dt[t] a) S + b[t] (dt[t] x[t])^T, and
    result[t] = c[t]^T S + d x[t]. In Mamba 1 each channel is a head: x has no axis P. All
    arithmetic is f32.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (B, T, H, P), or (B, T, H).
        dt: The length of each step, (B, T, H).
        a: Rates, usually negative: (H, N), or (H,) for one rate for each head (Mamba 2).
        b: The factors that write to the state, (B, T, G, N), for groups of H / G neighbouring heads
            each, or (B, T, N) for all heads. N is at most 1,024.
        c: The factors that read the state, with the shape of b.
        state: S before the first step, (B, H, N, P), or (B, H, N) if x is (B, T, H); None is zeros.
        d: The factor with which x is added to the result, (H,); None is 0.
        softplus: True uses log(1 + exp(dt)) in place of dt, as ggml does.

    Returns:
        The result, of the shape and dtype of x; and S after the last step, of the shape of
        `state`, float32. Numpy arrays if all arguments are, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.
        LimitError: N is above 1,024.

    Source: Gu and Dao 2023, Dao and Gu 2024; ggml SSM_SCAN.
    """
    op = "ssm_scan"
    smooth = flag(op, "softplus", softplus)
    of = _Given(op, x=x, dt=dt, a=a, b=b, c=c, state=state, d=d)
    t, rates = of["x"], of["a"]
    single = t.ndim == 3
    if t.ndim not in (3, 4):
        raise ShapeError(f"[{op}] x must be (B, T, H, P) or (B, T, H) but has shape {t.shape}")
    batch, length, heads = t.shape[:3]
    keys = [of[name][:, :, None] if of[name].ndim == 3 else of[name] for name in ("b", "c")]
    groups, depth = keys[0].shape[-2:] if keys[0].ndim == 4 else (1, 0)
    if keys[0].ndim != 4 or not groups or heads % groups:
        raise ShapeError(
            f"[{op}] b must be (B, T, G, N) with G a divisor of {heads}, or (B, T, N), but has "
            f"shape {of['b'].shape}"
        )
    inner = () if single else t.shape[3:]
    of.fit("dt", of["dt"], t.shape[:3])
    of.fit("a", rates, (heads,) if rates.ndim == 1 else (heads, depth))
    for name, key in zip("bc", keys, strict=True):
        of.fit(name, key, (batch, length, groups, depth))
    of.fit("state", of["state"], (batch, heads, depth, *inner))
    of.fit("d", of["d"], (heads,))
    step: Any = elementwise("softplus(dt)", dt=of["dt"]) if smooth else of["dt"]
    wide = t[..., None] if single else t
    sizes = (batch, length, heads, depth)
    b_, c_ = (_by_head(key, heads) for key in keys)
    skip = None if of["d"] is None else elementwise("d * x", d=of["d"][:, None], x=wide)
    rates = rates[:, None] if rates.ndim == 1 else rates
    if single and of["state"] is not None:
        of["state"] = of["state"][..., None]
    y, last = of.run(
        c_.broadcast_to(sizes), b_.broadcast_to(sizes),
        elementwise("x * d", x=wide, d=step[..., None]), step[..., None].broadcast_to(sizes),
        rate=rates.broadcast_to((heads, depth)), more=skip, dtype=of.dtypes["x"],
    )  # fmt: skip
    return (y[..., 0], last[..., 0]) if single else (y, last)


def _by_head(key: Any, heads: int) -> Any:
    """b or c with an axis of heads; the axis may have one head, which repeats."""
    groups = key.shape[2]
    return key if groups in (1, heads) else repeat(key, heads // groups, 2)


class _Given:
    """The arguments of a call, as float32 tensors on one device."""

    def __init__(self, op: str, **arrays: Any) -> None:
        self.op = op
        needed = [name for name in arrays if name not in ("state", "d")]
        self.host, found = tensors(op, needed, **arrays)
        given = dict(zip(arrays, found, strict=True))
        self.dtypes = {name: given[name].dtype for name in needed}
        self._device = found[0].device
        self._tensors: dict[str, Any] = {
            name: t if t is None or t.dtype == "float32" else t.astype("float32")
            for name, t in given.items()
        }

    def __getitem__(self, name: str) -> Any:
        return self._tensors[name]

    def __setitem__(self, name: str, t: Any) -> None:
        self._tensors[name] = t

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape (B, T, H, K) of the first argument."""
        first = next(iter(self._tensors.values()))
        if first.ndim != 4:
            name = next(iter(self._tensors))
            raise ShapeError(
                f"[{self.op}] {name} must have the axes (B, T, H, K) but has shape {first.shape}"
            )
        shape: tuple[int, ...] = first.shape
        return shape

    def gate(self, name: str) -> tuple[int, ...]:
        """The shape of factors: one factor for each head, or one for each row of S."""
        return self.sizes[:3] if self[name].ndim == 3 else self.sizes

    def full(self, name: str, text: str = "") -> Any:
        """The factors, with one for each row of S."""
        given = self[name]
        g: Any = elementwise(text, g=given) if text else given
        return (g[..., None] if g.ndim == 3 else g).broadcast_to(self.sizes)

    def scaled(self, scale: float | None) -> Any:
        """q times the scale."""
        depth = self.sizes[3]
        factor = max(depth, 1) ** -0.5 if scale is None else real(self.op, "scale", scale)
        return self["q"] if factor == 1 else elementwise("q * s", q=self["q"], s=factor)

    def shapes(self, *same: str, **others: tuple[int, ...]) -> None:
        """Check the shapes of all arguments; the first argument gives (B, T, H, K)."""
        batch, length, heads, depth = self.sizes
        v = self["v"]
        if v.ndim != 4 or v.shape[:3] != (batch, length, heads):
            raise ShapeError(
                f"[{self.op}] v must have shape ({batch}, {length}, {heads}, V) but has {v.shape}"
            )
        for name in same:
            self.fit(name, self[name], self.sizes)
        for name, shape in others.items():
            self.fit(name, self[name], shape)
        self.fit("state", self["state"], (batch, heads, depth, v.shape[3]))

    def fit(self, name: str, t: Any, shape: tuple[int, ...]) -> None:
        """Raise ShapeError unless a tensor has this shape or is None."""
        if t is not None and t.shape != shape:
            raise ShapeError(f"[{self.op}] {name} must have shape {shape} but has {t.shape}")

    def run(
        self, q: Any, k: Any, v: Any, decay: Any, pair: Any = None, rate: Any = None,
        more: Any = None, before: bool = False, dtype: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """The result, to which `more` is added, and the last state."""
        batch, length, heads, depth = q.shape
        shape = (batch, heads, depth, v.shape[3])
        state = self["state"]
        if state is None:
            state = self._device.zeros((1, 1, 1, 1)).broadcast_to(shape)
        y: Any = self._device.empty(v.shape)
        if length:
            last = self._device.empty((batch, 1, *shape[1:]))
            _wrapper.linear_recurrence(
                q, k, v, decay, state, y, last, pair=pair, rate=rate, before=before
            )
            last = last[:, 0]
            if not depth:  # sums of nothing
                y = self._device.zeros(v.shape)
        else:
            last = state.copy()
        y = y if more is None else elementwise("y + m", y=y, m=more)
        y = y.astype(dtype or self.dtypes["v"])
        return leave(self.host, y), leave(self.host, last)
