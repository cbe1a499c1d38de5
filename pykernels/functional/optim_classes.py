"""Optimisers that keep their state: SGD, Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pykernels import kernels
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, BufferStateError, DTypeError, ShapeError
from pykernels.plans.optim.adam_step import powers
from pykernels.runtime.whole import whole
from pykernels.tensors.host import type_name

from .optim import _betas, _listed, _not_negative, _rate

__all__ = ["SGD", "Adam", "AdamW"]


class _Optimizer:
    """Parameters, the tensors of state of each, and the settings of a step.

    Settings are attributes. Steps read their numbers from a small tensor, so that what is set
    counts for later steps, captured ones too: setting one is a launch.
    """

    _name: str
    _moments: tuple[str, ...]  # names of what each parameter has
    _places: Mapping[str, int]  # of the first number of a setting

    @whole
    def __init__(
        self, params: Tensor | Iterable[Tensor], lr: float | Tensor, **values: Any
    ) -> None:
        self._params = _tensors(self._name, "params", params)
        for i, p in enumerate(self._params):
            if p.dtype not in ("float32", "float16"):
                raise DTypeError(
                    f"[{self._name}] params must be float32 or float16 but params[{i}] is {p.dtype}"
                )
        self._rate, number = _rate(self._name, lr)
        self._values: dict[str, Any] = {"lr": number, **values}
        self._programs: list[Callable[[], Any]] = []  # that captured a step
        self._state: dict[str, Tensor] = {}
        device = self._params[0].device
        numbers = np.zeros(sum(len(_numbers(v)) for v in self._values.values()), np.float32)
        for name, at in self._places.items():
            found = _numbers(self._values[name])
            numbers[at : at + len(found)] = found
        self._settings = device.tensor(numbers)
        self._add_state(self._moments)

    @whole
    def _add_state(self, moments: tuple[str, ...]) -> None:
        """Tensors of zeros for each parameter, where there are none yet."""
        for i, p in enumerate(self._params):
            for moment in moments:
                name = f"{moment}.{i}"
                if name not in self._state:
                    self._state[name] = self._params[0].device.zeros(p.shape)

    # -- settings -------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(
                f"[{self._name}] no setting is called {name!r}: there are "
                f"{', '.join(self._places)}",
                name=name, obj=self,
            )  # fmt: skip
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Copies have been captured by no program."""
        return {**self.__dict__, "_programs": []}

    @property
    def lr(self) -> float | Tensor:
        """The learning rate: a number, or a Tensor that steps read."""
        return self._values["lr"] if self._rate is None else self._rate

    @lr.setter
    def lr(self, lr: float | Tensor) -> None:
        rate, number = _rate(self._name, lr)
        if rate is not self._rate:
            self._refuse_change("lr, another Tensor or one in place of a number,")
        if rate is None:
            self._set("lr", number)
        self._rate = rate

    def _set(self, name: str, value: Any) -> None:
        """Later steps take another value of a setting."""
        self._context.refuse_in_capture(f"{self._name}.{name}")
        with self._context.lock:
            self._fill(self._places[name], _numbers(self._values[name]), _numbers(value))
        self._values[name] = value

    def _fill(self, at: int, old: Sequence[float], new: Sequence[float]) -> None:
        """Write the numbers of a setting that change."""
        for i, (a, b) in enumerate(zip(old, new, strict=True), at):
            if a != b:
                kernels.fill(self._settings[i : i + 1], b)

    def _refuse_change(self, what: str) -> None:
        """Raise where a program has captured a step, and another kernel or tensor is asked for."""
        self._context.refuse_in_capture(self._name)
        programs = [program for ref in self._programs if (program := ref()) is not None]
        if any(not program._recording.state for program in programs):  # it was captured to its end
            raise BufferStateError(
                f"[{self._name}] {what} changes the kernel or the tensors of a step, and a "
                "captured program has one: let the program go first"
            )

    @property
    def _context(self) -> Any:
        return self._params[0]._context

    # -- steps ----------------------------------------------------------------------------------

    @whole
    def step(self, grads: Tensor | Iterable[Tensor], skip: Tensor | None = None) -> None:
        """Update the parameters in place.

        Args:
            grads: The gradient of each parameter, in their order.
            skip: A Tensor of one element, bool, int32, uint32 or float32. Where it is not 0, the
                step leaves parameters, moments and the count of steps as they were. The device
                reads it, so that a captured step decides in each replay.

        Raises:
            ArgumentError: another number of gradients. ShapeError, DTypeError: a gradient that
            does not fit its parameter, or another skip; nothing has changed then.
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
        self._step(given, self._flag(skip))
        program = self._context.captured()
        if program is not None and program not in self._programs:
            self._programs = [ref for ref in self._programs if ref() is not None] + [program]

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        raise NotImplementedError

    def _flag(self, skip: Tensor | None) -> Tensor | None:
        """0 or 1, as kernels read it."""
        if skip is None:
            return None
        if not isinstance(skip, Tensor):
            raise DTypeError(f"[{self._name}] skip must be a Tensor but is {type_name(skip)}")
        if skip.dtype not in ("bool", "int32", "uint32", "float32"):
            raise DTypeError(
                f"[{self._name}] skip must be bool, int32, uint32 or float32 but is {skip.dtype}"
            )
        if skip.size != 1:
            raise ShapeError(
                f"[{self._name}] skip must have one element but has shape {skip.shape}"
            )
        return skip if skip.dtype == "uint32" else skip.astype("bool").astype("uint32")

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors of the state by name, not copies: `.numpy()` of each is what to save."""
        return dict(self._state)

    @whole
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy a saved state in: Tensors or numpy arrays by the names of `state_dict`.

        Raises:
            ArgumentError: other names. ShapeError, DTypeError: a tensor that does not fit, or a
                state that is no mapping.
        """
        if not isinstance(state, Mapping):
            raise DTypeError(
                f"[{self._name}] state must be a mapping from names to tensors but is "
                f"{type_name(state)}"
            )
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

    `step(grads)` takes a gradient for each parameter, `state_dict()` has the tensors of the state
    by name, and `load_state_dict(state)` copies them in.

    Arguments but `params` are attributes that may be set, and count for later steps, those of a
    captured program too: setting one is a launch, which a capture refuses. A momentum from or to 0,
    `nesterov` and another Tensor as `lr` ask for another kernel, or other tensors: a
    BufferStateError while a program lives that has captured a step. Buffers of momentum begin at 0
    and stay where it is set to 0. An AttributeError: there is no such setting.

    Args:
        params: A Tensor, or several; one dispatch a step for each.
        lr: Learning rate; a number or a float32 Tensor of one element.
        momentum, weight_decay, nesterov: as in `sgd_step`.
    """

    _name = "SGD"
    _places: Mapping[str, int] = {"lr": 0, "momentum": 1, "weight_decay": 2}

    def __init__(
        self,
        params: Tensor | Iterable[Tensor],
        lr: float | Tensor = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        momentum = _not_negative("SGD", "momentum", momentum)
        weight_decay = _not_negative("SGD", "weight_decay", weight_decay)
        self._nesterov = _nesterov(nesterov, momentum)
        self._moments = ("momentum_buffer",) if momentum else ()
        super().__init__(params, lr, momentum=momentum, weight_decay=weight_decay)

    @property
    def momentum(self) -> float:
        """Factor of the buffer."""
        return float(self._values["momentum"])

    @momentum.setter
    def momentum(self, momentum: float) -> None:
        momentum = _not_negative("SGD", "momentum", momentum)
        _nesterov(self._nesterov, momentum)
        if bool(momentum) != bool(self.momentum):
            self._refuse_change("momentum from or to 0")
            if momentum:
                self._add_state(("momentum_buffer",))
        self._set("momentum", momentum)

    @property
    def weight_decay(self) -> float:
        """Factor of a parameter in its gradient."""
        return float(self._values["weight_decay"])

    @weight_decay.setter
    def weight_decay(self, weight_decay: float) -> None:
        self._set("weight_decay", _not_negative("SGD", "weight_decay", weight_decay))

    @property
    def nesterov(self) -> bool:
        """Nesterov's momentum."""
        return self._nesterov

    @nesterov.setter
    def nesterov(self, nesterov: bool) -> None:
        if _nesterov(nesterov, self.momentum) != self._nesterov:
            self._refuse_change("nesterov")
        self._nesterov = nesterov

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        for i, (p, g) in enumerate(zip(self._params, grads, strict=True)):
            buffer = self._state[f"momentum_buffer.{i}"] if self.momentum else None
            kernels.sgd_step(
                g, p, momentum_buffer=buffer, rate=self._rate, settings=self._settings, skip=skip,
                nesterov=self._nesterov,
            )  # fmt: skip


class Adam(_Optimizer):
    """Adam on parameters; its steps are counted on the device: see `adam_step`.

    Methods are those of `SGD`, and so is how attributes are set.

    Args:
        params: A Tensor, or several; one dispatch a step for each, and one that counts.
        lr: Learning rate; a number or a float32 Tensor of one element.
        betas, eps, weight_decay: as in `adam_step`.
    """

    _name = "Adam"
    _kernel = staticmethod(kernels.adam_step)
    _moments = ("exp_avg", "exp_avg_sq")
    _places: Mapping[str, int] = {"betas": 0, "lr": 6, "eps": 7, "weight_decay": 8}

    def __init__(
        self,
        params: Tensor | Iterable[Tensor],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        name = self._name
        super().__init__(
            params, lr, betas=_betas(name, betas), eps=_not_negative(name, "eps", eps),
            weight_decay=_not_negative(name, "weight_decay", weight_decay),
        )  # fmt: skip
        self._state["step"] = self._params[0].device.zeros((), "int32")

    @property
    def betas(self) -> tuple[float, float]:
        """Decays of both moments."""
        one, two = self._values["betas"]
        return one, two

    @betas.setter
    def betas(self, betas: tuple[float, float]) -> None:
        self._set("betas", _betas(self._name, betas))

    @property
    def eps(self) -> float:
        """What is added to the root of the second moment."""
        return float(self._values["eps"])

    @eps.setter
    def eps(self, eps: float) -> None:
        self._set("eps", _not_negative(self._name, "eps", eps))

    @property
    def weight_decay(self) -> float:
        """Factor of a parameter in its gradient, or (AdamW) of lr in its decay."""
        return float(self._values["weight_decay"])

    @weight_decay.setter
    def weight_decay(self, weight_decay: float) -> None:
        self._set("weight_decay", _not_negative(self._name, "weight_decay", weight_decay))

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        steps = self._state["step"]
        for i, (p, g) in enumerate(zip(self._params, grads, strict=True)):
            self._kernel(
                g, self._state[f"exp_avg.{i}"], self._state[f"exp_avg_sq.{i}"], p, count=steps,
                rate=self._rate, settings=self._settings, skip=skip,
            )  # fmt: skip
        kernels.step_advance(steps, skip=skip)


class AdamW(Adam):
    """Adam with decoupled weight decay: see `adamw_step`.

    Arguments are those of `Adam`, methods those of `SGD`.
    """

    _name = "AdamW"
    _kernel = staticmethod(kernels.adamw_step)

    def __init__(
        self,
        params: Tensor | Iterable[Tensor],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


def _numbers(value: Any) -> tuple[float, ...]:
    """What a setting is on the device: itself, or what steps need of two betas."""
    if isinstance(value, tuple):
        return *powers("beta1", value[0]), *powers("beta2", value[1])
    return (value,)


def _nesterov(nesterov: bool, momentum: float) -> bool:
    if flag("SGD", "nesterov", nesterov) and not momentum:
        raise ArgumentError("[SGD] nesterov needs a momentum")
    return bool(nesterov)


def _tensors(op: str, name: str, values: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [values] if isinstance(values, Tensor) else _listed(op, name, values, (Tensor,))
