"""Small sizes for the functions of the sweep, for tests."""

from __future__ import annotations

__all__ = ["SMALL"]

# A small size of each function, with odd numbers if the function allows them.
SMALL: dict[str, tuple[int, ...]] = {
    "linear": (3, 33, 17), "matmul": (2, 5, 7, 33), "conv2d": (2, 3, 9, 11, 5, 3, 2, 1),
    "depthwise": (2, 3, 9, 11, 3, 2), "attention": (1, 4, 2, 9, 9, 16, 1), "softmax": (3, 77),
    "log_softmax": (3, 77), "sum": (1, 5, 33), "max": (0, 5, 33), "argmax": (1, 5, 33),
    "cumsum": (0, 33, 5), "layer_norm": (3, 33), "rms_norm": (3, 33), "add": (77,), "mul": (77,),
    "gelu": (77,), "exp": (77,), "permute": (0, 2, 1, 3, 5, 7),
    "max_pool2d": (1, 2, 9, 11, 3, 2, 1), "avg_pool2d": (1, 2, 9, 11, 3, 2, 1),
    "resize": (1, 2, 9, 11, 14, 6), "pad": (1, 2, 3, 5, 2), "concatenate": (3, 5, 3),
    "group_norm": (2, 6, 5, 3, 3), "sort": (77,), "argsort": (77,), "gather": (5, 9, 4),
    "embedding": (9, 5, 11), "scatter_add": (77, 9), "nonzero": (7, 11), "bincount": (77, 9),
    "top_k": (3, 77, 5),
}  # fmt: skip
