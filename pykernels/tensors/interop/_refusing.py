"""The errors for numpy's functions, and for their arguments, that tensors do not support."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["lacks", "refuse"]


def refuse(name: str) -> TypeError:
    """The error for a function of numpy that does not run on the device."""
    return TypeError(f"tensors have no numpy.{name}: compute with .numpy() on the host")


def lacks(name: str, argument: str, value: Any, usual: Any) -> None:
    """TypeError for an argument that pykernels lacks, unless it has its default value."""
    given = value is not None and value is not np._NoValue
    if given and not (type(value) is type(usual) and value == usual):
        raise TypeError(
            f"[{name}] tensors lack numpy's argument {argument} but got {value!r:.40}: compute "
            "with .numpy() on the host"
        )
