"""The keys of a tuning table: the numbers of one device, or of a kind of device, by family.

Units: rates are operations a second (a multiply-add is two), copies are bytes a second, times are
seconds, lengths are elements of the summed axis. `units` counts multiprocessors, which run whole
workgroups: NVIDIA's SM, AMD's compute unit, Intel's Xe core. `partial_wave[n]` is the time of a
wave with n workgroups on each multiprocessor, as a fraction of a full wave: the first entry is 0.0,
the last is 1.0. `bodies` are the bodies that may be chosen; the smallest body is always allowed,
too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Attention", "Conv", "ConvBackwardWeight", "Copy", "Device", "Gemv", "Match",
           "Matmul",
           "Norm", "Quant", "Reduction", "Softmax", "Tuning"]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Match:
    """The adapters that a table is for: one `[match]`, or several `[[match]]`. All conditions of at
    least one of them must hold. The table with the most conditions that hold is chosen, or
    generic-large if no table matches.
    """

    # regular expressions; one of them must be found in the device's name
    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()  # adapter types: DiscreteGPU, IntegratedGPU, CPU, ...
    workgroup_bytes: int = 0  # the most bytes of workgroup memory that the adapter may have


@dataclass(frozen=True, eq=False)
class Device:
    units: int
    copy: float


@dataclass(frozen=True, eq=False)
class Gemv:
    """Skinny products: few rows of one operand."""

    busy: int  # workgroups that keep the device busy
    # the same as `busy`, for several rows: they hold more sums, and their splits cost more
    busy_rows: int
    shortest: int  # smallest length of a split
    # the same as `shortest`, if k does not run along the memory of the larger operand
    shortest_rows: int
    most: int  # largest number of splits
    lane_k: int  # smallest k for each of the invocations that share a sum
    lane_k_rows: int  # k from which eight invocations share a sum if k does not run along memory
    # below this number of workgroups, more invocations share a sum
    lane_groups: int


@dataclass(frozen=True, eq=False)
class Tile:
    """A tile of mul_mat.wgsl."""

    least: int  # with fewer workgroups (splits included) a smaller tile is chosen
    busy: int  # workgroups that keep the device busy
    shortest: int  # smallest length of a split


@dataclass(frozen=True, eq=False)
class GemmTile:
    """Large products."""

    least: int  # with fewer workgroups (splits included) a smaller tile is chosen
    side: int  # a product must have more rows and more columns than this
    partial_wave: tuple[float, ...]
    start_k: int  # cost of starting a workgroup, as a number of k
    rate: float
    shortest: int  # smallest length of a split
    most: int  # largest number of splits
    short: int  # smallest length that the last split may have if it is shorter than the others
    # largest share of a wave that may be idle if the last split is shorter than the others
    uneven: float
    # cost of loading b with k last, as a share of the product's time, by dtype ("f16")
    k_last: Mapping[str, float]
    scalars: float  # the same as `k_last`, if b is loaded without vectors


@dataclass(frozen=True, eq=False)
class GemmMma:
    """A tile for matrix units, of halves or bytes."""

    rate: float
    partial_wave: tuple[float, ...]
    start_k: int  # cost of starting a workgroup, as a number of k
    shortest: int  # smallest length of a split
    most: int  # largest number of splits
    slice_k: int  # cost of each slice but the first, as a number of k


@dataclass(frozen=True, eq=False)
class Reduce:
    """splitk_reduce."""

    # below this number of workgroups, more invocations share an element
    busy: int
    lane_splits: int  # splits for each of the invocations that share an element


@dataclass(frozen=True, eq=False)
class Int8:
    """Products of bytes (mul_mat_i8)."""

    tiles: Mapping[str, Tile]
    rate: float
    # cost, as a share of the product's time, of loading an operand whose rows, not k, run along
    # memory
    rows_run: float
    bytes: float  # the same as `rows_run`, for an operand that is loaded byte by byte


@dataclass(frozen=True, eq=False)
class Quant:
    """Products with quantised weights."""

    unpacked_rows: int  # from this number of rows on, the weights are first written as float32
    fast_weights: int  # from this number of weights on, one row may be rounded to bytes
    few_least: int  # least rows of gemm_mma_quant_few, for rows without packed products
    few_most: int  # most rows of gemm_mma_quant_few
    few_shortest: int  # smallest length of a split of K in gemm_mma_quant_few
    mma_shortest: int  # smallest length of a split of gemm_mma_quant with few rows
    most: int  # largest number of splits of both bodies
    waves: int  # workgroups on each multiprocessor that keep the device busy


@dataclass(frozen=True, eq=False)
class Matmul:
    # bodies that may be chosen, such as "mul_mat/64", "gemm_tile", "mul_mat_i8/64"
    bodies: tuple[str, ...]
    dispatch: float  # time of one more dispatch
    # time of the sum over splits on matrix units, in addition to the time of its bytes
    mma_sum: float
    gemv_rows: int  # most rows for which gemv is chosen
    # gemv needs columns (counted as at least 32) times k to be at least this number times rows
    gemv_area: int
    gemv_depth: int  # gemv needs a k above this number times (rows - 1)
    gemv: Gemv
    mul_mat: Mapping[str, Tile]
    gemm_tile: GemmTile
    gemm_mma: Mapping[str, GemmMma]
    gemm_mma_i8: Mapping[str, GemmMma]
    gemm_split: Mapping[str, GemmMma]
    splitk_reduce: Reduce
    mul_mat_i8: Int8
    gemv_i8: Gemv
    quant: Quant


@dataclass(frozen=True, eq=False)
class Stem:
    """conv_stem."""

    channels: int  # most input channels of a group
    waves: int  # with this number of workgroups on each multiprocessor, the larger tiles are used
    # implicit_gemm_3x3 is chosen instead if windows have at least this depth, and there are at
    # least `yield_pixels` pixels
    yield_depth: int
    yield_pixels: int


@dataclass(frozen=True, eq=False)
class ImplicitGemm:
    rates: Mapping[str, Mapping[str, float]]  # rates, by tile and form of loading
    start_k: Mapping[str, int]  # cost of starting a workgroup, as a number of k, by form
    # invocations that keep a multiprocessor busy; with 1/n of them, work takes n^(1/4) times as
    # long
    busy_invocations: int
    even_from: int  # with this number of workgroups on each multiprocessor, the load counts as even


@dataclass(frozen=True, eq=False)
class Gemm3x3:
    """A tile of implicit_gemm_3x3."""

    rate: float
    partial_wave: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Direct:
    """conv_direct."""

    rows: int  # most output channels of a group
    depth: int  # largest depth of a window, unless there are at least `pixels` pixels
    pixels: int  # with this number of pixels or more, the depth does not matter


@dataclass(frozen=True, eq=False)
class Winograd:
    """Winograd's convolutions: winograd_pack, products, winograd_output."""

    # chosen if the predicted time is below this share of every other body's time; 0 means never
    gain: float
    room: int  # most bytes of scratch memory


