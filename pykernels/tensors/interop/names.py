"""Names of torch, numpy and jax that this package lacks, and the names to use instead."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["INSTEAD", "instead"]

INSTEAD = {
    "LongTensor": "pk.tensor(values, 'int64')", "Module": "functions and pk.Tape",
    "Parameter": "pk.tensor",
    "addmm": "pk.matmul(a, b) + c", "amax": "pk.max", "amin": "pk.min",
    "aminmax": "pk.min and pk.max", "argwhere": "np.argwhere(t)", "array": "pk.tensor",
    "array_split": "pk.split", "as_tensor": "pk.asarray", "autograd": "pk.Tape",
    "bmm": "pk.matmul", "clamp_max": "pk.clamp(x, max=...)",
    "clamp_min": "pk.clamp(x, min=...)", "clip_grad_norm_": "pk.clip_grad_norm",
    "clone": "Tensor.copy()", "concat": "pk.concatenate", "cuda": "pk.Device",
    "detach": "pk.stop_gradient", "device": "pk.Device", "device_put": "pk.tensor",
    "e": "math.e", "float64": "the text 'float32', to which float64 arrays are converted",
    "from_numpy": "pk.tensor", "index_add": "pk.scatter_add",
    "index_put": "t[index] = values", "inf": "math.inf",
    "hstack": "np.hstack(tensors)", "inner": "pk.tensordot",
    "is_tensor": "isinstance(t, pk.Tensor)",
    "jacfwd": "pk.jacobian", "jacrev": "pk.jacobian", "jit": "Device.capture of pk.Device",
    "linalg": "np.linalg's functions of tensors, pk.norm, pk.solve, pk.inv, pk.det and pk.cholesky",
    "load": "np.load and pk.tensor",
    "matrix_transpose": "pk.swapaxes(t, -1, -2)", "mm": "pk.matmul", "mv": "pk.matmul",
    "ndarray": "pk.Tensor", "newaxis": "None", "nn": "the functions of pk",
    "numel": "Tensor.size",
    "nan": "math.nan",
    "optim": "pk.SGD, pk.Adam, pk.AdamW", "outer": "a[:, None] * b",
    "percentile": "pk.quantile(x, q / 100)", "permute_dims": "Tensor.transpose", "pi": "math.pi",
    "random": "pk.rand, pk.randn, pk.randint",
    "ravel": "pk.flatten", "relu6": "pk.clamp(x, 0, 6)", "reshape": "Tensor.reshape",
    "save": "np.save(path, t)", "scatter_": "pk.scatter(..., out=t)", "select": "an index",
    "swish": "pk.silu", "synchronize": "Device.sync of pk.Device", "std_mean": "pk.std and pk.mean",
    "take": "an index, t[places]",
    "tensor_split": "pk.split", "transpose": "Tensor.transpose or pk.swapaxes",
    "unbind": "iteration, or an index",
    "var_mean": "pk.var and pk.mean", "view": "Tensor.reshape",
    "vstack": "np.vstack(tensors)",
}  # fmt: skip
_DTYPES = {"float": "float32", "double": "float32", "half": "float16", "int": "int32",
           "long": "int64", "short": "int16", "byte": "uint8"}  # fmt: skip
_LAYERS = {"CrossEntropyLoss": "cross_entropy", "MSELoss": "mse_loss", "L1Loss": "l1_loss",
           "NLLLoss": "nll_loss", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
           "LSTM": "lstm"}  # fmt: skip


def instead(name: str, functions: Collection[str], dtypes: Collection[str]) -> str:
    """A hint for a name, or "". Layers of torch are functions here, and dtypes are texts."""
    if name in INSTEAD:
        return INSTEAD[name]
    dtype = _DTYPES.get(name, name)
    if dtype in dtypes:
        return f"the text {dtype!r}, as in pk.zeros(3, {dtype!r})"
    stem = _LAYERS.get(name, name)
    for found in (stem, re.sub(r"\dd$", "", stem)):
        for spelled in (found.lower(), re.sub(r"(?<=[a-z])(?=[A-Z])", "_", found).lower()):
            if spelled != name and spelled in functions:
                return f"the function pk.{spelled}"
    return ""
