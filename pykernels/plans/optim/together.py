"""Steps of several parameters in one dispatch: texts made from the texts for one parameter.

A text of `adam_step`, `sgd_step` or `optimizer_step` reads and writes its tensors by a few
functions. A text for several parameters is the built text with one window for each gradient and
each parameter, and one window for the states of all parameters. Its arithmetic is the same as in
the built text, so its results have the same bits.
"""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from pykernels.errors import LimitError
from pykernels.plans.slots import branches, groups, placing, vector, words
from pykernels.steps import Arg, Body, Bound, Caps, Kernel, Scratch, Step, cdiv, touched
from pykernels.tensors.layout import View
from pykernels.wgsl.head import features, head
from pykernels.wgsl.interface import Axis, Interface, Param, TensorSpec
from pykernels.wgsl.texts import Text, add_texts, of_body

__all__ = ["MOST", "Form", "Together", "padded", "together"]

MOST = 14  # most parameters of a launch, limited by the size of its params
# elements; states begin at multiples of 256 bytes, where every device lets a binding begin
PADDING = 64
# The names of a parameter's states in a built text, in the order of their memory.
STATES = {
    "sgd_step": ("momentum_buffer",), "adam_step": ("exp_avg", "exp_avg_sq"),
    "optimizer_step": ("first", "second", "third"),
}  # fmt: skip
DTYPES: dict[str, Any] = {"f32": "float32", "f16": "float16", "i32": "int32", "u32": "uint32"}
_START = """\
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
"""
_MEMBER = re.compile(r"\bp\.(\w+)")


def padded(size: int) -> int:
    """The distance in elements between the starts of neighbouring states."""
    return cdiv(size, PADDING) * PADDING


class Form(NamedTuple):
    """The facts that, with the number of parameters, choose the text of a kernel.

    Attributes:
        states: the number of states of each parameter.
        rate, skip: True if there is a tensor of the learning rate, or of the flag that skips steps.
        flag: the value of `decoupled` or `nesterov`.
        rule: the rule of `optimizer_step`.
        params, grads: f32 or f16.
    """

    states: int
    rate: bool
    skip: bool
    flag: bool = False
    rule: str = ""
    params: str = "f32"
    grads: str = "f32"


