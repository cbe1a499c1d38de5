"""The shape of each output, if it follows from the inputs and the options."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pykernels._generated.ops.reductions import RESULTS
from pykernels.plans.conv.geometry import ORDERS, geometry, pair, transposed_size
from pykernels.plans.move.nonzero_offsets import CHUNK
from pykernels.plans.pool.windows import output_size
from pykernels.plans.pool.windows import pair as sides
from pykernels.plans.resize.windows import windows
from pykernels.steps import Kernel
from pykernels.tensors.layout import expanded

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = Mapping[str, Shape]
Options: TypeAlias = Mapping[str, Any]

__all__ = ["shapes"]


def shapes(call: Callable[..., None], given: Shapes, options: Options) -> dict[str, Shape]:
    """The shapes of a kernel's outputs, by name; {} if an output must be given.

    LookupError or ValueError for inputs that do not fit; the kernel then raises its own error.
    """
    known = _reduced if call.__name__ in RESULTS else _SHAPES.get(call.__name__)
    if known is not None:
        defaults = {
            n: p.default
            for n, p in inspect.signature(call).parameters.items()
            if p.default is not inspect.Parameter.empty
        }
        return known(given, defaults | dict(options))
    return {"dst": expanded(*given.values())} if given and _is_elementwise(call) else {}


def _is_elementwise(call: Callable[..., None]) -> bool:
    """True if the spec says that the one required output has the shape of an input, or the shape to
    which inputs repeat. An output whose old elements matter must be given by the caller."""
    module = importlib.import_module(call.__module__)
    kernel: Kernel = getattr(module, call.__name__.upper(), module.KERNEL)
    inputs = [a for a in kernel.args if a.role == "in"]
    outputs = [a for a in kernel.args if a.role == "out"]
    needed = [a for a in outputs if not a.optional]
    if len(needed) != 1 or any(a.keeps or a.in_place for a in outputs):
        return False
    [dst] = needed
    repeated = any(dst.name in (a.like, a.expand, a.broadcast) for a in inputs)
    return bool(dst.like or dst.alias) or repeated


def _mul_mat(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"dst": (*t["b"][:-1], *t["a"][-2:-1])}


def _reduced(t: Shapes, o: Options) -> dict[str, Shape]:
    axis = o["axis"]
    given = range(len(t["x"])) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = {range(len(t["x"]))[a] for a in given}
    return {"dst": tuple(n for a, n in enumerate(t["x"]) if a not in axes)}


def _get_rows(t: Shapes, o: Options) -> dict[str, Shape]:
    src, index = t["src"], t["index"]
    lead = src[:-2] if len(index) == 1 else index[:-1]
    return {"dst": (*lead, *index[-1:], *src[-1:])}


def _gather(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"dst": t["index"]}


def _last_index(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"kept": t["index"]}


def _nonzero_offsets(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"offsets": (-(-math.prod(t["src"]) // CHUNK) + 1,)}


def _flash_attn(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"dst": (*t["q"][:-1], *t["v"][-1:]), "lse": t["q"][:-1]}


def _flash_attn_backward(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"dq": t["q"], "dk": t["k"], "dv": t["v"]}


def _conv2d(t: Shapes, o: Options) -> dict[str, Shape]:
    images, rows, cols = _image(t["x"], o)
    g = geometry("conv2d", _kernel(t["w"]), o["stride"], o["padding"], o["dilation"])
    return {"dst": _ordered((images, t["w"][0], *g.output("conv2d", (rows, cols))), o)}


def _conv_transpose2d(t: Shapes, o: Options) -> dict[str, Shape]:
    op = "conv_transpose2d"
    images, rows, cols = _image(t["x"], o)
    g = geometry(op, _kernel(t["w"]), o["stride"], o["padding"], o["dilation"])
    size = transposed_size(op, (rows, cols), g, pair(op, "output_padding", o["output_padding"], 0))
    return {"dst": _ordered((images, t["w"][1] * o["groups"], *size), o)}


def _conv2d_backward_bias(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"dst": (t["dy"][o["layout"].index("C")],)}


def _im2col(t: Shapes, o: Options) -> dict[str, Shape]:
    n, c, h, w = t["x"]
    sizes = (o[name] for name in ("kernel", "stride", "padding", "dilation"))
    found = windows("im2col", (h, w), *sizes)
    return {"dst": (n, c * math.prod(found.kernel), math.prod(found.out))}


def _pool(t: Shapes, o: Options) -> dict[str, Shape]:
    """The shape of a pool's result; the number of windows is rounded down."""
    op = "pool"
    kernel, stride = sides(op, "kernel", o["kernel"], 1), o["stride"] or o["kernel"]
    each = zip(
        t["x"][2:], kernel, sides(op, "stride", stride, 1), sides(op, "padding", o["padding"], 0),
        sides(op, "dilation", o.get("dilation", 1), 1), strict=True,
    )  # fmt: skip
    dst = (*t["x"][:2], *(output_size(*numbers, ceil=False) for numbers in each))
    return {"dst": dst, "index": dst} if "dilation" in o else {"dst": dst}


