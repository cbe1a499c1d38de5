"""The functions that `pk.autocast` converts, and the arguments of each.

The build reads these tables, and docs/guide/training.md shows them.
"""

from __future__ import annotations

__all__ = ["CASTS", "FLOAT16", "FLOAT32"]

# Computed in float16: these arguments become float16 if they are float32. Masks, biases and
# residuals stay as they are: the kernels add them in float32.
FLOAT16: dict[str, tuple[str, ...]] = {
    "matmul": ("a", "b"),
    "linear": ("x", "w"),
    "dot": ("a", "b"),
    "tensordot": ("a", "b"),
    "einsum": ("operands",),
    "conv1d": ("x", "w"),
    "conv2d": ("x", "w"),
    "conv_transpose1d": ("x", "w"),
    "conv_transpose2d": ("x", "w"),
    "flash_attn": ("q", "k", "v"),
    "scaled_dot_product_attention": ("query", "key", "value"),
}
# Computed in float32, with a float32 result: these arguments become float32 if they are float16.
FLOAT32: dict[str, tuple[str, ...]] = {
    "softmax": ("x",),
    "log_softmax": ("x",),
    "layer_norm": ("x", "weight", "bias"),
    "rms_norm": ("x", "weight"),
    "group_norm": ("x", "weight", "bias"),
    "instance_norm": ("x", "weight", "bias"),
    "l2_norm": ("x",),
    "add_layer_norm": ("x", "residual", "weight", "bias"),
    "add_rms_norm": ("x", "residual", "weight"),
    "cross_entropy": ("input", "target", "weight"),
    "nll_loss": ("input", "weight"),
    "mse_loss": ("input", "target"),
    "l1_loss": ("input", "target"),
    "smooth_l1_loss": ("input", "target"),
    "huber_loss": ("input", "target"),
    "kl_div": ("input", "target"),
    "binary_cross_entropy": ("input", "target", "weight"),
    "binary_cross_entropy_with_logits": ("input", "target", "weight", "pos_weight"),
    "ctc_loss": ("log_probs",),
    "cosine_similarity": ("x1", "x2"),
}
CASTS = FLOAT16 | FLOAT32
