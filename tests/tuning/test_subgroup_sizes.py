"""Subgroups of 4 to 128 lanes: the texts that use them compute the same, whatever the width is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.wgsl.texts import read_manifest
from tests.subgroups import BODIES, subgroups_of

Array = np.ndarray[Any, Any]


def test_bodies_with_subgroups_are_those_that_are_edited() -> None:
    """Others use them for matrix units, whose subgroups have 32 lanes."""
    variants = read_manifest()["variants"].values()
    using = {v["body"] for v in variants if "subgroups" in v["features"]}
    assert {b for b in using if "mma" not in b and b != "gemm_split"} == {*BODIES}


@pytest.mark.gpu
@pytest.mark.crowd
@pytest.mark.parametrize("width", [4, 8, 16, 32, 64, 128])
def test_subgroups_of_any_width(dev: pk.Device, width: int) -> None:
    if not dev._context.caps.subgroups:
        pytest.skip("no subgroups")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, 9000)).astype(np.float32) * 4
    q, k, v = (rng.standard_normal(s).astype(np.float32)
               for s in ((1, 8, 1, 64), (1, 2, 150, 64), (1, 2, 150, 64)))  # fmt: skip
    with subgroups_of(width) as texts, pk.Device(dev.info["name"], engine=dev.engine) as own:
        with force(own, tuning="nvidia-h200"):
            # Rows that one workgroup can only just hold, and few queries.
            found = pk.softmax(own.tensor(rows)).numpy()
            attended = pk.flash_attn(*map(own.tensor, (q, k, v))).numpy()
            blocks = [pk.quantize(own.tensor(x), "q8_0") for x in (k, v)]
            of_blocks = pk.flash_attn(own.tensor(q), *blocks).numpy()
            k8, v8 = (x.numpy() for x in blocks)
    assert all(t.used for t in texts), "other bodies were chosen"
    np.testing.assert_allclose(found, softmax(rows), rtol=2e-5)
    np.testing.assert_allclose(attended, attention(q, k, v), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_blocks, attention(q, k8, v8), rtol=1e-4, atol=1e-5)


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = np.einsum("bhsd,bhtd->bhst", q, np.repeat(k, 4, 1)) / 8
    return np.einsum("bhst,bhtd->bhsd", softmax(scores), np.repeat(v, 4, 1))


def softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))
