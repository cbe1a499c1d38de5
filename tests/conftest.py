"""The columns of the test suite: which engine and driver, and how many cases.

PYKERNELS_TEST_COLUMN   wgpu-lavapipe, wgpu-swiftshader or dawn-swiftshader; or an engine's best
                        adapter: wgpu, dawn, dawn-matrix (with its matrix units); unset: wgpu
PYKERNELS_TEST_FULL=1   every case; else those marked `sample` run within the seconds of their
                        kernel (tests/budget.py), and one marked `crowd` runs on lavapipe only
PYKERNELS_TEST_ONCE     the column that has the files of ONCE and the tests marked `once`: the
                        others leave them out, and those of its engine leave out the files of
                        ONCE_AN_ENGINE; unset: all have them
PYKERNELS_TEST_COSTS    a folder for what each case cost, which tests/costs.py reads
PYKERNELS_TEST_INSTRUMENTED=1   launches outside of captures run texts that check themselves
                        (tests/proofs/instrument.py)
CI                      a missing driver fails instead of skipping
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.runtime.engine import get_engine
from pykernels.runtime.matrix import allow
from tests.budget import Budget, kernel_of, turns

pytest.register_assert_rewrite("tests.harness")

# A table of the user's own, or one that was measured here, would change what is tested.
os.environ["PYKERNELS_TUNING"] = "off"
os.environ.setdefault("PYKERNELS_REQUIRE_GPU", "0")  # software drivers are meant
COLUMN = os.environ.get("PYKERNELS_TEST_COLUMN", "")
INSTRUMENTED = os.environ.get("PYKERNELS_TEST_INSTRUMENTED", "") not in ("", "0")
FULL = os.environ.get("PYKERNELS_TEST_FULL", "") not in ("", "0")
# Facts that no driver and no engine changes: arguments of functions, the calls that they make,
# functions that are composed of several kernels, the records of tapes, formulas of gradients, the
# output of commands. The kernels that these tests call have tests of their own in every column.
ONCE = frozenset(
    f"tests/{name}.py"
    for name in (
        "api/test_bad_arguments",
        "api/test_functional",
        "api/test_hostile_arguments",
        "api/test_indexing",
        "api/test_making",
        "api/test_numpy_functions",
        "api/test_operators",
        "api/test_out_aliases",
        "api/test_spellings",
        "api/test_supports",
        "api/test_words",
        "bench/test_ceilings",
        "bench/test_command",
        "bench/test_dispatches",
        "bench/test_everyday",
        "bench/test_explain",
        "bench/test_own",
        "bench/test_precision",
        "codegen/test_toy_kernel",
        "examples/test_decoder",
        "examples/test_mixed_precision",
        "examples/test_own_kernels",
        "examples/test_second_order",
        "gradients/test_equal_indices",
        "gradients/test_hvp",
        "gradients/test_jax",
        "gradients/test_loss",
        "gradients/test_no_grad",
        "gradients/test_norm_rules",
        "gradients/test_own_rules",
        "gradients/test_programs",
        "gradients/test_reduce_expressions",
        "gradients/test_rules",
        "gradients/test_second_order",
        "gradients/test_sequence",
        "gradients/test_tape",
        "gradients/test_tape_borders",
        "gradients/test_torch",
        "gradients/test_transforms",
        "gradients/test_windows",
        "kernels/attention/test_attention_dropout",
        "kernels/attention/test_flash_attn_functional",
        "kernels/conv/test_conv2d_functional",
        "kernels/conv/test_conv_volumes",
        "kernels/elementwise/test_elementwise_functions",
        "kernels/fft/test_fft_gradients",
        "kernels/fft/test_stft",
        "kernels/loss/test_cross_entropy_functions",
        "kernels/loss/test_ctc_loss",
        "kernels/loss/test_pointwise_losses",
        "kernels/matmul/test_dot",
        "kernels/matmul/test_einsum",
        "kernels/matmul/test_linear",
        "kernels/move/test_functions",
        "kernels/move/test_meshgrid",
        "kernels/norm/test_layer_norm_functional",
        "kernels/norm/test_local_response_norm",
        "kernels/optim/test_loss_scale",
        "kernels/optim/test_muon",
        "kernels/optim/test_optimisers",
        "kernels/pool/test_pool_volumes",
        "kernels/quant/test_gguf",
        "kernels/quant/test_nbits",
        "kernels/quant/test_types",
        "kernels/random/test_random_layers",
        "kernels/recurrent/test_activations",
        "kernels/recurrent/test_gru",
        "kernels/recurrent/test_lstm",
        "kernels/resize/test_deform_conv",
        "kernels/resize/test_grid_sample",
        "kernels/resize/test_recipes",
        "kernels/resize/test_volumes",
        "kernels/resize/test_windows",
        "kernels/sort/test_histogram",
        "kernels/sort/test_quantile",
        "kernels/sort/test_unique",
        "kernels/test_bfloat16",
        "kernels/test_surplus_groups",
        "models/test_nodes",
        "onnx/test_contrib",
        "onnx/test_decisions",
        "onnx/test_decoders",
        "onnx/test_fuzz",
        "onnx/test_lists",
        "onnx/test_ml",
        "onnx/test_model",
        "onnx/test_networks",
        "onnx/test_operators",
        "onnx/test_plans",
        "onnx/test_quantized_networks",
        "onnx/test_small_floats",
        "own/test_debug",
        "own/test_load",
        "proofs/test_device_losses",
        "proofs/test_fourier",
        "proofs/test_grid",
        "proofs/test_instrumented",
        "proofs/test_laws",
        "runtime/test_bfloat16",
        "runtime/test_budget_calls",
        "runtime/test_placement",
        "tuning/test_direct",
        "tuning/test_tune",
    )
)
# Facts that no driver changes, but perhaps an engine: the owner of a buffer, the state after an
# interrupt, the device that a command chooses, times.
ONCE_AN_ENGINE = frozenset(
    f"tests/{name}.py"
    for name in (
        "api/test_again",
        "api/test_cli",
        "api/test_known_calls",
        "api/test_raw_debug",
        "api/test_raw_textures",
        "bench/test_accuracy",
        "bench/test_benches",
        "bench/test_clocks",
        "bench/test_latency",
        "proofs/test_allocation_faults",
        "runtime/test_arguments",
        "runtime/test_budget",
        "runtime/test_interrupts",
        "runtime/test_memory",
        "runtime/test_mixes",
        "runtime/test_owners",
        "runtime/test_soak",
        "runtime/test_software",
        "runtime/test_textures",
        "runtime/test_threads",
        "runtime/test_transfers",
        "runtime/test_wrong_kinds",
    )
)
DRIVERS = {"lavapipe": "llvmpipe", "swiftshader": "SwiftShader"}


class Selection:
    """Charges each case that runs for what it uses, and keeps what it cost."""

    def __init__(self) -> None:
        self._budget = Budget.of_column(COLUMN)
        self._case: tuple[str, str, bool] = ("", "", False)
        self._left_out = ""
        self._used: set[str] = set()
        self._new: list[str] = []
        self.costs: dict[str, tuple[float, list[str]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        sampled = not FULL and item.get_closest_marker("sample") is not None
        kernel = kernel_of(item.nodeid, self._budget.kernels)
        self._case, self._left_out = (kernel, _test(item), sampled), ""
        self._new, before = [], _cpu()
        try:
            if sampled and not self._budget.start(kernel, _test(item)):
                self._leave_out(kernel)
            result = yield
        except BaseException as e:
            if not (self._left_out and _was_skipped(e)):
                raise
            # What else the case says of what it did not finish counts for nothing.
            with contextlib.suppress(pk.PyKernelsError, AttributeError):
                item.funcargs.get("dev").sync()  # type: ignore[attr-defined]
            pytest.skip(self._left_out)
        finally:
            self._case = "", "", False
        self.costs[item.nodeid] = (round(1e3 * (_cpu() - before), 1), self._new)
        return result

    def divide(self, items: list[pytest.Item]) -> None:
        sampled = [i for i in items if i.get_closest_marker("sample")]
        kernels = self._budget.kernels
        self._budget.divide((kernel_of(i.nodeid, kernels), _test(i)) for i in sampled)

    def use(self, body: str, key: str) -> None:
        """A pipeline is asked for, perhaps by a case that cannot pay for it."""
        kernel, test, sampled = self._case
        if not self._budget.use(kernel, test, body, key, sampled):
            self._leave_out(kernel)
        variant = f"{body} {key}"
        if variant not in self._used:
            self._used.add(variant)
            self._new.append(variant)

    def _leave_out(self, kernel: str) -> None:
        self._left_out = f"beyond the seconds of {kernel}: ci/test.sh --full runs it"
        pytest.skip(self._left_out)


def _was_skipped(error: BaseException | None) -> bool:
    """Did this error come from leaving a case out, or was raised on the way?"""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return False
    while error is not None and not isinstance(error, pytest.skip.Exception):
        error = error.__cause__ or error.__context__
    return error is not None


def _cpu() -> float:
    """Seconds of all cores: the same on a loaded machine."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def _test(item: pytest.Item) -> str:
    return f"{item.path.name}::{item.name.partition('[')[0]}"


