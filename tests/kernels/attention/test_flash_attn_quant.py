"""flash_attn of keys and values in blocks, against float64 attention over what the blocks are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.plans.attention.arguments import Dims
from pykernels.plans.attention.select import MMA, AttentionChoice, choose
from pykernels.reference import quant as reference
from pykernels.reference.attention import attention, lse_budget
from pykernels.reference.attention import flash_attn_budget as budget
from tests.harness import Array, Case, Form, Operand, assert_close, caps, random_form

gpu = pytest.mark.gpu
KEPT = ("q8_0", "q4_0")
F32, F16 = "float32", "float16"
LENGTHS = [130, 2, 0]


class Calls:
    """Calls of flash_attn_quant in one arena, each compared with the reference."""

    def __init__(self, dev: pk.Device, name: str, seed: int = 0) -> None:
        self.dev, self.name, self.case = dev, name, Case(dev, seed)
        self.rng = self.case.rng
        self.calls: list[tuple[dict[str, Operand], Array, Array, dict[str, Any]]] = []

    def add(
        self, heads: tuple[int, int, int], sizes: tuple[int, int], depths: tuple[int, int],
        dtype: str = F32, *, mask: Array | None = None, sinks: Array | None = None,
        lengths: Sequence[int] | None = None, forms: Sequence[Form] = (), **options: Any,
    ) -> None:  # fmt: skip
        """`heads`: B, H, Hkv; `sizes`: S, T; `depths`: D, Dv. Behind `lengths` scales are NaN."""
        (b, h, hkv), (s, t), (d, dv) = heads, sizes, depths
        given = {"q": self.rng.normal(0, 1, (b, h, s, d)).astype(dtype)}
        numbers, operands = [], {}
        for name, depth in (("k", d), ("v", dv)):
            x = self.rng.normal(0, 1, (b, hkv, t, depth)).astype(F32)
            for i, n in enumerate(lengths or ()):
                x[i, :, max(n, 0) :] = np.nan
            with np.errstate(invalid="ignore"):
                scales, low = reference.quantize(x, self.name)
            numbers.append(reference.dequantize(low, scales, x.shape, F32, quant=self.name))
            given |= {f"{name}_low": low, f"{name}_scales": scales}
        extras = {"mask": mask, "sinks": sinks}
        given |= {n: a for n, a in extras.items() if a is not None}
        if lengths is not None:
            given["lengths"] = np.int32(lengths)
        for n, a in given.items():
            operands[n] = self.case.input(a, forms[0] if forms and n == "q" else None)
        operands["lse"] = self.case.output((b, h, s), F32)
        operands["dst"] = self.case.output((b, h, s, dv), dtype, forms[1] if forms else None)
        self.calls.append((operands, numbers[0], numbers[1], {"keys": t, **options}))

    def check(self, what: str = "") -> None:
        self.case.build()
        own = self.dev._context.caps
        before = [{n: o.array.copy() for n, o in c[0].items() if n not in ("lse", "dst")}
                  for c in self.calls]  # fmt: skip

        def run() -> None:
            for operands, _, _, options in self.calls:
                t = {n: o.tensor for n, o in operands.items()}
                first = [t.pop(n) for n in ("q", "k_low", "k_scales", "v_low", "v_scales", "dst")]
                pk.kernels.flash_attn_quant(*first, **t, quant=self.name, **options)

        found = iter(self.case.run(run))
        for (_, k, v, options), t in zip(self.calls, before, strict=True):
            options = {n: o for n, o in options.items() if n != "keys"}
            rounded = own.matrix is not None and self._takes_units(t["q"], k, v)
            if rounded:  # to what matrix units multiply
                k, v = k.astype(F16), v.astype(F16)
            given = [t["q"], k, v, t.get("mask"), t.get("sinks"), t.get("lengths")]
            want = attention(*given, **options)
            text = f"{what} {self.name} {t['q'].dtype} {t['q'].shape} {k.shape} {options}"
            bound = lse_budget(t["q"], k, t.get("mask"), want, **options)
            assert_close(next(found), want.lse, bound, text + " lse")
            bound = budget(*given, result=want, rounded=rounded, **options)
            assert_close(next(found), want.o, bound, text)

    def _takes_units(self, q: Array, k: Array, v: Array) -> bool:
        """Does the plan take matrix units, which multiply numbers rounded to halves?"""
        (b, h, s, d), (_, hkv, keys, _) = q.shape, k.shape
        sizes = Dims(b, h, hkv, s, keys, d, v.shape[3])
        return choose(self.dev._context.caps, sizes, halves=q.dtype == F16).body.startswith(MMA)


@gpu
@pytest.mark.parametrize("name", KEPT)
def test_few_rows(dev: pk.Device, name: str) -> None:
    """Blocks in place, in one split and in five: groups of heads, any layout of q and dst."""
    calls = Calls(dev, name)
    forms = [random_form(calls.rng, 4, repeats=i == 0) for i in range(2)]
    calls.add((2, 8, 2), (3, 70), (64, 32), F16, lengths=[70, 9], causal=True, forms=forms)
    calls.add((3, 4, 1), (1, 131), (64, 64), lengths=LENGTHS, window=(50, 0), softcap=3.0,
              sinks=np.float32([0.5, -np.inf, 20.0, -1.0]))  # fmt: skip
    for splits in (1, 5):
        with force(dev, AttentionChoice("decode", splits)):
            calls.check(f"{splits} splits")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("depths", [(32, 32), (128, 96), (256, 160), (64, 288)], ids=str)
def test_depths(dev: pk.Device, depths: tuple[int, int], name: str) -> None:
    """All lane groups, and heads beyond them."""
    calls = Calls(dev, name)
    calls.add((2, 4, 2), (1, 300), depths, F16, lengths=[299, 64])
    calls.add((1, 4, 2), (2, 200), depths)
    with force(dev, AttentionChoice("decode", 5)):
        calls.check(f"{depths}")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("dtype", (F32, F16))
@pytest.mark.parametrize("name", KEPT)
def test_prompts(dev: pk.Device, name: str, dtype: str) -> None:
    """What the plan chooses for more rows, with matrix units where there are some, and with a
    mask."""
    calls = Calls(dev, name)
    calls.add((2, 4, 2), (70, 131), (64, 32), dtype, lengths=[130, 71], causal=True)
    mask = np.where(calls.rng.random((1, 4, 2, 131)) < 0.4, -np.inf, 1.5).astype(F32)
    calls.add((1, 4, 4), (2, 131), (64, 64), dtype, mask=mask, max_bias=8.0, scale=0.2)
    calls.check()


@gpu
def test_other_devices(dev: pk.Device) -> None:
    """Without subgroups, without halves."""
    for own in ({"subgroups": False}, {"f16": False}):
        calls = Calls(dev, "q8_0")
        calls.add((2, 4, 2), (1, 90), (64, 64), F16, lengths=[90, 17])
        with caps(dev, **own):
            calls.check(str(own))


@gpu
def test_in_parts(dev: pk.Device) -> None:
    """Planes above one binding: KV heads and batches are cut, of few rows and of many."""
    with caps(dev, max_binding=dev._context.caps.alignment + 16 * 1024 * 8):
        calls = Calls(dev, "q8_0")
        calls.add((2, 4, 4), (1, 1200), (64, 64), lengths=[1200, 700])
        calls.check()
        calls = Calls(dev, "q8_0")  # here what is dequantised is too large
        calls.add((2, 4, 4), (33, 400), (64, 64), lengths=[400, 70])
        calls.check()


@gpu
def test_caches_of_a_decoder(dev: pk.Device) -> None:
    """Keys and values of one cache, its heads as views, of two, captured, and every refusal."""
    rng = np.random.default_rng(3)
    cache = pk.quantize(dev.tensor(rng.normal(size=(4, 20, 32)).astype(F32)), "q8_0")
    q = dev.tensor(rng.normal(size=(1, 4, 1, 32)).astype(F32))
    length = dev.tensor(np.int32([7]))
    out = dev.empty(q.shape)
    with dev.capture() as program:
        pk.flash_attn(q, cache[None, :2], cache[None, 2:], lengths=length, out=out)
        pk.add(length, 1, out=length)
    program()
    program()
    whole = cache.numpy()
    want = attention(q.numpy(), whole[None, :2], whole[None, 2:], None, None, np.int32([8]))
    bound = budget(q.numpy(), whole[None, :2], whole[None, 2:], None, None, np.int32([8]))
    assert_close(out.numpy(), want.o, bound, "captured")
    apart = [pk.quantize(cache[h].dequantize(), "q8_0")[None] for h in (slice(2), slice(2, None))]
    got, lse = pk.flash_attn(q, *apart, lengths=length, return_lse=True)
    assert got.shape == q.shape and lse.shape == (1, 4, 1)
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.flash_attn(q, cache[None, :2], whole[None, 2:]), pk.DTypeError, "both be QT"),
        (lambda: pk.flash_attn(q, cache[None, :2], pk.quantize(whole[None, 2:], "q4_0")),
         pk.DTypeError, "one type but v is q4_0"),
        (lambda: pk.flash_attn(q, cache[:2], cache[2:]), pk.ShapeError, "k and v must be"),
        (lambda: pk.flash_attn(q[..., :16], *apart), pk.ShapeError, "q must be"),
        (lambda: pk.flash_attn(q[:, :3], *apart), pk.ShapeError, "multiple of those of k and v"),
        (lambda: pk.flash_attn(q, *apart, dropout_p=0.5), pk.ArgumentError, "dropout_p excludes"),
        (lambda: pk.flash_attn(q, *[pk.quantize(a.dequantize(), "q5_1") for a in apart]),
         pk.ArgumentError, "q8_0 or q4_0, not in q5_1"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
    with pytest.raises(pk.PyKernelsError, match="flash_attn_quant"):
        pk.grad(lambda x: pk.flash_attn(x, *apart).sum())(q)
