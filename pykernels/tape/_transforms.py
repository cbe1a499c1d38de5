"""Gradients of functions, by the names and arguments of JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pykernels import functional as F
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError
from pykernels.tensors.host import type_name

from ._tape import Tape
from ._tree import leaves, rebuilt

__all__ = ["grad", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"]

Argnums = int | Sequence[int]


def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of f, like jax.grad.

        dw = pk.grad(loss)(w, x, y)
        second = pk.grad(lambda x: pk.sum(pk.grad(f)(x)))(x)

    Args:
        f: A function of Tensors, or of trees of Tensors (dicts, lists, tuples, dataclasses). It
            returns a Tensor of one element, float32, float16 or bfloat16. Tensors that f reads
            without getting them as arguments are constants, unless they share memory with
            arguments.
        argnums: The positions of the arguments whose gradients are computed: an integer, or several
            integers.
        has_aux: True if f returns a pair: the Tensor, and anything else.

    Returns:
        A function of the same arguments. It returns the gradient, in the shape of the argument (a
        tuple for several argnums); with has_aux a pair of the gradient and the second value of f.
        If f does not depend on an argument, its gradient is zeros.

    Raises:
        ArgumentError: the call has no positional argument for argnums; f returns more than one
            element; or has_aux is set and f does not return a pair.
        DTypeError: f does not return a Tensor, or a leaf of an argument is not a Tensor of a float
            dtype.
        TapeError: as Tape.gradient.
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def gradient(*args: Any, **named: Any) -> Any:
        value, found = both(*args, **named)
        return (found, value[1]) if has_aux else found

    return gradient


def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes f and its gradient, like jax.value_and_grad.

    Args:
        f: As for `grad`.
        argnums: As for `grad`.
        has_aux: As for `grad`.

    Returns:
        A function of the same arguments. It returns a pair: the result of f, and the gradient that
        `grad(f)` would return.

    Raises:
        ArgumentError, DTypeError, TapeError: as `grad`.
    """
    _check_function(f, "value_and_grad")

    @functools.wraps(f)
    def both(*args: Any, **named: Any) -> Any:
        given, sources = _chosen(args, argnums, "grad")
        with Tape() as tape:
            value = f(*given, **named)
        loss = value
        if has_aux:
            if not (isinstance(value, tuple) and len(value) == 2):
                raise ArgumentError("[grad] with has_aux f must give a pair (loss, aux)")
            loss = value[0]
        _check_result(loss, "grad")
        return value, tape.gradient(loss, sources, unused="zeros", release=True)

    return both


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Compute f, and a function that takes gradients back through it, like jax.vjp.

    Args:
        f: A function of Tensors, or of trees of Tensors, that returns a Tensor or a tree of
            Tensors.
        primals: Its arguments, with leaves of a float dtype.

    Returns:
        The result of f, and a function. The function takes the gradient of a loss with respect to
        that result, a tree of the same shape, and returns a tuple with the gradient of each of the
        primals. It may be called several times.

    Raises:
        ArgumentError, DTypeError, TapeError: as `grad`; or the gradient has another shape than the
            result.
    """
    _check_function(f, "vjp")
    given, sources = _chosen(primals, tuple(range(len(primals))), "vjp")
    with Tape() as tape:
        y = f(*given)
    return y, functools.partial(_pulled, tape, y, sources)


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Compute f, and its derivative along the tangents, like jax.jvp.

    It goes back through f twice. The backward pass is a linear function of its gradient, and the
    gradient of this linear function is the derivative.

    Args:
        f: A function of Tensors, or of trees of Tensors, that returns a Tensor or a tree of
            Tensors.
        primals: Its arguments, with leaves of a float dtype.
        tangents: For each primal, a tree of the same shape.

    Returns:
        The result of f, and its derivative, a tree of the same shape.

    Raises:
        ArgumentError, DTypeError, TapeError: as `vjp`.
    """
    primals, tangents = tuple(primals), tuple(tangents)
    with Tape() as tape:
        y, back = vjp(f, *primals)
        named = leaves(y, "f", "jvp")
        zeros = [t.device.zeros(t.shape, t.dtype) for _, t in named]
        found = back(rebuilt(y, iter(zeros)))
        along = _dot(found, tangents, "jvp")
    moved = tape.gradient(along, zeros, unused="zeros")
    return y, rebuilt(y, iter(moved))


def jacobian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of f, like jax.jacrev.

    It goes back through f once for each element of the result.

    Args:
        f: A function of Tensors, or of trees of Tensors, that returns a Tensor or a tree of
            Tensors.
        argnums: As for `grad`.

    Returns:
        A function of the same arguments. It returns the tree of f's result, with a tree as from
        `grad` in place of each Tensor. A leaf has the axes of that Tensor, then the axes of the
        argument.

    Raises:
        ArgumentError, DTypeError, TapeError: as `grad`.
    """
    _check_function(f, "jacobian")

    @functools.wraps(f)
    def jacobian_of(*args: Any, **named: Any) -> Any:
        given, sources = _chosen(args, argnums, "jacobian")
        with Tape() as tape:
            y = f(*given, **named)
        return rebuilt(y, iter([_rows(tape, t, sources) for _, t in _results(y, "jacobian")]))

    return jacobian_of


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of f, like jax.hessian: the Jacobian
    of `grad`.

    Args:
        f: As for `grad`.
        argnums: As for `grad`.

    Returns:
        A function of the same arguments. It returns the tree of `grad`, with a tree of the same
        shape in place of each leaf. A leaf of this tree has the axes of both leaves.

    Raises:
        ArgumentError, DTypeError, TapeError: as `grad`.
    """
    return jacobian(grad(f, argnums), argnums)