@dataclass(frozen=True, eq=False)
class ConvBackwardWeight:
    bodies: tuple[str, ...]  # tiles that may be chosen, such as "64x64"
    rates: Mapping[str, float]
    direct_rate: float  # the rate of conv_weight_direct
    direct_waves: int  # workgroups of conv_weight_direct that keep a multiprocessor busy
    waves: int  # splits may lead to at most this number of workgroups on each multiprocessor
    shortest: int  # smallest length of a split
    start_k: int  # cost of starting a workgroup, as a number of k
    # invocations that keep a multiprocessor busy; with 1/n of them, work takes n^(1/2) times as
    # long
    busy_invocations: int


@dataclass(frozen=True, eq=False)
class ConvBackwardBias:
    waves: int  # workgroups on each multiprocessor that keep the device busy


@dataclass(frozen=True, eq=False)
class Conv:
    bodies: tuple[str, ...]  # bodies that may be chosen, such as "implicit_gemm/64x64"
    dispatch: float  # time of one more dispatch
    fill: int  # workgroups that splits should lead to; 0: splits are chosen by predicted times
    shortest: int  # smallest length of a split
    most: int  # largest number of splits
    pack_from: float  # with fewer operations than this, repacking weights does not save time
    # if an image has at least this number of pixels, a 1 x 1 convolution is a product for each
    # image
    product_pixels: int
    conv_direct: Direct
    conv_stem: Stem
    winograd: Winograd
    implicit_gemm: ImplicitGemm
    implicit_gemm_3x3: Mapping[str, Gemm3x3]
    implicit_gemm_3x3_start_k: int
    implicit_gemm_mma: Mapping[str, GemmMma]
    conv_weight_mma: Mapping[str, GemmMma]
    conv2d_backward_weight: ConvBackwardWeight
    conv2d_backward_bias: ConvBackwardBias


