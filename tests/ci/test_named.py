"""`ci/test.sh NAME`: which tests are about a kernel, a body or a function."""

from __future__ import annotations

import pytest

from tests.named import arguments, names


@pytest.fixture(scope="module")
def known() -> dict[str, str]:
    return names()


def test_a_kernel_has_files_of_its_name(known: dict[str, str]) -> None:
    found = arguments("softmax", known)
    assert "tests/kernels/softmax/test_softmax.py" in found
    assert "tests/kernels/softmax/test_softmax_rules.py" in found
    assert "tests/kernels/softmax/test_softmax_backward.py" not in found  # of another kernel


def test_a_row_of_a_table_has_cases(known: dict[str, str]) -> None:
    *files, option, name = arguments("neg", known)
    assert "tests/kernels/elementwise/test_ops.py" in files
    assert all(file.startswith("tests/kernels/elementwise/") for file in files)
    assert (option, name) == ("-k", "neg")


def test_functions_and_bodies_have_tests(known: dict[str, str]) -> None:
    assert arguments("einsum", known) == ["tests/kernels/matmul/test_einsum.py"]
    assert all(file.startswith("tests/kernels/reduce/") for file in arguments("reduce_rows", known))
    for name in known:
        if known[name]:
            assert arguments(name, known), name


def test_a_wrong_name_is_corrected(known: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="'softmacks': did you mean 'softmax'"):
        arguments("softmacks", known)
