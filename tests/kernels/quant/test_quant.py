"""Quantised weights on a device: packed, unpacked, dequantised, made, and looked up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.quant.types import TYPES
from pykernels.reference import quant as reference
from tests.harness import Array, Case, Form, caps, random_form
from tests.kernels.quant.quant_calls import MADE, NAMES, blocks, planes_by_name, same

gpu = pytest.mark.gpu


@gpu
@pytest.mark.parametrize("name", NAMES)
def test_blocks_come_back_and_have_the_numbers_of_ggml(dev: pk.Device, name: str) -> None:
    rng = np.random.default_rng(1)
    kind = TYPES[name]
    for shape in ((37, 768), (2, 3, 256), (1, 2304)):
        raw = blocks(rng, kind, shape)
        q = pk.QTensor.from_bytes(raw.tobytes(), shape, name, dev)
        assert q.tobytes() == raw.tobytes()
        assert q.nbytes == raw.size and q.type == name and q.shape == shape
        want = reference.dequantized(name, raw)
        assert same(q.numpy(), want), shape
        with np.errstate(all="ignore"):
            assert same(pk.dequantize(q, "float16").numpy(), want.astype("f2")), shape


@gpu
@pytest.mark.parametrize("name", MADE)
def test_blocks_are_made_by_the_rule_of_ggml(dev: pk.Device, name: str) -> None:
    rng = np.random.default_rng(2)
    kind = TYPES[name]
    for dtype, shape in (("f4", (37, 160)), ("f2", (2, 3, 64)), ("f4", (5, 320))):
        x = rng.normal(size=shape) * 10 ** rng.uniform(-3, 2, (*shape[:-1], 1))
        x[..., 0, :32] = 0
        t = dev.tensor(x.astype(dtype))
        q = pk.quantize(t, name)
        assert q.shape == shape and q.device is dev
        planes = reference.quantize(x.astype(dtype), name)
        given = planes_by_name(planes)
        rows = planes[0].shape[0], shape[-2], shape[-1] // kind.block * kind.nbytes
        want = reference.unpack_blocks(**given, shape=rows, quant=name).reshape(-1, kind.nbytes)
        got = np.frombuffer(q.tobytes(), "u1").reshape(-1, kind.nbytes)
        differ = (got != want).any(-1)
        assert differ.mean() < 0.05  # a product half-way between two steps
        _one_step(name, got[differ], want[differ])


def _one_step(name: str, got: Array, want: Array) -> None:
    """Numbers are at most one step apart, and scales one unit in the last place."""
    kind = TYPES[name]
    for a, b in zip(got, want, strict=True):
        x, y = (reference.dequantized(name, v) for v in (a, b))
        # Steps of the tables are 26 (iq4_nl) and 4 (mxfp4) at most; a unit is 2^-10 of 127 steps.
        step = {"iq4_nl": 26, "mxfp4": 4}.get(kind.name, 1)
        scale = np.abs(y).max() / {"iq4_nl": 113, "mxfp4": 6, "q8_0": 127}.get(name, 7)
        assert (np.abs(x - y) <= 1.2 * step * scale).all()


@gpu
@pytest.mark.parametrize("name", MADE)
def test_numbers_that_are_not_finite(dev: pk.Device, name: str) -> None:
    x = np.ones((4, 64), "f4")
    x[0, 3], x[1, 40], x[2, 5] = np.nan, np.inf, 1e30
    got = pk.quantize(dev.tensor(x), name).numpy()
    if name != "mxfp4":
        assert np.isnan(got[0, :32]).all() and not np.isfinite(got[1, 32:]).all()
        assert not np.isfinite(got[2, :32]).all()
    assert np.abs(got[0, 32:] - 1).max() < 0.02 and np.abs(got[3] - 1).max() < 0.02


@gpu
@pytest.mark.parametrize(("name", "other"), [("q4_0", 3.5), ("q5_0", 3.75)])
def test_the_first_of_two_largest_numbers_is_kept(dev: pk.Device, name: str, other: float) -> None:
    """The levels reach one step further on the side of the largest number, as ggml's do."""
    x = np.zeros((2, 32), "f4")
    x[:, 3], x[:, 20] = (4, -4), (-4, 4)
    got = pk.quantize(dev.tensor(x), name).numpy()
    assert got[:, [3, 20]].tolist() == [[4, -other], [-4, other]]