selection = pytest.StashKey[Selection]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a GPU or a software Vulkan driver")
    config.addinivalue_line("markers", "browser: needs Chromium")
    config.addinivalue_line("markers", "sample: runs some of its cases, all in the full mode")
    config.addinivalue_line(
        "markers", "once: a fact that no driver changes, in a file of others: one column has it"
    )
    config.addinivalue_line(
        "markers", "crowd: 32,768 workgroups, which are slow on SwiftShader: not there"
    )
    if COLUMN == "dawn-matrix":  # before any test looks at adapters
        allow(get_engine("dawn"))
    config.stash[selection] = Selection()
    config.pluginmanager.register(config.stash[selection])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if FULL:
        return
    elsewhere = [_is_left_out(i) for i in items]
    left = [i for i, out in zip(items, elsewhere, strict=True) if out]
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = _in_turns([i for i, out in zip(items, elsewhere, strict=True) if not out])
    config.stash[selection].divide(items)


def _is_left_out(item: pytest.Item) -> bool:
    """Does another column run this test?"""
    if COLUMN.endswith("swiftshader") and item.get_closest_marker("crowd"):
        return True
    once = os.environ.get("PYKERNELS_TEST_ONCE", COLUMN)
    if COLUMN in ("", once):
        return False
    if item.get_closest_marker("once"):
        return True
    file = item.nodeid.partition("::")[0]
    return file in ONCE or (file in ONCE_AN_ENGINE and _engine(COLUMN) == _engine(once))


