"""Scales a table to another number of multiprocessors, before the device is measured further."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from pykernels.tuning import Tuning, as_data, of_data

__all__ = ["scaled"]

# Keys whose values are numbers of workgroups for the whole device.
_WORKGROUPS = (
    ("matmul", "gemv", "busy"), ("matmul", "gemv", "busy_rows"), ("matmul", "gemv", "lane_groups"),
    *(("matmul", "mul_mat", tile, key)
      for tile in ("32", "64", "16x64", "32x128") for key in ("busy", "least")),
    ("matmul", "gemm_tile", "least"),
    ("matmul", "splitk_reduce", "busy"), ("matmul", "gemv_i8", "busy"),
    ("matmul", "gemv_i8", "busy_rows"), ("matmul", "gemv_i8", "lane_groups"),
    ("matmul", "mul_mat_i8", "tiles", "32", "busy"),
    ("matmul", "mul_mat_i8", "tiles", "64", "busy"),
    ("matmul", "mul_mat_i8", "tiles", "64", "least"), ("conv", "fill"),
)  # fmt: skip
# Tables of tiles whose rates are for the whole device.
_TILES = (
    ("matmul", "gemm_mma"), ("matmul", "gemm_mma_i8"), ("matmul", "gemm_split"),
    ("conv", "implicit_gemm_mma"), ("conv", "conv_weight_mma"), ("conv", "implicit_gemm_3x3"),
)  # fmt: skip


def scaled(t: Tuning, units: int) -> Tuning:
    """The table for a device that differs only in the number of multiprocessors."""
    share = units / t.device.units
    data = copy.deepcopy(as_data(replace(t, device=replace(t.device, units=units))))
    for path in _WORKGROUPS:
        *keys, last = path
        at = _at(data, *keys)
        at[last] = max(round(at[last] * share), min(at[last], 1))
    for path in _TILES:
        for tile in _at(data, *path).values():
            tile["rate"] = _rounded(tile["rate"] * share)
    for path in (
        ("matmul", "gemm_tile"), ("matmul", "mul_mat_i8"), ("attention", "attention_tile"),
    ):  # fmt: skip
        at = _at(data, *path)
        at["rate"] = _rounded(at["rate"] * share)
    weights = data["conv"]["conv2d_backward_weight"]
    weights["direct_rate"] = _rounded(weights["direct_rate"] * share)
    for rates in (weights["rates"], *data["conv"]["implicit_gemm"]["rates"].values()):
        for key, rate in rates.items():
            rates[key] = _rounded(rate * share)
    return of_data(t.name, data)


def _at(data: dict[str, Any], *path: str) -> dict[str, Any]:
    for key in path:
        data = data[key]
    return data


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")