class Together:
    """The kernel of a step of `count` parameters, each in one piece.

    Its arguments are the settings, for Adam the count of steps, `rate` and `skip` if the form has
    them, the gradients, one tensor of all states if there are any, and the parameters. The option
    `starts` gives where the states of each parameter begin. The states of a parameter are
    neighbours, `padded` elements apart.

    Attributes:
        name: the kernel for one parameter.
        count: the number of parameters.
    """

    def __init__(self, name: str, count: int, form: Form) -> None:
        self.name, self.count, self._form = name, count, form
        self._of = "adam_step" if name == "adamw_step" else name  # the name of the built body
        numbers = {"settings": "f32"}
        numbers |= {"count": "i32"} if self._of == "adam_step" else {}
        numbers |= {"rate": "f32"} if form.rate else {}
        numbers |= {"skip": "u32"} if form.skip else {}
        self._numbers = tuple(numbers)
        vectors = {f"grad_{k}": form.grads for k in range(count)}
        vectors |= {"state": "f32"} if form.states else {}
        vectors |= {f"param_{k}": form.params for k in range(count)}
        self._vectors = vectors
        specs = [TensorSpec(n, "in", short, (), index=False) for n, short in numbers.items()]
        specs += [
            TensorSpec(n, "in" if n[0] == "g" else "out", short, (), vec="VEC", index=False)
            for n, short in vectors.items()
        ]
        self._interface = Interface(
            name=name, axes=(Axis("VEC", (1, 4)),), tensors=tuple(specs),
            params=tuple([Param(n, "u32") for n in words(count)]),
        )  # fmt: skip
        kind = f"{form.rule}-{form.params}-{form.grads}-{form.states}"
        kind += "".join(str(int(x)) for x in (form.rate, form.skip, form.flag))
        self._body = Body(f"optim-{name}-{count}-{kind}", ("VEC",), "I" * (2 * count), (), "")
        self.kernel = Kernel(
            name=name,
            family="optim",
            args=tuple(
                [Arg(s.name, s.role, (DTYPES[s.dtype],), in_place=s.role == "out") for s in specs]  # type: ignore[arg-type]
            ),
            scalars=(),
            plan=self.plan,
            nbytes=_moved,
            operations=functools.partial(_operations, 8 if name == "sgd_step" else 16, count),
            options=("starts",),
            source=self,
        )
        # shares the texts of an equal kernel, if there is one
        self._texts = add_texts(self._body.name, self)

    @property
    def _params(self) -> list[str]:
        return [f"param_{k}" for k in range(self.count)]

    def plan(self, caps: Caps, scratch: Scratch, *given: Any) -> list[Step]:
        """One dispatch; the caller has checked that all tensors fit into bindings."""
        *views, starts = given
        named: dict[str, View] = dict(zip([a.name for a in self.kernel.args], views, strict=True))
        tensors = [named[n] for n in self._vectors]
        sizes = [named[n].size for n in self._params]
        if not all(v.contiguous for v in tensors):
            raise LimitError("gradients, states and parameters must lie in one piece")
        vec = vector(tensors, sizes, starts)
        bound = [Bound(n, "in", named[n], 4, 4) for n in self._numbers]
        for (n, short), v in zip(self._vectors.items(), tensors, strict=True):
            unit = vec * (2 if short == "f16" else 4)
            bound.append(Bound(n, "in" if n[0] == "g" else "out", v, unit, unit))
        values = tuple([n // vec for n in (*sizes, *starts)])
        return [Step(self._body, (vec,), tuple(bound), (), values, groups(sizes, vec))]

    # -- its text ---------------------------------------------------------------------------------

    def get(self, key: str) -> Text:
        """The text of a variant."""
        vector, mode = (part.split("=")[1] for part in key.split(" "))
        axes: dict[str, Any] = {"VEC": int(vector)}
        top = head(self._interface, axes, mode)
        return Text(top + self._main(int(vector)), tuple(features(self._interface, axes)))

    def _main(self, vec: int) -> str:
        form = self._form
        rule = f"RULE={form.rule} " if form.rule else ""
        momentum = f" MOMENTUM={bool(form.states)}" if self._of == "sgd_step" else ""
        built = of_body(self._of).body(
            f"{rule}T={form.params} G={form.grads}{momentum} VEC={vec} mode=read"
        )
        if _START not in built:
            raise LimitError(f"the text of {self._of} begins in another way")
        place = "  let i = place(group_id(wg), li);\n  if (i >= here) { return; }\n"
        main = built.replace(_START, place).replace("param_mem[at]", "param_read(at)")
        for state in STATES[self._of]:
            main = main.replace(f"{state}_mem[", "state_mem[")
        value = "f32" if vec == 1 else "vec4<f32>"
        lines = placing(self.count) + self._access(value, vec)
        return "\n".join(lines) + "\n" + _MEMBER.sub(self._member, main)

    def _access(self, value: str, vec: int) -> list[str]:
        """The functions by which the built text reads and writes, for the parameter of `slot`."""
        lines = ["fn grad_index(i: u32) -> u32 { return i; }"]
        lines += ["fn param_index(i: u32) -> u32 { return i; }"]
        read = {"grad_load": "grad_K_load(p.grad_K_off + i)"}
        read["param_read"] = f"{value}(param_K_mem[p.param_K_off + i])"
        for name, text in read.items():
            lines += [f"fn {name}(i: u32) -> {value} {{"]
            lines += [*branches(self.count, f"return {text};"), "}"]
        lines += [f"fn param_store(i: u32, v: {value}) {{"]
        lines += [*branches(self.count, "param_K_store(p.param_K_off + i, v);"), "}"]
        unit = PADDING // vec
        behind = f"((here + {unit - 1}u) / {unit}u * {unit}u)"
        for n, state in enumerate(STATES[self._of][: self._form.states]):
            lines += [
                f"fn {state}_index(i: u32) -> u32 {{ "
                f"return p.state_off + start + {n}u * {behind} + i; }}",
                f"fn {state}_store(i: u32, v: {value}) {{ state_mem[i] = v; }}",
            ]
        for name, kind in (("rate", "f32"), ("skip", "u32")):
            if name not in self._numbers:
                lines.append(f"fn {name}_load(i: u32) -> {kind} {{ return {kind}(); }}")
        return lines

    def _member(self, found: re.Match[str]) -> str:
        """A member of Params, or the constant that replaces it in this text."""
        name = found[1]
        if name in ("decoupled", "nesterov"):
            return f"{int(self._form.flag)}u"
        if name == "settings_ws":
            return "1u"
        if name.startswith("has_"):
            return f"{int(name.removeprefix('has_') in self._numbers)}u"
        if name.endswith("_off"):
            return found[0] if name.removesuffix("_off") in self._numbers else "0u"
        return "1i" if name == "step" else "0.0f"  # settings replace it


@functools.lru_cache(maxsize=256)
def together(name: str, count: int, form: Form) -> Together:
    """The kernel for these arguments; equal arguments give the same kernel."""
    return Together(name, count, form)


def _moved(*views: View, starts: Any = ()) -> int:
    """The bytes moved: parameters and states are read and written, gradients read."""
    return touched(*views) + touched(*views[-len(starts) - 1 :])


def _operations(each: int, count: int, *views: View, starts: Any = ()) -> int:
    return each * sum(v.size for v in views[-count:])