@dataclass(frozen=True, eq=False)
class Decode:
    """The bodies flash_attn and attention_decode, for few query rows."""

    rows: int  # most query rows of all heads that share a KV head
    waves: int  # workgroups on each multiprocessor that keep the device busy
    shortest: int  # smallest length of a split
    # workgroups of 256 invocations are faster with at least this number of splits, if each split
    # has at least `lanes16x2_keys` keys
    lanes16x2_splits: int
    lanes16x2_keys: int


@dataclass(frozen=True, eq=False)
class AttentionTile:
    """attention_tile; mappings have keys such as "large/64": tile and padded depth of values."""

    waves: Mapping[str, int]  # workgroups on each multiprocessor that keep the device busy
    shortest: int  # smallest length of a split
    most: int  # largest number of splits
    large_keys: int  # least number of keys for a workgroup of a large tile
    resident: int  # workgroups of the large tiles that run on a multiprocessor at the same time
    rate: float
    ends: float  # cost of beginning and ending a split, as a number of tiles
    cache_waves: int  # how many waves of blocks have keys that stay in the cache
    alike: float  # least size of the last group of heads, as a share of the other groups


@dataclass(frozen=True, eq=False)
class AttentionMma:
    """A tile of attention_mma, for halves on matrix units."""

    waves: int  # workgroups on each multiprocessor that keep the device busy
    shortest: int  # smallest length of a split
    most: int  # largest number of splits


@dataclass(frozen=True, eq=False)
class Combine:
    tile_splits: int  # most splits for attention_combine_tiles


@dataclass(frozen=True, eq=False)
class AttentionBackward:
    bodies: tuple[str, ...]  # "128"
    room: int  # most elements of one matrix of a window
    side: int  # most queries and keys of a window
    band_side: int  # the same as `side`, if a band hides keys
    least_tiles: int  # with fewer tiles of 128, the small tile is used
    least_side: int  # with up to this number of queries or keys, the small tile is used
    narrow_groups: int  # with fewer workgroups for a sum, its tiles have 64 columns


@dataclass(frozen=True, eq=False)
class AttentionProducts:
    """Attention as two products with attention_softmax between them."""

    # chosen if the predicted time is below this share of the large tile's time; 0 means never
    gain: float
    room: int  # most bytes of the scores of a chunk


@dataclass(frozen=True, eq=False)
class Attention:
    bodies: tuple[str, ...]  # "attention_tile/large"
    dispatch: float  # time of one more dispatch
    decode: Decode
    attention_tile: AttentionTile
    attention_mma: Mapping[str, AttentionMma]
    combine: Combine
    products: AttentionProducts
    flash_attn_backward: AttentionBackward


@dataclass(frozen=True, eq=False)
class Softmax:
    # if a row has more lanes than this, columns that lie apart are transposed first
    transpose_lanes: int


@dataclass(frozen=True, eq=False)
class Reduction:
    groups: int  # workgroups on each multiprocessor that keep memory busy


@dataclass(frozen=True, eq=False)
class Copy:
    tile_side: int  # least rows and columns for a transposition by cpy_tile


@dataclass(frozen=True, eq=False)
class Norm:
    groups: int  # workgroups on each multiprocessor that share the rows of a gradient


@dataclass(frozen=True, eq=False)
class Tuning:
    """One table. The same file gives the same object; plans read it through `Caps.tuning`."""

    name: str
    device: Device
    matmul: Matmul
    conv: Conv
    attention: Attention
    softmax: Softmax
    copy: Copy
    reduce: Reduction
    norm: Norm
