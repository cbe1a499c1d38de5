"""pad: every mode against numpy's, bit for bit, in any layout."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference.move import pad as reference
from tests.harness import Case, Form, assert_same_bits, random_form, values

pytestmark = pytest.mark.gpu
MODES = ("constant", "reflect", "replicate", "circular")


@pytest.mark.sample
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64"])
@pytest.mark.parametrize("mode", MODES)
def test_pad_of_any_layout(dev: pk.Device, mode: str, dtype: str) -> None:
    case = Case(dev, seed=len(mode))
    rng = case.rng
    calls = []
    for k in range(12):
        ndim = int(rng.integers(1, 4))
        shape = tuple(int(n) for n in rng.integers(2, 9, ndim))
        most = [n - 1 if mode == "reflect" else n for n in shape]
        widths = [(int(rng.integers(0, m + 1)), int(rng.integers(0, m + 1))) for m in most]
        if k == 0:
            shape, widths = (4, 64), [(0, 0), (1, 1)]
        whole = tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True))
        forms = [random_form(rng, len(shape), repeats=r) if k > 3 else Form() for r in (1, 0)]
        s = case.input(values(rng, dtype, shape), forms[0])
        d = case.output(whole, dtype, forms[1])
        more = {"before": tuple(a for a, _ in widths), "mode": mode}
        calls.append((s, d, more | ({"value": 1} if mode == "constant" else {})))
    case.build()
    want = [reference(s.array, d.array, **more) for s, d, more in calls]
    got = case.run(lambda: [kernels.pad(s.tensor, d.tensor, **more) for s, d, more in calls])
    for (s, _, more), g, w in zip(calls, got, want, strict=True):
        assert_same_bits(g, w, f"{s.shape} {s.strides} {more}")


def test_pad_takes_widths_as_numpy_does(dev: pk.Device) -> None:
    x = np.arange(12, dtype="i4").reshape(3, 4)
    for widths in (2, (1, 2), [(1, 0), (0, 2)], ((1, 2),), np.array([[0, 1], [2, 0]])):
        for mode in ("constant", "edge", "wrap", "reflect"):
            assert (pk.pad(x, widths, mode) == np.pad(x, widths, mode)).all()
    got = pk.pad(dev.tensor(x), 1, constant_values=-7)
    assert (got.numpy() == np.pad(x, 1, constant_values=-7)).all()
    out = dev.zeros((5, 12), "int32")[:, ::2]
    assert pk.pad(x, 1, out=out) is out
    assert (out.numpy() == np.pad(x, 1)).all()
    assert pk.pad(np.ones((0, 2), "f4"), 1).tolist() == [[0] * 4] * 2
    assert pk.pad(np.zeros((), "f4"), 3).shape == ()


def test_pad_rejects(dev: pk.Device) -> None:
    x = dev.zeros((3, 4))
    with pytest.raises(pk.ArgumentError, match=r"\[pad\] mode must be one of .* but is 'mirror'"):
        pk.pad(x, 1, "mirror")  # type: ignore[call-overload]
    with pytest.raises(pk.ShapeError, match=r"mode reflect needs 4 elements along axis 0 for .* 3"):
        pk.pad(x, ((3, 0), (0, 0)), "reflect")
    with pytest.raises(pk.ShapeError, match=r"mode circular needs 5 elements along axis 1"):
        pk.pad(x, ((0, 0), (0, 5)), "circular")
    with pytest.raises(pk.ShapeError, match=r"mode replicate needs 1 elements along axis 0"):
        pk.pad(x[:0], 1, "replicate")
    with pytest.raises(pk.ShapeError, match=r"\[pad\] pad_width must be integers that repeat to"):
        pk.pad(x, (1, 2, 3))
    with pytest.raises(pk.ShapeError, match=r"\[pad\] pad_width must be integers that repeat to"):
        pk.pad(x, 0.5)
    with pytest.raises(pk.ArgumentError, match=r"\[pad\] pad_width must be 0 or more"):
        pk.pad(x, (-1, 2))
    with pytest.raises(pk.ShapeError, match=r"\[pad\] src of shape \(3, 4\) behind \(1, 0\)"):
        kernels.pad(x, dev.zeros((3, 4)), before=(1, 0))
    with pytest.raises(pk.ShapeError, match=r"\[pad\] src, dst and before must have as many axes"):
        kernels.pad(x, dev.zeros((3, 4)), before=(1,))
    with pytest.raises(pk.DTypeError, match=r"\[pad\] dst must have the dtype of src"):
        kernels.pad(x, dev.zeros((3, 4), "int32"))
