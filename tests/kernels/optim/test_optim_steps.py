"""Steps of optimisers: any layout, many steps, numbers on the device, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference import function
from tests.harness import Form, assert_close, assert_same_bits, caps, forms, random_form
from tests.kernels.optim.optim_calls import NAMES, STATES, Calls, errors

pytestmark = pytest.mark.gpu
DTYPES = (
    ("float32", "float32"), ("float16", "float16"), ("float16", "float32"), ("float32", "float16"),
)  # fmt: skip
TORCH = json.loads(Path(__file__).with_name("torch_steps.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "grad"), DTYPES)
def test_optim_any_layout(dev: pk.Device, name: str, dtype: str, grad: str) -> None:
    calls = Calls(dev)
    wide = list(forms(3, repeats=True).values())
    plain = list(forms(3, repeats=False).values())
    for i, form in enumerate(wide):
        others = (plain[i % len(plain)], plain[(3 * i + 1) % len(plain)], Form(phase=i % 3))
        calls.add(name, (3, 5, 8), dtype, grad, (form, *others))
    for size in (0, 1, 3, 4, 1023, 1028):
        calls.add(name, (size,), dtype, grad, (Form(phase=4 * (size % 2)),))
    calls.add(name, (), dtype, grad)
    calls.check()


def test_optim_random_layouts(dev: pk.Device) -> None:
    rng = np.random.default_rng(1)
    calls = Calls(dev)
    for i in range(24):
        shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 6)))
        layouts = tuple(random_form(rng, len(shape), repeats=False) for _ in range(4))
        calls.add(NAMES[i % 3], shape, *DTYPES[i % 2], layouts)
    calls.check()


@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_optim_options(dev: pk.Device, dtype: str) -> None:
    calls = Calls(dev)
    for momentum, weight_decay, nesterov in (
        (0.0, 0.0, False),
        (0.0, 1.0, False),
        (0.0, 0.1, False),
        (0.5, 0, True),
    ):
        named: dict[str, Any] = {"momentum": momentum, "nesterov": nesterov}
        calls.add("sgd_step", (40,), dtype, weight_decay=weight_decay, **named)
    for name in NAMES[1:]:
        for step, beta1, beta2 in ((1, 0.9, 0.999), (2, 0.0, 0.5), (10**7, 0.9, 0.9999999)):
            calls.add(name, (40,), dtype, step=step, beta1=beta1, beta2=beta2)
        calls.add(name, (40,), dtype, weight_decay=0.0, eps=0.5, lr=3.0)
    calls.check()


@pytest.mark.parametrize("name", NAMES)
def test_optim_in_parts_and_folded(dev: pk.Device, name: str) -> None:
    """Tensors larger than one binding, more axes than there are levels, and more workgroups than
    fit along x."""
    align = dev._context.caps.alignment
    for changes in ({"max_binding": align + 2048}, {"max_groups": 2}):
        with caps(dev, **changes):
            calls = Calls(dev)
            calls.add(name, (40, 36))
            calls.add(name, (2, 1, 2, 2, 2, 2, 2, 4), forms=(Form(gap=1), Form(phase=1)))
            calls.check()


@pytest.mark.parametrize("name", NAMES)
def test_optim_without_native_halves(dev: pk.Device, name: str) -> None:
    with caps(dev, f16=False):
        calls = Calls(dev)
        for _, grad in DTYPES[1:]:
            calls.add(name, (5, 8), "float16", grad, (Form(), Form(gap=1, phase=1)))
        calls.check()


@pytest.mark.parametrize("name", NAMES)
def test_optim_state_beside_the_gradient(dev: pk.Device, name: str) -> None:
    """Windows of one buffer that touch: copies stand in for some."""
    calls = Calls(dev)
    calls.add(name, (37,), near=True)
    calls.add(name, (4, 16), near=True)
    calls.check()


def test_optim_gradient_is_the_parameter(dev: pk.Device) -> None:
    x = np.linspace(-1, 1, 33, dtype=np.float32)
    t = dev.tensor(x)
    pk.sgd_step(t, t, lr=0.25)
    np.testing.assert_array_equal(t.numpy(), np.float32(0.75) * x)


# -- many steps -----------------------------------------------------------------------------------


def trajectory(
    name: str, grads: list[np.ndarray[Any, Any]], param: np.ndarray[Any, Any], args: dict[str, Any]
) -> tuple[list[np.ndarray[Any, Any]], list[Any]]:
    """Parameter and state after all steps in float64, and what float32 may be off by then."""
    names = ("param", *STATES[name]) if name == "sgd_step" else (*STATES[name], "param")
    values = {n: np.zeros(param.shape) for n in names}
    values["param"] = param.astype(np.float64)
    off: list[Any] = [0.0] * len(names)
    for t, g in enumerate(grads, 1):
        given: dict[str, Any] = {**args, **({} if name == "sgd_step" else {"step": t})}
        before = tuple(off)
        off = list(errors(name, {"grad": g, **values}, before=before, **given))
        found = function(name)(grad=g, **values, **given)
        values = dict(zip(names, found, strict=True))
        at = names.index("param")
        if param.dtype == np.float16:  # each step rounds it, to either neighbour
            off[at] = off[at] + 2.0**-10 * np.abs(values["param"]) + 2.0**-24
    order = [names.index("param"), *[names.index(n) for n in STATES[name]]]
    return [list(values.values())[i] for i in order], [off[i] for i in order]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_optim_many_steps(dev: pk.Device, name: str, dtype: str) -> None:
    """Numbers of the call and numbers on the device give the same bits, and those of float64."""
    rng = np.random.default_rng(2)
    param = rng.normal(0, 1, (6, 8)).astype(dtype)
    grads = [(rng.normal(0, 1, (6, 8)) * 10.0 ** (i % 5 - 2)).astype(dtype) for i in range(60)]
    args: dict[str, Any] = {"lr": 0.02, "weight_decay": 0.03}
    args |= {"momentum": 0.9, "nesterov": True} if name == "sgd_step" else {}
    step = getattr(pk, name)
    results = []
    for on_device in (False, True):
        w = dev.tensor(param)
        state = [dev.zeros(param.shape) for _ in STATES[name]]
        given: dict[str, Any] = dict(args)
        count = dev.zeros(1, "int32")
        if on_device:
            given["lr"] = dev.tensor(np.float32([args["lr"]]))
        for t, g in enumerate(grads, 1):
            number = () if name == "sgd_step" else (count if on_device else t,)
            assert step(w, dev.tensor(g), *state, *number, **given) is w
        if name != "sgd_step":
            assert count.item() == (len(grads) if on_device else 0)
        results.append([x.numpy() for x in (w, *state)])
    for one, other in zip(*results, strict=True):
        assert_same_bits(one, other)
    want, off = trajectory(name, grads, param, args)
    for got, w64, bound in zip(results[0], want, off, strict=True):
        assert_close(got, w64, bound, name)


@pytest.mark.parametrize("at", range(len(TORCH["cases"])))
def test_optim_has_torchs_values(dev: pk.Device, at: int) -> None:
    """torch.optim in float64 on the CPU; torch_steps.py wrote the file."""
    case = TORCH["cases"][at]
    name, args = case["name"], case["args"]
    param = np.array(TORCH["param"], np.float32)
    grads = [np.array(g, np.float32) for g in TORCH["grads"]]
    given = {"weight_decay": 0.01 if name == "adamw_step" else 0.0, **args}  # torch's defaults
    if "betas" in given:
        given["beta1"], given["beta2"] = given.pop("betas")
    want, off = trajectory(name, grads, param, given)
    for w64, saved in zip(want, case["after"], strict=False):
        # the file has lr and the like in float64, the reference as the kernel gets them
        np.testing.assert_allclose(w64, saved, rtol=1e-6, atol=1e-9)
    optimizer = getattr(pk, case["class"])(dev.tensor(param), **args)
    for g in grads:
        optimizer.step(dev.tensor(g))
    state = optimizer.state_dict()
    found = [optimizer._params[0], *[state[f"{n}.0"] for n in STATES[name] if f"{n}.0" in state]]
    assert len(found) == len(case["after"])
    for t, w64, saved, bound in zip(found, want, case["after"], off, strict=False):
        assert_close(t.numpy(), w64, bound + np.abs(w64 - np.array(saved)), name)


def test_optim_captured_steps_advance(dev: pk.Device) -> None:
    """Replays have the bits of eager steps: count, moments and a rate that changes between them."""
    rng = np.random.default_rng(3)
    param, g = (rng.normal(0, 1, (4, 12)).astype(np.float32) for _ in range(2))
    rates = [np.float32(0.1 / t) for t in range(1, 6)]
    for kind in (pk.SGD, pk.Adam, pk.AdamW):
        more: dict[str, Any] = {"momentum": 0.9} if kind is pk.SGD else {}
        eager, captured, grad = dev.tensor(param), dev.tensor(param), dev.tensor(g)
        rate = dev.zeros(())
        one, other = kind(eager, 0.0, **more), kind(captured, rate, **more)
        with dev.capture() as program:
            other.step(grad)
        for r in rates:
            one.lr = float(r)
            one.step([grad])
            kernels.fill(rate, r)
            program()
        assert_same_bits(captured.numpy(), eager.numpy())
        for name, t in other.state_dict().items():
            assert_same_bits(t.numpy(), one.state_dict()[name].numpy(), name)
        if kind is not pk.SGD:
            assert other.state_dict()["step"].item() == len(rates)


def test_parameters_and_gradients_are_any_iterable(dev: pk.Device) -> None:
    """Views of dicts, generators and the like, as well as lists."""
    model, grads = {"w": dev.ones((2, 2)), "b": dev.ones(3)}, [dev.ones((2, 2)), dev.ones(3)]
    named = dict(zip(model, grads, strict=True))
    for optimizer in (
        pk.SGD(model.values(), lr=0.25), pk.Adam(iter(model.values())), pk.AdamW(t for t in grads),
    ):  # fmt: skip
        optimizer.step(named.values())
        optimizer.step(g for g in grads)
    one = pk.SGD((t for t in model.values()), lr=0.25)
    before = model["b"].numpy()
    one.step(named.values())
    assert_same_bits(model["b"].numpy(), before - np.float32(0.25) * grads[1].numpy())
    assert pk.clip_grad_norm((g for g in grads), 1.0).item() > 1
    assert np.linalg.norm(np.concatenate([g.numpy().ravel() for g in grads])) <= 1.0001
    flat, views = pk.flatten_parameters(model.values())
    assert flat.size == 8 and [v.shape for v in views] == [(2, 2), (3,)]


# -- what is refused ------------------------------------------------------------------------------


def test_optim_rejects(dev: pk.Device) -> None:
    x, half, other = dev.zeros((3, 4)), dev.zeros((3, 4), "float16"), dev.zeros((4, 3))
    m, v, whole = dev.zeros((3, 4)), dev.zeros((3, 4)), dev.zeros((3, 4), "int32")
    count = dev.zeros(1, "int32")
    named: Any = {"w": x}
    for match, call in {
        r"\[sgd_step\] grad must .*\(3, 4\)": lambda: pk.sgd_step(x, other),
        r"\[sgd_step\] grad must be .* or bfloat16 but is int32": lambda: pk.sgd_step(x, whole),
        r"\[sgd_step\] momentum 0.9 needs a momentum_buffer": lambda: pk.sgd_step(
            x, x, momentum=0.9
        ),
        r"\[sgd_step\] nesterov needs a momentum": lambda: pk.sgd_step(x, x, m, nesterov=True),
        r"\[sgd_step\] lr must be 0 or more": lambda: pk.sgd_step(x, x, lr=-1),
        r"\[sgd_step\] rate must have one element but has shape \(3, 4\)": lambda: pk.sgd_step(
            x, x, lr=m
        ),
        r"\[sgd_step\] .*param": lambda: pk.sgd_step(np.zeros(3, np.float32), x),  # type: ignore[arg-type]
        r"\[adam_step\] exp_avg must be float32": lambda: pk.adam_step(half, half, half, v, 1),
        r"\[adam_step\] step must be 1 or more": lambda: pk.adam_step(x, x, m, v, 0),
        r"\[adam_step\] betas must be in \[0, 1\)": lambda: pk.adam_step(
            x, x, m, v, 1, betas=(1, 0.5)
        ),
        r"\[adam_step\] count must be int32": lambda: pk.adam_step(x, x, m, v, dev.zeros(1)),
        r"\[adamw_step\] weight_decay must be 0 or more": lambda: pk.adamw_step(
            x, x, m, v, count, weight_decay=-0.1
        ),
        r"\[adam_step\] beta2 must be in": lambda: kernels.adam_step(
            x, m, v, dev.ones((3, 4)), beta2=1.0
        ),
        r"\[step_advance\] count must have one element": lambda: kernels.step_advance(
            dev.zeros(2, "int32")
        ),
        r"\[AdamW\] params must be a list": lambda: pk.AdamW([]),
        r"\[SGD\] params must be a list .* iterable, but is \{'w': .*: give its values": (
            lambda: pk.SGD(named)
        ),
        r"\[SGD\] params must be a list .*, but is \{<": lambda: pk.SGD({x}),
        r"\[AdamW\] params must be float32, float16 or bfloat16": lambda: pk.AdamW(count),
        r"\[Adam\] there must be 1 gradients": lambda: pk.Adam(x).step([x, x]),
        r"\[Adam\] grads\[1\] must have shape": lambda: pk.Adam([x, x]).step([x, other]),
        r"\[Adam\] grads\[0\] must be float32": lambda: pk.Adam([x]).step([whole]),
        r"\[SGD\] names that are missing or unknown: exp_avg.0": lambda: pk.SGD(x).load_state_dict(
            {"exp_avg.0": x}
        ),
        r"\[SGD\] momentum_buffer.0 must be": lambda: pk.SGD(x, momentum=0.9).load_state_dict(
            {"momentum_buffer.0": other}
        ),
    }.items():
        with pytest.raises(pk.PyKernelsError, match=match):
            call()
    assert count.item() == 0  # nothing was counted where nothing was done


def test_optim_state_is_saved_and_loaded(dev: pk.Device) -> None:
    x, g = dev.ones((2, 8)), dev.ones((2, 8))
    one = pk.AdamW([x], lr=0.1)
    one.step([g])
    saved = {name: t.numpy() for name, t in one.state_dict().items()}
    y = x.copy()
    other = pk.AdamW(y, lr=0.1)
    other.load_state_dict(saved)
    one.step(g)
    other.step(g)
    assert_same_bits(y.numpy(), x.numpy())
    assert other.state_dict()["step"].item() == 2


# -- settings -------------------------------------------------------------------------------------


def optimisers(dev: pk.Device) -> list[tuple[str, Any, dict[str, list[Any]]]]:
    """Each class as it is first made, and what its settings are then set to, in turn."""
    betas: list[Any] = [(0.5, 0.9), (0.0, 0.0), (0.9, 0.999)]
    adam: dict[str, list[Any]] = {
        "lr": [0.5, 0.0, 0.03],
        "betas": betas,
        "eps": [1e-3, 0.0],
        "weight_decay": [0.2, 0.0],
    }
    sgd: dict[str, list[Any]] = {
        "lr": [0.5, 0.0, 0.03],
        "momentum": [0.3, 0.8],
        "weight_decay": [0.2, 0.0],
    }
    return [
        ("SGD", lambda p: pk.SGD(p, 0.1, 0.9), sgd),
        ("Adam", lambda p: pk.Adam(p, 0.1), adam),
        ("AdamW", lambda p: pk.AdamW(p, 0.1), adam),
    ]


@pytest.mark.parametrize("at", range(3))
def test_settings_work_when_they_are_set(dev: pk.Device, at: int) -> None:
    """In calls and replays: the bits of the functions, which get the numbers of each step."""
    name, make, changes = optimisers(dev)[at]
    rng = np.random.default_rng(5)
    param, g = (rng.normal(0, 1, (4, 12)).astype(np.float32) for _ in range(2))
    grad = dev.tensor(g)
    eager, captured, plain = (dev.tensor(param) for _ in range(3))
    one, other = make(eager), make(captured)
    state = [dev.zeros(param.shape) for _ in STATES[f"{name.lower()}_step"]]
    with dev.capture() as program:
        other.step(grad)
    steps = [None, *[(n, v) for n, values in changes.items() for v in values]]
    for t, change in enumerate(steps, 1):
        if change is not None:
            setattr(one, *change)
            setattr(other, *change)
            assert getattr(one, change[0]) == change[1]
        one.step(grad)
        program()
        now = {n: getattr(one, n) for n in changes}
        number = () if name == "SGD" else (t,)
        getattr(pk, f"{name.lower()}_step")(plain, grad, *state, *number, **now)
        assert_same_bits(eager.numpy(), plain.numpy(), f"{name} {change}")
        assert_same_bits(captured.numpy(), plain.numpy(), f"{name} {change}")


def test_settings_of_a_kernel_lie_anywhere(dev: pk.Device) -> None:
    lr, decay, grad = 0.125, 0.5, dev.full(5, 2.0)
    w, settings = dev.ones(5), dev.zeros(7)
    settings[1::2] = dev.tensor(np.float32([decay, 9.0, lr]))
    kernels.sgd_step(grad, w, settings=settings[5:0:-2])
    assert w.numpy().tolist() == [1 - lr * (2 + decay)] * 5
    with pytest.raises(
        pk.ShapeError, match=r"settings must have shape \(9,\) but has shape \(3,\)"
    ):
        kernels.adam_step(grad, w, w.copy(), w.copy(), settings=settings[:3])


def test_settings_are_launches_in_order_without_a_submit(dev: pk.Device) -> None:
    w, grad = dev.zeros(4), dev.ones(4)
    optimizer = pk.SGD(w, 1.0)
    dev.sync()
    before = dev.submits
    with dev.batch():
        submits = dev.submits
        for lr in (1.0, 0.5, 0.25):
            optimizer.lr = lr
            optimizer.step(grad)
        assert dev.submits == submits
    assert w.numpy().tolist() == [-1.75] * 4 and dev.submits > before


def test_a_momentum_from_0_and_nesterov_change_the_kernel(dev: pk.Device) -> None:
    param, g = np.float32([1, -2, 3]), np.float32([0.5, 1, -1])
    plain, w, grad = dev.tensor(param), dev.tensor(param), dev.tensor(g)
    buffer, optimizer = dev.zeros(3), pk.SGD(w, 0.1)
    assert not optimizer.state_dict()
    optimizer.step(grad)
    pk.sgd_step(plain, grad, lr=0.1)
    optimizer.momentum = 0.5
    assert [*optimizer.state_dict()] == ["momentum_buffer.0"]
    for nesterov in (False, True):
        optimizer.nesterov = nesterov
        for _ in range(2):
            optimizer.step(grad)
            pk.sgd_step(plain, grad, buffer, lr=0.1, momentum=0.5, nesterov=nesterov)
    assert_same_bits(w.numpy(), plain.numpy())
    with pytest.raises(pk.ArgumentError, match="nesterov needs a momentum"):
        optimizer.momentum = 0.0
    with dev.capture() as program:
        optimizer.step(grad)
    rate = dev.full((), 0.1)
    changes: list[tuple[str, Any]] = [("nesterov", False), ("lr", rate)]
    for name, value in changes:
        with pytest.raises(pk.BufferStateError, match="a captured program contains a step"):
            setattr(optimizer, name, value)
    assert optimizer.nesterov and optimizer.momentum == 0.5 and optimizer.lr == 0.1
    optimizer.momentum = 0.25  # a number: no other kernel
    del program
    for name, value in changes:
        setattr(optimizer, name, value)
    optimizer.momentum = 0.0
    before = w.numpy()
    optimizer.step(grad)
    assert_close(w.numpy(), before - np.float32(0.1) * g, np.full(3, 1e-6))


def test_settings_that_are_refused(dev: pk.Device) -> None:
    optimizer, w = pk.Adam(dev.ones(3)), dev.ones(3)
    sgd = pk.SGD(w)
    with dev.capture():
        for name, value in (("lr", 0.5), ("betas", (0.1, 0.2)), ("eps", 1.0)):
            with pytest.raises(pk.BufferStateError, match="not possible inside a capture"):
                setattr(optimizer, name, value)
        with pytest.raises(pk.BufferStateError, match="not possible inside a capture"):
            sgd.momentum = 0.5
    given: list[tuple[Any, str, Any, type[Exception], str]] = [
        (optimizer, "learning_rate", 0.0, AttributeError, "'learning_rate': there are betas, lr"),
        (sgd, "betas", (0, 0), AttributeError, "no setting is called 'betas'"),
        (optimizer, "lr", -1.0, pk.ArgumentError, r"\[Adam\] lr must be 0 or more"),
        (optimizer, "eps", 1e39, pk.ArgumentError, "finite in float32"),
        (optimizer, "betas", (0.9, 1.0), pk.ArgumentError, r"betas must be in \[0, 1\)"),
        (optimizer, "betas", 0.9, pk.ArgumentError, "betas must be two numbers"),
        (sgd, "nesterov", True, pk.ArgumentError, "nesterov needs a momentum"),
        (sgd, "nesterov", 1, pk.ArgumentError, "nesterov must be True or False"),
        (sgd, "momentum", "0.5", pk.ArgumentError, "momentum must be a real number"),
    ]
    for which, name, value, error, text in given:
        with pytest.raises(error, match=text):
            setattr(which, name, value)
    assert (optimizer.lr, optimizer.eps, optimizer.betas) == (1e-3, 1e-8, (0.9, 0.999))
    assert (sgd.lr, sgd.momentum, sgd.nesterov) == (1e-3, 0.0, False)
    assert copy.deepcopy(optimizer).betas == (0.9, 0.999)
    assert pickle.loads(pickle.dumps(optimizer)).eps == 1e-8


@pytest.mark.parametrize("kind", (pk.Adam, pk.AdamW))
def test_small_gradients_count_where_beta1_is_small(dev: pk.Device, kind: Any) -> None:
    """The first moment is its formula's, not a difference that is rounded beside what it was."""
    w = dev.zeros(3)
    optimizer = kind(w, 1.0, betas=(0.0, 0.0), eps=1e-12, weight_decay=0.0)
    for g in (1.0, 1e-8):
        optimizer.step(dev.full(3, g))
    assert_same_bits(optimizer.state_dict()["exp_avg.0"].numpy(), np.full(3, 1e-8, np.float32))
    assert_close(w.numpy(), np.full(3, -2.0), np.full(3, 1e-3))
