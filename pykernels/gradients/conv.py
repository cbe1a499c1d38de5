"""Convolutions, dst = act(scale * (x * w) + bias + residual), and transposed convolutions."""

from __future__ import annotations

from typing import Any

from pykernels import kernels
from pykernels.plans.conv.geometry import geometry, pair
from pykernels.tape import Taped, reads

from ._epilogue import before_activation, epilogue_reads


@reads(of=epilogue_reads("x", "w"))
def conv2d(call: Taped) -> None:
    x, w, scale = call.saved("x"), call.saved("w"), call.scalar("scale")
    window: Any = {n: call.option(n) for n in ("stride", "padding", "dilation", "groups", "layout")}

    def sums() -> Any:
        dst = x.device.empty(call.shape("dst") or ())
        added: Any = {n: call.saved(n) for n in ("bias", "residual")}
        kernels.conv2d(
            x, w, dst, **added, scale=scale, precision=call.option("precision"), **window
        )
        return dst

    dz = before_activation(call, sums)
    call.give("residual", dz)
    if call.wants("x"):
        [place] = call.room("x")
        dx = x.device.empty(x.shape, x.dtype) if place is None else place
        kernels.conv2d_backward_input(dz, w, dx, scale=scale, **window)
        call.give("x", dx)
    if call.wants("w"):
        dw = x.device.empty(w.shape, w.dtype)
        kernels.conv2d_backward_weight(dz, x, dw, scale=scale, **window)
        call.give("w", dw)
    _give_bias(call, dz)


def _give_bias(call: Taped, dz: Any) -> None:
    if call.wants("bias"):
        db = dz.device.empty(call.shape("bias") or ())
        kernels.conv2d_backward_bias(dz, db, layout=call.option("layout"))
        call.give("bias", db)


@reads(of=epilogue_reads("x", "w"))
def conv_transpose2d(call: Taped) -> None:
    """This kernel computes the gradient of conv2d's input: its x has the role of conv2d's dy, and
    dz the role of conv2d's x."""
    x, w, scale = call.saved("x"), call.saved("w"), call.scalar("scale")
    layout = call.option("layout")
    window: Any = {n: call.option(n) for n in ("stride", "dilation", "groups", "layout")}

    def sums() -> Any:
        dst = x.device.empty(call.shape("dst") or ())
        more = {"padding": call.option("padding"), "output_padding": call.option("output_padding")}
        kernels.conv_transpose2d(x, w, dst, bias=call.saved("bias"), scale=scale, **window, **more)
        return dst

    dz = before_activation(call, sums)
    _give_bias(call, dz)
    # Rows that `output_padding` added take the place of padding at the end of dz. If there are more
    # of these rows than padding, the surplus is cut off.
    g = geometry("conv_transpose2d", (w.shape[2], w.shape[3]), call.option("stride"),
                 call.option("padding"), call.option("dilation"))  # fmt: skip
    top, bottom, left, right = g.padding
    down, across = pair("conv_transpose2d", "output_padding", call.option("output_padding"), 0)
    cut: list[slice] = [slice(None)] * 4
    cut[layout.index("H")] = _but(dz.shape[layout.index("H")], down - bottom)
    cut[layout.index("W")] = _but(dz.shape[layout.index("W")], across - right)
    dz = dz[tuple(cut)]
    window["padding"] = (top, max(bottom - down, 0), left, max(right - across, 0))
    if call.wants("x"):
        dx = x.device.empty(x.shape, x.dtype)
        kernels.conv2d(dz, w, dx, scale=scale, **window)
        call.give("x", dx)
    if call.wants("w"):
        dw = x.device.empty(w.shape, w.dtype)
        kernels.conv2d_backward_weight(x, dz, dw, scale=scale, **window)
        call.give("w", dw)


def _but(size: int, last: int) -> slice:
    """The slice of an axis without its last `last` elements."""
    return slice(size - max(last, 0))


@reads("dy", "w")
def conv2d_backward_input(call: Taped) -> None:
    """This kernel is linear in dy and in w. conv2d computes the gradient of dy, and
    conv2d_backward_weight the gradient of w."""
    dy, w, given, options = call.saved("dy"), call.saved("w"), call.dy(), _window(call)
    if call.wants("dy"):
        found = dy.device.empty(dy.shape, dy.dtype)
        kernels.conv2d(given, w, found, **options)
        call.give("dy", found)
    if call.wants("w"):
        found = dy.device.empty(w.shape, w.dtype)
        kernels.conv2d_backward_weight(dy, given, found, **options)
        call.give("w", found)


@reads("dy", "x")
def conv2d_backward_weight(call: Taped) -> None:
    """This kernel is linear in dy and in x. conv2d computes the gradient of dy, and
    conv2d_backward_input the gradient of x."""
    dy, x, given, options = call.saved("dy"), call.saved("x"), call.dy(), _window(call)
    if call.wants("dy"):
        found = dy.device.empty(dy.shape, dy.dtype)
        kernels.conv2d(x, given, found, **options)
        call.give("dy", found)
    if call.wants("x"):
        found = dy.device.empty(x.shape, x.dtype)
        kernels.conv2d_backward_input(dy, given, found, **options)
        call.give("x", found)


@reads()
def conv2d_backward_bias(call: Taped) -> None:
    shape = call.shape("dy") or ()
    scale, channels = call.scalar("scale"), call.option("layout").index("C")
    each: Any = call.dy() if scale == 1 else call.dy() * scale
    by_channel = [shape[a] if a == channels else 1 for a in range(len(shape))]
    call.give("dy", each.reshape(by_channel).broadcast_to(shape))


def _window(call: Taped) -> dict[str, Any]:
    """The options of a convolution, and its factor `scale`."""
    names = ("stride", "padding", "dilation", "groups", "layout")
    return {"scale": call.scalar("scale"), **{name: call.option(name) for name in names}}
