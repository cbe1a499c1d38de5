"""Declared functions: what they become, how mistakes are told, what a change costs in files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codegen import BuildError
from codegen.build import Build
from tests.checkout import FAMILIES, ROOT, run_python, small_checkout
from tests.codegen.test_toy_kernel import KERNEL

RULES = '''\
"""The rules of toys."""

from pykernels.call.arrays import Call
from pykernels.call.operation import Made


def flipped(call: Call, x, backwards: bool, times: int) -> Made:
    """The elements from the last to the first."""
    dst = call.out(x.shape, x.dtype)
    return Made({"dst": dst}, {"x": x[::-1] if backwards else x, "dst": dst[::-1]})


def word(op, name, value):
    return value
'''

DECLARED = """\
[words.usual]
order = "the usual order"

[forms.flip]
rule = "flipped"
words = "usual"
given = { times = 2 }
doc = "Multiply in {order}."

[forms.flip.arguments]
x = {}
backwards = { type = "bool", default = "False", same = "reverse", doc = "Is it {order}?" }
factor = { keyword = true, default = "2.0" }
out = { keyword = true }

[functions.flip]
form = "flip"
kernel = "toy_scale"
"""

FILES = {
    "kernels/toy/toy_scale.wgsl": KERNEL,
    "kernels/toy/toy.op.toml": DECLARED,
    "pykernels/rules/toy.py": RULES,
}


def test_a_declaration_becomes_a_function(toy: Callable[..., Build]) -> None:
    build = toy(FILES)
    text = build.files["operations/toy.py"]
    for line in (
        "def flip(", "    x: Array,", "    backwards: bool = False,", "    factor: float = 2.0,",
        "    out: Tensor | None = None,", "    reverse: bool | None = None,", ") -> Array:",
        '    """Multiply in the usual order.', "        backwards: Is it the usual order?",
        "        reverse: Another name for backwards.",
        "        backwards = either('flip', 'backwards', backwards, False, 'reverse', reverse)",
        "        factor = real('flip', 'factor', factor)",
    ):  # fmt: skip
        assert line in text.splitlines(), line
    assert "'flip': 'pykernels._generated.operations.toy'," in build.files["functions.py"]
    assert "def flip(x: NDArray" in build.files["functions.pyi"]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('rule = "flipped"', 'rule = "fliped"', "there is no 'fliped' in pykernels/rules/toy.py"),
        ('form = "flip"\nk', 'form = "flop"\nk', "flip: there is no form 'flop'"),
        ('"toy_scale"', '"toy_scales"', "flip: there is no kernel 'toy_scales'"),
        ("given = { times = 2 }", "", "flip has no times, which rule flipped takes"),
        ('type = "bool", ', "", "flip: backwards needs a type"),
        ('"bool"', '"list[int]"', "flip: backwards needs a check"),
        ("words = ", "wards = ", "unknown key 'forms.flip.wards': did you mean 'words'?"),
        ('same = "reverse"', "same = 3", "functions.flip.arguments.backwards.same cannot be 3"),
        ("[functions.flip]", "[functions.flip", "no TOML"),
    ],
)
def test_mistakes_are_named(toy: Callable[..., Build], old: str, new: str, error: str) -> None:
    text = DECLARED.replace(old, new)
    assert text != DECLARED
    with pytest.raises(BuildError, match=re.escape(error)) as told:
        toy({**FILES, "kernels/toy/toy.op.toml": text})
    assert told.value.file == "kernels/toy/toy.op.toml" and told.value.line > 0


def test_a_function_without_a_kernel(toy: Callable[..., Build]) -> None:
    """`runs`: signature, docstring and checks of a function that the rules run."""
    declared = """\
[functions.both]
runs = "doubled"
given = { times = 2, low = -inf }
doc = "Both."

[functions.both.arguments]
x = { type = "Array", check = "known", doc = "An array." }
how = { type = "Literal['a', 'b']", default = "'a'" }
"""
    rules = (
        RULES
        + """

def doubled(op, x, how, times, low):
    return x


def known(op, name, value) -> None:
    pass
"""
    )
    build = toy({**FILES, "kernels/toy/both.op.toml": f'rules = ["toy"]\n{declared}',
                 "pykernels/rules/toy.py": rules})  # fmt: skip
    lines = build.files["operations/both.py"].splitlines()
    for line in (
        "    x: Array,", "        x: An array.", "    how: Literal['a', 'b'] = 'a',",
        "    choice('both', 'how', how, ('a', 'b'))",
        "    return doubled('both', x=x, how=how, times=2, low=float('-inf'))",
    ):  # fmt: skip
        assert line in lines, line
    with pytest.raises(BuildError, match="both has no times, which rule doubled takes"):
        toy({**FILES, "kernels/toy/toy.op.toml": declared.replace("times = 2, ", ""),
             "pykernels/rules/toy.py": rules})  # fmt: skip