@gpu
def test_any_layout_of_numbers(dev: pk.Device) -> None:
    """Views with strides, offsets and canaries around them, read and written."""
    case = Case(dev, seed=3)
    calls = []
    for k in range(8):
        shape = ((2, 3, 5, 64), (7, 96))[k % 2]
        x = case.input(
            case.rng.normal(size=shape).astype("f4"),
            random_form(case.rng, len(shape), repeats=True),
        )
        dst = case.output(
            shape, ("float32", "float16")[k // 4], random_form(case.rng, len(shape), repeats=False)
        )
        calls.append((x, dst))
    case.build()

    def run() -> None:
        for x, dst in calls:
            pk.dequantize(pk.quantize(x.tensor, "q5_1"), out=dst.tensor)

    got = case.run(run)
    for y, (x, _) in zip(got, calls, strict=True):
        span = x.array.reshape(-1, 32).max(-1) - x.array.reshape(-1, 32).min(-1)
        error = np.abs(y.astype("f4") - x.array).reshape(-1, 32).max(-1)
        assert (error <= span * (0.51 / 31) + 4e-3).all()


@gpu
def test_any_bytes_of_a_file(dev: pk.Device) -> None:
    """Blocks at any byte of a buffer; what lies around them stays."""
    rng = np.random.default_rng(4)
    for name in ("q4_0", "q6_k", "mxfp4"):
        kind = TYPES[name]
        raw = blocks(rng, kind, (3, 512))
        for at in (1, 2, 7):
            room = rng.integers(0, 256, (3, raw.shape[1] + 5), dtype=np.uint8)
            room[:, at - 1 : at - 1 + raw.shape[1]] = raw[:, : room.shape[1] - at + 1]
            flat = dev.tensor(np.concatenate([np.zeros(at, "u1"), room.reshape(-1)]))
            view = flat[at:].reshape(3, -1)[None, :, : raw.shape[1]]
            q = pk.QTensor.empty(kind, (3, 512), dev)
            pk.kernels.pack_blocks(view, q.scales, q.low, high=q.high, quant=name)
            assert q.tobytes() == view.numpy().tobytes()
            target = dev.tensor(flat.numpy() ^ 0xFF)
            into = target[at:].reshape(3, -1)[None, :, : raw.shape[1]]
            pk.kernels.unpack_blocks(q.low, q.scales, into, high=q.high, quant=name)
            want = flat.numpy() ^ 0xFF
            want[at:].reshape(3, -1)[:, : raw.shape[1]] ^= 0xFF
            assert (target.numpy() == want).all()


@gpu
def test_planes_of_any_layout(dev: pk.Device) -> None:
    """Every kernel reads and writes planes that are views, with canaries around them."""
    case = Case(dev, seed=7)
    name, kind, shape = "q5_0", TYPES["q5_0"], (1, 6, 96)
    raw = blocks(case.rng, kind, shape)

    def form(ndim: int) -> Form:
        return random_form(case.rng, ndim, repeats=False)

    given = planes_by_name(reference.pack_blocks(raw, name))
    read = {n: case.input(a, form(a.ndim)) for n, a in given.items()}
    written = {n: case.output(a.shape, "uint32", form(a.ndim)) for n, a in given.items()}
    made = {n: case.output(a.shape, "uint32", form(a.ndim)) for n, a in given.items()}
    dst = case.output(shape, "float32", form(3))
    rows = case.output((2, 96), "float32", form(2))
    file = case.output(raw.shape, "uint8", Form(gap=3, phase=5))
    source = case.input(raw, Form(gap=1, phase=3))
    x = case.input(case.rng.normal(size=shape).astype("f4"), form(3))
    index = dev.tensor(np.array([5, 0], "i4"))
    case.build()

    def run() -> None:
        k, r = pk.kernels, {n: o.tensor for n, o in read.items()}
        k.pack_blocks(source.tensor, **{n: o.tensor for n, o in written.items()}, quant=name)
        k.quantize(x.tensor, **{n: o.tensor for n, o in made.items()}, quant=name)
        k.dequantize(**r, dst=dst.tensor, quant=name)
        k.quantised_rows(**r, index=index, dst=rows.tensor, quant=name, rows=6)
        k.unpack_blocks(**r, dst=file.tensor, quant=name)

    scales, low, high, *own, numbers, looked_up, bytes_of = case.run(run)
    want = reference.dequantized(name, raw)
    assert all((a == b).all() for a, b in zip((scales, low, high), given.values(), strict=True))
    assert same(np.ascontiguousarray(numbers), want) and (bytes_of == raw).all()
    assert same(np.ascontiguousarray(looked_up), want[0][[5, 0]])
    for a, b in zip(own, reference.quantize(x.array, name), strict=True):
        assert (a == b).mean() > 0.9


@gpu
@pytest.mark.parametrize("name", ["q8_0", "q5_k", "q6_k"])
def test_rows_of_an_index(dev: pk.Device, name: str) -> None:
    rng = np.random.default_rng(5)
    raw = blocks(rng, TYPES[name], (29, 512))
    q = pk.QTensor.from_bytes(raw, (29, 512), name, dev)
    table = reference.dequantized(name, raw)
    index = rng.integers(0, 29, (3, 2, 7))
    for kind in ("i4", "i8"):
        places = dev.tensor(index.astype(kind))
        assert same(pk.embedding(q, places).numpy(), table[index])
        assert same(pk.get_rows(q, places[0]).numpy(), table[index[0]])
    one = dev.tensor(index.astype("i4"))[2, 1, 3]  # without axes
    assert same(pk.embedding(q, one).numpy(), table[index[2, 1, 3]])
    out = dev.zeros((512, 3, 2, 7), "float16").transpose(1, 2, 3, 0)
    assert pk.embedding(q, dev.tensor(index), out=out) is out
    with np.errstate(all="ignore"):
        assert same(np.ascontiguousarray(out.numpy()), table[index].astype("f2"))
    index[1, 1, 4] = 29
    with pytest.raises(pk.IndexRangeError, match=r"index must be in \[0, 29\) .* \(1, 1, 4\)"):
        pk.embedding(q, dev.tensor(index)).numpy()
    kept = dev.full((3, 2, 7, 512), 5)
    pk.embedding(q, dev.tensor(index), check=False, out=kept)
    assert (kept.numpy()[1, 1, 4] == 5).all() and same(kept.numpy()[0], table[index[0]])


@gpu
def test_calls_in_parts(dev: pk.Device) -> None:
    rng = np.random.default_rng(6)
    for name in ("q4_0", "q5_k", "mxfp4"):
        raw = blocks(rng, TYPES[name], (2, 100, 768))
        want = reference.dequantized(name, raw)
        index = rng.integers(0, 100, 200)
        with caps(dev, max_binding=16384):
            q = pk.QTensor.from_bytes(raw, (2, 100, 768), name, dev)
            assert q.tobytes() == raw.tobytes()
            assert same(q.numpy(), want)
            one = pk.QTensor.from_bytes(raw[0], (100, 768), name, dev)
            assert same(pk.embedding(one, dev.tensor(index)).numpy(), want[0][index])
            index[150] = -1
            with pytest.raises(pk.IndexRangeError, match=r"is -1 at position \(150,\)"):
                pk.embedding(one, dev.tensor(index)).numpy()
    x = rng.normal(size=(100, 768)).astype("f4")
    whole = pk.quantize(dev.tensor(x), "q5_0").tobytes()
    for changes in ({"max_binding": 16384}, {"max_groups": 2}):
        with caps(dev, **changes):
            assert pk.quantize(dev.tensor(x), "q5_0").tobytes() == whole


@gpu
def test_sizes_of_zero(dev: pk.Device) -> None:
    for shape in ((0, 32), (3, 0), (0, 2, 64)):
        q = pk.quantize(dev.zeros(shape), "q4_1")
        assert q.tobytes() == b"" and q.numpy().shape == shape
    q = pk.quantize(dev.ones((3, 32)), "q8_0")
    assert pk.embedding(q, dev.zeros((0,), "int32")).shape == (0, 32)


@gpu
def test_wrong_arguments_are_told(dev: pk.Device) -> None:
    x = dev.ones((4, 64))
    q = pk.quantize(x, "Q4_0")
    assert repr(q) == "QTensor(q4_0, shape=(4, 64), 144 bytes)" and len(q) == 4
    wrong: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: pk.quantize(x, "q4_k"), pk.ArgumentError, "q4_k is read from files"),
        (lambda: pk.quantize(x, "q9"), pk.ArgumentError, "type must be one of q4_0, .* 'q9'"),
        (lambda: pk.quantize(x[:, :33], "q4_0"), pk.ShapeError, "a multiple of 32, but has"),
        (lambda: pk.quantize(x[0], "q4_0"), pk.ShapeError, "two axes or more"),
        (lambda: pk.quantize(x.astype("int32"), "q4_0"), pk.DTypeError, "x must be float32"),
        (lambda: pk.dequantize(x), pk.DTypeError, "q must be a pykernels.QTensor"),
        (lambda: pk.dequantize(q, "int8"), pk.DTypeError, ".* or bfloat16 but is int8"),
        (lambda: pk.dequantize(q, out=x[:2]), pk.ShapeError, r"out must have shape \(4, 64\)"),
        (lambda: pk.sum(q), pk.DTypeError, r"\[sum\] .* pk.dequantize\(x\)"),
        (lambda: pk.embedding(x, q), pk.DTypeError, "takes no quantised weights there"),
        (lambda: pk.QTensor(), TypeError, "pk.quantize"),
        (lambda: pk.QTensor.from_bytes(b"12", (1, 32), "q4_0"), pk.ShapeError, "18 bytes"),
        (lambda: pk.QTensor.from_bytes(b"12", (1, 33), "q4_0"), pk.ShapeError, "multiple of 32"),
        (lambda: pk.QTensor.from_bytes(3, (1, 32), "q4_0"), pk.DTypeError, "must be bytes but is"),
        (lambda: pk.QTensor.from_gguf(x), pk.DTypeError, r"\[from_gguf\] tensor must be an entry"),
        (lambda: q.rows([1]), pk.DTypeError, "index must be a pykernels.Tensor"),
    ]
    for call, error, text in wrong:
        with pytest.raises(error, match=text):
            call()