def _engine(column: str) -> str:
    return column.partition("-")[0]


def _in_turns(items: list[pytest.Item]) -> list[pytest.Item]:
    """Sampled cases of a file change places with each other; all else stays where it is."""
    sampled: dict[Path, dict[str, pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            sampled.setdefault(item.path, {})[item.nodeid] = item
    order = {path: iter(turns(list(found), COLUMN)) for path, found in sampled.items()}
    return [
        sampled[i.path][next(order[i.path])] if i.get_closest_marker("sample") else i for i in items
    ]


@pytest.fixture(scope="session")
def dev(pytestconfig: pytest.Config) -> Iterator[pk.Device]:
    """The device of this column. Lavapipe takes the bodies and splits of large GPUs, for which its
    own table has no use: SwiftShader has those of software drivers."""
    engine, _, driver = COLUMN.partition("-")
    try:
        device = pk.Device(
            DRIVERS.get(driver),
            engine=engine or "wgpu",  # type: ignore[arg-type]
            matrix_units=driver == "matrix",
        )
    except pk.NoAdapterError as e:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{COLUMN or 'no column'}: {e}")
    kind = type(device._context.pipelines)
    get, use = kind.get, pytestconfig.stash[selection].use

    def watched(self: Any, body: str, key: str, *bindings: Any) -> Any:
        use(body, key)
        return get(self, body, key, *bindings)

    kind.get = watched  # type: ignore[method-assign]
    try:
        with contextlib.ExitStack() as held:
            held.enter_context(
                force(device, tuning="nvidia-h200" if driver == "lavapipe" else None)
            )
            if INSTRUMENTED:
                from tests.proofs.instrumented import instrumented

                held.enter_context(instrumented(device))
            yield device
    finally:
        kind.get = get  # type: ignore[method-assign]
        device.close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = os.environ.get("PYKERNELS_TEST_COSTS")
    if folder:
        path = Path(folder) / f"{COLUMN or 'host'}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(session.config.stash[selection].costs, indent=0))
