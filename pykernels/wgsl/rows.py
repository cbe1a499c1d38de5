"""Operations as WGSL texts. V, U, I and B stand for the types of a value, of its bits and of
conditions, so one text serves every dtype of a class and vectors of any length."""

from __future__ import annotations

import re

__all__ = ["CLASSES", "class_of", "typed", "value_type"]

# The dtypes of a class, by their short names; dtypes of 16 bits are computed in f32.
CLASSES = {"float": ("f32", "f16"), "int": ("i32",), "uint": ("u32",), "bool": ("bool",)}
_TYPE_WORD = re.compile(r"\b[VUIB]\b")


def class_of(dtype: str) -> str:
    """The class of a dtype by its short name."""
    return next(c for c, dtypes in CLASSES.items() if dtype in dtypes)


def value_type(kind: str, dtype: str, vec: int) -> str:
    """The type that V (a value), U or I (its bits as unsigned or signed integers) or B (a
    condition) stands for."""
    value = "f32" if dtype == "f16" else dtype
    scalar = {"V": value, "U": "u32", "I": "i32", "B": "bool"}[kind]
    return scalar if vec == 1 else f"vec{vec}<{scalar}>"


def typed(text: str, dtype: str, vec: int) -> str:
    """The text for values of a dtype, in vectors of `vec`."""
    return _TYPE_WORD.sub(lambda m: value_type(m[0], dtype, vec), text)
