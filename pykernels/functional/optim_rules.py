"""Optimisers that one kernel computes: RMSprop, Adagrad, NAdam, Lion; and running averages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pykernels import kernels
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import DTypeError
from pykernels.plans.optim.checks import SETTINGS
from pykernels.runtime.whole import whole

from ._optim_base import Betas, Rooted, Ruled, decay_of, flag_of, load_state, tensors
from ._optim_together import Numbers, launch_together
from .optim import _betas, _not_negative
from .optim_schedules import Schedule

__all__ = ["EMA", "Adagrad", "Lion", "NAdam", "RMSprop"]


class RMSprop(Rooted):
    """RMSprop on parameters, as `torch.optim.RMSprop`; computed in float32.

    With g = grad + weight_decay * param: square_avg = alpha * square_avg + (1 - alpha) * g * g, and
    param -= lr * g / (sqrt(square_avg) + eps). With `centered` the square of an average of g is
    subtracted under the root. With momentum, buffer = momentum * buffer + g / (...), and
    param -= lr * buffer.

    Methods and attributes work as in `SGD`. Setting `centered`, or changing momentum from 0 or to
    0, needs another kernel.

    Args:
        params: A Tensor, several Tensors (which share dispatches), or groups.
        lr: Learning rate; a number, a float32 Tensor of one element, or a `Schedule`.
        alpha: Decay of the averages, in [0, 1).
        eps: Added to the root.
        weight_decay: Factor of param in its gradient (L2).
        momentum: Factor of the buffer.
        centered: True divides by a standard deviation of g.
    """

    _name = "RMSprop"
    _places: Mapping[str, int] = {"alpha": 0, "lr": 6, "eps": 7, "weight_decay": 8, "momentum": 9}

    def __init__(
        self,
        params: Tensor | Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float | Tensor | Schedule = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        name = self._name
        named: dict[str, Any] = {"eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        if self._in_groups(params, {"lr": lr, "alpha": alpha, **named, "centered": centered}):
            return
        named = {n: _not_negative(name, n, v) for n, v in named.items()}
        kinds = {"centered": flag(name, "centered", centered)}
        self._moments = _averages(named["momentum"], centered)
        super().__init__(params, lr, kinds, alpha=decay_of(name, "alpha", alpha), **named)

    @property
    def alpha(self) -> float:
        """Decay of the averages."""
        return float(self._values["alpha"])

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        self._set("alpha", decay_of(self._name, "alpha", alpha))

    @property
    def momentum(self) -> float:
        """Factor of the buffer."""
        return float(self._values["momentum"])

    @momentum.setter
    def momentum(self, momentum: float) -> None:
        momentum = _not_negative(self._name, "momentum", momentum)
        if bool(momentum) != bool(self.momentum):
            self._refuse_change("momentum from or to 0")
            self._add_state(_averages(momentum, self.centered))
        self._set("momentum", momentum)

    @property
    def centered(self) -> bool:
        """True if steps divide by a standard deviation."""
        return bool(self._kinds["centered"])

    @centered.setter
    def centered(self, centered: bool) -> None:
        if flag(self._name, "centered", centered) != self.centered:
            self._refuse_change("centered")
            self._add_state(_averages(self.momentum, centered))
        self._kinds["centered"] = centered

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        rule = "rmsprop" + "_centered" * self.centered + "_momentum" * bool(self.momentum)
        self._ruled(rule, _averages(self.momentum, self.centered), grads, skip)


class Adagrad(Rooted):
    """Adagrad on parameters, as `torch.optim.Adagrad`; computed in float32.

    With g = grad + weight_decay * param: sum += g * g, and in step t
    param -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum) + eps).

    Methods and attributes work as in `SGD`.

    Args:
        params: A Tensor, several Tensors, or groups. Several share dispatches, and one more
            dispatch counts the steps.
        lr: Learning rate; a number, a float32 Tensor of one element, or a `Schedule`.
        lr_decay: How fast the learning rate falls.
        weight_decay: Factor of param in its gradient (L2).
        initial_accumulator_value: The first value of the sum, which is part of the state.
        eps: Added to the root.
    """

    _name = "Adagrad"
    _moments = ("sum",)
    _places: Mapping[str, int] = {"lr": 6, "eps": 7, "weight_decay": 8, "lr_decay": 9}
    _counts = True

    def __init__(
        self,
        params: Tensor | Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float | Tensor | Schedule = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        named: dict[str, Any] = {"lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        first = {"initial_accumulator_value": initial_accumulator_value}
        if self._in_groups(params, {"lr": lr, **named, **first}):
            return
        named = {n: _not_negative(self._name, n, v) for n, v in named.items()}
        begin = _not_negative(self._name, *next(iter(first.items())))
        super().__init__(params, lr, **named)
        if begin:
            for i in range(len(self._params)):
                kernels.fill(self._state[f"sum.{i}"], begin)

    @property
    def lr_decay(self) -> float:
        """The decay of the learning rate."""
        return float(self._values["lr_decay"])

    @lr_decay.setter
    def lr_decay(self, lr_decay: float) -> None:
        self._set("lr_decay", _not_negative(self._name, "lr_decay", lr_decay))

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        self._ruled("adagrad", ("sum",), grads, skip)


class NAdam(Betas, Rooted):
    """Adam with Nesterov's momentum, as `torch.optim.NAdam`; computed in float32.

    Moments are computed as in `Adam`. With mu(t) = beta1 * (1 - 0.96^(t * momentum_decay) / 2) and
    product(t) = mu(1) * ... * mu(t), param -= lr * ((1 - mu(t)) / (1 - product(t)) * g + mu(t + 1)
    / (1 - product(t + 1)) * exp_avg) / (sqrt(v) + eps).

    Methods and attributes work as in `SGD`.

    Args:
        params: A Tensor, several Tensors, or groups. Several share dispatches, and one more
            dispatch counts the steps.
        lr: Learning rate; a number, a float32 Tensor of one element, or a `Schedule`.
        betas: Decays of both moments, in [0, 1).
        eps: Added to the root of the second moment.
        weight_decay: Factor of param in its gradient (L2).
        momentum_decay: The speed at which mu grows to beta1.
        decoupled_weight_decay: Weight decay is no part of the gradient, as in `AdamW`.
    """

    _name = "NAdam"
    _moments = ("exp_avg", "exp_avg_sq")
    _places: Mapping[str, int] = {
        "betas": 0, "lr": 6, "eps": 7, "weight_decay": 8, "momentum_decay": 9,
        "decoupled_weight_decay": 10,
    }  # fmt: skip
    _initial: Mapping[int, float] = {14: 1.0}
    _views: Mapping[str, int] = {"mu_product": 14}
    _counts = True

    def __init__(
        self,
        params: Tensor | Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float | Tensor | Schedule = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
    ) -> None:
        name = self._name
        named: dict[str, Any] = {
            "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
        }  # fmt: skip
        apart = {"decoupled_weight_decay": decoupled_weight_decay}
        if self._in_groups(params, {"lr": lr, "betas": betas, **named, **apart}):
            return
        named = {n: _not_negative(name, n, v) for n, v in named.items()}
        for n, v in apart.items():
            named[n] = flag(name, n, v)
        super().__init__(params, lr, betas=_betas(name, betas), **named)

    @property
    def momentum_decay(self) -> float:
        """The growth of the momentum."""
        return float(self._values["momentum_decay"])

    @momentum_decay.setter
    def momentum_decay(self, momentum_decay: float) -> None:
        number = _not_negative(self._name, "momentum_decay", momentum_decay)
        self._set("momentum_decay", number)

    @property
    def decoupled_weight_decay(self) -> bool:
        """True if weight decay is no part of the gradient."""
        return bool(self._values["decoupled_weight_decay"])

    @decoupled_weight_decay.setter
    def decoupled_weight_decay(self, decoupled_weight_decay: bool) -> None:
        name = "decoupled_weight_decay"
        self._set(name, flag(self._name, name, decoupled_weight_decay))

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        self._ruled("nadam", self._moments, grads, skip)


class Lion(Betas, Ruled):
    """Lion on parameters, as `optax.lion`; computed in float32.

    param -= lr * (sign(beta1 * exp_avg + (1 - beta1) * grad) + weight_decay * param), and then
    exp_avg = beta2 * exp_avg + (1 - beta2) * grad.

    Methods and attributes work as in `SGD`.

    Args:
        params: A Tensor, several Tensors (which share dispatches), or groups.
        lr: Learning rate; a number, a float32 Tensor of one element, or a `Schedule`.
        betas: Decays of the direction and of the moment, in [0, 1).
        weight_decay: Factor of param in the step, as above.

    Source: Chen et al. 2023, Symbolic discovery of optimization algorithms.
    """

    _name = "Lion"
    _moments = ("exp_avg",)
    _places: Mapping[str, int] = {"betas": 0, "lr": 6, "weight_decay": 8}

    def __init__(
        self,
        params: Tensor | Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float | Tensor | Schedule = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 1e-3,
    ) -> None:
        if self._in_groups(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay}):
            return
        decay = _not_negative(self._name, "weight_decay", weight_decay)
        super().__init__(params, lr, betas=_betas(self._name, betas), weight_decay=decay)

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        self._ruled("lion", self._moments, grads, skip)


class EMA:
    """Running averages of parameters: after each step, average = decay * average + (1 - decay) * p.

        averages = pk.EMA([w, b], decay=0.999)
        optimizer.step(grads, skip=overflow)
        averages.update(skip=overflow)
        w_average, b_average = averages.tensors

    Averages begin as copies of the parameters, and are float32. In `update`, parameters share
    launches where they can; a capture may contain these launches. Setting `decay` changes later
    updates, also the updates of a captured program. `state_dict()` returns the averages by name,
    and `load_state_dict(state)` copies them in.

    Args:
        params: A Tensor, or several, float32, float16 or bfloat16.
        decay: Factor of the old average, in [0, 1).

    Raises:
        ArgumentError: no parameters, or a decay outside [0, 1). DTypeError: other dtypes.
    """

    @whole
    def __init__(self, params: Tensor | Iterable[Tensor], decay: float = 0.999) -> None:
        self._params = tensors("EMA", "params", params)
        for i, p in enumerate(self._params):
            if p.dtype not in FLOATS:
                raise DTypeError(
                    f"[EMA] params must be float32, float16 or bfloat16 but params[{i}] is "
                    f"{p.dtype}"
                )
        self._decay = decay_of("EMA", "decay", decay)
        numbers = np.zeros(SETTINGS, np.float32)
        numbers[:2] = self._decay, 1.0 - self._decay
        self._settings = self._params[0].device.tensor(numbers)
        self._averages = [self._settings.device.empty(p.shape) for p in self._params]
        for p, average in zip(self._params, self._averages, strict=True):
            kernels.cpy(p, average)

    @property
    def tensors(self) -> list[Tensor]:
        """The averages, in the order of the parameters; not copies."""
        return list(self._averages)

    @property
    def decay(self) -> float:
        """The factor of the old average."""
        return float(self._decay)

    @decay.setter
    def decay(self, decay: float) -> None:
        decay = decay_of("EMA", "decay", decay)
        self._settings._context.refuse_in_capture("EMA.decay")
        for i, number in enumerate((decay, 1.0 - decay)):
            kernels.fill(self._settings[i : i + 1], number)
        self._decay = decay

    @whole
    def update(self, skip: Tensor | None = None) -> None:
        """Update the averages with the current values of the parameters.

        Args:
            skip: As in the step of an optimiser: if it is not 0, averages do not change.
        """
        flag = flag_of("EMA", skip)
        params, averages = self._params, self._averages
        states: list[list[Tensor]] = [[] for _ in params]
        numbers = Numbers(self._settings, None, None, flag)
        for i in launch_together("optimizer_step", averages, params, states, numbers, rule="ema"):
            kernels.optimizer_step(params[i], self._settings, averages[i], skip=flag, rule="ema")

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by name, not copies."""
        return {f"average.{i}": t for i, t in enumerate(self._averages)}

    @whole
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy a saved state in: Tensors or numpy arrays by the names of `state_dict`.

        Raises:
            ArgumentError: other names. ShapeError, DTypeError: arguments that do not fit.
        """
        load_state("EMA", state, self.state_dict())


def _averages(momentum: float, centered: bool) -> tuple[str, ...]:
    """The states of RMSprop, in the order of the kernel."""
    also = ("grad_avg",) * bool(centered) + ("momentum_buffer",) * bool(momentum)
    return ("square_avg", *also)
