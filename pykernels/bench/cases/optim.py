"""Steps of optimisers over one flat tensor of parameters, and the scaling of its gradient."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from pykernels import kernels
from pykernels.bench.case import Case, Operand
from pykernels.bench.peers import Skipped, torch_peer
from pykernels.bench.shapes import Shape, pick
from pykernels.dtypes import DTypeName
from pykernels.plans.optim.checks import SETTINGS
from pykernels.plans.optim.optimizer_step import STATES
from pykernels.reference.optim import some_settings

SIZES = [
    Shape("100M", (100_000_000,), "a round number of parameters"),
    Shape("gpt-2", (124_439_808,), "GPT-2 124M: all parameters"),
    Shape("resnet-50", (25_557_032,), "ResNet-50: all parameters"),
    Shape("lenet", (61_706,), "LeNet-5: all parameters, and the time of a launch"),
]
MAIN = {
    "adam_step": ("f32-100000000",),
    "adamw_step": ("f32-100000000", "f16xf32>f16-100000000"),
    "optimizer_count": ("i32>f32-15",),
    "optimizer_step": ("f32-100000000-lion",),
    "schedule_step": ("f32xi32>f32-1x6",),
    "sgd_step": ("f32-100000000",),
    "clip_by_norm": ("f32-100000000",),
    "step_advance": ("i32-1",),
}  # fmt: skip
MOMENTUM: dict[str, Any] = {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}
ADAM: dict[str, Any] = {"lr": 1e-3, "weight_decay": 0.01, "step": 3}
CHECKED = 1 << 19


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(SIZES, edge):
        for kernel in ("adamw_step", "adam_step", "sgd_step", "clip_by_norm"):
            case = step(kernel, s.dims, "float32")
            yield case.labelled(name=s.name, origin=s.origin)
    large = next(pick(SIZES, edge))
    for kernel in ("adamw_step", "sgd_step", "clip_by_norm"):
        yield step(kernel, large.dims, "float16").labelled(name=large.name, origin=large.origin)
    plain = step("sgd_step", large.dims, "float32", momentum=False)
    yield plain.labelled(name=large.name, origin=large.origin, note="no momentum")
    for rule in ("lion", "rmsprop", "amsgrad", "nadam"):
        yield by_rule(rule, large.dims).labelled(name=large.name, origin=large.origin, note=rule)
    yield step_advance()
    yield optimizer_count()
    yield schedule_step()


def step(kernel: str, shape: tuple[int, ...], dtype: str, *, momentum: bool = True) -> Case:
    """A case: a step on tensors of one shape; the state is float32."""
    given, state = Operand(shape, cast(DTypeName, dtype)), Operand(shape, "float32")
    if kernel == "clip_by_norm":
        tensors = {"norm": Operand((1,), "float32", values=lambda rng, s: rng.uniform(2, 3, s)),
                   "x": given}  # fmt: skip
        return Case(kernel, tensors, {"max_norm": 2.0}, shape, part=beginning)
    if kernel == "sgd_step":
        tensors = {"grad": given, "param": given}
        if not momentum:
            return Case(kernel, tensors, {"lr": 0.01}, shape)
        return Case(kernel, {**tensors, "momentum_buffer": state}, MOMENTUM, shape)
    tensors = {"grad": given, "exp_avg": state, "exp_avg_sq": state, "param": given}
    return Case(kernel, tensors, ADAM, shape, prepare=second_moments)


def by_rule(rule: str, shape: tuple[int, ...], dtype: str = "float32") -> Case:
    """A case: a step of `optimizer_step`; second moments are not negative."""
    given = Operand(shape, cast(DTypeName, dtype))
    state = Operand(shape, "float32", values=lambda rng, s: rng.uniform(0, 1, s))
    names = ("first", "second", "third")[: STATES[rule]]
    settings = Operand((SETTINGS,), "float32", values=lambda rng, s: some_settings())
    tensors = {"grad": given, "settings": settings, "param": given, **dict.fromkeys(names, state)}
    return Case("optimizer_step", tensors, {"rule": rule}, shape)


def optimizer_step(
    shape: tuple[int, ...] = (1 << 24,), dtype: str = "float32", out: str = ""
) -> Case:
    return by_rule("lion", shape, dtype)


def optimizer_count(shape: tuple[int, ...] = (15,), dtype: str = "float32", out: str = "") -> Case:
    """A case: the numbers that a step of NAdam reads."""
    settings = Operand((SETTINGS,), "float32", values=lambda rng, s: some_settings())
    count = Operand((1,), "int32", values=lambda rng, s: np.full(s, 3))
    return Case("optimizer_count", {"count": count, "settings": settings}, {"rule": "nadam"}, shape)


def schedule_step(shape: tuple[int, ...] = (1, 6), dtype: str = "float32", out: str = "") -> Case:
    """A case: the value of a schedule that follows half a cosine."""
    rows = Operand((1, 6), "float32", values=lambda rng, s: np.array([[0, 1, 1, 0, 1000, 0.0]]))
    count = Operand((1,), "int32", values=lambda rng, s: np.full(s, 3))
    tensors = {"table": rows, "count": count, "value": Operand((1,), "float32")}
    return Case("schedule_step", tensors, {}, (1, 6))


def second_moments(t: dict[str, Any]) -> None:
    """Make second moments 0 or larger."""
    kernels.abs(t["exp_avg_sq"], t["exp_avg_sq"])


def beginning(t: dict[str, Any]) -> dict[str, Any]:
    return {"norm": t["norm"], "x": t["x"][:CHECKED]}


def adam_step(shape: tuple[int, ...] = (1 << 24,), dtype: str = "float32", out: str = "") -> Case:
    return step("adam_step", shape, dtype)


def adamw_step(shape: tuple[int, ...] = (1 << 24,), dtype: str = "float32", out: str = "") -> Case:
    return step("adamw_step", shape, dtype)


def sgd_step(shape: tuple[int, ...] = (1 << 24,), dtype: str = "float32", out: str = "") -> Case:
    return step("sgd_step", shape, dtype)


def clip_by_norm(
    shape: tuple[int, ...] = (1 << 24,), dtype: str = "float32", out: str = ""
) -> Case:
    return step("clip_by_norm", shape, dtype)


def step_advance(shape: tuple[int, ...] = (1,), dtype: str = "int32", out: str = "") -> Case:
    """A case: a count of steps is advanced."""
    return Case("step_advance", {"count": Operand((1,), "int32")}, {}, (1,))


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    """The steps of torch.optim with `fused=True`."""
    if case.kernel in ("optimizer_step", "optimizer_count", "schedule_step"):
        raise Skipped("torch has no fused step of this rule")
    if case.kernel == "step_advance":
        t["count"].add_(1)
        return
    if case.kernel == "clip_by_norm":
        scale = torch.clamp(case.args["max_norm"] / (t["norm"] + 1e-6), max=1.0)
        t["x"].mul_(scale.to(t["x"].dtype))
        return
    if case.dtype != "f32":
        raise Skipped("torch's fused steps keep the state in the parameters' dtype")
    common = {"lr": case.args["lr"], "maximize": False}
    common["weight_decay"] = case.args.get("weight_decay", 0.0)
    if case.kernel == "sgd_step":
        buffers = [t["momentum_buffer"]] if "momentum_buffer" in t else []
        torch._fused_sgd_(
            [t["param"]], [t["grad"]], buffers, momentum=case.args.get("momentum", 0.0),
            dampening=0.0, nesterov=False, is_first_step=False, **common,
        )  # fmt: skip
        return
    fused = torch._fused_adamw_ if case.kernel == "adamw_step" else torch._fused_adam_
    fused(
        [t["param"]], [t["grad"]], [t["exp_avg"]], [t["exp_avg_sq"]], [],
        [_count(torch, t["param"].device)], beta1=0.9, beta2=0.999, eps=1e-8, amsgrad=False,
        **common,
    )  # fmt: skip


@functools.lru_cache(maxsize=4)
def _count(torch: Any, device: Any) -> Any:
    return torch.full((), 3.0, device=device)


PEERS = {"torch": torch}
