"""Attention: flash_attn_backward, and the gradient of sinks."""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels.errors import TapeError
from pykernels.tape import Taped, reads

_NAMES = ("q", "k", "v", "mask")


def _reads(kernel: Any, options: dict[str, Any]) -> set[str]:
    """All: without its lse the result is computed again."""
    return {arg.name for arg in kernel.args}


@reads(of=_reads)
def flash_attn(call: Taped) -> None:
    names = dict(zip(_NAMES, (call.kernel.args[i].name for i in range(4)), strict=True))
    op = call.kernel.name
    if call.dy("lse") is not None:
        raise TapeError(f"[tape] {op} has no gradient rule for its lse")
    if call.wants(names["mask"]):
        raise TapeError(f"[tape] {op} has no gradient rule for its {names['mask']}")
    if call.shape("lengths") is not None:
        raise TapeError(f"[tape] {op} has no gradient rule where it is given lengths")
    q, k, v, mask = (call.saved(names[n]) for n in _NAMES)
    sinks, o, lse, do = call.saved("sinks"), call.saved("dst"), call.saved("lse"), call.dy()
    options: Any = {n: call.option(n) for n in call.kernel.options}
    if lse is None:
        lse = q.device.empty(q.shape[:3])
        again = q.device.empty(o.shape, o.dtype)
        kernels.flash_attn(q, k, v, again, mask=mask, sinks=sinks, lse=lse, **options)
    if any(call.wants(names[n]) for n in "qkv"):
        found = F.flash_attn_backward(q, k, v, o, lse, do, mask=mask, sinks=sinks, **options)
        for name, grad in zip("qkv", found, strict=True):
            call.give(names[name], grad)
    if call.wants("sinks"):  # its weight takes from all others
        each = F.sum(F.elementwise("float32(o) * float32(do)", o=o, do=do), axis=-1)
        text = "where(lse == -inf, 0, -exp(sinks - lse) * each)"
        rows = F.elementwise(text, lse=lse, sinks=sinks[:, None], each=each)
        call.give("sinks", F.sum(rows, axis=(0, 2)))


scaled_dot_product_attention = flash_attn
