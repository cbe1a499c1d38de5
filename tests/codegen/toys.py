"""A toy kernel for each key of a spec: what it does with the key, which `less` takes away.

In the texts NAME is the kernel's own name. A question is an expression of Python that
`ask_toys.py` evaluates beside the built kernel; its names are explained there.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codegen.build import Build, build
from codegen.sources import _READ
from tests.checkout import ROOT

__all__ = ["HELPERS", "TOYS", "Block", "Toy", "build_files", "source"]

Block = dict[str, Any]


def build_files(folder: Path, files: dict[str, str]) -> Build:
    """The build of a checkout that has these files only, and what a build reads of the package."""
    for name in ("errors.py", *_READ):
        files = {**files, f"pykernels/{name}": (ROOT / "pykernels" / name).read_text()}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return build(folder)


@dataclass(frozen=True)
class Toy:
    """A kernel, a question about it, and the answer; the class of an error where it raises one."""

    block: Block  # what it has beside, or in place of, BASE
    want: Any
    ask: str = "call(x)"
    value: str = "x_load(x_index(i))"  # of element i; of a kernel over rows, of column c
    before: str = ""
    plan: str = ""  # the expression that it returns: a list of steps
    drop: tuple[str, ...] = field(default=())  # where the key is, if not in the block itself

    def merged(self) -> Block:
        """The whole block."""
        block = copy.deepcopy({**BASE, **self.block})
        return {key: value for key, value in block.items() if value is not None}

    def less(self, key: str) -> Block:
        """The whole block without the key."""
        block = table = self.merged()
        for name in self.drop:
            table = table[name]
        del table[key]
        return block

    def text(self, block: Block) -> str:
        """The file of the kernel with this block."""
        body = "" if "bodies" in block else ROWS if block.get("iterate") == "rows" else ND
        return f"{source(block)}{self.before}{body.replace('VALUE', self.value)}"

    def plan_text(self, block: Block) -> str:
        """The file of its plan."""
        names = [*block["inputs"], *block["outputs"], *block.get("options", {})]
        text = PLAN.replace("ARGUMENTS", ", ".join(names)).replace("STEPS", self.plan)
        return text.replace(OWN, "") if "bodies" in block else text

    def files(self, name: str, block: Block) -> dict[str, str]:
        """The files of the kernel by this name, with this block."""
        found = {f"kernels/toy/{name}.wgsl": self.text(block)}
        if self.plan:
            found[f"pykernels/plans/toy/{name}.py"] = self.plan_text(block)
        return {file: text.replace("NAME", name) for file, text in found.items()}


BASE: Block = {
    "doc": "A toy.",
    "inputs": {"x": {"dtype": "f32"}},
    "outputs": {"dst": {"dtype": "f32", "like": "x"}},
    "iterate": "nd",
    "grid": "cdiv(it.total, 64)",
}
MAIN = """
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 64u + li;
"""
ND = MAIN + "  if (i >= p.total) { return; }\n  dst_store(dst_index(i), VALUE);\n}\n"
ROWS = (
    MAIN
    + """\
  if (i >= p.rows * p.n) { return; }
  let row = i / p.n;
  let c = i % p.n;
  dst_store(dst_at(dst_row(row), c), VALUE);
}
"""
)
OWN = "from pykernels._generated.bodies import NAME\n"
PLAN = f"""\
{OWN}from pykernels._generated.bodies import toy_part
from pykernels.wgsl.watch import Watch


def plan(caps, scratch, ARGUMENTS):
    return STEPS
