"""The factor of a loss that keeps gradients of float16 in range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pykernels import kernels
from pykernels.call.scalars import integer, real
from pykernels.device import Device, Tensor, device_of
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.whole import whole
from pykernels.tensors.host import type_name

from .elementwise import elementwise
from .reduce_expressions import reduction

__all__ = ["LossScale"]


class LossScale:
    """A loss factor that grows until gradients overflow, computed on the device.

        scale = pk.LossScale()
        with pk.Tape() as tape:
            loss = scale.scale(f(w))
        grads, overflow = scale.unscale(tape.gradient(loss, [w]))
        optimizer.step(grads, skip=overflow)
        scale.update(overflow)

    After a step whose gradients had an infinity or a NaN, the factor is divided by `growth`; after
    `interval` steps without them, it is multiplied by `growth`. The host reads nothing, so a
    captured step also updates the factor in each replay.

    Args:
        init: The first factor, above 0.
        growth: The ratio of each change, above 1.
        interval: The number of steps without an overflow before the factor grows, 1 or more.
        device: The device of the gradients; None is the default device.

    Raises:
        ArgumentError: a number that is out of range.

    Source: Micikevicius et al. 2018, Mixed precision training; torch.amp.GradScaler.
    """

    @whole
    def __init__(
        self, init: float = 2.0**15, growth: float = 2.0, interval: int = 2000, *,
        device: Device | None = None,
    ) -> None:  # fmt: skip
        op = "LossScale"
        first, self._growth = real(op, "init", init), real(op, "growth", growth)
        self._interval = integer(op, "interval", interval)
        for name, value, fits, rule in (
            ("init", first, 0 < first < 2.0**127, "above 0 and below 2^127"),
            ("growth", self._growth, 1 < self._growth < 2.0**64, "above 1 and below 2^64"),
            ("interval", self._interval, 0 < self._interval < 1 << 31, "from 1 to 2^31 - 1"),
        ):
            if not fits:
                raise ArgumentError(f"[{op}] {name} must be {rule} but is {value}")
        on = device_of(device)
        self._factor, self._good = on.full((), first), on.zeros((), "int32")

    @property
    def value(self) -> Tensor:
        """The factor, a float32 Tensor of no axes."""
        return self._factor

    @whole
    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the factor, as a float32 Tensor."""
        _check("scale", "loss", loss)
        scaled = elementwise("float32(x) * factor", x=loss, factor=self._factor)
        assert isinstance(scaled, Tensor)
        return scaled

    @whole
    def unscale(self, grads: Tensor | Iterable[Tensor]) -> tuple[Any, Tensor]:
        """The gradients divided by the factor, and a flag that is 1 if one of them has an infinity
        or a NaN.

        Args:
            grads: A Tensor, or several, float32, float16 or bfloat16.

        Returns:
            Two results. The first is the gradients in float32: a Tensor if `grads` is a Tensor,
            else a list. The second is the flag, 0 or 1, a uint32 Tensor of no axes.

        Raises:
            ArgumentError: there is no gradient. DTypeError: another dtype.
        """
        given = [grads] if isinstance(grads, Tensor) else [*grads]
        if not given:
            raise ArgumentError("[unscale] there must be at least one gradient")
        for i, g in enumerate(given):
            _check("unscale", f"grads[{i}]", g)
        found: list[Any] = []
        bad: Any = None
        for g in given:
            found.append(elementwise("float32(g) / factor", g=g, factor=self._factor))
            one = reduction("where(isfinite(g), 0, 1)", "max", g=g) if g.size else None
            if one is not None:
                bad = one if bad is None else elementwise("maximum(a, b)", a=bad, b=one)
        flag = self._good.device.zeros((), "uint32") if bad is None else bad.astype("uint32")
        return found[0] if isinstance(grads, Tensor) else found, flag

    @whole
    def update(self, overflow: Tensor) -> None:
        """Count a step, and let the factor grow or shrink.

        Args:
            overflow: The flag that `unscale` returned, a Tensor of one element; it is not 0 for a
                step with an overflow.

        Raises:
            DTypeError, ShapeError: overflow is not a Tensor of one element.
        """
        if not isinstance(overflow, Tensor):
            raise DTypeError(f"[update] overflow must be a Tensor but is {type_name(overflow)}")
        if overflow.size != 1:
            raise ShapeError(f"[update] overflow must have one element, not {overflow.shape}")
        flag = overflow.reshape(()).astype("bool")
        good = elementwise("where(o, 0, n + 1)", o=flag, n=self._good)
        grown: Any = elementwise(
            "where(o, f / g, where(n >= i, f * g, f))", o=flag, f=self._factor, n=good,
            g=self._growth, i=self._interval,
        )  # fmt: skip
        text = "where(f < 1.1754944e-38 or f > 1.7014118e38, old, f)"  # stays a normal number
        factor: Any = elementwise(text, f=grown, old=self._factor)
        count: Any = elementwise("where(n >= i, 0, n)", n=good, i=self._interval)
        kernels.cpy(factor, self._factor)
        kernels.cpy(count, self._good)

    def state_dict(self) -> dict[str, Tensor]:
        """The factor and the steps since it changed, by name, not copies."""
        return {"factor": self._factor, "good": self._good}

    @whole
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy a saved state in: Tensors or numpy arrays by the names of `state_dict`.

        Raises:
            ArgumentError: other names. DTypeError, ShapeError: an argument does not fit.
        """
        own = self.state_dict()
        if not isinstance(state, Mapping) or state.keys() != own.keys():
            raise ArgumentError("[LossScale] the state must have the names factor and good")
        found = {n: t.device.tensor(state[n], t.dtype).reshape(()) for n, t in own.items()}
        for name, t in own.items():
            kernels.cpy(found[name], t)


def _check(op: str, name: str, t: object) -> None:
    if not isinstance(t, Tensor):
        raise DTypeError(f"[{op}] {name} must be a pykernels.Tensor but is {type_name(t)}")
    if t.dtype not in FLOATS:
        raise DTypeError(f"[{op}] {name} must be float32, float16 or bfloat16 but is {t.dtype}")
