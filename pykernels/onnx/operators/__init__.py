"""Operations of ONNX, by family: entries of table.py, and expressions."""

from . import (
    contrib,
    contrib_attention,
    contrib_bits,
    indexing,
    inner,
    moves,
    norms,
    pools,
    products,
    quantized,
    recurrent,
    reductions,
    resize,
    spectra,
    windows,
)
from .expressions import RULES
from .table import EITHER, ENTRIES, HOST

__all__ = ["EITHER", "ENTRIES", "HOST", "RULES"]

# Importing these modules adds their entries to the table.
_ENTERED = (
    contrib, contrib_attention, contrib_bits, indexing, inner, moves, norms, pools, products,
    quantized, recurrent, reductions, resize, spectra, windows,
)  # fmt: skip