def hvp(f: Callable[..., Any], x: Any, v: Any) -> Any:
    """The Hessian of f at x (the matrix of its second derivatives) times v, without computing the
    matrix.

    Args:
        f: A function of one Tensor, or of a tree of Tensors, that returns a Tensor of one element.
        x: Its argument.
        v: A tree of the same shape.

    Returns:
        A tree of the same shape.

    Raises:
        ArgumentError, DTypeError, TapeError: as `grad`; v has another shape than x.
    """
    first, way = grad(f), _copied(v, "v", "hvp")
    return grad(lambda x: _dot(first(x), way, "hvp"))(x)


def _chosen(args: tuple[Any, ...], argnums: Argnums, op: str) -> tuple[list[Any], Any]:
    """All arguments, and the arguments that argnums names. A leaf of a named argument is copied if
    it shares memory with an earlier leaf."""
    several = not isinstance(argnums, int)
    numbers = [*argnums] if isinstance(argnums, Sequence) else [argnums]
    given = [*args]
    seen: list[Tensor] = []
    for n in numbers:
        if isinstance(n, bool) or not isinstance(n, int) or not -len(args) <= n < len(args):
            raise ArgumentError(
                f"[{op}] argnums must name positional arguments, of which there are {len(args)}, "
                f"but is {argnums!r}"
            )
        found = []
        for _, t in leaves(args[n], f"args[{n}]", op):
            shared = isinstance(t, Tensor) and any(t._storage is s._storage for s in seen)
            found.append(t.copy() if shared else t)
            seen += [t] if isinstance(t, Tensor) else []
        given[n] = rebuilt(args[n], iter(found))
    sources = [given[n] for n in numbers]
    return given, tuple(sources) if several else sources[0]


def _check_function(f: object, op: str) -> None:
    if not callable(f):
        raise ArgumentError(f"[{op}] f must be a function but is {type_name(f)}")


def _check_result(loss: object, op: str) -> None:
    if not isinstance(loss, Tensor):
        raise DTypeError(f"[{op}] f must give a pykernels.Tensor but gave {type_name(loss)}")
    if loss.size != 1:
        raise ArgumentError(
            f"[{op}] f must give one element but gave shape {loss.shape}: sum it, or use jacobian"
        )


def _copied(tree: Any, name: str, op: str) -> Any:
    """The same tree with copied leaves. Tapes that are opened later see them as constants, even if
    the originals share memory with sources; tapes that are open now do not."""
    found = [t.copy() if isinstance(t, Tensor) else t for _, t in leaves(tree, name, op)]
    return rebuilt(tree, iter(found))


def _results(y: Any, op: str) -> list[tuple[str, Any]]:
    """The Tensors of a function's result."""
    named = leaves(y, "f's result", op)
    for name, t in named:
        if not isinstance(t, Tensor):
            raise DTypeError(f"[{op}] {name} must be a pykernels.Tensor but is {type_name(t)}")
    return named


def _pulled(tape: Tape, y: Any, sources: Any, cotangents: Any) -> tuple[Any, ...]:
    """The gradients of the sources, from the gradients of y."""
    given = leaves(cotangents, "cotangents", "vjp")
    results = _results(y, "vjp")
    if len(given) != len(results):
        raise ArgumentError(
            f"[vjp] cotangents must have the {len(results)} leaves that f gave but has {len(given)}"
        )
    total: list[Any] | None = None
    for (_, t), (_, dy) in zip(results, given, strict=True):
        found = leaves(tape.gradient(t, sources, dy, unused="zeros"), "gradient", "vjp")
        each = [grad for _, grad in found]
        total = each if total is None else [F.add(a, b) for a, b in zip(total, each, strict=True)]
    if total is None:
        raise ArgumentError("[vjp] f must give a Tensor but gave none")
    pulled: tuple[Any, ...] = rebuilt(sources, iter(total))
    return pulled


def _rows(tape: Tape, y: Tensor, sources: Any) -> Any:
    """The Jacobian of one Tensor, as a tree with the structure of the sources."""
    named = leaves(sources, "sources", "jacobian")
    rows: list[list[Tensor]] = []
    for i in range(y.size):
        seed = y.device.zeros((y.size,), y.dtype)
        seed[i : i + 1] = 1
        found = tape.gradient(y, sources, seed.reshape(y.shape), unused="zeros")
        rows.append([grad for _, grad in leaves(found, "gradient", "jacobian")])
    each = []
    for k, (_, source) in enumerate(named):
        shape = (*y.shape, *source.shape)
        if rows:
            each.append(F.stack([row[k] for row in rows]).reshape(shape))
        else:
            each.append(source.device.zeros(shape, source.dtype))
    return rebuilt(sources, iter(each))


def _dot(a: Any, b: Any, op: str) -> Any:
    """The sum of the products of the elements of two trees, as one element."""
    left, right = leaves(a, "x", op), leaves(b, "v", op)
    if len(left) != len(right):
        raise ArgumentError(
            f"[{op}] both trees must have the same number of leaves but have {len(left)} and "
            f"{len(right)}"
        )
    terms = []
    for (name, t), (other, u) in zip(left, right, strict=True):
        if not isinstance(u, Tensor) or u.shape != t.shape:
            got = u.shape if isinstance(u, Tensor) else type_name(u)
            raise ArgumentError(
                f"[{op}] {other} must be a Tensor of the shape {t.shape} of {name} but is {got}"
            )
        terms.append(F.sum(F.mul(t, u)))
    if not terms:
        raise ArgumentError(f"[{op}] x must contain a Tensor")
    return functools.reduce(F.add, terms)
