"""The first hour of somebody who knows numpy and torch: tensors, functions, errors, time.

Plain code as such a user writes it, run from an installed wheel by test_first_hour.py.
"""

import copy
import pickle
import sys
from contextlib import contextmanager

import numpy as np

import pykernels as pk

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def close(got, wanted, rtol=1e-5, atol=1e-6):
    got = got if isinstance(got, np.ndarray) else got.numpy()
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)


@contextmanager
def told(error, *words):
    """An error of this class whose message has these words."""
    try:
        yield
    except error as e:
        for word in words:
            assert word in str(e), f"{e!r} does not say {word!r}"
    else:
        raise AssertionError(f"nothing was raised; wanted {error.__name__}")


def softmax(x, axis=-1):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def conv2d(x, w, stride=1, padding=0):
    """x (N, C, H, W), w (O, C, R, S), as torch's."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwrs,ocrs->nohw", windows[:, :, ::stride, ::stride], w.astype(np.float64))


def attention(q, k, v, causal=False):
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return softmax(scores) @ v


def what_is_here():
    assert pk.__version__
    assert pk.list_adapters("wgpu"), "no adapter"
    assert {"softmax", "matmul", "tensor", "Device"} <= set(dir(pk))
    with told(AttributeError, "softmx"):
        pk.softmx  # noqa: B018
    assert "axis" in pk.softmax.__doc__


def making_tensors():
    t = pk.tensor([[1, 2], [3, 4.5]])
    assert (t.shape, t.ndim, t.size, len(t), t.nbytes) == ((2, 2), 2, 4, 2, 16)
    assert t.dtype == "float32" and t.dtype == np.float32
    assert pk.tensor([1, 2, 3], "i4").dtype == np.int32
    assert pk.tensor(np.arange(3)).dtype == np.int64
    assert pk.tensor([True, False]).dtype == bool
    assert pk.tensor(2.5).item() == 2.5 and pk.tensor([]).shape == (0,)
    assert pk.zeros((2, 3), "f2").numpy().dtype == np.float16
    assert (pk.ones(3).numpy() == 1).all() and (pk.full((2,), 7).numpy() == 7).all()
    assert pk.rand((3, 3), seed=0).shape == (3, 3)
    x = normal(3, 5)
    np.testing.assert_array_equal(pk.tensor(x).numpy(), x)
    np.testing.assert_array_equal(np.asarray(pk.tensor(x)), x)
    np.testing.assert_array_equal(pk.from_dlpack(x).numpy(), x)
    half = pk.tensor(x).astype("float16")
    np.testing.assert_array_equal(half.numpy(), x.astype(np.float16))
    shown = repr(half)
    assert "float16" in shown and "(3, 5)" in shown and shown == str(half)
    assert pk.tensor(np.zeros(3)).dtype == "float32"  # from float64
    assert pk.tensor(np.zeros(3, complex)).dtype == "complex64"  # from complex128
    close(pk.tensor(np.ones(3), dtype="float32"), np.ones(3))
    with told(TypeError, "zeros((2, 3))"):
        pk.zeros(2, 3)  # as torch takes it
    with told(TypeError, "pk.tensor(values)"):
        pk.Tensor([1, 2])
    with told(TypeError, "int64", "int8", "full name"):
        pk.zeros(3, "i8")
    with told(ValueError, "inhomogeneous"):
        pk.tensor([[1, 2], [3]])


def views_as_in_numpy():
    x = normal(4, 6)
    t = pk.tensor(x)
    for view in (
        lambda a: a[1], lambda a: a[:, ::2], lambda a: a[::-1], lambda a: a.T, lambda a: a[-1, 2:5],
        lambda a: a[..., None], lambda a: a.reshape(2, -1), lambda a: a[1:3].T[::2],
    ):  # fmt: skip
        np.testing.assert_array_equal(view(t).numpy(), view(x))
        assert view(t).shape == view(x).shape
    t[0] = 1
    x[0] = 1
    t[1:3, 2] = np.array([5, 6])
    x[1:3, 2] = np.array([5, 6])
    t.T[3] = t[:, 4]
    x.T[3] = x[:, 4]
    np.testing.assert_array_equal(t.numpy(), x)
    assert float(t[0, 0]) == 1.0 and int(t[0, 1]) == 1
    assert [row.shape for row in t] == [(6,)] * 4
    with told(IndexError, "9"):
        t[9]
    with told(ValueError, "24"):
        t.reshape(5, 5)
    with told(ValueError, "(4, 6)", "reduce"):
        bool(t)
    rows = pk.tensor([0, 2], "int32")
    np.testing.assert_array_equal(t[rows].numpy(), x[[0, 2]])
    np.testing.assert_array_equal(t[t > 0].numpy(), x[x > 0])
    np.testing.assert_array_equal(t[[0, -1]].numpy(), x[[0, -1]])
    with told(IndexError, "index 9 is out of range"):
        t[[0, 9]]
    own = t.copy()
    own[own > 0] = 0
    own[rows] = x[:2]
    want = np.where(x > 0, 0, x)
    want[[0, 2]] = x[:2]
    np.testing.assert_array_equal(own.numpy(), want)
    for torchs, ours in (("view", ".reshape"), ("cpu", ".numpy()"), ("resize", "pk.resize")):
        with told(AttributeError, torchs, ours):
            getattr(t, torchs)


def arithmetic_as_in_numpy():
    x, y = normal(4, 6), normal(4, 6)
    t, u = pk.tensor(x), pk.tensor(y)
    close(t + u, x + y)
    close((t * 2 - 1) / (abs(u) + 1), (x * 2 - 1) / (abs(y) + 1))
    close(t @ u.T, x @ y.T, atol=1e-5)
    close(-t + y, y - x)  # numpy arrays come along
    close(y + t, x + y)
    close(t + u[0], x + y[0])  # broadcast
    assert isinstance(y + t, pk.Tensor) and isinstance(np.exp(t), pk.Tensor)
    close(np.exp(t), np.exp(x))
    close(pk.sqrt(t * t), abs(x), atol=1e-5)
    assert (t > 0).dtype == bool and ((t > 0) & (u > 0)).numpy().sum() == ((x > 0) & (y > 0)).sum()
    close(pk.where(t > 0, t, 0), np.maximum(x, 0))
    close(pk.relu(t), np.maximum(x, 0))
    t += 1
    t[0] *= 2
    x += 1
    x[0] *= 2
    close(t, x)
    close(pk.sum(t, axis=1), x.sum(1), atol=1e-5)
    close(np.sum(t), x.sum(), atol=1e-4)
    assert abs(pk.mean(t).item() - x.mean()) < 1e-5 and isinstance(float(pk.max(t)), float)
    np.testing.assert_array_equal(pk.argmax(t, axis=1).numpy(), x.argmax(1))
    np.testing.assert_array_equal(pk.sort(t, axis=0).numpy(), np.sort(x, 0))
    np.testing.assert_array_equal(pk.concatenate([t, u]).numpy(), np.concatenate([x, y]))
    assert pk.arange(5).numpy().tolist() == [0, 1, 2, 3, 4] and pk.eye(2).shape == (2, 2)
    close(pk.elementwise("silu(a) * b", a=t, b=u), x / (1 + np.exp(-x)) * y, atol=1e-5)
    with told(ValueError, "(4, 6)", "(2, 2)"):
        t + pk.zeros((2, 2))
    assert (t + np.ones((4, 6))).dtype == "float32"
    with told(TypeError, "str"):
        t + "a"


def functions_beside_numpy():
    x = normal(8, 100)
    y = pk.softmax(x)
    assert isinstance(y, np.ndarray)
    close(y, softmax(x))
    t = pk.tensor(x)
    assert isinstance(pk.softmax(t), pk.Tensor)
    close(pk.softmax(t, dim=0), softmax(x, 0))
    close(pk.softmax(t[:, ::3]), softmax(x[:, ::3]))
    close(pk.log_softmax(t, axis=-1), np.log(softmax(x)), atol=1e-5)

    b = normal(100, 20)
    close(pk.matmul(x, b), x.astype(np.float64) @ b, atol=1e-4)
    close(pk.matmul(t, b, activation="relu"), np.maximum(x.astype(np.float64) @ b, 0), atol=1e-4)
    batch = normal(3, 5, 7)
    close(pk.matmul(batch, batch.swapaxes(1, 2)), batch @ batch.swapaxes(1, 2), atol=1e-5)

    images, weights = normal(2, 3, 9, 9), normal(4, 3, 3, 3)
    close(pk.conv2d(images, weights, padding=1), conv2d(images, weights, 1, 1), atol=1e-4)
    close(pk.conv2d(images, weights, stride=2), conv2d(images, weights, 2), atol=1e-4)
    assert pk.conv2d(pk.tensor(images), weights, padding="same").shape == (2, 4, 9, 9)

    q, k, v = normal(1, 2, 10, 16), normal(1, 2, 10, 16), normal(1, 2, 10, 16)
    close(pk.scaled_dot_product_attention(q, k, v), attention(q, k, v), atol=1e-5)
    found = pk.scaled_dot_product_attention(q, k, v, is_causal=True)
    close(found, attention(q, k, v, True), atol=1e-5)
    mask = np.tril(np.ones((10, 10), bool))
    close(pk.scaled_dot_product_attention(q, k, v, mask), found, atol=1e-5)

    table = normal(10, 4)
    rows = np.array([3, 3, 0], np.int32)
    close(pk.embedding(table, rows), table[rows])


def outputs_of_mine():
    x = normal(4, 8)
    t, out = pk.tensor(x), pk.empty((4, 8))
    assert pk.softmax(t, out=out) is out
    close(out, softmax(x))
    pk.softmax(t, out=t)  # in place
    close(t, softmax(x))
    big = pk.zeros((6, 8))
    pk.softmax(pk.tensor(x), out=big[1:5])
    close(big, np.pad(softmax(x), ((1, 1), (0, 0))))
    pk.kernels.softmax(pk.tensor(x), out, scale=0.5)
    close(out, softmax(x * np.float32(0.5)))
    with told(TypeError, "dst"):
        pk.kernels.softmax(t)
    with told(TypeError, "out", "numpy.ndarray"):
        pk.softmax(t, out=np.zeros((4, 8), np.float32))
    with told(ValueError, "(4, 8)", "(4, 9)"):
        pk.softmax(t, out=pk.empty((4, 9)))


def errors_say_what_to_do():
    x = pk.zeros((8, 128))
    with told(ValueError, "(8, 128)", "(7, 128)", "[softmax] mask"):
        pk.softmax(x, mask=pk.zeros((7, 128)))
    with told(ValueError, "axis 2", "(8, 128)"):
        pk.softmax(x, axis=2)
    with told(TypeError, "list", "pk.tensor"):
        pk.softmax([1.0, 2.0])
    with told(TypeError, "float64", ".astype('float32')"):
        pk.softmax(np.zeros(3))
    with told(ValueError, "(8, 128)", "(8, 4)"):
        pk.matmul(x, pk.zeros((8, 4)))
    with told(ValueError, "w", "channels"):
        pk.conv2d(pk.zeros((1, 3, 8, 8)), pk.zeros((4, 2, 3, 3)))
    with told(ValueError, "stride", "0"):
        pk.conv2d(pk.zeros((1, 3, 8, 8)), pk.zeros((4, 3, 3, 3)), stride=0)
    q = pk.zeros((1, 2, 8, 16))
    with told(TypeError, "int64", ".astype(bool)"):
        pk.scaled_dot_product_attention(q, q, q, np.tril(np.ones((8, 8), np.int64)))
    with told(ValueError, "is_causal"):
        pk.scaled_dot_product_attention(q, q, q, is_causal="no")
    with told(RuntimeError, "cuda", "there are"):
        pk.Device("cuda")
    with told(TypeError, "'cpu'", "pk.Device("):
        pk.zeros(3, device="cpu")
    for error in (pk.ShapeError, pk.DTypeError, pk.ArgumentError, pk.NoAdapterError):
        assert issubclass(error, pk.PyKernelsError)
    rows = pk.embedding(pk.rand((10, 4), seed=0), np.array([1, 12], np.int32))
    with told(IndexError, "12"):
        rows.numpy()  # known when the device has run
    close(pk.softmax(x), np.full((8, 128), 1 / 128))  # nothing is broken by any of these


def time_and_batches():
    dev = pk.default_device()
    x = normal(16, 64)
    t = dev.tensor(x)
    with dev.batch():
        for _ in range(3):
            t = pk.softmax(t)
    wanted = x
    for _ in range(3):
        wanted = softmax(wanted)
    close(t, wanted)
    with dev.profile() as p:
        pk.softmax(t)
        pk.matmul(t, t.T)
    assert "softmax" in p.table() and "mul_mat" in p.table() and str(p) == p.table()

    a, b = dev.tensor(x), dev.empty((16, 64))
    with dev.capture() as step:
        pk.softmax(a, out=b)
    step()
    close(b, softmax(x))
    a.write(x[::-1].copy())
    step()
    close(b, softmax(x)[::-1])
    assert dev.memory_stats().current > 0


def keeping_tensors():
    x = normal(3, 4)
    t = pk.tensor(x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(t.T)).numpy(), x.T)
    other = copy.deepcopy(t)
    t[:] = 0
    np.testing.assert_array_equal(other.numpy(), x)
    with pk.Device() as dev:
        mine = dev.tensor(x)
        with told(pk.PyKernelsError, "device"):
            pk.matmul(mine, t.T)
        close(pk.softmax(mine), softmax(x))
    with told(RuntimeError, "closed"):
        mine.numpy()


for part in (
    what_is_here, making_tensors, views_as_in_numpy, arithmetic_as_in_numpy,
    functions_beside_numpy, outputs_of_mine, errors_say_what_to_do, time_and_batches,
    keeping_tensors,
):  # fmt: skip
    part()
    print(f"{part.__name__.replace('_', ' ')}: as expected")
    sys.stdout.flush()
