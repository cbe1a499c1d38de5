"""Where the tests of a kernel are: in tests/kernels/FAMILY/test_KERNEL.py.

Kernels that one set of plans serves are tested by one file, over all of them: these are listed
here.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.checkout import ROOT

HERE = Path(__file__).parent
# File: the kernels that its cases run over, beside one of the file's own name.
TOGETHER = {
    "conv/test_conv2d": "conv2d_backward_input conv_transpose2d",
    "loss/test_cross_entropy": "cross_entropy_backward",
    "loss/test_nll_loss": "nll_loss_backward",
    "move/test_move_picked": "gather scatter",
    "move/test_nonzero": "nonzero_offsets",
    "norm/test_layer_norm": "rms_norm l2_norm add_layer_norm add_rms_norm",
    "norm/test_layer_norm_backward": "rms_norm_backward l2_norm_backward",
    "norm/test_group_norm": (
        "group_norm_backward batch_norm batch_norm_backward batch_norm_training"
    ),
    "optim/test_optim_steps": "sgd_step adam_step step_advance",
    "pool/test_pool": (
        "max_pool2d avg_pool2d adaptive_max_pool2d adaptive_avg_pool2d max_pool2d_backward "
        "avg_pool2d_backward adaptive_max_pool2d_backward adaptive_avg_pool2d_backward"
    ),
    "quant/test_quant": "dequantize pack_blocks quantised_rows quantize unpack_blocks",
    "random/test_random": "rand randn randint bernoulli",
    "resize/test_im2col": "col2im",
    "resize/test_roi_align": "roi_align_backward",
    "scan/test_cumsum": "cumprod",
    "sort/test_sort": "argsort",
}


def kernels() -> dict[str, str]:
    """The family of each kernel that people call and that is no row of a table."""
    found = {}
    for path in sorted((ROOT / "kernels").glob("*/*.wgsl")):
        spec = path.read_text(encoding="utf-8").partition("\n// ///\n")[0]
        if path.parent.name != "lib" and not re.search(
            r'^// part_of = |^// axes\.\w+ = "(ops|reductions)"', spec, re.M
        ):
            found[path.stem] = path.parent.name
    return found


def test_every_kernel_has_its_tests_where_its_name_says() -> None:
    found = kernels()
    assert len(found) > 70
    listed = {k: file for file, names in TOGETHER.items() for k in names.split()}
    missing = [k for k, family in found.items() if not (HERE / family / f"test_{k}.py").is_file()]
    assert [k for k in missing if k not in listed] == []
    assert sorted({*listed} - {*missing}) == [], "they have files of their own"


def test_files_of_several_kernels_run_them() -> None:
    for file, names in TOGETHER.items():
        folder = (HERE / file).parent
        helpers = [p for p in folder.glob("[a-z]*.py") if not p.stem.startswith("test_")]
        text = "".join(p.read_text(encoding="utf-8") for p in (HERE / f"{file}.py", *helpers))
        for name in names.split():
            base, back = name.removesuffix("_backward"), name.endswith("_backward")
            assert re.search(rf"\b{base}(_backward)?\b", text), f"{file} does not name {base}"
            assert not back or "_backward" in text, f"{file} has no gradients"
