"""The keys of a tuning table: the numbers of one device, or of a kind of device, by family.

Units: rates are operations a second (a multiply-add is two), copies are bytes a second, times are
seconds, lengths are elements of the summed axis. A unit is a multiprocessor, which runs whole
workgroups: NVIDIA's SM, AMD's compute unit, Intel's Xe core. `partial_wave[n]` is the time of a
wave with n workgroups on each unit, as a fraction of a full wave: the first entry is 0.0, the last
1.0. `bodies` are the bodies that may be chosen, besides the smallest body, which is always allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Attention", "Conv", "ConvBackwardWeight", "Copy", "Device", "Gemv", "Match",
           "Matmul",
           "Norm", "Reduction", "Softmax", "Tuning"]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Match:
    """The adapters that a table is for: one `[match]`, or several `[[match]]`. All conditions of
    one of them must hold. The table with the most conditions that hold is chosen, generic-large if
    there is none.
    """

    names: tuple[str, ...] = ()  # patterns, one of which the device's name contains
    types: tuple[str, ...] = ()  # adapter types: DiscreteGPU, IntegratedGPU, CPU, ...
    workgroup_bytes: int = 0  # upper limit of the bytes of workgroup memory


@dataclass(frozen=True, eq=False)
class Device:
    units: int
    copy: float


@dataclass(frozen=True, eq=False)
class Gemv:
    """Skinny products: few rows of one operand."""

    busy: int  # workgroups that keep the device busy
    busy_rows: int  # the same for several rows, which hold more sums and whose splits cost more
    shortest: int  # smallest length of a split
    shortest_rows: int  # the same if k does not run along the memory of the larger operand
    most: int  # largest number of splits
    lane_k: int  # the least k for each of the invocations that share a sum
    lane_k_rows: int  # k from which eight share a sum if k does not run along memory
    lane_groups: int  # workgroups from which no more invocations share a sum


@dataclass(frozen=True, eq=False)
class Tile:
    """A tile of mul_mat.wgsl."""

    least: int  # with fewer workgroups (splits included) a smaller tile is taken
    busy: int  # workgroups that keep the device busy
    shortest: int  # smallest length of a split


@dataclass(frozen=True, eq=False)
class GemmTile:
    """Large products."""

    least: int  # with fewer workgroups (splits included) a smaller tile is taken
    side: int  # rows and columns that a product must have more of
    partial_wave: tuple[float, ...]
    start_k: int  # k that starting a workgroup costs
    rate: float
    shortest: int  # smallest length of a split
    most: int  # largest number of splits
    short: int  # the least of a shorter last split
    uneven: float  # of a wave: what long splits with a short one each leave idle at the most
    k_last: Mapping[str, float]  # share that loading b with k last costs, by dtype ("f16", "f32")
    scalars: float  # and without vectors


@dataclass(frozen=True, eq=False)
class GemmMma:
    """A tile of matrix units, of halves or bytes."""

    rate: float
    partial_wave: tuple[float, ...]
    start_k: int  # k that starting a workgroup costs
    shortest: int  # smallest length of a split
    most: int  # largest number of splits
    slice_k: int  # k that each slice but the first costs


@dataclass(frozen=True, eq=False)
class Reduce:
    """splitk_reduce."""

    busy: int  # workgroups from which no more invocations share an element
    lane_splits: int  # splits for each of the invocations that share an element


@dataclass(frozen=True, eq=False)
class Int8:
    """mul_mat_i8: products of bytes."""

    tiles: Mapping[str, Tile]
    rate: float
    rows_run: float  # share that loading an operand costs whose rows run along memory, not k
    bytes: float  # and byte by byte


@dataclass(frozen=True, eq=False)
class Matmul:
    bodies: tuple[str, ...]  # of "mul_mat/64", "gemm_tile", "mul_mat_i8/64"
    dispatch: float  # one more
    mma_sum: float  # the sum over splits on matrix units, beside its bytes
    gemv_rows: int  # rows that gemv takes, at the most
    gemv_area: int  # columns (32 or more) times k, for each row, from which it takes them
    gemv_depth: int  # k, for each row but one, above which it takes them
    gemv: Gemv
    mul_mat: Mapping[str, Tile]
    gemm_tile: GemmTile
    gemm_mma: Mapping[str, GemmMma]
    gemm_mma_i8: Mapping[str, GemmMma]
    gemm_split: Mapping[str, GemmMma]
    splitk_reduce: Reduce
    mul_mat_i8: Int8
    gemv_i8: Gemv


@dataclass(frozen=True, eq=False)
class Stem:
    """conv_stem."""

    channels: int  # most input channels of a group
    waves: int  # workgroups on each unit from which tiles are the larger ones
    yield_depth: int  # depth of a window from which implicit_gemm_3x3 is better
    yield_pixels: int  # and pixels


@dataclass(frozen=True, eq=False)
class ImplicitGemm:
    rates: Mapping[str, Mapping[str, float]]  # by tile and form of loading
    start_k: Mapping[str, int]  # k that starting a workgroup costs, by form
    busy_invocations: int  # on each unit: below, it takes the fourth root longer
    even_from: int  # workgroups on each unit from which the load evens out


@dataclass(frozen=True, eq=False)
class Gemm3x3:
    """A tile of implicit_gemm_3x3."""

    rate: float
    partial_wave: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Direct:
    """conv_direct."""

    rows: int  # output channels of a group, at the most
    depth: int  # of a window, at the most, unless
    pixels: int  # there are so many


@dataclass(frozen=True, eq=False)
class Winograd:
    """winograd_pack, products, winograd_output."""

    gain: float  # taken if its expected time is less than so much of every other; 0: never
    room: int  # bytes of scratch memory, at the most


@dataclass(frozen=True, eq=False)
class ConvBackwardWeight:
    bodies: tuple[str, ...]  # as "64x64"
    rates: Mapping[str, float]
    direct_rate: float  # conv_weight_direct
    direct_waves: int  # workgroups on each unit that keep that body busy
    waves: int  # workgroups on each unit that splits are cut for, at the most
    shortest: int  # smallest length of a split
    start_k: int  # k that starting a workgroup costs
    busy_invocations: int  # on each unit: below, it takes the square root longer


@dataclass(frozen=True, eq=False)
class ConvBackwardBias:
    waves: int  # workgroups on each unit that keep the device busy


@dataclass(frozen=True, eq=False)
class Conv:
    bodies: tuple[str, ...]  # as "implicit_gemm/64x64"
    dispatch: float  # one more
    fill: int  # workgroups that splits are cut for; 0: by the time of each number of splits
    shortest: int  # smallest length of a split
    most: int  # largest number of splits
    pack_from: float  # operations below which repacked weights do not pay
    product_pixels: int  # of an image from which 1 x 1 convolutions are products image by image
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
    """flash_attn and attention_decode: few query rows."""

    rows: int  # of the heads that share a KV head, at the most
    waves: int  # workgroups on each unit that keep the device busy
    shortest: int  # smallest length of a split
    lanes16x2_splits: int  # splits from which workgroups of 256 pay
    lanes16x2_keys: int  # and keys of each


@dataclass(frozen=True, eq=False)
class AttentionTile:
    """attention_tile; what is by tile and padded depth of values has keys as "large/64"."""

    waves: Mapping[str, int]  # workgroups on each unit that keep the device busy
    shortest: int  # smallest length of a split
    most: int  # largest number of splits
    large_keys: int  # keys that a workgroup of a large tile should have at the least
    resident: int  # workgroups of the large tiles at a time on each unit
    rate: float
    ends: float  # tiles that it takes to begin and end a split
    cache_waves: int  # waves of blocks whose keys stay in the cache
    alike: float  # of a group of heads that the last one should have, at the least


@dataclass(frozen=True, eq=False)
class AttentionMma:
    """A tile of attention_mma, of halves on matrix units."""

    waves: int  # workgroups on each unit that keep the device busy
    shortest: int  # smallest length of a split
    most: int  # largest number of splits


@dataclass(frozen=True, eq=False)
class Combine:
    tile_splits: int  # splits that attention_combine_tiles takes, at the most


@dataclass(frozen=True, eq=False)
class AttentionBackward:
    bodies: tuple[str, ...]  # "128"
    room: int  # elements of one matrix of a window
    side: int  # queries and keys of a window
    band_side: int  # the same where a band hides keys
    least_tiles: int  # tiles of 128 below which the small one is taken
    least_side: int  # queries and keys up to which it is
    narrow_groups: int  # workgroups of sums below which their tiles have 64 columns


@dataclass(frozen=True, eq=False)
class Attention:
    bodies: tuple[str, ...]  # "attention_tile/large"
    dispatch: float  # one more
    decode: Decode
    attention_tile: AttentionTile
    attention_mma: Mapping[str, AttentionMma]
    combine: Combine
    flash_attn_backward: AttentionBackward


@dataclass(frozen=True, eq=False)
class Softmax:
    transpose_lanes: int  # lanes on a row from which far columns are transposed first


@dataclass(frozen=True, eq=False)
class Reduction:
    groups: int  # workgroups on each unit that keep memory busy


@dataclass(frozen=True, eq=False)
class Copy:
    tile_side: int  # rows and columns from which cpy_tile transposes


@dataclass(frozen=True, eq=False)
class Norm:
    groups: int  # workgroups on each unit that share the rows of a gradient


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
