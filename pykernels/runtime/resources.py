"""Texture views and samplers of callers, as launches bind them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .blocks import Block

__all__ = ["Kind", "Resource", "TextureBlock", "clash", "entry_of", "sampler_kind"]

# The type of a binding in a layout: ("texture", sample type, dimension),
# ("storage_texture", format, dimension) or ("sampler", type).
Kind: TypeAlias = tuple[str, ...]
_BITS = re.compile(r"(r|rg|rgba|bgra)(8|16|32)(?!\d)")


def entry_of(binding: int, kind: Kind) -> dict[str, Any]:
    """The entry of a bind group layout for a texture or a sampler."""
    entry: dict[str, Any] = {"binding": binding, "visibility": 4}
    if kind[0] == "sampler":
        return entry | {"sampler": {"type": kind[1]}}
    if kind[0] == "texture":
        told = {"sample_type": kind[1], "view_dimension": kind[2], "multisampled": False}
        return entry | {"texture": told}
    told = {"access": "write-only", "format": kind[1], "view_dimension": kind[2]}
    return entry | {"storage_texture": told}


class TextureBlock(Block):
    """A view of a caller's texture, in the place of a block with a buffer. As for buffers of
    callers, recorders inspect the texture before each use, and submit soon after the use."""

    __slots__ = ("kind", "view")

    def __init__(self, view: Any, kind: Kind) -> None:
        super().__init__(view.texture, foreign=True)
        self.view, self.kind = view, kind
        self.handle = view._internal
        found = _BITS.match(str(view.texture.format))
        texel = len(found[1]) * int(found[2]) // 8 if found else 4
        self.size = math.prod(view.texture.size) * texel

    def inspect(self, buffers: Any, what: str) -> None:
        """Raise if the texture cannot be used: a submit with it would end the process."""
        buffers.inspect_texture(self, what)


@dataclass(frozen=True, eq=False)  # each is a binding of its own
class Resource:
    """A texture view or a sampler that a launch binds, under its name in the text."""

    name: str
    kind: Kind
    thing: Any
    block: TextureBlock | None = None  # of a texture

    def __repr__(self) -> str:
        return f"{self.name}: {' '.join(self.kind)}"


def sampler_kind(context: Any, sampler: Any) -> str:
    """The type of a sampler in a layout: "non-filtering", "filtering" or "comparison". A sampler
    does not have this as an attribute, so the engine is asked once for each sampler."""
    known: str | None = context.samplers.get(sampler)
    if known is not None:
        return known
    raw, found = context.raw, ""
    for kind in ("non-filtering", "filtering", "comparison"):
        try:
            layout = raw.create_bind_group_layout(entries=[entry_of(0, ("sampler", kind))])
            raw.create_bind_group(layout=layout, entries=[{"binding": 0, "resource": sampler}])
        except context.engine.error_class as e:
            if kind == "comparison":
                raise context.engine.error(e, "sampler") from None
        else:
            found = kind
            break
    context.samplers[sampler] = found
    return found


def clash(context: Any, resources: Sequence[Resource]) -> str:
    """The engine's reason why one dispatch cannot bind all of these textures, "" if it can.

    A view has no attributes for the mip levels and layers that it shows. So a dispatch of an empty
    text with these bindings is encoded. It is submitted too, because wgpu keeps the memory of a
    command buffer that is never submitted.
    """
    raw = context.raw
    try:
        pipeline, layout = context.pipelines.empty(tuple(r.kind for r in resources))
        group = raw.create_bind_group(
            layout=layout,
            entries=[{"binding": i, "resource": r.thing} for i, r in enumerate(resources)],
        )
        encoder = raw.create_command_encoder()
        compute_pass = encoder.begin_compute_pass()
        compute_pass.set_pipeline(pipeline)
        compute_pass.set_bind_group(0, group)
        compute_pass.dispatch_workgroups(1)
        compute_pass.end()
        raw.queue.submit([encoder.finish()])
    except context.engine.error_class as e:
        return str(e)
    return ""
