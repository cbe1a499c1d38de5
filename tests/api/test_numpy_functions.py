"""numpy's functions of tensors: on the device, or an error; never a host array that nobody asked
for."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.tensors.interop.functions import COMPOSED, READERS, ROWS

ON_DEVICE = """
    all amax amin angle any argmax argmin argsort argwhere around array_split astype atleast_1d
    atleast_2d atleast_3d bincount broadcast_arrays broadcast_to clip column_stack concatenate
    copy copyto count_nonzero cumprod cumsum cumulative_prod cumulative_sum diag diagonal dot
    dsplit dstack einsum empty_like expand_dims fft.fft fft.fft2 fft.fftn fft.fftshift fft.ifft
    fft.ifft2 fft.ifftn fft.ifftshift fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2
    fft.rfftn fix flatnonzero flip fliplr flipud full_like histogram hsplit hstack imag inner
    isclose iscomplexobj isrealobj linalg.det linalg.diagonal linalg.inv linalg.matmul
    linalg.matrix_norm linalg.matrix_transpose linalg.norm linalg.outer linalg.slogdet linalg.solve
    linalg.tensordot linalg.trace linalg.vector_norm matrix_transpose max mean median meshgrid min
    moveaxis nan_to_num ndim
    nonzero ones_like outer pad prod quantile ravel real repeat reshape roll round searchsorted
    shape size sort split squeeze stack std sum swapaxes take take_along_axis tensordot tile
    trace transpose tril triu unique unstack var vdot vsplit vstack where zeros_like
""".split()
READ = """
    allclose array2string array_equal array_equiv array_repr array_str save savetxt savez
    savez_compressed
""".split()
# They make arrays of what they get, and so are asked: `numpy.asarray` and its like.
CONVERT = """
    array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray asmatrix bmat
    from_dlpack require
