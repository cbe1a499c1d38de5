"""The first hour of somebody who trains in JAX: trees of parameters, gradients of functions, keys,
compiled steps, and loss curves beside numpy's.

Plain code as such a user writes it, run from an installed wheel by test_first_hour.py.
"""

import copy
import pickle
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

import pykernels as pk

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape)  # float64, as numpy makes it


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


def value_and_grad(function, params, *args, **options):
    """jax.value_and_grad, as one writes it with a tape."""
    with pk.Tape() as tape:
        loss = function(params, *args)
    return loss, tape.gradient(loss, params, **options)


def mlp(params, x):
    for layer in params["hidden"]:
        x = pk.tanh(x @ layer["w"] + layer["b"])
    return x @ params["last"].w + params["last"].b


@dataclass
class Layer:
    w: pk.Tensor
    b: pk.Tensor


def parameters():
    return {
        "hidden": [{"w": pk.tensor(normal(3, 8)), "b": pk.zeros(8)}],
        "last": Layer(pk.tensor(normal(8, 1) / 3), pk.zeros(1)),
    }


def trees():
    params, x, y = parameters(), normal(16, 3), normal(16, 1)
    w1 = params["hidden"][0]["w"].numpy().astype(float)
    w2 = params["last"].w.numpy().astype(float)
    loss, grads = value_and_grad(lambda p, x: pk.mse_loss(mlp(p, x), y), params, pk.tensor(x))
    h = np.tanh(x @ w1)
    error = h @ w2 - y
    close(loss.item(), np.mean(error**2))
    dy = 2 * error / 16
    close(grads["last"].w, h.T @ dy)
    close(grads["last"].b, dy.sum(0))
    dh = dy @ w2.T * (1 - h * h)
    close(grads["hidden"][0]["w"], x.T @ dh)
    close(grads["hidden"][0]["b"], dh.sum(0))
    assert type(grads["last"]) is Layer and type(grads["hidden"]) is list


def what_gradients_go_through():
    x = pk.tensor([1.0, -2.0, 3.0])
    _, dx = value_and_grad(lambda x: pk.sum(pk.stop_gradient(x) * x), x)
    close(dx, x)
    _, dx = value_and_grad(lambda x: pk.sum(np.where(x > 0, x, 0) * x), x)
    close(dx, [2.0, 0.0, 6.0])
    _, dx = value_and_grad(lambda x: pk.tensor([pk.sum(x * x), pk.sum(x)]).sum(), x)
    close(dx, 2 * x.numpy() + 1)
    unused = pk.zeros(2)
    with told(pk.ArgumentError, "unused"):
        value_and_grad(lambda p: pk.sum(p[0]), [x, unused])
    _, (_, zeros) = value_and_grad(lambda p: pk.sum(p[0]), [x, unused], unused="zeros")
    close(zeros, [0.0, 0.0])
    with pk.Tape() as tape:
        y = x * x
        with told(pk.TapeError, ".numpy()"):
            np.asarray(y)
        assert y.numpy()[0] == 1.0  # a read is meant
        slope = tape.gradient(pk.sum(y * x), [x])[0]
        penalty = pk.sum(slope * slope)
    with told(pk.TapeError):  # gradients of gradients: not here, and never a wrong number
        tape.gradient(penalty, [x])


def random_numbers():
    a, b = pk.randn((4,), seed=1), pk.randn((4,), seed=1)  # a key: the same numbers
    close(a, b.numpy(), 0, 0)
    assert (pk.randn((4,)).numpy() != pk.randn((4,)).numpy()).all()
    pk.manual_seed(5)
    first = pk.dropout(pk.ones(64), 0.5).numpy()
    assert (pk.dropout(pk.ones(64), 0.5).numpy() != first).any()
    pk.manual_seed(5)
    close(pk.dropout(pk.ones(64), 0.5), first, 0, 0)
    assert sorted(pk.randperm(9).tolist()) == [*range(9)]


def indexed_updates():
    x = np.arange(6.0).reshape(2, 3)
    t = pk.tensor(x)
    own = t.copy()  # x.at[0, 1].set(9)
    own[0, 1] = 9
    assert own[0, 1].item() == 9 and t[0, 1].item() == 1
    own[[0, 1, 0], [2, 2, 2]] = pk.tensor([1.0, 2.0, 3.0])  # the last of equal places
    assert own[:, 2].tolist() == [3.0, 2.0]


def train(x, y, w, steps, compiled):
    """The losses of SGD with momentum on a logistic regression."""
    w = pk.tensor(w)
    optimizer = pk.SGD([w], lr=0.5, momentum=0.9)

    def step():
        with pk.Tape() as tape:
            loss = pk.binary_cross_entropy_with_logits(x @ w, y)
        optimizer.step(tape.gradient(loss, [w]))
        return loss

    losses = []
    if compiled:
        with x.device.capture() as program:
            loss = step()
    for i in range(steps):
        optimizer.lr = 0.5 * (1 - i / steps)  # a schedule, of a compiled step too
        if compiled:
            program()
        else:
            loss = step()
        losses.append(loss.item())
    return losses


def loss_curves():
    x, w0, steps = normal(64, 5), normal(5, 1) / 4, 30
    y = (x @ normal(5, 1) > 0).astype(float)
    t, labels = pk.tensor(x), pk.tensor(y)
    plain = train(t, labels, w0, steps, compiled=False)
    assert plain == train(t, labels, w0, steps, compiled=True)  # the same bits
    w, velocity, wanted = w0.copy(), np.zeros_like(w0), []
    for i in range(steps):
        z = x @ w
        wanted.append(np.mean(np.logaddexp(0, z) - y * z))
        velocity = 0.9 * velocity + x.T @ (1 / (1 + np.exp(-z)) - y) / 64
        w -= 0.5 * (1 - i / steps) * velocity
    close(plain, wanted, 1e-5, 1e-6)
    assert plain[-1] < plain[0] / 2


def optimizers_and_copies():
    flat, views = pk.flatten_parameters([np.ones((2, 2)), np.zeros(2)])
    for whole, (w, b) in (
        copy.deepcopy((flat, views)), pickle.loads(pickle.dumps((flat, views))),
    ):  # fmt: skip
        whole += 1
        close(w, np.full((2, 2), 2.0))
        close(b, [1, 1])
    close(views[0], np.ones((2, 2)))
    optimizer = pk.Adam([flat], lr=0.1)
    with told(AttributeError, "learning_rate"):
        optimizer.learning_rate = 0.0
    optimizer.lr = 0.0
    optimizer.step([pk.ones(flat.shape)])
    close(views[0], np.ones((2, 2)))


for part in (
    trees, what_gradients_go_through, random_numbers, indexed_updates, loss_curves,
    optimizers_and_copies,
):  # fmt: skip
    part()
    print(f"{part.__name__.replace('_', ' ')}: as expected", flush=True)