"""


def source(block: Block) -> str:
    """The spec block as the head of a file."""
    lines = ["/// kernel"]
    for key, value in block.items():
        if isinstance(value, dict) and key != "axis":
            lines += [f"{key}.{name} = {_toml(one)}" for name, one in value.items()]
        else:
            lines.append(f"{key} = {_toml(value)}")
    return "".join(f"// {line}\n" for line in [*lines, "///"])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


# -- the keys -------------------------------------------------------------------------------------

X = [1.0, 2.0, 3.0, 4.0]
F32, DST = {"dtype": "f32"}, {"dtype": "f32", "like": "x"}
WORDS = {"dtype": "*", "bind": "'u32'"}
COPY_WORDS = "x_mem[x_index(i)]"
ROWS_OF_X: Block = {
    "iterate": "rows",
    "params": {"n": {"type": "u32", "value": "it.cols"}},
    "grid": "cdiv(it.rows * it.cols, 64)",
}
FACTOR = "x_load(x_index(i)) * p.factor"
TIMES_W = "x_load(x_index(i)) * w_load(w_index(i))"


def factor(**fields: Any) -> Block:
    return {"params": {"factor": {"type": "f32", **fields}}}


def with_w(**fields: Any) -> Block:
    return {"inputs": {"x": F32, "w": {"dtype": "f32", **fields}}}


OF_BLOCK = {
    "doc": Toy({}, "A toy.", "doc.splitlines()[0]"),
    "source": Toy({"source": "Nobody 1999"}, True, "'Source: Nobody 1999' in doc"),
    "axes": Toy(
        {"axes": {"N": [2]}, "pick": {"N": "2"}}, [2.0, 4.0, 6.0, 8.0],
        value="x_load(x_index(i)) * f32(N)",
    ),
    "configs": Toy(
        {"configs": {"one": {"F": 3}}, "axes": {"C": "configs"}, "pick": {"C": "'one'"}},
        [3.0, 6.0, 9.0, 12.0], value="x_load(x_index(i)) * ${CFG.F}.0",
    ),
    "pick": Toy(
        {"axes": {"N": [1, 2]}, "pick": {"N": "2 if x.size == 4 else 1"}}, [2.0, 4.0, 6.0, 8.0],
        value="x_load(x_index(i)) * f32(N)",
    ),
    "when": Toy(
        {"axes": {"N": [1, 2]}, "pick": {"N": "2"}, "when": ["N == 2"]},
        ["N=2 mode=read", "N=2 mode=rw"], "sorted(texts)",
    ),
    "inputs": Toy({}, X),
    "outputs": Toy({}, X),
    "params": Toy(factor(value="x.size"), [4.0, 8.0, 12.0, 16.0], value=FACTOR),
    "options": Toy(
        {**factor(), "options": {"times": {"type": "float"}}}, [3.0, 6.0, 9.0, 12.0],
        "call(x, times=3.0)", value=FACTOR, plan="[NAME.step(caps, x, dst, factor=times)]",
    ),
    "iterate": Toy({}, X),
    "vectors": Toy(
        {
            "axes": {"V": [4]}, "pick": {"V": "4"}, "vectors": "V",
            "inputs": {"x": {"dtype": "f32", "vec": "V"}},
            "outputs": {"dst": {"dtype": "f32", "vec": "V", "like": "x"}},
        },
        [0.0] * 4 + [1.0] * 4, "call(np.ones(8, 'f4'))",
        value="vec4<f32>(f32(i)) + 0.0 * x_load(x_index(i))",
    ),
    "grid": Toy({}, X),
    "uses": Toy({"uses": ["toy_lib"]}, [2.0, 4.0, 6.0, 8.0],
                value="${toy_lib.twice('x_load(x_index(i))')}"),
    "bodies": Toy(
        {"iterate": None, "grid": None, "bodies": ["toy_part"]}, [-1.0, -2.0, -3.0, -4.0],
        plan="[toy_part.step(caps, x, dst)]",
    ),
    "part_of": Toy({"part_of": "toy_host"}, False, "hasattr(pk.kernels, 'NAME')"),
    "wrappers": Toy(
        {**factor(default=2.0), "wrappers": {"NAME_thrice": {"factor": 3.0}}},
        [3.0, 6.0, 9.0, 12.0], "call(x, kernel=pk.kernels.NAME_thrice)", value=FACTOR,
    ),
    "moves_bytes": Toy({"moves_bytes": True}, True, "data.moves_bytes"),
    "subgroups": Toy(
        {"axes": {"N": [1, 2]}, "pick": {"N": "1"}, "subgroups": "N == 2"},
        ["N=2 mode=read", "N=2 mode=rw"], "[k for k in sorted(texts) if texts[k]['features']]",
    ),
    "fragments": Toy(
        {"axes": {"M": "mma"}, "pick": {"M": "caps.matrix.dialect"}, "fragments": "'f16'"},
        {"M=subgroup_matrix mode=read": [
            "shader-f16", "chromium-experimental-subgroup-matrix", "subgroups",
        ]},
        "{k: texts[k]['features'] for k in texts if k.endswith('read')}",
    ),
    "faults": Toy(
        {"faults": True}, "IndexRangeError", "call(x)",
        before="fn at_most_2(i: u32) -> f32 { fault_started(i == 0u); "
        "if (x_load(x_index(i)) > 2.0) { fault(i, 3u, 0u); } return 0.0; }\n",
        value="at_most_2(i)",
        plan="[NAME.step(caps, x, dst, watch=Watch('x', 3, x.shape, x.shape))]",
    ),
    "workgroup_bytes": Toy(
        {"workgroup_bytes": "20000"}, {"max_workgroup_storage": 20000},
        "texts['mode=read']['limits']",
    ),
    "axis": Toy(
        {**ROWS_OF_X, "axis": {"moves": ["x"]}}, [[1.0, 2.0], [2.0, 3.0]],
        "pk.NAME(np.array([[1, 2], [1, 2]], 'f4'), axis=0).tolist()",
        value="x_load(x_at(x_row(row), c)) + f32(c)",
    ),
    "bytes": Toy({"bytes": "7 * x.ndim"}, 7, "data.nbytes(view(x), view(x))"),
    "operations": Toy({"operations": "5 * x.size"}, 20, "data.operations(view(x), view(x))"),
}  # fmt: skip

OF_TENSOR = {
    "dtype": Toy({}, X, drop=("inputs", "x")),
    "dtypes": Toy(
        {
            "inputs": {"x": {**WORDS, "dtypes": ["int32"]}},
            "outputs": {"dst": {"dtype": "u32", "like": "x"}},
        },
        "DTypeError", "call(x, dtype='uint32')", value=COPY_WORDS, drop=("inputs", "x"),
    ),
    "same": Toy(
        {"inputs": {"x": {**F32, "same": "T"}}}, "T", "data.args[0].same", drop=("inputs", "x"),
    ),
    "bind": Toy(
        {"inputs": {"x": WORDS}, "outputs": {"dst": {"dtype": "u32", "like": "x"}}},
        [0x3F800000, 0x40000000, 0x40400000, 0x40800000], "call(x, dtype='uint32')",
        value=COPY_WORDS, drop=("inputs", "x"),
    ),
    "vec": Toy(
        {
            "axes": {"V": [4]}, "pick": {"V": "4"}, "vectors": "V",
            "inputs": {"x": {"dtype": "f32", "vec": "V"}},
            "outputs": {"dst": {"dtype": "f32", "vec": "V", "like": "x"}},
        },
        [2.0, 4.0, 6.0, 8.0], value="x_load(x_index(i)) + x_load(x_index(i)).xyzw",
        drop=("inputs", "x"),
    ),
    "when": Toy(
        {
            "axes": {"W": [False, True]}, "pick": {"W": "w is not None"},
            **with_w(optional=True, when="W", index=False),
        },
        [["x", "dst"], ["x", "w", "dst"]], "[texts[k]['bindings'] for k in sorted(texts)][::2]",
        drop=("inputs", "w"),
    ),
    "optional": Toy(with_w(optional=True, index=False), X, drop=("inputs", "w")),
    "readonly": Toy(
        {"inputs": {"x": {"dtype": "f32", "readonly": True}}}, ["mode=read"], "sorted(texts)",
        drop=("inputs", "x"),
    ),
    "alias": Toy(
        {"outputs": {"dst": {**DST, "alias": "x"}}}, ["mode=merged", "mode=read", "mode=rw"],
        "sorted(texts)", drop=("outputs", "dst"),
    ),
    "in_place": Toy(
        {"outputs": {"dst": {**DST, "in_place": True}}}, True, "data.args[-1].in_place",
        drop=("outputs", "dst"),
    ),
    "keeps": Toy(
        {"outputs": {"dst": {**DST, "keeps": True}}}, True, "data.args[-1].keeps",
        drop=("outputs", "dst"),
    ),
    "skips": Toy(
        {"outputs": {"dst": {**DST, "skips": True}}}, True, "data.args[-1].skips",
        drop=("outputs", "dst"),
    ),
    "like": Toy({}, "ShapeError", "call(x, shape=(5,))", drop=("outputs", "dst")),
    "broadcast": Toy(
        with_w(broadcast="x"), [X, X, X, X], "call(np.ones((4, 4), 'f4'), x)", value=TIMES_W,
        drop=("inputs", "w"),
    ),
    "expand": Toy(
        with_w(expand="dst"), [X, X, X, X], "call(np.ones((4, 4), 'f4'), x)", value=TIMES_W,
        drop=("inputs", "w"),
    ),
    "index": Toy(
        with_w(index=False), [2.0, 4.0, 6.0, 8.0], "call(x, np.full((1, 1), 2, 'f4'))",
        value="x_load(x_index(i)) * w_load(p.w_off)", drop=("inputs", "w"),
    ),
    "over": Toy(
        with_w(over="w.with_layout(x.shape, (0,))"), [2.0, 4.0, 6.0, 8.0],
        "call(x, x + 1)", value="x_load(x_index(i)) * w_load(w_index(i))",
        drop=("inputs", "w"),
    ),
    "axes": Toy(
        {"inputs": {"x": {"dtype": "f32", "index": False, "axes": "r c"}},
         "outputs": {"dst": F32}},
        [1.0, 3.0], "call(np.array([[1, 2], [3, 4]], 'f4'), shape=(2,))",
        value="x_load(p.x_off + i * p.x_rs)", drop=("inputs", "x"),
    ),
    "doc": Toy(
        {"inputs": {"x": {"dtype": "f32", "doc": "Anything."}}}, True, "'Anything.' in doc",
        drop=("inputs", "x"),
    ),
}  # fmt: skip

OF_PARAM = {
    "type": Toy(factor(value="2"), [2.0, 4.0, 6.0, 8.0], value=FACTOR),
    "value": Toy(factor(value="2"), [2.0, 4.0, 6.0, 8.0], value=FACTOR),
    "default": Toy(factor(default=2.0), [2.0, 4.0, 6.0, 8.0], value=FACTOR),
    "arg": Toy(factor(arg=True), [2.0, 4.0, 6.0, 8.0], "call(x, 2.0)", value=FACTOR),
    "of": Toy(
        {"params": {"factor": {"type": "bits", "of": "x", "arg": True}}},
        [2.0, 4.0, 6.0, 8.0],
        "call(x, 2.0)",
        value="x_load(x_index(i)) * bitcast<f32>(p.factor_lo | p.factor_hi)",
    ),
    "when": Toy(
        {"axes": {"N": [1, 2]}, "pick": {"N": "2"}, **factor(value="2", when="N == 2")},
        [False, False, True, True],
        "sorted('factor' in t.wgsl for t in of_body('NAME').values())",
        value="x_load(x_index(i)) * ${'p.factor' if N == 2 else '1.0'}",
    ),
    "doc": Toy(factor(default=2.0, doc="Of x."), True, "'factor: Of x.' in doc", value=FACTOR),
}


def option(**fields: Any) -> Block:
    return {**factor(), "options": {"times": {"type": "float", **fields}}}


STEP = "[NAME.step(caps, x, dst, factor=times)]"
OF_OPTION = {
    "type": Toy(option(default=3.0), [3.0, 6.0, 9.0, 12.0], value=FACTOR, plan=STEP),
    "default": Toy(option(default=3.0), [3.0, 6.0, 9.0, 12.0], value=FACTOR, plan=STEP),
    "doc": Toy(option(default=3.0, doc="Of x."), True, "'times: Of x.' in doc", value=FACTOR,
               plan=STEP),
}  # fmt: skip

NAMED_AXIS = {"axes": {"N": {"values": [1, 2], "pick": "2 if x.size == 4 else 1"}}}
OF_AN_AXIS = {
    key: Toy(NAMED_AXIS, [2.0, 4.0, 6.0, 8.0], value="x_load(x_index(i)) * ${N}.0")
    for key in ("values", "pick")
}

AXIS = {**ROWS_OF_X, "axis": {"moves": ["x"], "last_only": ["more"]}}
AXIS["params"] = {**ROWS_OF_X["params"], "more": {"type": "f32", "default": 0.0}}
OF_AXIS = {
    "moves": Toy(
        AXIS, [[1.0, 2.0], [2.0, 3.0]],
        "pk.NAME(np.array([[1, 2], [1, 2]], 'f4'), axis=0).tolist()",
        value="x_load(x_at(x_row(row), c)) + p.more + f32(c)",
    ),
    "last_only": Toy(
        AXIS, "ArgumentError",
        "pk.NAME(np.array([[1, 2], [1, 2]], 'f4'), axis=0, more=2.0).tolist()",
        value="x_load(x_at(x_row(row), c)) + p.more + f32(c)",
    ),
}  # fmt: skip


def _at(place: tuple[str, ...], toys: dict[str, Toy]) -> dict[str, Toy]:
    return {key: toy if toy.drop else Toy(**{**vars(toy), "drop": place})
            for key, toy in toys.items()}  # fmt: skip


# By the table of `codegen.keys.TABLES` that a key is in.
TOYS: dict[str, dict[str, Toy]] = {
    "the block": OF_BLOCK,
    "a tensor": OF_TENSOR,
    "a param": _at(("params", "factor"), OF_PARAM),
    "an option": _at(("options", "times"), OF_OPTION),
    "an axis": _at(("axes", "N"), OF_AN_AXIS),
    "axis": _at(("axis",), OF_AXIS),
}

_HOST = Toy({"iterate": None, "grid": None, "bodies": ["toy_part"]}, None,
            plan="[toy_part.step(caps, x, dst)]")  # fmt: skip
# What they need beside them: a kernel with a part, which is its only body, and a library.
HELPERS = {
    "kernels/lib/toy_lib.wgsl": "//% macro twice(v)\n(${v} * 2.0)\n//%- endmacro\n",
    "kernels/toy/toy_part.wgsl": Toy({}, None, value="-x_load(x_index(i))").text(
        {**BASE, "part_of": "toy_host"}
    ),
    **_HOST.files("toy_host", _HOST.merged()),
    "pykernels/plans/toy/__init__.py": "",
}
