"""Chooses the body for sums over windows and the number of splits of K, by pure functions."""

from __future__ import annotations

import math
from typing import NamedTuple

from pykernels._generated.bodies import conv_stem, implicit_gemm, implicit_gemm_3x3
from pykernels.plans.cost import busiest, product_seconds, splitk_seconds, tile_of, waves
from pykernels.plans.limits import MAX_ROUNDS, fits_tile
from pykernels.steps import Candidate, Caps, cdiv, forced
from pykernels.tuning import Tuning

from .select_mma import TILES as MMA_TILES
from .select_mma import MmaShape, costs
from .select_winograd import TILES as WINOGRAD_TILES
from .select_winograd import WinogradShape, fits
from .select_winograd import costs as winograd_costs

__all__ = [
    "BK",
    "BODIES",
    "SMALLEST",
    "STEM",
    "STEM_TILES",
    "TILES",
    "TILES_3X3",
    "ConvChoice",
    "ConvShape",
    "candidates",
    "choose",
    "packs",
]  # fmt: skip

# The tiles of implicit_gemm.wgsl (BM output channels, BN pixels), implicit_gemm_3x3.wgsl and
# conv_stem.wgsl.
TILES = {f"implicit_gemm/{name}": tile for name, tile in implicit_gemm.CONFIGS.items()}
TILES_3X3 = {f"implicit_gemm_3x3/{name}": tile for name, tile in implicit_gemm_3x3.CONFIGS.items()}
# The sizes of a tile of conv_stem are the same for all windows.
STEM_TILES = {
    f"conv_stem/{c.BM}x{c.PIXEL_ROWS * c.PIXEL_COLS}": c for c in conv_stem.CONFIGS.values()
}
STEM, WIDE_STEM = "conv_stem/16x128", "conv_stem/32x128"
SMALLEST = "implicit_gemm/32x32"
BK = TILES[SMALLEST].BK  # all tiles have this BK

# The bodies that a choice names.
BODIES = (
    "conv_few_outputs", "conv_direct", *STEM_TILES, *TILES, *TILES_3X3, *MMA_TILES, *WINOGRAD_TILES,
)  # fmt: skip


class ConvShape(NamedTuple):
    """The facts that a choice depends on. Each group is a product of this shape."""

    groups: int
    rows: int  # output channels of a group
    pixels: int  # output pixels of all images
    depth: int  # number of products of a window: taps times channels
    forms: tuple[str, ...] = ("taps",) * len(TILES)  # how each tile would load the image
    fits_3x3: bool = False  # True if implicit_gemm_3x3 can compute the call
    fits_stem: bool = False  # True if conv_stem can compute the call
    fits_few_outputs: bool = False  # True if conv_few_outputs can compute the call
    mma: MmaShape | None = None  # the size of the product, if matrix units can compute it
    winograd: WinogradShape | None = None  # 3 x 3 taps that Winograd's transforms can serve


class ConvChoice(NamedTuple):
    """A body (with its tile, in the form of TILES) and the number of splits of its sums.

    `pack` matters for weights that a body can read as they are: True repacks them all the same,
    None repacks them if that saves time.
    """

    body: str
    splits: int = 1
    pack: bool | None = None