def _kernel(w: Shape) -> tuple[int, int]:
    return w[2], w[3]


def _image(x: Shape, o: Options) -> Shape:
    """The numbers of images, rows and columns of x."""
    by_axis = dict(zip(o["layout"], x, strict=True))
    return by_axis["N"], by_axis["H"], by_axis["W"]


def _ordered(shape: Shape, o: Options) -> Shape:
    return tuple(shape[axis] for axis in ORDERS[o["layout"]])


def _loss(t: Shapes, o: Options) -> dict[str, Shape]:
    rows = t["x"][:-1]
    dst = rows if o["reduction"] == "none" else ()
    found: dict[str, Shape] = {"total": (), "dst": dst}
    return found | ({"stats": (*rows, 2)} if "label_smoothing" in o else {})


def _as_x(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"dst": t["x"]}


def _summed(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"summed": t["x"], "dst": t["x"]}


def _norm_of_rows(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"dweight": t["x"][-1:], "dbias": t["x"][-1:], "dst": t["x"]}


def _norm_of_images(t: Shapes, o: Options) -> dict[str, Shape]:
    return {"dweight": t["x"][1:2], "dbias": t["x"][1:2], "dst": t["x"]}


_SHAPES: dict[str, Callable[[Shapes, Options], dict[str, Shape]]] = {
    "add_layer_norm": _summed,
    "add_rms_norm": _summed,
    "avg_pool2d": _pool,
    "batch_norm": _as_x,
    "batch_norm_backward": _norm_of_images,
    "group_norm_backward": _norm_of_images,
    "layer_norm_backward": _norm_of_rows,
    "max_pool2d": _pool,
    "categorical": lambda t, o: {"dst": t["logits"][:-1]},
    "cholesky": lambda t, o: {"dst": t["a"]},
    "cpy": lambda t, o: {"dst": t["src"]},
    "fill_where": lambda t, o: {},  # writes only a part of dst
    "solve_tri": lambda t, o: {"dst": t["b"]},
    "lu_factor": lambda t, o: {"dst": t["a"], "pivots": t["a"][:-1]},
    "tri": lambda t, o: {"dst": t["src"]},
    "median": lambda t, o: {"dst": t["x"][:-1]},
    "searchsorted": lambda t, o: {"dst": t["values"]},
    "solve": lambda t, o: {"dst": t["b"]},
    "conv2d": _conv2d,
    "conv2d_backward_bias": _conv2d_backward_bias,
    "conv_transpose2d": _conv_transpose2d,
    "cross_entropy": _loss,
    "cross_entropy_backward": _as_x,
    "flash_attn": _flash_attn,
    "flash_attn_backward": _flash_attn_backward,
    "gather": _gather,
    "get_rows": _get_rows,
    "im2col": _im2col,
    "mul_mat": _mul_mat,
    "mul_mat_i8": _mul_mat,
    "nll_loss": _loss,
    "last_index": _last_index,
    "nonzero_offsets": _nonzero_offsets,
    "rms_norm_backward": _norm_of_rows,
    "rope": _as_x,
}
