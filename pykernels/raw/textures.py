"""The textures and samplers of a call: objects of wgpu, checked before the launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykernels.errors import AliasError, ArgumentError, BufferStateError, DTypeError, PyKernelsError
from pykernels.runtime.resources import Kind, Resource, TextureBlock, clash, sampler_kind
from pykernels.tensors.host import type_name

from .reflect import Shown

__all__ = ["extents", "resources_of"]

# The usage flags of WebGPU, the same numbers in both engines.
_TEXTURE_BINDING, _STORAGE_BINDING = 0x04, 0x08
_FILTERABLE = "float32-filterable"  # the feature that filters 32-bit floats


def resources_of(
    op: str, context: Any, shown: Sequence[Shown], pairs: frozenset[tuple[str, str]] | None,
    given: dict[str, Any],
) -> tuple[Resource, ...]:  # fmt: skip
    """The textures and samplers of a call, in order. Raises an error for an object that does not
    fit."""
    found = {s.name: _texture(op, context, s, given[s.name]) for s in shown if s.dimension}
    unfilterable = [n for n, r in found.items() if r.kind[1] == "unfilterable-float"]
    for s in shown:
        if not s.dimension:
            beside = [t for t in unfilterable if pairs is None or (t, s.name) in pairs]
            found[s.name] = _sampler(op, context, s, given[s.name], beside, given)
    _check_uses(op, context, shown, found)
    return tuple(found[s.name] for s in shown)


def extents(op: str, name: str, thing: Any) -> tuple[int, int, int]:
    """The texels of a texture or view along x, y and z."""
    texture = getattr(thing, "texture", thing)
    if texture is not thing and texture.mip_level_count > 1:
        raise ArgumentError(
            f"[{op}] grid must be given: {name} is a view of a texture with "
            f"{texture.mip_level_count} levels, and a view does not tell which one it shows"
        )
    width, height, depth = texture.size
    return width, height, depth if str(texture.dimension) == "3d" else 1


def _texture(op: str, context: Any, s: Shown, thing: Any) -> Resource:
    module = context.engine.module
    whole = isinstance(thing, module.GPUTexture)
    if not whole and not isinstance(thing, module.GPUTextureView):
        raise DTypeError(
            f"[{op}] {s.name} must be a GPUTexture or a GPUTextureView of {module.__name__} but is "
            f"{type_name(thing)}"
        )
    _check_owner(op, context, s.name, thing)
    texture = thing if whole else thing.texture
    flag, word = (
        (_STORAGE_BINDING, "STORAGE_BINDING")
        if s.written
        else (_TEXTURE_BINDING, "TEXTURE_BINDING")
    )
    if not texture.usage & flag:
        raise BufferStateError(f"[{op}] {s.name} lacks the usage flag {word}")
    if texture.sample_count != 1:
        raise ArgumentError(
            f"[{op}] {s.name} must have one sample a texel but has {texture.sample_count}"
        )
    if str(texture.dimension) != s.dimension:
        raise ArgumentError(
            f"[{op}] {s.name}: {s.type} needs a {s.dimension} texture, but the texture is "
            f"{texture.dimension}"
        )
    mismatch = _mismatch(s, str(texture.format))
    if whole and mismatch:
        raise DTypeError(f"[{op}] {s.name}: {mismatch}")
    if whole and s.dimension == "2d" and texture.depth_or_array_layers > 1:
        raise ArgumentError(
            f"[{op}] {s.name} has {texture.depth_or_array_layers} layers: give a view of one, "
            "texture.create_view(dimension='2d', base_array_layer=0)"
        )
    view = _view(op, context, s, thing) if whole else thing
    block = TextureBlock(view, _kind(context, s, str(texture.format)))
    try:
        block.inspect(context.pool.buffers, op)
    except BufferStateError as e:
        if whole or "destroyed" in str(e).lower():
            raise BufferStateError(f"[{op}] {s.name}: {_reason(e)}") from None
        raise DTypeError(
            f"[{op}] {s.name}: the view does not fit {s.type}: {mismatch or _reason(e)}"
        ) from None
    return Resource(s.name, block.kind, view, block)


def _view(op: str, context: Any, s: Shown, texture: Any) -> Any:
    """A view of a whole texture, or only of its first level if the call writes the texture."""
    try:
        return texture.create_view(
            dimension=s.dimension, mip_level_count=1 if s.written else texture.mip_level_count
        )
    except context.engine.error_class as e:
        raise BufferStateError(f"[{op}] {s.name}: {_reason(e)}") from None


def _mismatch(s: Shown, fmt: str) -> str:
    """The reason why a format does not fit, "" if it does."""
    if s.written:
        same = fmt == s.of
        return "" if same else f"{s.type} needs the format {s.of}, but the texture has {fmt}"
    kind = "u32" if fmt.endswith("uint") or fmt == "stencil8" else "f32"
    kind = "i32" if fmt.endswith("sint") else kind
    return (
        "" if kind == s.of else f"{s.type} does not fit the format {fmt}, whose texels are {kind}"
    )


def _kind(context: Any, s: Shown, fmt: str) -> Kind:
    if s.written:
        return ("storage_texture", s.of, s.dimension)
    if s.of != "f32":
        return ("texture", "sint" if s.of == "i32" else "uint", s.dimension)
    filtered = _FILTERABLE in context.features or not fmt.endswith("32float")
    filtered &= not fmt.startswith("depth")
    return ("texture", "float" if filtered else "unfilterable-float", s.dimension)


def _sampler(
    op: str, context: Any, s: Shown, thing: Any, beside: Sequence[str], given: dict[str, Any]
) -> Resource:
    """`beside` are the textures that this sampler samples and the device does not filter."""
    module = context.engine.module
    if not isinstance(thing, module.GPUSampler):
        raise DTypeError(
            f"[{op}] {s.name} must be a GPUSampler of {module.__name__} but is {type_name(thing)}"
        )
    _check_owner(op, context, s.name, thing)
    kind = sampler_kind(context, thing)
    if kind == "comparison":
        raise ArgumentError(f"[{op}] {s.name} compares: give a sampler without compare")
    if beside and kind == "filtering":
        texture = given[beside[0]]
        fmt = getattr(texture, "texture", texture).format
        raise ArgumentError(
            f"[{op}] {s.name} filters, but this device does not filter {fmt}, the format of "
            f"{beside[0]}: give a sampler with nearest filters, or a device with {_FILTERABLE}"
        )
    return Resource(s.name, ("sampler", "non-filtering" if beside else "filtering"), thing)


def _check_owner(op: str, context: Any, name: str, thing: Any) -> None:
    if thing._device is not context.raw:
        raise BufferStateError(f"[{op}] {name} belongs to another device")
    if thing._internal is None:
        raise BufferStateError(f"[{op}] {name} has been released")


def _check_uses(op: str, context: Any, shown: Sequence[Shown], found: dict[str, Resource]) -> None:
    """A dispatch may not write texels that it reads, or that another binding of it writes."""
    textures = [(s, r, r.block.buffer) for s in shown if (r := found[s.name]).block is not None]
    for n, (s, r, texture) in enumerate(textures):
        for other, q, same in textures[n + 1 :]:
            if same is not texture or not (s.written or other.written):
                continue
            if s.written and other.written:
                raise AliasError(
                    f"[{op}] {s.name} and {other.name} are one texture: outputs need textures of "
                    "their own"
                )
            if clash(context, (r, q)):
                read, written = (other, s) if s.written else (s, other)
                raise AliasError(
                    f"[{op}] {written.name} is written, and {read.name} shows the same texels: "
                    "give another texture, or views of different levels or layers"
                )


def _reason(e: Exception) -> str:
    """What an engine's error says, in one line."""
    text = str(e).partition("] ")[2] if isinstance(e, PyKernelsError) else str(e)
    return " ".join(text.split())