def test_checks_wait_that_a_cached_call_does_without(toy: Callable[..., Build]) -> None:
    """A check that only refuses an array, and one of plain integers."""
    declared = DECLARED.replace("x = {}", 'x = { check = "known" }').replace(
        'type = "bool", default = "False", same = "reverse"', 'type = "int", check = "word"'
    )
    rules = RULES + "\n\ndef known(op, name, value) -> None:\n    pass\n"
    build = toy({**FILES, "kernels/toy/toy.op.toml": declared, "pykernels/rules/toy.py": rules})
    text = build.files["operations/toy.py"]
    cached = text.index("known.get(")
    assert text.index("    known('flip', 'x', x)\n") > cached
    assert text.index("    if type(backwards) is not int:\n        backwards = word(") < cached
    assert text.rindex("    backwards = word(") > cached
    converts = toy({**FILES, "kernels/toy/toy.op.toml": declared,
                    "pykernels/rules/toy.py": rules.replace(" -> None", "")})  # fmt: skip
    text = converts.files["operations/toy.py"]
    assert text.index("    x = known('flip', 'x', x)\n") < text.index("known.get(")


def test_a_function_is_declared_once(toy: Callable[..., Build]) -> None:
    files = {**FILES, "pykernels/functional/toy.py": '"""Toys."""\n\n__all__ = ["flip"]\n'}
    with pytest.raises(BuildError, match=r"flip is in pykernels\.functional\.toy already"):
        toy(files)


# -- what a change costs ------------------------------------------------------------------------


def once(test: Callable[[Path], None]) -> Callable[[Path], None]:
    """Runs on a device of the first column alone: no driver changes what a change costs."""
    other = os.environ.get("PYKERNELS_TEST_COLUMN", "").endswith("swiftshader")
    skip = pytest.mark.skipif(other, reason="runs once, not on each driver")
    return skip(pytest.mark.gpu(pytest.mark.usefixtures("dev")(test)))


def changed(folder: Path, edits: dict[str, tuple[tuple[str, str], ...]]) -> int:
    """Edits files of a checkout; how many there are."""
    for name, pairs in edits.items():
        path = folder / name
        text = path.read_text(encoding="utf-8")
        for old, new in pairs:
            assert old in text, (name, old)
            text = text.replace(old, new, 1)
        path.write_text(text, encoding="utf-8")
    return len(edits)


def families(tmp_path: Path, *names: str) -> Path:
    """A checkout with these families too."""
    folder = small_checkout(tmp_path / "checkout", (
        *FAMILIES, *names,
    ))  # fmt: skip
    shutil.copytree(ROOT / "tests" / "kernels", folder / "tests" / "kernels")
    return folder


def run(folder: Path, code: str) -> str:
    """Builds the checkout and runs Python there; what it prints."""
    done = run_python(folder, "-m", "codegen", "--no-validate")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_python(folder, "-W", "ignore", "-c", code)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@once
def test_a_new_reduction_is_two_files(tmp_path: Path) -> None:
    folder = families(tmp_path, "reduce")
    edits = {
        "kernels/reduce/reductions.toml": ((
            'finish.norm_2 = ', 'finish.sum_of_squares = "bitcast<u32>(a.sum)"\nfinish.norm_2 = ',
        ), (
            "[kernels.norm]", '[kernels.sum_of_squares]\ndoc = "The sum of the squares."\n'
            'output = "float"\nempty = true\n\n[kernels.norm]',
        )),
        "kernels/reduce/reduce.op.toml": ((
            "[functions]\n", '[functions]\nsum_of_squares = { form = "reduced" }\n',
        ),),
    }  # fmt: skip
    assert changed(folder, edits) <= 2
    run(folder, (
        "import numpy as np, pykernels as pk\n"
        "x = np.arange(6, dtype='f4').reshape(2, 3)\n"
        "assert (pk.sum_of_squares(x, dim=1) == (x * x).sum(1)).all()\n"
        "assert 'The sum of the squares.' in pk.sum_of_squares.__doc__\n"
    ))  # fmt: skip


