"""The first hour of somebody who comes from torch: layers, losses, training, and what is said of
the names that are others here.

Plain code as such a user writes it, run from an installed wheel by test_first_hour.py.
"""

from contextlib import contextmanager

import numpy as np

import pykernels as pk

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def close(got, wanted, rtol=1e-5, atol=1e-5):
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


def names_that_are_others():
    for name, ours in (
        ("bmm", "pk.matmul"), ("mm", "pk.matmul"), ("reshape", "Tensor.reshape"),
        ("nn", "functions"), ("Linear", "pk.linear"), ("CrossEntropyLoss", "pk.cross_entropy"),
        ("float16", "'float16'"), ("autograd", "pk.Tape"),
        ("cuda", "pk.Device"), ("from_numpy", "pk.tensor"), ("amax", "pk.max"),
    ):  # fmt: skip
        with told(AttributeError, name, ours):
            getattr(pk, name)
    t = pk.zeros((2, 3))
    for name, ours in (("view", ".reshape"), ("numel", ".size"), ("half", ".astype('float16')"),
                       ("clone", ".copy()"), ("long", ".astype('int64')")):  # fmt: skip
        with told(AttributeError, name, ours):
            getattr(t, name)
    with told(TypeError, "zeros((2, 3))"):
        pk.zeros(2, 3)


def tensors():
    x = normal(3, 4)
    t = pk.tensor(x)
    assert pk.tensor(np.zeros(3)).dtype == "float32"  # from float64
    shown = repr(t[0])
    assert "float32" in shown and "(4,)" in shown and np.array2string(x[0], separator=", ") in shown
    assert "..." in repr(pk.zeros(5000))
    assert f"{t[0, 0]:.3f}" == f"{x[0, 0]:.3f}"
    assert t[1, 2].item() == x[1, 2] and float(t.flatten()[0]) == x[0, 0]
    close(t.unsqueeze(0).squeeze(0), x)
    close(t.transpose(1, 0).reshape(2, 6), x.T.reshape(2, 6))
    close(t[t > 0], x[x > 0])
    close(pk.full((2,), t[0, 0]), [x[0, 0]] * 2)
    close(pk.masked_fill(t, t < 0, 0.0), np.maximum(x, 0))
    assert [part.shape for part in pk.chunk(t, 2, 1)] == [(3, 2), (3, 2)]
    close(pk.stack([t, t], 1), np.stack([x, x], 1))
    pk.manual_seed(3)
    first, second = pk.randn((4,)), pk.randn((4,))
    assert (first.numpy() != second.numpy()).all()
    pk.manual_seed(3)
    close(pk.randn((4,)), first.numpy(), 0, 0)


def activations_by_torchs_arguments():
    x = normal(5, 7)
    t = pk.tensor(x)
    close(pk.leaky_relu(t, 0.2), np.where(x > 0, x, 0.2 * x))
    close(pk.elu(t, 1.0), np.where(x > 0, x, np.expm1(x)))
    close(pk.softplus(t, 1, 20), np.log1p(np.exp(x)))
    close(pk.hardtanh(t, -2, 2), x.clip(-2, 2))
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    close(pk.gelu(t, approximate="tanh"), tanh)
    close(pk.clamp(t, min=0), np.maximum(x, 0))
    close(pk.var(t, 1, correction=1), x.var(1, ddof=1))
    close(pk.softmax(t, dim=0), np.exp(x) / np.exp(x).sum(0))
    values, places = pk.top_k(t, 2)
    close(values, -np.sort(-x, 1)[:, :2])
    close(pk.take_along_axis(t, places, 1), values.numpy())


def layers_are_functions():
    x, w, b = normal(4, 8), normal(5, 8), normal(5)
    t = pk.tensor(x)
    close(pk.linear(t, w, b), x @ w.T + b)
    mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    gain = normal(8)
    close(pk.layer_norm(t, 8, pk.tensor(gain)), (x - mean) / np.sqrt(var + 1e-5) * gain)
    with told(ValueError, "normalized_shape", "layer_norm(x, weight.shape, weight)"):
        pk.layer_norm(t, pk.tensor(gain))
    ids = np.array([[1, 0], [3, 3]])
    close(pk.embedding(t, ids), x[ids])
    with told(TypeError, "embedding(weight, index)"):  # torch's order
        pk.embedding(pk.tensor(ids), t)
    image, kernel = normal(1, 2, 6, 6), normal(3, 2, 3, 3)
    assert pk.conv2d(pk.tensor(image), kernel, padding=1, stride=2).shape == (1, 3, 3, 3)
    pooled = image.reshape(1, 2, 3, 2, 3, 2).max((3, 5))
    close(pk.max_pool2d(pk.tensor(image), 2), pooled)
    q = pk.tensor(normal(1, 2, 5, 8))
    assert pk.scaled_dot_product_attention(q, q, q, is_causal=True).shape == (1, 2, 5, 8)
    labels = np.array([2, 0, 7, 1])
    logp = x - np.log(np.exp(x).sum(1, keepdims=True))
    close(pk.cross_entropy(t, labels), -logp[range(4), labels].mean())
    dropped = pk.dropout(pk.ones(1000), 0.5).numpy()
    assert set(np.unique(dropped)) == {0.0, 2.0}


def training():
    x = pk.tensor(normal(64, 3))
    y = (x[:, :1] * 2 - x[:, 1:2] > 0).astype("float32")
    pk.manual_seed(0)
    w1, b1 = pk.kaiming_uniform((16, 3)), pk.zeros(16)
    w2, b2 = pk.kaiming_uniform((1, 16)), pk.zeros(1)
    parameters = [w1, b1, w2, b2]
    optimizer = pk.Adam(parameters, lr=0.02)
    losses = []
    for _ in range(60):
        with pk.Tape() as tape:  # in place of loss.backward()
            h = pk.relu(pk.linear(x, w1, b1))
            loss = pk.binary_cross_entropy_with_logits(pk.linear(h, w2, b2), y)
        optimizer.step(tape.gradient(loss, parameters))
        losses.append(loss.item())
    assert losses[-1] < 0.4 * losses[0], losses
    with pk.Tape() as tape:
        loss = pk.sum(np.where(x > 0, x, 0) * x)  # numpy's functions are recorded as well
        with told(RuntimeError, ".numpy()"):
            np.asarray(loss)
    close(tape.gradient(loss, [x])[0], 2 * np.maximum(x.numpy(), 0))
    with pk.Tape() as tape:
        loss = pk.sum(pk.stop_gradient(x) * x)
    close(tape.gradient(loss, [x])[0], x.numpy())


def beside_numpy():
    x = normal(6, 4)
    t = pk.tensor(x)
    for function in (np.mean, np.argsort, np.cumsum, np.transpose):
        got = function(t)
        assert isinstance(got, pk.Tensor)
        close(got, function(x))
    close(np.concatenate([t, t]), np.concatenate([x, x]))
    close(np.linalg.norm(t, axis=1), np.linalg.norm(x, axis=1))
    assert np.allclose(t, x) and np.array_equal(t, x)
    with told(TypeError, "numpy.percentile", ".numpy()"):
        np.percentile(t, 50)
    np.save("weights.npy", t)
    close(pk.tensor(np.load("weights.npy")), x)


for part in (
    names_that_are_others, tensors, activations_by_torchs_arguments, layers_are_functions,
    training, beside_numpy,
):  # fmt: skip
    part()
    print(f"{part.__name__.replace('_', ' ')}: as expected", flush=True)
