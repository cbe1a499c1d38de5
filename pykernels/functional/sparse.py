"""Products of sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from pykernels._generated.kernels.csr_matmul import KERNEL as _KERNEL
from pykernels._generated.wrappers import csr_matmul as _wrapper
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ShapeError
from pykernels.runtime.whole import whole
from pykernels.tensors.sparse import CSR

__all__ = ["csr_matmul"]


@whole
def csr_matmul(a: CSR | Any, x: Array, *, out: Tensor | None = None) -> Array:
    """A sparse matrix times a dense vector or matrix (scipy.sparse: a @ x).

    Sums are float32. Their order depends only on the shapes and the number of elements.

    Args:
        a: pk.CSR (M, K), or an argument of `pk.CSR` such as a scipy.sparse.csr_array. For more than
            one product make a pk.CSR, because a call copies any other object to the device each
            time.
        x: Tensor or numpy array (K,) or (K, N), float32 or float16; any strides.
        out: The Tensor to write to; None makes one.

    Returns:
        (M,) or (M, N), float16 if a and x are float16, else float32. It is a numpy array if x is
        one and `out` is None, else a Tensor.

    Raises:
        ShapeError, DTypeError: x does not fit a; and the errors of `pk.CSR`.
        IndexRangeError: at the next synchronisation, for an index outside [0, K), if a was made
            from Tensors.

    Source: scipy.sparse.csr_array (meaning).
    """
    op = "csr_matmul"
    if not isinstance(a, CSR):
        near = x if isinstance(x, Tensor) else out
        a = CSR(a, device=near.device if isinstance(near, Tensor) else None)
    call = Call(_KERNEL, a.data, x, out=out)
    given = call.tensor("x", x)
    if given.ndim not in (1, 2) or given.shape[0] != a.shape[1]:
        raise ShapeError(
            f"[{op}] x must be ({a.shape[1]},) or ({a.shape[1]}, N) but has shape {given.shape}"
        )
    dtype: DTypeName = "float16" if a.dtype == given.dtype == "float16" else "float32"
    result = call.out((a.shape[0], *given.shape[1:]), dtype)
    wide, to = (t if t.ndim == 2 else t[:, None] for t in (given, result))
    _wrapper.csr_matmul(a.data, a.indices, a.indptr, wide, to, check=not a._checked)
    return result.numpy() if isinstance(x, np.ndarray) and out is None else result
