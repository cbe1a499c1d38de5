"""bfloat16 where float32 and float16 go: every kernel, every function, every gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from bench import functions as table
from pykernels import kernels
from pykernels.bench.case import Case, Operand, kernel_of, load
from pykernels.bench.cases import cases

pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.gpu

Array = np.ndarray[Any, Any]
HALF_UNIT = 2.0**-8  # the largest error of one rounding, relative to the result
FORMS = {
    "contiguous": {},
    "apart": {"phase": 1, "gap": 3},
    "reversed": {"phase": 3, "order": True},
}


def widened(kernel: str) -> set[str]:
    """The arguments of a kernel that accept bfloat16 without having it."""
    args = kernel_of(kernel).args
    return {a.name for a in args if "bfloat16" in a.accepted and "bfloat16" not in a.dtypes}


MOST = 1 << 20  # bytes of a case; images of 64 channels have tens of MiB


@functools.cache
def small_cases() -> dict[str, list[Case]]:
    """Cases with tensors in question, by kernel: the smallest first, but behind those of 16 KiB or
    more, which have several workgroups. Where these are large, sizes are cut to 16."""
    wide, narrow = by_kernel(64), by_kernel(16)
    return {n: found if found[0].footprint <= MOST else narrow[n] for n, found in wide.items()}


def by_kernel(edge: int) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in cases(edge):
        if case.function is None and replaced(case):
            found.setdefault(case.kernel, []).append(case)
    for several in found.values():
        several.sort(key=lambda case: (case.footprint < 1 << 14, case.footprint))
    return found


def replaced(case: Case) -> set[str]:
    """The tensors of a case that may be bfloat16."""
    floats = {n for n, o in case.tensors.items() if o.dtype in ("float32", "float16")}
    return floats & widened(case.kernel)


def in_bfloat16(case: Case, form: dict[str, Any]) -> Case:
    """The case with bfloat16 tensors that lie in memory in this form."""
    tensors: dict[str, Operand] = {}
    for name, o in case.tensors.items():
        if name not in replaced(case):
            tensors[name] = o
            continue
        given = {k: v for k, v in form.items() if k != "order"}
        if "order" in form:
            given["order"] = tuple(reversed(range(len(o.shape))))
        tensors[name] = replace(o, dtype="bfloat16", **(given if o.shape else {}))
    return replace(case, tensors=tensors)


FAMILIES = sorted({kernel_of(n).family for n in kernels.__all__ if widened(n)})


def test_families_are_found() -> None:
    assert {"attention", "conv", "norm", "softmax"} < {*FAMILIES} and len(FAMILIES) > 15


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_match_references(dev: pk.Device, family: str, form: str) -> None:
    """Within the bound of float32 and one rounding of each result."""
    names = [n for n in kernels.__all__ if kernel_of(n).family == family and widened(n)]
    assert {*names} <= {*small_cases()}
    for name in names:
        for case in small_cases()[name][: 2 if form == "contiguous" else 1]:
            load(dev, in_bfloat16(case, FORMS[form])).check()


# -- functions ------------------------------------------------------------------------------------

Calls = dict[str, Callable[[], Any]]
RANDOM = {
    "bernoulli", "categorical", "dropout", "dropout_mask", "empty", "empty_like", "kaiming_normal",
    "kaiming_uniform", "rand", "rand_like", "randint", "randn", "randn_like", "randperm",
    "xavier_normal", "xavier_uniform",
}  # fmt: skip
# Arguments that are float32 beside float16 are float32 beside bfloat16.
STATES = {
    "adam_step": "exp_avg", "adamw_step": "exp_avg", "batch_norm": "mean",
    "cross_entropy_backward": "stats", "sgd_step": "momentum_buffer",
}  # fmt: skip
# Their default eps is the spacing of the dtype.
SPACED = {"rms_norm", "add_rms_norm", "rms_norm_backward", "rms_norm_linear"}
# A rounded result is an argument: o and lse; the kernel's test above has their bound.
ROUNDED = {"flash_attn_backward"}
# Results of a dtype that the arguments do not set.
FIXED = {"cross_entropy", "rope_table", "timestep_embedding", "quantize", "clip_grad_norm"}


def calls(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch, dtype: pk.DTypeName
) -> tuple[Calls, table.Given]:
    """A call of each function, and the tensors that it is made of: numbers of bfloat16, stored as
    `dtype`."""
    made: list[table.Given] = []

    def stored(make: Callable[..., pk.Tensor]) -> Callable[..., pk.Tensor]:
        def method(*args: Any, **options: Any) -> pk.Tensor:
            t = make(*args, **options)
            return t.astype("bfloat16").astype(dtype) if t.dtype == "float32" else t

        return method

    class Kept(table.Given):
        def __init__(self, dev: pk.Device) -> None:
            super().__init__(dev)
            made.append(self)

    with monkeypatch.context() as patch:
        for name in ("rand", "zeros"):
            patch.setattr(pk.Device, name, stored(getattr(pk.Device, name)))
        patch.setattr(table, "Given", Kept)
        found = table.functions(dev)
    return found, made[0]


def tensors(result: Any) -> Iterator[pk.Tensor]:
    if isinstance(result, pk.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from tensors(part)


def _numbers(t: pk.Tensor) -> np.ndarray[Any, Any]:
    a = t.numpy()
    return (a.view(np.float32) if a.dtype.kind == "c" else a).astype(np.float64)


def test_every_function(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of float32, rounded once, in bfloat16."""
    ours, _ = calls(dev, monkeypatch, "bfloat16")
    theirs, _ = calls(dev, monkeypatch, "float32")
    wrong, rounded = [], 0
    for name in sorted({*ours} - RANDOM - {*STATES} - SPACED - ROUNDED):
        for got, want in zip(tensors(ours[name]()), tensors(theirs[name]()), strict=True):
            exact = _numbers(want)
            if want.dtype == "float32" and got.dtype == "bfloat16":
                rounded += 1
                size = np.where(np.isfinite(exact), np.abs(exact), 0.0)
                allowed = HALF_UNIT * size + 1e-6 * size.max(initial=0.0)
            else:  # exact, or of numbers that are no tensors
                assert got.dtype == want.dtype, name
                allowed = np.zeros_like(exact)
            found = _numbers(got)
            with np.errstate(invalid="ignore"):
                same = (found == exact) | (np.isnan(found) & np.isnan(exact))
                if not (same | (np.abs(found - exact) <= allowed)).all():
                    wrong.append(name)
    assert wrong == []
    assert rounded > 190


