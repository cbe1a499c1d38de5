"""Layer two: functions that allocate their output, with the names and arguments of numpy and torch.

numpy arrays in give a numpy array out, computed on the default device. A Tensor among the
arguments makes the result a Tensor on its device. What only allocates is generated; functions that
do more have a file here and a line below.
"""

from pykernels._generated import functional as _generated
from pykernels._generated.functional import *  # noqa: F403

from .attention import flash_attn, flash_attn_backward, scaled_dot_product_attention
from .conv import conv2d, conv_transpose2d
from .copy import astype, copy, copyto
from .fill import empty, fill, full, memset, ones, zeros
from .matmul import matmul
from .rows import embedding, get_rows, set_rows

__all__ = [
    "astype",
    "conv2d",
    "conv_transpose2d",
    "copy",
    "copyto",
    "embedding",
    "empty",
    "fill",
    "flash_attn",
    "flash_attn_backward",
    "full",
    "get_rows",
    "matmul",
    "memset",
    "ones",
    "scaled_dot_product_attention",
    "set_rows",
    "zeros",
]
__all__ += _generated.__all__
