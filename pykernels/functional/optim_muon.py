"""Muon: the momentum of matrices, which matrix products make orthogonal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pykernels import kernels
from pykernels._generated.operations.matmul import matmul
from pykernels.call.autocast import restored
from pykernels.call.scalars import flag, integer, real
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError

from ._optim_base import Ruled, decay_of
from .elementwise import elementwise
from .optim import _not_negative
from .optim_schedules import Schedule
from .reduce_expressions import reduction

__all__ = ["Muon"]

ADJUST = ("original", "match_rms_adamw")


class Muon(Ruled):
    """Muon on matrices, as `torch.optim.Muon`, but computed in float32, whereas torch rounds to
    bfloat16.

    buffer = momentum * buffer + (1 - momentum) * grad; u = buffer, or, if nesterov is True,
    u = momentum * buffer + (1 - momentum) * grad. u divided by its norm is made nearly orthogonal
    by `ns_steps` steps of Newton and Schulz, x = a * x + (b * x x^T + c * (x x^T)^2) x. Then
    param -= lr * (adjusted * u + weight_decay * param), where adjusted is
    sqrt(max(1, rows / cols)), or 0.2 sqrt(max(rows, cols)) with "match_rms_adamw". Matrices of
    equal shape are one batch of each product.

    Methods, and the attributes `lr`, `momentum` and `weight_decay`, work as in `SGD`. Use another
    optimiser, usually AdamW, for vectors and embeddings.

    Args:
        params: A matrix, or several matrices, or groups.
        lr: Learning rate; a number, a float32 Tensor of one element, or a `Schedule`.
        weight_decay: Factor of param in the step, as above.
        momentum: Decay of the buffer, in [0, 1).
        nesterov: Nesterov's momentum.
        ns_coefficients: a, b and c.
        eps: The least value of the norm by which u is divided.
        ns_steps: The number of steps of Newton and Schulz, 1 or more.
        adjust_lr_fn: "original", which None means, or "match_rms_adamw".

    Raises:
        ShapeError: a parameter is not a matrix. ArgumentError: a number is outside its range.

    Source: Jordan et al. 2024, Muon: an optimizer for hidden layers in neural networks.
    """

    _name = "Muon"
    _moments = ("momentum_buffer",)
    _places: Mapping[str, int] = {"momentum": 0, "lr": 6, "weight_decay": 8}

    def __init__(
        self,
        params: Tensor | Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float | Tensor | Schedule = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        op = self._name
        named: dict[str, Any] = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        if self._in_groups(params, named):
            return
        self._steps = integer(op, "ns_steps", ns_steps)
        self._adjust = ADJUST[0] if adjust_lr_fn is None else adjust_lr_fn
        if self._steps < 1 or self._adjust not in ADJUST:
            raise ArgumentError(
                f"[{op}] ns_steps must be 1 or more and adjust_lr_fn one of {', '.join(ADJUST)} "
                f"but they are {ns_steps!r:.40} and {adjust_lr_fn!r:.40}"
            )
        if not isinstance(ns_coefficients, (tuple, list)) or len(ns_coefficients) != 3:
            raise ArgumentError(f"[{op}] ns_coefficients must be three numbers")
        self._coefficients = [real(op, "ns_coefficients", c) for c in ns_coefficients]
        self._least = _not_negative(op, "eps", eps)
        kinds = {"nesterov": flag(op, "nesterov", nesterov)}
        super().__init__(
            params, lr, kinds, momentum=decay_of(self._name, "momentum", momentum),
            weight_decay=_not_negative(op, "weight_decay", weight_decay),
        )  # fmt: skip
        for i, p in enumerate(self._params):
            if len(p.shape) != 2 or 0 in p.shape:
                raise ShapeError(f"[{op}] params must be matrices but params[{i}] has {p.shape}")

    @property
    def momentum(self) -> float:
        """Decay of the buffer."""
        return float(self._values["momentum"])

    @momentum.setter
    def momentum(self, momentum: float) -> None:
        self._set("momentum", decay_of(self._name, "momentum", momentum))

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        alike: dict[tuple[int, ...], list[int]] = {}
        for i, p in enumerate(self._params):
            alike.setdefault(p.shape, []).append(i)
        for shape, places in alike.items():
            updates = self._settings.device.empty((len(places), *shape))
            for at, i in enumerate(places):
                self._moved(grads[i], self._state[f"momentum_buffer.{i}"], updates[at], skip)
            turned = shape[0] > shape[1]
            with restored(None):  # computed in float32, even inside of `autocast`
                x = self._orthogonal(updates.transpose(0, 2, 1) if turned else updates)
            for at, i in enumerate(places):
                self._apply(self._params[i], x[at].T if turned else x[at], skip)

    def _moved(self, g: Tensor, buffer: Tensor, update: Tensor, skip: Tensor | None) -> None:
        """Add the gradient to the buffer, and write to `update` the matrix that is to be made
        orthogonal."""
        kernels.optimizer_step(g, self._settings, buffer, skip=skip, rule="ema")
        if self._kinds["nesterov"]:
            m = self._settings[0]
            elementwise("float32(g) + m * (b - float32(g))", g=g, m=m, b=buffer, out=update)
        else:
            kernels.cpy(buffer, update)

    def _orthogonal(self, u: Tensor) -> Tensor:
        """Make matrices (n, rows, cols), rows <= cols, nearly orthogonal: their singular values
        become about 1."""
        a, b, c = self._coefficients
        size: Any = reduction("u * u", "sum", axis=(1, 2), keepdims=True, u=u)
        x: Any = elementwise("u / maximum(sqrt(s), least)", u=u, s=size, least=self._least)
        for _ in range(self._steps):
            gram: Any = matmul(x, x.transpose(0, 2, 1))
            square = matmul(gram, gram)
            both = elementwise("b * g + c * s", b=b, c=c, g=gram, s=square)
            x = elementwise("a * x + y", a=a, x=x, y=matmul(both, x))
        found: Tensor = x
        return found

    def _apply(self, p: Tensor, x: Tensor, skip: Tensor | None) -> None:
        rows, cols = p.shape
        if self._adjust == "original":
            adjusted = math.sqrt(max(1.0, rows / cols))
        else:
            adjusted = 0.2 * math.sqrt(max(rows, cols))
        lr = self._settings[6] if self._rate is None else self._rate.reshape(())
        given: dict[str, Any] = {"p": p, "x": x, "lr": lr, "adjusted": adjusted}
        given["decay"] = self._settings[8]
        new = "float32(p) - lr * (decay * float32(p) + adjusted * x)"
        if skip is not None:
            new = f"where(skip != 0, float32(p), {new})"
            given["skip"] = skip.reshape(())
        if p.dtype == "float32":
            elementwise(new, **given, out=p)
        else:
            found: Any = elementwise(new, **given)
            kernels.cpy(found, p)