""".split()

X = np.array([[-3, 2, 0.5], [4, -1, 7]], "f4")
Y = np.array([[1, 2, 3], [-4, 5, 6]], "f4")
V = np.array([3, 1, 2], "f4")
SQUARE = np.arange(9, dtype="f4").reshape(3, 3)
MIXED = np.array([[1, 5, 2], [4, -1, 1], [0, 2, 6]], "f4")
CUBE = np.arange(24, dtype="f4").reshape(2, 3, 4)
INTS = np.array([0, 2, 2, 1], "i4")
Case = tuple[tuple[Any, ...], dict[str, Any]]


def call(*args: Any, **named: Any) -> Case:
    return args, named


# Calls of each function, whose arrays are tensors in one run.
CASES: dict[str, list[Case]] = {
    **{n: [call(X), call(X, 1), call(X, axis=0, keepdims=True), call(a=X, axis=(0, 1))]
       for n in ("all", "amax", "amin", "any", "max", "mean", "min", "prod", "std", "sum", "var")},
    **{n: [call(X), call(X, 1), call(X, axis=0, keepdims=True)] for n in ("argmax", "argmin")},
    **{n: [call(X), call(X, 0), call(X, axis=None, kind="stable"), call(X, stable=True)]
       for n in ("argsort", "sort")},
    **{n: [call(X), call(X, 0)] for n in ("around", "round")},
    **{n: [call(X), call(X, axis=1), call(V)] for n in ("cumsum", "cumprod", "median")},
    **{n: [call(V), call(X, axis=1)] for n in ("cumulative_sum", "cumulative_prod")},
    **{n: [call(V), call(X), call(V, X), call(CUBE)]
       for n in ("atleast_1d", "atleast_2d", "atleast_3d")},
    **{n: [call([X, Y]), call((V, V))] for n in ("hstack", "vstack", "dstack", "column_stack")},
    **{n: [call(X, None, order="K"), call(X, "int32")] for n in ("ones_like", "zeros_like")},
    **{n: [call(X)] for n in ("fliplr", "flipud", "iscomplexobj", "isrealobj", "real", "ndim")},
    **{n: [call(X), call(X + 1j * Y)] for n in ("angle", "imag")},
    **{f"fft.{n}": [call(CUBE), call(CUBE, norm="ortho")] for n in ("fft", "fft2", "fftn", "ifft")},
    **{f"fft.{n}": [call(CUBE)] for n in ("ifft2", "ifftn", "irfft", "irfft2", "irfftn", "rfft")},
    **{f"fft.{n}": [call(CUBE)] for n in ("rfft2", "rfftn", "fftshift", "ifftshift")},
    **{n: [call(X)] for n in ("matrix_transpose", "linalg.matrix_transpose", "shape", "ravel")},
    **{n: [call(np.where(X > 0, X, 0))] for n in ("argwhere", "flatnonzero", "nonzero")},
    **{n: [call(X), call(X, 1)] for n in ("tril", "triu")},
    "array_split": [call(V, 2), call(X, [1], axis=1)], "split": [call(V, 3), call(X, [1], 1)],
    "hsplit": [call(X, 3)], "vsplit": [call(X, 2)], "dsplit": [call(CUBE, 2)],
    "unstack": [call(X), call(X, axis=1)], "astype": [call(X, "int32")],
    "bincount": [call(INTS), call(INTS, minlength=7)], "broadcast_arrays": [call(X, V)],
    "broadcast_to": [call(V, (2, 3))], "expand_dims": [call(X, 1)], "squeeze": [call(X[None])],
    "clip": [call(X, 0, 2), call(X, a_min=0, a_max=None), call(X, min=V), call(X, max=V)],
    "concatenate": [call([X, Y]), call((X, Y), axis=1), call([X, Y], None)],
    "stack": [call([X, Y]), call([X, Y], axis=-1)], "copy": [call(X)],
    "count_nonzero": [call(X), call(X, axis=1)], "diag": [call(V), call(SQUARE, k=1)],
    "diagonal": [call(SQUARE), call(CUBE, 1, axis1=1, axis2=2)],
    "linalg.diagonal": [call(CUBE), call(CUBE, offset=1)],
    "trace": [call(SQUARE), call(CUBE, 1)], "linalg.trace": [call(CUBE)],
    "dot": [call(V, V), call(X, V), call(X, Y.T), call(CUBE, CUBE.swapaxes(1, 2)), call(X, 2)],
    "vdot": [call(V, V), call(X, Y)], "inner": [call(V, V), call(X, Y)],
    "outer": [call(V, V), call(X, V)], "linalg.outer": [call(V, V)],
    "einsum": [call("ij,kj->ik", X, Y), call("i,i", V, V, optimize=True)],
    "tensordot": [call(X, SQUARE, 1), call(X, Y, axes=((0, 1), (0, 1)))],
    **{f"linalg.{n}": [call(MIXED), call(np.stack([MIXED, MIXED.T]))]
       for n in ("det", "inv", "slogdet")},
    "linalg.solve": [call(MIXED, V), call(MIXED, X.T), call(np.stack([MIXED, MIXED.T]), V)],
    "linalg.tensordot": [call(X, SQUARE, axes=1)], "linalg.matmul": [call(X, SQUARE)],
    "linalg.norm": [call(X), call(X, axis=1), call(V, 1), call(X, "fro"), call(X, np.inf, 0, True)],
    "linalg.vector_norm": [call(X), call(X, axis=1, ord=1)],
    "linalg.matrix_norm": [call(CUBE), call(X, keepdims=True)],
    "fix": [call(X)], "flip": [call(X), call(X, 0)], "full_like": [call(X, 3)],
    "histogram": [call(X), call(X, 4, (0, 5)), call(X, bins=[0, 1, 4]), call(X, V.cumsum())],
    "isclose": [call(X, Y), call(X, X + 1e-7, equal_nan=True)],
    "moveaxis": [call(CUBE, 0, -1)], "swapaxes": [call(CUBE, 0, 1)],
    "meshgrid": [call(V, INTS), call(V, INTS, X[0], indexing="ij"), call(V, copy=False), call()],
    "nan_to_num": [call(np.array([np.nan, np.inf, 1], "f4"), posinf=5)],
    "pad": [call(X, 1), call(X, ((0, 1), (2, 0)), constant_values=4), call(X, 1, mode="edge")],
    "quantile": [call(X, 0.3), call(X, [0, 0.5, 1], axis=1), call(X, 0.2, 0, keepdims=True),
                 call(X, 0.4, method="lower")],
    "repeat": [call(X, 2), call(X, 2, axis=1), call(X, [1, 2], axis=0)],
    "reshape": [call(X, (3, 2)), call(X, -1, order="C")], "roll": [call(X, 1), call(X, 1, 0)],
    "searchsorted": [call(np.sort(V), X.reshape(-1)), call(np.sort(V), X[0], "right")],
    "size": [call(X), call(X, 1)], "take": [call(V, INTS % 3), call(X, INTS % 2, axis=0)],
    "take_along_axis": [call(X, np.argsort(X, 1).astype("i4"), axis=1)],
    "tile": [call(X, 2), call(X, (2, 1))], "transpose": [call(X), call(CUBE, (2, 0, 1))],
    "unique": [call(INTS), call(INTS, True, True, True), call(X, return_inverse=True)],
    "where": [call(X > 0, X, Y), call(X > 0, X, 0), call(X > 0)],
    "empty_like": [], "copyto": [],
}  # fmt: skip


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Its public names and what they stand for, deprecated ones too."""
    for name in dir(module):
        if not name.startswith("_"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = getattr(module, name, None)
            yield name, found


def functions(module: ModuleType = np, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """What numpy dispatches to arguments that have __array_function__."""
    for name, found in public(module):
        if hasattr(found, "_implementation"):
            home = f"{found.__module__}.{found.__name__}".removeprefix("numpy.")
            if home == prefix + name:  # else it is an alias
                yield home, found


MODULES = {"": np, "linalg.": np.linalg, "fft.": np.fft, "strings.": getattr(np, "strings", np.fft)}
FUNCTIONS = {
    name: found for prefix, module in MODULES.items() for name, found in functions(module, prefix)
}
UFUNCS = {name: found for name, found in public(np) if isinstance(found, np.ufunc)}
# Some versions of numpy lack them, or do not dispatch them.
SOMETIMES = {"astype", "unstack", "cumulative_sum", "cumulative_prod", "matrix_transpose", "fix"}


def moved(dev: pk.Device, value: Any) -> Any:
    """Tensors in place of arrays."""
    if isinstance(value, np.ndarray):
        return dev.tensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)([moved(dev, v) for v in value])
    return value


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from leaves(v)
    else:
        yield value


def test_the_lists_are_these() -> None:
    assert sorted({*ROWS, *COMPOSED}) == sorted(ON_DEVICE)
    assert sorted(READERS) == sorted(READ)
    assert not {*ROWS} & {*COMPOSED}
    assert sorted(CASES) == sorted(ON_DEVICE)
    missing = {n for n in ON_DEVICE if n not in FUNCTIONS and n.rpartition(".")[2] not in SOMETIMES}
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert not missing


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", sorted(set(ON_DEVICE) & {*FUNCTIONS}))
def test_same_as_numpys(name: str, recorded: bool, dev: pk.Device) -> None:
    want: Any
    for args, named in CASES[name]:
        want = FUNCTIONS[name](*args, **named)
        tensors, options = moved(dev, args), {n: moved(dev, v) for n, v in named.items()}
        if recorded:
            with pk.Tape():
                got = FUNCTIONS[name](*tensors, **options)
        else:
            got = FUNCTIONS[name](*tensors, **options)
        got, want = [*leaves(got)], [*leaves(want)]
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            if isinstance(w, (np.ndarray, np.generic)):
                assert isinstance(g, pk.Tensor) and g.shape == w.shape
                np.testing.assert_allclose(g.numpy(), w, rtol=1e-5, atol=1e-6)
            else:
                assert g == w


@pytest.mark.gpu
def test_memory_that_is_given(dev: pk.Device) -> None:
    t: Any = dev.tensor(X)
    out: Any = dev.empty(2)
    assert np.sum(t, 1, out=out) is out
    np.testing.assert_array_equal(out.numpy(), X.sum(1))
    like: Any = np.empty_like(t, dtype="int32")
    assert isinstance(like, pk.Tensor) and like.shape == X.shape and like.dtype == "int32"
    np.copyto(like, t)
    np.testing.assert_array_equal(like.numpy(), X.astype("i4"))
    host = np.zeros_like(X)
    np.copyto(host, t)  # the host is named
    np.testing.assert_array_equal(host, X)
    assert np.add(t, 1, out=host) is host and (host == X + 1).all()


@pytest.mark.gpu
def test_gradients_go_through_numpys_functions(dev: pk.Device) -> None:
    loss: Any
    x: Any = dev.tensor(X)
    with pk.Tape() as tape:
        loss = np.sum(np.where(x > 0, x, 0) * x)
    np.testing.assert_allclose(tape.gradient(loss, [x])[0].numpy(), 2 * np.maximum(X, 0))
    with pk.Tape() as tape:
        loss = np.sum(np.concatenate([np.clip(x, 0, 3), x]) ** 2)
    want = 2 * X + np.where((X > 0) & (X < 3), 2 * X, 0)
    np.testing.assert_allclose(tape.gradient(loss, [x])[0].numpy(), want)
    with pk.Tape() as tape:
        loss = sum(np.dot(row, row) for row in x)  # rows are views: gradients go through them
    np.testing.assert_allclose(tape.gradient(loss, [x])[0].numpy(), 2 * X)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "named"), [
    ("sum", {"dtype": "float64"}), ("sum", {"where": X > 0}), ("max", {"initial": 3}),
    ("mean", {"out": np.zeros(())}), ("round", {"decimals": 2}), ("sort", {"order": "a"}),
    ("zeros_like", {"shape": 3}), ("reshape", {"shape": (3, 2), "order": "F"}),
    ("clip", {"a_min": 0, "where": X > 0}), ("var", {"mean": 0.0}),
    ("pad", {"pad_width": 1, "stat_length": 2}), ("take", {"indices": 0, "mode": "wrap"}),
    ("linalg.norm", {"ord": 2}), ("trace", {"dtype": "f8"}),
])  # fmt: skip
def test_arguments_that_ours_lack(name: str, named: dict[str, Any], dev: pk.Device) -> None:
    with pytest.raises(TypeError):
        FUNCTIONS[name](dev.tensor(X), **named)