@pytest.mark.parametrize("name", STATES)
def test_states_are_float32(dev: pk.Device, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    call = calls(dev, monkeypatch, "bfloat16")[0][name]
    with pytest.raises(pk.DTypeError, match=rf"{STATES[name]} must be float32 but is bfloat16"):
        call()


def test_default_eps_is_the_spacing(dev: pk.Device) -> None:
    x, w = dev.rand((3, 65), seed=0).astype("bfloat16"), dev.rand((65,), seed=1).astype("bfloat16")
    eps = 2.0**-7
    pairs = [
        (pk.rms_norm(x, 65, w), pk.rms_norm(x, 65, w, eps)),
        (pk.add_rms_norm(x, x, 65, w)[0], pk.add_rms_norm(x, x, 65, w, eps)[0]),
        (pk.rms_norm_backward(x, x, 65, w)[0], pk.rms_norm_backward(x, x, 65, w, eps=eps)[0]),
    ]
    for usual, given in pairs:
        assert usual.dtype == "bfloat16"
        np.testing.assert_array_equal(usual.numpy(), given.numpy())


# -- gradients ------------------------------------------------------------------------------------

# The gradient reads the result, which is rounded: its error is that of exp(x - y).
OF_RESULTS = {"logsumexp": 2.0**-5}


def gradients(call: Callable[[], Any], given: table.Given) -> dict[str, pk.Tensor | None]:
    """The gradients of a sum of all results, with signs and sizes that differ."""
    floats = ("float32", "bfloat16")
    sources = {n: t for n, t in vars(given).items() if isinstance(t, pk.Tensor)}
    sources = {n: t for n, t in sources.items() if t.dtype in floats}
    with pk.Tape() as tape:
        loss: Any = 0.0
        for t in tensors(call()):
            if t.dtype in floats:
                waves = np.cos(np.arange(t.size, dtype=np.float32)).reshape(t.shape)
                factors = np.rint(waves * 64) / 64  # bfloat16 has them
                loss = loss + pk.sum(t.astype("float32") * factors)
    if not isinstance(loss, pk.Tensor):
        return {}
    found: dict[str, pk.Tensor | None] = tape.gradient(loss, sources, unused="none")
    return found


def test_every_gradient(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of float32, up to the rounding of results and gradients between calls."""
    ours, mine = calls(dev, monkeypatch, "bfloat16")
    theirs, given = calls(dev, monkeypatch, "float32")
    wrong, compared = [], 0
    for name in sorted({*ours} - RANDOM - {*STATES} - SPACED):
        try:
            want = gradients(theirs[name], given)
        except (pk.TapeError, pk.ArgumentError):  # no gradient
            with pytest.raises((pk.TapeError, pk.ArgumentError)):
                gradients(ours[name], mine)
            continue
        got = gradients(ours[name], mine)
        assert {n: t is None for n, t in got.items()} == {n: t is None for n, t in want.items()}, (
            name
        )
        for source, t in got.items():
            other = want[source]
            if t is None or other is None:
                continue
            compared += 1
            assert t.dtype == "bfloat16" and t.shape == other.shape, name
            found, exact = t.numpy().astype(np.float64), other.numpy().astype(np.float64)
            finite = np.isfinite(exact)  # acos(1)
            np.testing.assert_array_equal(np.isfinite(found), finite, name)
            size = np.abs(exact[finite]).max(initial=0.0)
            error = np.abs(found[finite] - exact[finite]).max(initial=0.0)
            if error > OF_RESULTS.get(name, 2.0**-7) * size:
                wrong.append((name, source, error / size))
    assert wrong == []
    assert compared > 150