MIRROR = """\
import numpy as np, pykernels as pk
from pykernels.reference import conv as reference
rng = np.random.default_rng(0)
x, w = (rng.standard_normal(s).astype("f4") for s in ((2, 4, 7, 6), (4, 2, 3, 2)))
how = dict(stride=(2, 1), padding=1, groups=2)
tx, tw = pk.tensor(x), pk.tensor(w)
with pk.Tape() as tape:
    tape.watch(tx), tape.watch(tw)
    y = pk.conv2d(tx, tw, mirror=True, **how)
    loss = pk.sum(y * y)
want = reference.conv2d(x, w, mirror=True, **how)
assert np.abs(want - reference.conv2d(x, w, **how)).max() > 1
np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-5)
dx, dw = tape.gradient(loss, [tx, tw])
turned = np.ascontiguousarray(w[:, :, ::-1, ::-1])
back = reference.conv2d_backward_input(2 * want, turned, x.shape, **how)
np.testing.assert_allclose(dx.numpy(), back, rtol=1e-4, atol=1e-4)
back = reference.conv2d_backward_weight(2 * want, x, w.shape, **how)[:, :, ::-1, ::-1]
np.testing.assert_allclose(dw.numpy(), back, rtol=1e-4, atol=1e-4)
line = pk.conv1d(x[:, :, 0], w[:, :, 0], groups=2, mirror=True)
want = reference.conv2d(x[:, :, :1], w[:, :, :1], groups=2, mirror=True)[:, :, 0]
np.testing.assert_allclose(line, want, rtol=1e-5, atol=1e-5)
try:
    pk.conv2d(x, w, mirror=3, **how)
except pk.ArgumentError as e:
    assert "mirror" in str(e)
else:
    raise AssertionError("3 was taken")
for told in (pk.conv2d, pk.conv1d, pk.kernels.conv2d):
    assert "Are taps read from the last to the first?" in told.__doc__, told
"""


@once
def test_an_option_of_a_convolution_is_eight_files(tmp_path: Path) -> None:
    """All but a case of the bench and a test, which are two more; pages and hashes are written by
    ci/docs.py and ci/manifest.py."""
    folder = families(tmp_path, "reduce", "elementwise", "matmul", "conv")
    edits = {
        "kernels/conv/conv2d.wgsl": ((
            "// options.layout", '// options.mirror = { type = "bool", default = false, '
            'doc = "Are taps read from the last to the first?" }\n// options.layout',
        ),),
        "kernels/conv/conv.op.toml": ((
            'layout = { keyword = true, doc = "Axes of x and the result',
            'mirror = { keyword = true }\n'
            'layout = { keyword = true, doc = "Axes of x and the result',
        ),),
        "pykernels/plans/conv/conv2d.py": ((
            '    layout: LayoutName = "NCHW",', '    mirror: bool = False,\n'
            '    layout: LayoutName = "NCHW",',
        ), (
            "    kernel = kernel_of(OP, w)\n", "    kernel = kernel_of(OP, w)\n    if mirror:\n"
            "        (o, c, h, v), last = w.strides, [n - 1 for n in w.shape]\n"
            "        at = w.offset + last[2] * h + last[3] * v\n"
            "        w = replace(w, strides=(o, c, -h, -v), offset=at)\n",
        ), (
            "from pykernels.errors", "from dataclasses import replace\n\nfrom pykernels.errors",
        )),
        "pykernels/reference/conv.py": ((
            '    layout: str = "NCHW",\n    activation', '    layout: str = "NCHW",\n'
            '    mirror: bool = False,\n    activation',
        ), (
            "w.astype(np.float64)\n", "w.astype(np.float64)\n"
            "    w = w[:, :, ::-1, ::-1] if mirror else w\n",
        )),
        "pykernels/gradients/conv.py": ((
            '    window: Any', '    mirror = call.option("mirror")\n'
            '    w = w[:, :, ::-1, ::-1] if mirror else w\n    window: Any',
        ), (
            '        call.give("w", dw)', '        call.give("w", dw[:, :, ::-1, ::-1] if mirror '
            'else dw)',
        )),
    }  # fmt: skip
    assert changed(folder, edits) + 2 <= 8
    run(folder, MIRROR)


