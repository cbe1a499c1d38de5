"""Optimisers that keep their state: SGD, Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pykernels import kernels
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.errors import ArgumentError

from ._optim_base import Betas, Decayed, Rooted
from ._optim_together import Numbers, launch_together
from .optim import _betas, _not_negative
from .optim_schedules import Schedule

__all__ = ["SGD", "Adam", "AdamW"]


class SGD(Decayed):
    """Stochastic gradient descent on parameters, with momentum unless it is 0; see `sgd_step`.

        flat, (w, b) = pk.flatten_parameters([w, b])
        optimizer = pk.SGD(flat, lr=0.1, momentum=0.9)
        optimizer.step(tape.gradient(loss, [flat]))

    `step(grads)` takes a gradient for each parameter, `state_dict()` returns the tensors of the
    state by name, and `load_state_dict(state)` copies them in.

    All arguments except `params` are attributes. Setting an attribute changes later steps, also the
    steps of a captured program; it launches a kernel, which a capture refuses. Some changes need
    another kernel or other tensors: a momentum that changes from 0 or to 0, a change of `nesterov`,
    and another Tensor as `lr`. Such changes raise BufferStateError while a program exists that
    captured a step. Momentum buffers begin at 0, and are kept if momentum is set to 0. An unknown
    attribute raises AttributeError.

    Args:
        params: A Tensor, or several Tensors, which share dispatches. Or a list of groups: mappings
            with `params` and the arguments that differ for the group. `groups` has an optimiser for
            each group, with the settings of the group; an attribute set on the whole optimiser
            applies to all groups. Gradients are in the order of all parameters.
        lr: Learning rate; a number, a float32 Tensor of one element, or a `Schedule`.
        momentum, weight_decay, nesterov: as in `sgd_step`.
    """

    _name = "SGD"
    _together = True
    _places: Mapping[str, int] = {"lr": 0, "momentum": 1, "weight_decay": 2}

    def __init__(
        self,
        params: Tensor | Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float | Tensor | Schedule = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        named: dict[str, Any] = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        if self._in_groups(params, {**named, "nesterov": nesterov}):
            return
        momentum = _not_negative("SGD", "momentum", momentum)
        weight_decay = _not_negative("SGD", "weight_decay", weight_decay)
        self._moments = ("momentum_buffer",) if momentum else ()
        super().__init__(
            params, lr, {"nesterov": _nesterov(nesterov, momentum)}, momentum=momentum,
            weight_decay=weight_decay,
        )  # fmt: skip

    @property
    def momentum(self) -> float:
        """Factor of the buffer."""
        return float(self._values["momentum"])

    @momentum.setter
    def momentum(self, momentum: float) -> None:
        momentum = _not_negative("SGD", "momentum", momentum)
        _nesterov(self.nesterov, momentum)
        if bool(momentum) != bool(self.momentum):
            self._refuse_change("momentum from or to 0")
            if momentum:
                self._add_state(("momentum_buffer",))
        self._set("momentum", momentum)

    @property
    def nesterov(self) -> bool:
        """Nesterov's momentum."""
        return bool(self._kinds["nesterov"])

    @nesterov.setter
    def nesterov(self, nesterov: bool) -> None:
        if _nesterov(nesterov, self.momentum) != self.nesterov:
            self._refuse_change("nesterov")
        self._kinds["nesterov"] = nesterov

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        params, state, nesterov = self._params, self._state, self.nesterov
        names = ("momentum_buffer",) if self.momentum else ()
        states = [[state[f"{name}.{i}"] for name in names] for i in range(len(params))]
        numbers = Numbers(self._settings, None, self._rate, skip)
        for i in launch_together("sgd_step", params, grads, states, numbers, nesterov):
            kernels.sgd_step(
                grads[i], params[i], momentum_buffer=states[i][0] if names else None,
                rate=self._rate, settings=self._settings, skip=skip, nesterov=nesterov,
            )  # fmt: skip


class Adam(Betas, Rooted):
    """Adam on parameters; the device counts the steps. See `adam_step`.

    Methods and attributes work as in `SGD`.

    Args:
        params: A Tensor, several Tensors, or groups. Several share dispatches, and one more
            dispatch counts the steps.
        lr: Learning rate; a number, a float32 Tensor of one element, or a `Schedule`.
        betas, eps, weight_decay: as in `adam_step`.
        amsgrad: Divide by the largest second moment so far; setting it needs another kernel.
    """

    _name = "Adam"
    _kernel, _step_name = staticmethod(kernels.adam_step), "adam_step"
    _places: Mapping[str, int] = {"betas": 0, "lr": 6, "eps": 7, "weight_decay": 8}
    _counts = _together = True

    def __init__(
        self,
        params: Tensor | Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float | Tensor | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        name = self._name
        named: dict[str, Any] = {"betas": betas, "eps": eps, "weight_decay": weight_decay}
        if self._in_groups(params, {"lr": lr, **named, "amsgrad": amsgrad}):
            return
        self._moments = ("exp_avg", "exp_avg_sq")
        if flag(name, "amsgrad", amsgrad):
            self._moments += ("max_exp_avg_sq",)
        super().__init__(
            params, lr, {"amsgrad": amsgrad}, betas=_betas(name, betas),
            eps=_not_negative(name, "eps", eps),
            weight_decay=_not_negative(name, "weight_decay", weight_decay),
        )  # fmt: skip

    @property
    def amsgrad(self) -> bool:
        """True divides by the largest second moment so far."""
        return bool(self._kinds["amsgrad"])

    @amsgrad.setter
    def amsgrad(self, amsgrad: bool) -> None:
        if flag(self._name, "amsgrad", amsgrad) != self.amsgrad:
            self._refuse_change("amsgrad")
            if amsgrad:
                self._add_state(("max_exp_avg_sq",))
        self._kinds["amsgrad"] = amsgrad

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        if self.amsgrad:
            self._ruled("amsgrad", ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), grads, skip)
            return
        params, state, kernel = self._params, self._state, self._kernel
        steps, settings = state["step"], self._settings[:9]
        states = [[state[f"exp_avg.{i}"], state[f"exp_avg_sq.{i}"]] for i in range(len(params))]
        numbers = Numbers(settings, steps, self._rate, skip)
        decoupled = self._step_name == "adamw_step"
        for i in launch_together(self._step_name, params, grads, states, numbers, decoupled):
            first, second = states[i]
            kernel(
                grads[i], first, second, params[i], count=steps, rate=self._rate, settings=settings,
                skip=skip,
            )  # fmt: skip
        kernels.step_advance(steps, skip=skip)


class AdamW(Adam):
    """Adam with decoupled weight decay; see `adamw_step`.

    Arguments are as in `Adam`, methods as in `SGD`.
    """

    _name = "AdamW"
    _initial: Mapping[int, float] = {10: 1.0}  # weight decay is not part of the gradient
    _kernel, _step_name = staticmethod(kernels.adamw_step), "adamw_step"

    def __init__(
        self,
        params: Tensor | Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float | Tensor | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)


def _nesterov(nesterov: bool, momentum: float) -> bool:
    if flag("SGD", "nesterov", nesterov) and not momentum:
        raise ArgumentError("[SGD] nesterov needs a momentum")
    return bool(nesterov)
