"""Optimisers that keep their state: SGD, Adam and AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykernels import kernels
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError, ShapeError

from .optim import _betas, _listed, _not_negative, _rate

__all__ = ["SGD", "Adam", "AdamW"]


class _Optimizer:
    """Parameters, the tensors of state of each, and the learning rate, which may be set."""

    _name: str
    _moments: tuple[str, ...]  # names of what each parameter has

    def __init__(self, params: Tensor | Sequence[Tensor], lr: float | Tensor) -> None:
        self._params = _tensors(self._name, "params", params)
        for i, p in enumerate(self._params):
            if p.dtype not in ("float32", "float16"):
                raise DTypeError(
                    f"[{self._name}] params must be float32 or float16 but params[{i}] is {p.dtype}"
                )
        self.lr = lr
        device = self._params[0].device
        self._state = {
            f"{moment}.{i}": device.zeros(p.shape)
            for i, p in enumerate(self._params)
            for moment in self._moments
        }

    @property
    def lr(self) -> float | Tensor:
        """The learning rate; a captured step has that of the capture, unless it is a Tensor."""
        return self._lr

    @lr.setter
    def lr(self, lr: float | Tensor) -> None:
        self._rate, self._number = _rate(self._name, lr)
        self._lr = lr

    def step(self, grads: Tensor | Sequence[Tensor]) -> None:
        """Update the parameters in place.

        Args:
            grads: The gradient of each parameter, in their order.

        Raises:
            ArgumentError: another number of gradients. ShapeError, DTypeError: a gradient that
            does not fit its parameter; nothing has changed then.
        """
        given = _tensors(self._name, "grads", grads)
        if len(given) != len(self._params):
            raise ArgumentError(
                f"[{self._name}] there must be {len(self._params)} gradients, one for each "
                f"parameter, but there are {len(given)}"
            )
        for i, (g, p) in enumerate(zip(given, self._params, strict=True)):
            if g.shape != p.shape:
                raise ShapeError(
                    f"[{self._name}] grads[{i}] must have shape {p.shape} but has {g.shape}"
                )
            if g.dtype not in ("float32", "float16"):
                raise DTypeError(
                    f"[{self._name}] grads[{i}] must be float32 or float16 but is {g.dtype}"
                )
        self._step(given)

    def _step(self, grads: Sequence[Tensor]) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors of the state by name, not copies: `.numpy()` of each is what to save."""
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy a saved state in: Tensors or numpy arrays by the names of `state_dict`.

        Raises:
            ArgumentError: other names. ShapeError, DTypeError: a tensor that does not fit.
        """
        if state.keys() != self._state.keys():
            wrong = sorted(state.keys() ^ self._state.keys())
            raise ArgumentError(f"[{self._name}] the state has other names: {', '.join(wrong)}")
        found = {name: own.device.tensor(state[name]) for name, own in self._state.items()}
        for name, own in self._state.items():
            if found[name].shape != own.shape or found[name].dtype != own.dtype:
                raise ShapeError(
                    f"[{self._name}] {name} must be {own.dtype} of shape {own.shape} but is "
                    f"{found[name].dtype} of shape {found[name].shape}"
                )
        for name, own in self._state.items():
            kernels.cpy(found[name], own)


class SGD(_Optimizer):
    """Stochastic gradient descent on parameters, with momentum where it is not 0: see `sgd_step`.

        flat, (w, b) = pk.flatten_parameters([w, b])
        optimizer = pk.SGD(flat, lr=0.1, momentum=0.9)
        optimizer.step(tape.gradient(loss, [flat]))

    `step(grads)` takes a gradient for each parameter, `lr` may be set, `state_dict()` has the
    tensors of the state by name, and `load_state_dict(state)` copies them in.

    Args:
        params: A Tensor, or several; one dispatch a step for each.
        lr: Learning rate; a number or a float32 Tensor of one element.
        momentum, weight_decay, nesterov: as in `sgd_step`.
    """

    _name = "SGD"

    def __init__(
        self,
        params: Tensor | Sequence[Tensor],
        lr: float | Tensor = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        self.momentum = _not_negative("SGD", "momentum", momentum)
        self.weight_decay = _not_negative("SGD", "weight_decay", weight_decay)
        if nesterov and not momentum:
            raise ArgumentError("[SGD] nesterov needs a momentum")
        self.nesterov = nesterov
        self._moments = ("momentum_buffer",) if momentum else ()
        super().__init__(params, lr)

    def _step(self, grads: Sequence[Tensor]) -> None:
        for i, (p, g) in enumerate(zip(self._params, grads, strict=True)):
            kernels.sgd_step(
                g, p, momentum_buffer=self._state.get(f"momentum_buffer.{i}"), rate=self._rate,
                lr=self._number, momentum=self.momentum, weight_decay=self.weight_decay,
                nesterov=self.nesterov,
            )  # fmt: skip


class Adam(_Optimizer):
    """Adam on parameters; its steps are counted on the device: see `adam_step`.

    Methods are those of `SGD`.

    Args:
        params: A Tensor, or several; one dispatch a step for each, and one that counts.
        lr: Learning rate; a number or a float32 Tensor of one element.
        betas, eps, weight_decay: as in `adam_step`.
    """

    _name = "Adam"
    _kernel = staticmethod(kernels.adam_step)
    _moments = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Tensor | Sequence[Tensor],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.betas = _betas(self._name, betas)
        self.eps = _not_negative(self._name, "eps", eps)
        self.weight_decay = _not_negative(self._name, "weight_decay", weight_decay)
        super().__init__(params, lr)
        self._state["step"] = self._params[0].device.zeros((), "int32")

    def _step(self, grads: Sequence[Tensor]) -> None:
        steps = self._state["step"]
        for i, (p, g) in enumerate(zip(self._params, grads, strict=True)):
            self._kernel(
                g, self._state[f"exp_avg.{i}"], self._state[f"exp_avg_sq.{i}"], p, count=steps,
                rate=self._rate, lr=self._number, eps=self.eps, weight_decay=self.weight_decay,
                beta1=self.betas[0], beta2=self.betas[1],
            )  # fmt: skip
        kernels.step_advance(steps)


class AdamW(Adam):
    """Adam with decoupled weight decay: see `adamw_step`.

    Arguments are those of `Adam`, methods those of `SGD`.
    """

    _name = "AdamW"
    _kernel = staticmethod(kernels.adamw_step)

    def __init__(
        self,
        params: Tensor | Sequence[Tensor],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


def _tensors(op: str, name: str, values: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [values] if isinstance(values, Tensor) else _listed(op, name, values, (Tensor,))
