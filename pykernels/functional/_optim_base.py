"""The base of optimisers that keep their state: settings, groups, steps, and the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pykernels import kernels
from pykernels.call.scalars import real
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, BufferStateError, DTypeError, ShapeError
from pykernels.plans.optim.adam_step import powers
from pykernels.plans.optim.checks import SETTINGS
from pykernels.runtime.whole import whole
from pykernels.tensors.host import type_name

from ._optim_together import Numbers, launch_together, zeros_together
from .optim import _betas, _listed, _not_negative, _rate
from .optim_schedules import Schedule

__all__ = [
    "Betas", "Decay", "Decayed", "Optimizer", "Rooted", "Ruled", "decay_of", "flag_of",
    "load_state", "tensors",
]  # fmt: skip

Rate: TypeAlias = "float | Tensor | Schedule"


class Optimizer:
    """Parameters, the state tensors of each parameter, and the settings of a step.

    Settings are attributes. Steps read the numbers of the settings from a small tensor. So a new
    setting applies to later steps, also to captured steps; setting a number is a launch. An
    optimiser of several groups of parameters has an optimiser of the same class for each of them.
    """

    _name: str
    _moments: tuple[str, ...]  # names of the states of each parameter
    _places: Mapping[str, int]  # position of the first number of a setting
    _size = 0  # count of all numbers; 0 means that the settings give the count
    _initial: Mapping[int, float] = {}  # numbers that belong to no setting, by position
    _counts = False  # True if the optimiser counts its steps
    _views: Mapping[str, int] = {}  # positions of states that lie among the settings
    _groups: tuple[Any, ...] = ()  # optimisers of the groups, if there are groups
    _together = False  # True: one launch updates several parameters

    @whole
    def __init__(
        self,
        params: Tensor | Iterable[Any],
        lr: Rate,
        kinds: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> None:
        self._params = tensors(self._name, "params", params)
        for i, p in enumerate(self._params):
            if p.dtype not in FLOATS:
                raise DTypeError(
                    f"[{self._name}] params must be float32, float16 or bfloat16 but params[{i}] "
                    f"is {p.dtype}"
                )
        self._schedule = lr if isinstance(lr, Schedule) else None
        self._rate, number = _number(self._name, lr)
        self._values: Any = {"lr": number, **values}
        # names of settings that choose the kernel or its tensors
        self._kinds: Any = dict(kinds or {})
        self._programs: list[Callable[[], Any]] = []  # programs that captured a step
        self._state: dict[str, Tensor] = {}
        device = self._params[0].device
        size = self._size or sum(len(_numbers(v)) for v in self._values.values())
        numbers = np.zeros(size, np.float32)
        for at, value in self._initial.items():
            numbers[at] = value
        for name, at in self._places.items():
            found = _numbers(self._values[name])
            numbers[at : at + len(found)] = found
        self._settings = device.tensor(numbers)
        self._add_state(self._moments)
        if self._counts:
            self._state["step"] = device.zeros((), "int32")
        self._add_views()
        self._keep_schedule()

    def _keep_schedule(self) -> None:
        """Keep the count of the schedule, if there is a schedule, in the state."""
        if self._schedule is None:
            self._state.pop("lr_count", None)
        else:
            self._state["lr_count"] = self._schedule.count

    @whole
    def _in_groups(self, params: Any, named: Mapping[str, Any]) -> bool:
        """Make an optimiser for each group if params are mappings; True if they are."""
        if not isinstance(params, (list, tuple)) or not params:
            return False
        if not all(isinstance(group, Mapping) for group in params):
            return False
        made = []
        for i, group in enumerate(params):
            wrong = sorted({*group} - {"params", *named})
            if "params" not in group or wrong:
                raise ArgumentError(
                    f"[{self._name}] params[{i}] must have the key params, and may have "
                    f"{', '.join(named)}, but has {', '.join(map(str, group)) or 'nothing'}"
                )
            made.append(type(self)(**{**named, **group}))
        self._groups = tuple(made)
        self._rate = self._schedule = None
        self._values = self._kinds = _Common(self._name, self._groups)
        self._state, self._programs = {}, []
        self._params = [p for group in made for p in group._params]
        return True

    def _add_state(self, moments: tuple[str, ...]) -> None:
        """Add tensors of zeros for each parameter that lacks these states."""
        self._state |= self._zeros(moments)

    @whole
    def _zeros(self, moments: tuple[str, ...]) -> dict[str, Tensor]:
        if self._together:
            return zeros_together(self._params, moments, lambda name: name not in self._state)
        zeros, found = self._params[0].device.zeros, dict[str, Tensor]()
        for i, p in enumerate(self._params):
            for moment in moments:
                name = f"{moment}.{i}"
                if name not in self._state:
                    found[name] = zeros(p.shape)
        return found

    @property
    def groups(self) -> tuple[Any, ...]:
        """An optimiser for each group of parameters, with the settings of the group."""
        return self._groups or (self,)

    # -- settings -------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(
                f"[{self._name}] no setting is called {name!r}: there are "
                f"{', '.join(self._places)}",
                name=name, obj=self,
            )  # fmt: skip
        if self._groups and not name.startswith("_"):
            for group in self._groups:
                setattr(group, name, value)
            return
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no programs, and no views of the settings; `__setstate__` adds the views
        again."""
        state = {n: t for n, t in self._state.items() if n not in self._views}
        return {**self.__dict__, "_programs": [], "_state": state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._add_views()

    def _add_views(self) -> None:
        """Some numbers among the settings belong to the state: add views of these numbers to it."""
        for name, at in self._views.items() if not self._groups else ():
            self._state[name] = self._settings[at]

    @property
    def lr(self) -> Rate:
        """The learning rate: a number, a Tensor that steps read, or a schedule."""
        if self._schedule is not None:
            return self._schedule
        number: Rate = self._values["lr"] if self._rate is None else self._rate
        return number

    @lr.setter
    def lr(self, lr: Rate) -> None:
        rate, number = _number(self._name, lr)
        if rate is not self._rate:
            self._refuse_change("lr, another Tensor or one in place of a number,")
        if rate is None:
            self._set("lr", number)
        self._rate, self._schedule = rate, lr if isinstance(lr, Schedule) else None
        self._keep_schedule()

    def _set(self, name: str, value: Any) -> None:
        """Change a setting for later steps."""
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
        """Raise if a program has captured a step and a new setting needs another kernel or
        tensor."""
        self._context.refuse_in_capture(self._name)
        programs = [program for ref in self._programs if (program := ref()) is not None]
        # only a capture that is complete counts
        if any(not program._recording.state for program in programs):
            raise BufferStateError(
                f"[{self._name}] {what} changes the kernel or the tensors of a step, but a "
                "captured program contains a step: delete the program first"
            )

    @property
    def _context(self) -> Any:
        return self._params[0]._context

    # -- steps ----------------------------------------------------------------------------------

    @whole
    def step(self, grads: Tensor | Iterable[Tensor], skip: Tensor | None = None) -> None:
        """Update the parameters in place.

        Args:
            grads: The gradient of each parameter, in the order of the parameters.
            skip: A Tensor of one element, bool, int32, uint32 or float32. If it is not 0, the step
                leaves parameters, moments and the count of steps as they were. The device reads it,
                so that a captured step decides in each replay.

        Raises:
            ArgumentError: the number of gradients differs from the number of parameters.
                ShapeError, DTypeError: a gradient that does not fit its parameter, or a `skip` of
                another shape or dtype. In that case nothing has changed.
        """
        given = tensors(self._name, "grads", grads)
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
            if g.dtype not in FLOATS:
                raise DTypeError(
                    f"[{self._name}] grads[{i}] must be float32, float16 or bfloat16 but is "
                    f"{g.dtype}"
                )
        flag = flag_of(self._name, skip)
        program, rest = self._context.captured(), iter(given)
        for group in self.groups:
            group._step([next(rest) for _ in group._params], flag)
            if program is not None and program not in group._programs:
                alive = [ref for ref in group._programs if ref() is not None]
                group._programs = [*alive, program]
        for schedule in {id(g._schedule): g._schedule for g in self.groups}.values():
            if schedule is not None:
                schedule.advance()

    def _step(self, grads: Sequence[Tensor], skip: Tensor | None) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors of the state by name, not copies. To save them, save `.numpy()` of each."""
        if not self._groups:
            return dict(self._state)
        return {f"{i}.{n}": t for i, g in enumerate(self._groups) for n, t in g._state.items()}

    @whole
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy a saved state in: Tensors or numpy arrays by the names of `state_dict`.

        Raises:
            ArgumentError: other names. ShapeError, DTypeError: a tensor does not fit, or the state
                is not a mapping.
        """
        load_state(self._name, state, self.state_dict())
        for group in self.groups:
            if group._schedule is not None:
                group._schedule.refresh()


class Decayed(Optimizer):
    """An optimiser with weight decay."""

    @property
    def weight_decay(self) -> float:
        """The factor of param: either in the gradient (L2), or, multiplied by lr, in the step
        (decoupled)."""
        return float(self._values["weight_decay"])

    @weight_decay.setter
    def weight_decay(self, weight_decay: float) -> None:
        self._set("weight_decay", _not_negative(self._name, "weight_decay", weight_decay))


class Ruled(Decayed):
    """An optimiser whose steps are rules of `optimizer_step`."""

    _size = SETTINGS
    _together = True

    def _ruled(
        self, rule: str, names: Sequence[str], grads: Sequence[Tensor], skip: Tensor | None
    ) -> None:
        """A step by a rule of `optimizer_step`, whose states have these names."""
        if self._counts:
            kernels.optimizer_count(self._state["step"], self._settings, skip=skip, rule=rule)
        params = self._params
        states = [[self._state[f"{name}.{i}"] for name in names] for i in range(len(params))]
        numbers = Numbers(self._settings, None, self._rate, skip)
        for i in launch_together("optimizer_step", params, grads, states, numbers, rule=rule):
            kernels.optimizer_step(
                grads[i], self._settings, params[i], rate=self._rate, skip=skip, rule=rule,
                **dict(zip(("first", "second", "third"), states[i], strict=False)),
            )  # fmt: skip


class Rooted(Ruled):
    """An optimiser whose steps divide by a square root."""

    @property
    def eps(self) -> float:
        """The number that is added to the root."""
        return float(self._values["eps"])

    @eps.setter
    def eps(self, eps: float) -> None:
        self._set("eps", _not_negative(self._name, "eps", eps))


class Betas(Optimizer):
    """An optimiser with two decays, the betas."""

    @property
    def betas(self) -> tuple[float, float]:
        """Decays of both moments; for Lion, the decays of the direction and of the moment."""
        one, two = self._values["betas"]
        return one, two

    @betas.setter
    def betas(self, betas: tuple[float, float]) -> None:
        self._set("betas", _betas(self._name, betas))


class Decay(float):
    """A setting that is a decay in [0, 1). Steps read two numbers for it, the decay and 1 -
    decay."""


def decay_of(op: str, name: str, value: Any) -> Decay:
    """A checked decay."""
    number = float(real(op, name, value))
    if not 0.0 <= number < 1.0:
        raise ArgumentError(f"[{op}] {name} must be in [0, 1) but is {value!r:.40}")
    return Decay(number)


class _Common(Mapping[str, Any]):
    """The settings that several groups have in common."""

    def __init__(self, op: str, groups: Sequence[Any]) -> None:
        self._op, self._of = op, groups

    def __getitem__(self, name: str) -> Any:
        values = [getattr(g, name) for g in self._of]
        if any(v is not values[0] and v != values[0] for v in values):
            raise AttributeError(f"[{self._op}] groups have different {name}: see groups[i].{name}")
        return values[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of[0]._values)

    def __len__(self) -> int:
        return len(self._of[0]._values)


def load_state(op: str, state: Mapping[str, Any], owned: Mapping[str, Tensor]) -> None:
    """Copy a saved state into the tensors of the same names."""
    if not isinstance(state, Mapping):
        raise DTypeError(
            f"[{op}] state must be a mapping from names to tensors but is {type_name(state)}"
        )
    if state.keys() != owned.keys():
        wrong = sorted(state.keys() ^ owned.keys())
        raise ArgumentError(f"[{op}] names that are missing or unknown: {', '.join(wrong)}")
    found = {name: own.device.tensor(state[name]) for name, own in owned.items()}
    for name, own in owned.items():
        if found[name].shape != own.shape or found[name].dtype != own.dtype:
            raise ShapeError(
                f"[{op}] {name} must be {own.dtype} of shape {own.shape} but is "
                f"{found[name].dtype} of shape {found[name].shape}"
            )
    for name, own in owned.items():
        kernels.cpy(found[name], own)


def flag_of(op: str, skip: Tensor | None) -> Tensor | None:
    """`skip` as a uint32 tensor of one element, as kernels read it."""
    if skip is None:
        return None
    if not isinstance(skip, Tensor):
        raise DTypeError(f"[{op}] skip must be a Tensor but is {type_name(skip)}")
    if skip.dtype not in ("bool", "int32", "uint32", "float32"):
        raise DTypeError(f"[{op}] skip must be bool, int32, uint32 or float32 but is {skip.dtype}")
    if skip.size != 1:
        raise ShapeError(f"[{op}] skip must have one element but has shape {skip.shape}")
    return skip if skip.dtype == "uint32" else skip.astype("bool").astype("uint32")


def _numbers(value: Any) -> tuple[float, ...]:
    """The numbers of a setting on the device: the setting itself, or numbers computed from two
    betas."""
    if isinstance(value, tuple):
        return *powers("beta1", value[0]), *powers("beta2", value[1])
    return powers("decay", value) if isinstance(value, Decay) else (value,)


def _number(op: str, lr: Rate) -> tuple[Tensor | None, float]:
    """The learning rate as a tensor, or as a number."""
    return _rate(op, lr.value if isinstance(lr, Schedule) else lr)


def tensors(op: str, name: str, values: Tensor | Iterable[Any]) -> list[Tensor]:
    return [values] if isinstance(values, Tensor) else _listed(op, name, values, (Tensor,))