def choose(caps: Caps, s: ConvShape) -> ConvChoice:
    """The body and the splits for one call."""
    given = forced(caps, ConvChoice, s)
    if given is not None and (
        given.body not in WINOGRAD_TILES or _may_winograd(caps, s, given.body)
    ):
        return given
    t = caps.tuning.conv
    many = s.groups * s.pixels
    if s.fits_few_outputs:
        return ConvChoice("conv_few_outputs")
    if (
        s.rows <= t.conv_direct.rows
        and (s.depth <= t.conv_direct.depth or many >= t.conv_direct.pixels)
        and s.depth < MAX_ROUNDS
    ):
        return ConvChoice("conv_direct")
    stem = t.conv_stem
    if s.fits_stem and not (
        s.fits_3x3 and s.depth >= stem.yield_depth and many >= stem.yield_pixels
    ):
        busy = stem.waves * caps.tuning.device.units
        wide = s.rows > STEM_TILES[STEM].BM and _tiles(s, WIDE_STEM) >= busy
        return ConvChoice(WIDE_STEM if wide else STEM)
    if t.fill:
        splits = min(cdiv(t.fill, _tiles(s, SMALLEST)), s.depth // t.shortest)
        return ConvChoice(SMALLEST, max(1, splits))
    found = [
        (_seconds(caps.tuning, s, body, splits), splits, body)
        for body in _candidates(caps, s)
        for splits in range(1, max(1, min(s.depth // t.shortest, t.most)) + 1)
    ]
    if s.mma is not None:
        found += costs(caps, s.mma, False)
    if s.winograd is not None and s.winograd.asked and t.winograd.gain > 0:
        found += [
            (seconds / t.winograd.gain, splits, body)
            for seconds, splits, body in winograd_costs(caps, s.winograd)
        ]
    _, splits, body = min(found)
    return ConvChoice(body, splits)


def candidates(caps: Caps, s: ConvShape) -> list[Candidate]:
    """All bodies, each with the expected seconds for its best number of splits, or with the reason
    why it is excluded."""
    t = caps.tuning.conv
    few = "" if s.fits_few_outputs else "more outputs, or another window"
    deep = "" if s.depth < MAX_ROUNDS else f"sums of {MAX_ROUNDS} or more"
    stem = "" if s.fits_stem else "another window, stride or number of channels"
    found = [
        Candidate(ConvChoice("conv_few_outputs"), None, few),
        Candidate(ConvChoice("conv_direct"), None, deep),
        *(Candidate(ConvChoice(body), None, stem) for body in STEM_TILES),
    ]
    known = _candidates(caps, s)
    for body in (*TILES, *TILES_3X3):
        if body not in known:
            fits = body in TILES or s.fits_3x3
            why = (
                "another window or layout" if not fits else "not in the tuning table, or too large"
            )
            found.append(Candidate(ConvChoice(body), None, why))
            continue
        most = max(1, min(s.depth // t.shortest, t.most))
        seconds, splits = min((_seconds(caps.tuning, s, body, n), n) for n in range(1, most + 1))
        # A table with the number `fill` has no measured rates, so it predicts no times.
        found.append(Candidate(ConvChoice(body, splits), None if t.fill else seconds))
    by_units = costs(caps, s.mma, False) if s.mma is not None else []
    for body in MMA_TILES:
        mine = [(seconds, splits) for seconds, splits, other in by_units if other == body]
        if mine:
            seconds, splits = min(mine)
            found.append(Candidate(ConvChoice(body, splits), seconds))
        else:
            found.append(Candidate(ConvChoice(body), None, "no such matrix units, or not float16"))
    transformed = winograd_costs(caps, s.winograd) if s.winograd is not None else []
    for body in WINOGRAD_TILES:
        expected = next((c.seconds for c in transformed if c.body == body), None)
        if not _may_winograd(caps, s, body):
            why = "another window, steps or groups, or too much scratch memory"
        elif s.winograd is None or not s.winograd.asked:
            why = "precision 'fast' does not ask for it"
        else:
            why = "" if caps.tuning.conv.winograd.gain > 0 else "not in the tuning table"
        found.append(Candidate(ConvChoice(body), expected, why))
    return found


def _may_winograd(caps: Caps, s: ConvShape, body: str) -> bool:
    return s.winograd is not None and fits(caps, s.winograd, body)


def packs(caps: Caps, operations: int) -> bool:
    """True if a call repacks weights that a body can read as they are."""
    given = forced(caps, ConvChoice)
    if given is not None and given.pack is not None:
        return given.pack
    return operations >= caps.tuning.conv.pack_from


def _candidates(caps: Caps, s: ConvShape) -> list[str]:
    rates = caps.tuning.conv.implicit_gemm.rates
    found = [
        body
        for body, form in zip(TILES, s.forms, strict=True)
        if form in rates[tile_of(body)] and _may(caps, body)
    ]
    return found + [body for body in TILES_3X3 if s.fits_3x3 and _may(caps, body)]


def _may(caps: Caps, body: str) -> bool:
    if body == SMALLEST:
        return True
    stages = 2 if body in TILES_3X3 else 1
    own = TILES_3X3[body] if body in TILES_3X3 else TILES[body]
    fits = fits_tile(caps, own.threads, own.BM, own.BN, stages * own.BK)
    return body in caps.tuning.conv.bodies and fits


def _tiles(s: ConvShape, body: str) -> int:
    if body in STEM_TILES:
        stem = STEM_TILES[body]
        rows, cols = stem.BM, stem.PIXEL_ROWS * stem.PIXEL_COLS
    else:
        rows, cols = (TILES_3X3[body] if body in TILES_3X3 else TILES[body])[:2]
    return s.groups * cdiv(s.rows, rows) * cdiv(s.pixels, cols)


def _seconds(t: Tuning, s: ConvShape, body: str, splits: int) -> float:
    """The estimated seconds of one call, without repacking."""
    work = (_seconds_3x3 if body in TILES_3X3 else _tile_seconds)(t, s, body, splits)
    if splits == 1:
        return work
    nbytes = s.groups * s.rows * s.pixels * 4
    return work + splitk_seconds(nbytes, splits, t.conv.dispatch, t.device.copy)


def _tile_seconds(t: Tuning, s: ConvShape, body: str, splits: int) -> float:
    """The seconds of the tiles; a multiprocessor is slower if it has few workgroups."""
    tile = TILES[body]
    own, units = t.conv.implicit_gemm, t.device.units
    form = s.forms[list(TILES).index(body)]
    each = busiest(_tiles(s, body) * splits, units, own.even_from)
    depth = cdiv(cdiv(s.depth, splits), BK) * BK + own.start_k[form]
    idle = max(1.0, math.sqrt(math.sqrt(own.busy_invocations / (each * tile.threads))))
    rate = own.rates[tile_of(body)][form]
    return product_seconds(tile.BM, tile.BN, depth, each, units, rate) * idle


def _seconds_3x3(t: Tuning, s: ConvShape, body: str, splits: int) -> float:
    """The seconds of the tiles. Unless each multiprocessor has many workgroups, they are counted in
    waves, of which the last may be a partial wave."""
    tile = TILES_3X3[body]
    own, units = t.conv.implicit_gemm_3x3[tile_of(body)], t.device.units
    groups = _tiles(s, body) * splits
    each = groups / units
    if each < t.conv.implicit_gemm.even_from:
        each = (len(own.partial_wave) - 1) * waves(groups, units, own.partial_wave)
    depth = tile.BK * cdiv(s.depth // tile.BK, splits) + t.conv.implicit_gemm_3x3_start_k
    return product_seconds(tile.BM, tile.BN, depth, each, units, own.rate)