RAW = """\
import numpy as np, pykernels as pk
from pykernels.reference import norm as reference
rng = np.random.default_rng(0)
x, w, b = (rng.standard_normal(s).astype("f4") + 1 for s in ((5, 33), (33,), (33,)))
given = [pk.tensor(a) for a in (x, w, b)]
with pk.Tape() as tape:
    [tape.watch(t) for t in given]
    y = pk.layer_norm(given[0], 33, *given[1:], centred=False)
    loss = pk.sum(y * y)
want = reference.layer_norm(x, w, b, centred=False)
assert np.abs(want - reference.layer_norm(x, w, b)).max() > 0.5
np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-5)
back = reference.rms_norm_backward(2 * want, x, w, dweight=True, eps=1e-5)
back = [*back, 2 * want.sum(0)]
for got, expected in zip(tape.gradient(loss, given), back, strict=True):
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-4)
for told in (pk.layer_norm, pk.kernels.layer_norm):
    assert "Is the mean subtracted?" in told.__doc__, told
"""


@once
def test_an_option_of_a_norm_is_eight_files(tmp_path: Path) -> None:
    """As above, all but a case of the bench and a test."""
    folder = families(tmp_path, "reduce", "elementwise", "norm")
    edits = {
        "kernels/norm/layer_norm.wgsl": ((
            "// operations", '// options.centred = { type = "bool", default = true, '
            'doc = "Is the mean subtracted?" }\n// operations',
        ),),
        "kernels/norm/norm.op.toml": ((
            "eps = {}\n", "eps = {}\ncentred = { keyword = true }\n",
        ),),
        "pykernels/plans/norm/layer_norm.py": (
            ("    eps: float,", "    eps: float,\n    centred: bool = True,"),
            ('"layer_norm", True', '"layer_norm", centred'),
        ),
        "pykernels/reference/norm.py": ((
            "*, eps: float = 1e-5\n) -> Array:", "*, eps: float = 1e-5,\n"
            "    centred: bool = True,\n) -> Array:",
        ), (
            "    return affine(by_mean(double(x), LAST, eps).n, weight, bias)\n",
            "    found = by_mean(double(x), LAST, eps) if centred else "
            "by_squares(double(x), eps)\n    return affine(found.n, weight, bias)\n",
        )),
        "pykernels/gradients/norm.py": ((
            'def layer_norm(call: Taped) -> None:\n    call.give("x", _layer(call, '
            'call.saved("x"), call.earlier("x")))', 'def layer_norm(call: Taped) -> None:\n'
            '    rule = _layer if call.option("centred") else _rms\n'
            '    call.give("x", rule(call, call.saved("x"), call.earlier("x")))\n'
            '    if call.option("centred"):\n        return\n'
            '    call.give("bias", F.sum(call.dy(), axis=tuple(range(call.dy().ndim - 1))))',
        ),),
    }  # fmt: skip
    assert changed(folder, edits) + 2 <= 8
    run(folder, RAW)


HALVES = """\
import numpy as np, pykernels as pk
x = np.random.default_rng(0).standard_normal((2, 3, 9, 8)).astype(np.float{bits})
try:
    found = [pk.max_pool2d(x, 3, 2, 1), pk.avg_pool2d(x, (2, 3)), pk.adaptive_avg_pool2d(x, 2)]
    found.append(pk.avg_pool2d_backward(found[1], x.shape, (2, 3)))
except pk.DTypeError as e:
    print("float32" in str(e), "float16" in str(e).split("but")[0])
else:
    wide = x.astype("f4")
    want = [pk.max_pool2d(wide, 3, 2, 1), pk.avg_pool2d(wide, (2, 3)),
            pk.adaptive_avg_pool2d(wide, 2)]
    want.append(pk.avg_pool2d_backward(want[1], x.shape, (2, 3)))
    for a, b in zip(found, want, strict=True):
        assert a.dtype == x.dtype
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)
    print("taken")
"""


@once
def test_a_dtype_of_pools_is_one_file(tmp_path: Path) -> None:
    """A checkout whose pools have float32 only gets float16."""
    folder = families(tmp_path, "reduce", "pool")
    blocks = folder / "kernels" / "pool" / "blocks.toml"
    with_both = blocks.read_text(encoding="utf-8")
    blocks.write_text(
        with_both.replace('"float32", "float16"', '"float32"').replace('"f32", "f16"', '"f32"')
    )
    assert "16" not in blocks.read_text(encoding="utf-8")
    assert run(folder, HALVES.format(bits=16)) == "True False"
    assert run(folder, HALVES.format(bits=32)) == "taken"
    blocks.write_text(with_both)
    assert run(folder, HALVES.format(bits=16)) == "taken"