# What numpy takes and refuses at edges: axes that are not there, numbers that are not Python's,
# lists in place of arrays, tensors without axes.
EDGES: dict[str, Callable[[Any], Any]] = {
    "take of a tuple": lambda x: np.take(x, (0, 1), axis=1),
    "take of bools": lambda x: np.take(x, [True, False], axis=0),
    "take of an array of one number": lambda x: np.take(x, np.array(1), axis=-1),
    "take of no axes": lambda x: np.take(x[0, 0], [0, 0], axis=0),
    "take beyond the axes": lambda x: np.take(x, [0], axis=2),
    "take before the axes": lambda x: np.take(x, [0], axis=-3),
    "split by a numpy number": lambda x: np.split(x, np.int64(3), 1),
    "split by an array": lambda x: np.split(x, np.array([1, 2]), 1),
    "array_split by an array": lambda x: np.array_split(x, np.array([1]), 0),
    "split into unequal parts": lambda x: np.split(x, np.int64(2), 1),
    "split into none": lambda x: np.split(x, 0),
    "split beyond the axes": lambda x: np.split(x, 2, 5),
    "hsplit of no axes": lambda x: np.hsplit(x[0, 0], 1),
    "hsplit of one axis": lambda x: np.hsplit(x[0], 3),
    "vsplit of one axis": lambda x: np.vsplit(x[0], 3),
    "dsplit of two axes": lambda x: np.dsplit(x, 1),
    "size beyond the axes": lambda x: np.size(x, 2),
    "transpose of no axes": lambda x: np.transpose(x, ()),
    "clip by two names": lambda x: np.clip(x, 0, 1, min=2),
    "norm of no axes": lambda x: np.linalg.norm(x[0, 0], 2),
    "dot of a list and a number": lambda x: np.dot([1.0, 2.0], x[0, 0]),
    "inner of a list and a number": lambda x: np.inner([1.0, 2.0], x[0, 0]),
    "outer of a list": lambda x: np.linalg.outer([1.0, 2.0], x[0]),
    "outer of a list of lists": lambda x: np.linalg.outer([[1.0, 2.0]], x[0]),
    "arrays that do not broadcast": lambda x: np.broadcast_arrays(x, [1.0, 2.0]),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", EDGES)
def test_edges_are_numpys(name: str, dev: pk.Device) -> None:
    call, x = EDGES[name], dev.tensor(X)
    try:
        want = [*leaves(call(X))]
    except (ArithmeticError, IndexError, ValueError):
        with pytest.raises(pk.PyKernelsError):
            call(x)
        return
    for g, w in zip(leaves(call(x)), want, strict=True):
        assert isinstance(g, pk.Tensor) and g.shape == w.shape
        np.testing.assert_allclose(g.numpy(), w)


@pytest.mark.gpu
def test_readers_read(dev: pk.Device, tmp_path: Any) -> None:
    t: Any = dev.tensor(X)
    for tape in (None, pk.Tape()):
        if tape is not None:
            tape.__enter__()
        assert np.allclose(t, X) and np.array_equal(t, t) and not np.array_equal(X, t + 1)
        assert np.array_repr(t) == np.array_repr(X) and np.array2string(t) == np.array2string(X)
        np.save(tmp_path / "x.npy", t)
        np.savez(tmp_path / "x.npz", a=t, b=X)
        assert (np.load(tmp_path / "x.npy") == X).all()
        assert (np.load(tmp_path / "x.npz")["a"] == X).all()
        if tape is not None:
            tape.__exit__(None, None, None)
    np.testing.assert_array_equal(t, X)
    np.testing.assert_allclose(t, X + 1e-9)
    np.testing.assert_equal(t, X)
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(t, Y)


@pytest.mark.gpu
def test_arrays_under_a_tape(dev: pk.Device) -> None:
    x, labels = dev.tensor(X), dev.tensor(INTS)
    with pk.Tape() as tape:
        loss = pk.sum(x * x)
        for convert in (np.asarray, np.array, lambda t: np.array([t]), np.from_dlpack,
                        lambda t: t.__array__(), lambda t: pk.tensor(np.asarray(t)),
                        lambda t: np.add(X, t, out=X.copy())):  # fmt: skip
            with pytest.raises(pk.TapeError, match=r"call \.numpy\(\) if you need no gradient"):
                convert(x)
        assert loss.item() == float(loss) == loss.numpy() == (X * X).sum() and bool(loss)
        assert "float32" in repr(loss) and f"{float(loss):.1f}"
        assert (np.asarray(labels) == INTS).all()  # it has no gradient to lose
        with tape.pause():
            assert (np.asarray(x) == X).all()
    assert (np.asarray(x) == X).all()
    with pk.Tape() as tape:
        tape.watch(x)
        assert (np.asarray(dev.tensor(Y)) == Y).all()
        with pytest.raises(pk.TapeError):
            np.asarray(x * 2)


# -- all of numpy ---------------------------------------------------------------------------------


def attempts(t: Any, i: Any) -> Iterator[Case]:
    """Arguments of which some fit most functions: tensors in all the usual places."""
    yield from (call(t), call(t, t), call(t, t, t), call(t, 1), call(t, axis=0), call(t[0], t[0]))
    yield from (call(t, i), call(i, t), call(i), call(t, 0, 1), call(t, 1, 2, 3), call(t, [0, 1]))
    yield call(t[0])
    yield from (call(i, (3, 3)), call(t, "float32"), call(t, "ij"), call(t @ t.T))


def lists(t: Any) -> Iterator[Case]:
    """Numpy looks for tensors in few of the lists that it gets, and makes an array of others."""
    yield from (call([t, t]), call((t, t), 0), call([X, t]), call([t[0], t[0]], 1))
    yield call(t, [t, t], [t, t])


def mixed(t: Any) -> Iterator[Case]:
    """Beside arrays, numbers and texts."""
    yield from (call("ij,ij->i", t, t), call("ij->i", t), call(0, t))
    yield from (call(X, t), call(t, X), call(X, t, t), call("ij,ij->i", X, t))


def tried(found: Callable[..., Any], *cases: Case) -> list[Any]:
    """What came to the host of all calls that did not raise."""
    back: list[Any] = []
    for args, named in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = found(*args, **named)
            except Exception:
                continue
        if isinstance(result, dict):
            result = list(result.values())
        back += [v for v in leaves(result) if isinstance(v, (np.ndarray, np.generic))]
    return [v for v in back if v is not X]


@pytest.fixture(params=[False, True], ids=["plain", "recorded"])
def recorded(request: pytest.FixtureRequest) -> Iterator[bool]:
    with pk.Tape() if request.param else contextlib.nullcontext():
        yield request.param


@pytest.mark.gpu
def test_no_function_of_numpy_goes_to_the_host(recorded: bool, dev: pk.Device) -> None:
    t, i = dev.tensor(X), dev.tensor(INTS)
    for name, found in FUNCTIONS.items():
        if name not in READ:
            assert not tried(found, *attempts(t, i)), name
            if recorded:
                assert not tried(found, *lists(t)), name
        if name in ON_DEVICE and name != "full_like":  # like an array, filled with a tensor
            assert not tried(found, *mixed(t)), name
    assert len(FUNCTIONS) > 250


@pytest.mark.gpu
def test_no_ufunc_goes_to_the_host(recorded: bool, dev: pk.Device) -> None:
    t, i = dev.tensor(X), dev.tensor(INTS)
    for name, ufunc in UFUNCS.items():
        assert not tried(ufunc, *attempts(t, i), *mixed(t)), name
        for method in ("reduce", "accumulate", "outer", "reduceat", "at"):
            given = call(t), call(t, t), call(t, [0, 1]), call(t, [0], t), call(X, t), call(X, i)
            assert not tried(getattr(ufunc, method), *given), f"{name}.{method}"
    assert len(UFUNCS) > 90


@pytest.mark.gpu
def test_what_numpy_makes_arrays_of(recorded: bool, dev: pk.Device) -> None:
    t = dev.tensor(X)
    settings = {"get", "set", "err", "inf", "tes", "sho", "pri", "loa"}
    for name, found in public(np):
        if (
            callable(found) and not isinstance(found, (type, np.ufunc))
            and not hasattr(found, "_implementation") and name[:3] not in settings
            and name not in SOMETIMES
        ):  # fmt: skip
            back = tried(found, *attempts(t, t), *lists(t))
            assert bool(back) == (name in CONVERT and not recorded), name


@pytest.mark.gpu
def test_methods_of_arrays_that_get_tensors(recorded: bool, dev: pk.Device) -> None:
    """Of a host array the results are host arrays, but not where gradients would be lost."""
    t, i = dev.tensor(X), dev.tensor(INTS)
    back = set()
    for name in dir(np.ndarray):
        if name.startswith("_") or name in ("dump", "tofile") or not callable(getattr(X, name)):
            continue
        given = call(t.T), call(t[0]), call(t), call(t, t), call(0, t)
        if tried(getattr(X.copy(), name), *given):
            back.add(name)
    assert back == (set() if recorded else {"compress", "dot", "take"})
    assert isinstance(X.clip(t, t), pk.Tensor) and isinstance(X @ t.T, pk.Tensor)
    assert (X.take(i) == X.take(INTS)).all()  # indices have no gradient


@pytest.mark.gpu
def test_methods_of_tensors(recorded: bool, dev: pk.Device) -> None:
    t = dev.tensor(X)
    for name in dir(np.ndarray):
        if name.startswith("_"):
            continue
        try:
            found = getattr(t, name)
        except AttributeError as e:
            assert ": use " in str(e), e
        else:
            assert not tried(found, call(), call("int32"), call(0, 1), call(6)), name
