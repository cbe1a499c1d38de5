"""Copies several tensors into one tensor in one dispatch, whose text is written when the dispatch
first runs."""

from __future__ import annotations

import functools
from typing import Any

from pykernels.plans.slots import branches, groups, placing, vector, words
from pykernels.steps import Arg, Body, Bound, Caps, Kernel, Scratch, Step, touched
from pykernels.tensors.layout import View
from pykernels.wgsl.head import features, head
from pykernels.wgsl.interface import Axis, Interface, Param, TensorSpec
from pykernels.wgsl.texts import Text, add_texts

__all__ = ["MOST", "Copies", "copies"]

MOST = 20  # most tensors of a launch, limited by the size of its params
_MAIN = """\
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = place(group_id(wg), li);
  if (i >= here) { return; }
  let at = p.dst_off + start + i;"""


class Copies:
    """The kernel that copies `count` tensors of float32, each in one piece, into windows of dst.

    The option `starts` has the first element of each window in dst. Elements are copied as words.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        sources = [f"src_{k}" for k in range(count)]
        names = (*sources, "dst")
        roles: dict[str, Any] = {n: "out" if n == "dst" else "in" for n in names}
        self._interface = Interface(
            name="cpy", axes=(Axis("VEC", (1, 4)),),
            tensors=tuple(
                [TensorSpec(n, roles[n], "u32", (), vec="VEC", index=False) for n in names]
            ),
            params=tuple([Param(n, "u32") for n in words(count)]),
        )  # fmt: skip
        self._body = Body(f"copies-{count}", ("VEC",), "I" * (2 * count), (), "")
        self.kernel = Kernel(
            name="cpy",
            family="copy",
            args=tuple([Arg(n, roles[n], ("float32",)) for n in names]),
            scalars=(),
            plan=self.plan,
            nbytes=_moved,
            operations=_none,
            options=("starts",),
            source=self,
        )
        # shares the texts of an equal kernel, if there is one
        self._texts = add_texts(self._body.name, self)

    def plan(self, caps: Caps, scratch: Scratch, *given: Any) -> list[Step]:
        """One dispatch; the caller must make sure that each tensor fits one binding."""
        *views, starts = given
        sizes = [v.size for v in views[:-1]]
        vec = vector(views, sizes, starts)
        bound = [
            Bound(arg.name, arg.role, v, 4 * vec, 4 * vec)
            for arg, v in zip(self.kernel.args, views, strict=True)
        ]
        values = tuple([n // vec for n in (*sizes, *starts)])
        return [Step(self._body, (vec,), tuple(bound), (), values, groups(sizes, vec))]

    def get(self, key: str) -> Text:
        """The text of a variant."""
        vec, mode = (part.split("=")[1] for part in key.split(" "))
        axes: dict[str, Any] = {"VEC": int(vec)}
        lines = placing(self.count)
        lines += [
            _MAIN,
            *branches(self.count, "dst_store(at, src_K_load(p.src_K_off + i));"),
            "}\n",
        ]
        top = head(self._interface, axes, mode)
        return Text(top + "\n".join(lines), tuple(features(self._interface, axes)))


@functools.lru_cache(maxsize=MOST)
def copies(count: int) -> Copies:
    """The kernel for `count` tensors."""
    return Copies(count)


def _moved(*views: View, starts: Any = ()) -> int:
    return 2 * touched(*views[:-1])


def _none(*views: View, starts: Any = ()) -> int:
    return 0
