"""Every bench runs on a software driver, its counts are right, and a wrong output fails its case.

No time is judged here.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import reference
from pykernels.bench import case as case_module
from pykernels.bench import onnx, shapes
from pykernels.bench.case import Case, CheckFailed, Operand, kernel_of, load
from pykernels.bench.cases import FUNCTIONS, cases, is_main, modules, peers, problem
from pykernels.bench.ceilings import ceilings
from pykernels.bench.check import verdict
from pykernels.bench.clock import Calls, Effort, GpuSample, Timing
from pykernels.bench.onnx import Node
from pykernels.bench.peers import naive_peer, numpy_peer
from pykernels.bench.report import Report, engine_label
from pykernels.bench.run import EnginePeer, Peer, Runner, Skipped
from pykernels.dtypes import DTYPES
from pykernels.forcing import choice, force
from pykernels.runtime.bound import MAX_LAUNCHES
from pykernels.steps import Scratch
from tests.emulation import emulated
from tests.runtime._helpers import unpaced

QUICK = Effort(warm=0.0, rounds=2, blocks=1, reading=0.0)
SMALL = list(cases(edge=32))
gpu = pytest.mark.gpu
REASON = re.compile(
    r"written for|has no shader-f16|would take seconds|has no such function|no quantised weights"
)


def runner(dev: pk.Device, **options: Any) -> Runner:
    return Runner([dev], effort=QUICK, say=lambda line: None, **options)


# -- shapes and files -----------------------------------------------------------------------------


def test_every_kernel_has_a_bench() -> None:
    assert {c.kernel for c in SMALL} == {*pk.kernels.__all__, *FUNCTIONS}
    full = list(cases())
    assert {c.kernel for c in full} == {*pk.kernels.__all__, *FUNCTIONS}
    for found in (SMALL, full):
        names = [(c.kernel, c.id) for c in found]
        assert len(set(names)) == len(names)
        assert all(" " not in name for _, name in names)


def test_named_shapes_say_where_they_come_from() -> None:
    every = (v for m in (shapes, *modules()) for v in vars(m).values() if isinstance(v, list))
    lists = [v for v in every if v and isinstance(v[0], shapes.Shape)]
    assert len(lists) > 5
    for some in lists:
        assert len({s.name for s in some}) == len({s.dims for s in some}) == len(some)
        assert all(s.origin for s in some)


def test_small_shapes_keep_what_is_special() -> None:
    ragged = shapes.Shape("a", (4096, 4095, 3), "here")
    assert next(shapes.pick([ragged], 32)).dims == (32, 63, 3)
    assert next(shapes.pick([ragged], 0)) == ragged
    assert len(list(shapes.pick([ragged, ragged], 32))) == 1
    assert next(shapes.pick([shapes.Shape("b", (1 << 20,), "here")], 32)).dims == (1024,)


# -- runs and counts ------------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("case", SMALL, ids=lambda c: f"{c.kernel}-{c.id}")
def test_bench_runs_and_counts(dev: pk.Device, case: Case) -> None:
    r = runner(dev)
    beside = {k: v for k, v in peers()[case.kernel].items() if k != "ort"}
    report = r.run([case], {case.kernel: beside})
    assert report.failed == {}
    (result,) = report.results
    touched = {name: o.shape for name, o in case.tensors.items()} | dict(case.used)
    if case.kernel == "set_rows":  # rows of dst that no index names are not touched
        touched["dst"] = touched["src"]
    if case.kernel == "scatter_add":  # an element of dst is read and written for each of src
        touched["dst"] = (2, *touched["src"])
    if case.kernel == "add_rows":  # at most as many rows of dst as src has
        touched["dst"] = (min(math.prod(touched["dst"]), math.prod(touched["src"])),)
    if case.kernel in ("rope", "rope_append"):  # the rows of the positions in both halves
        tokens, pairs = touched["positions"][-1], touched["table"][-1]
        touched["table"] = (min(tokens, 1024) + -(-tokens // 1024), 2, pairs)
    if case.kernel == "quantised_rows":  # as many rows of the planes as the index has
        share = touched["index"][0] / touched["low"][3]
        for name in {"low", "scales", "high"} & {*touched}:
            touched[name] = (int(math.prod(touched[name]) * share),)
    if case.kernel == "raw_rows":  # as many rows as the index has
        touched["data"] = (*touched["index"], touched["data"][1])
    if case.kernel == "rope_append_quant":  # as many rows of the planes as there are tokens
        tokens, pairs = touched["positions"][-1], touched["table"][-1]
        touched["table"] = (min(tokens, 1024) + -(-tokens // 1024), 2, pairs)
        share = tokens / touched["low"][3]
        for name in ("low", "scales"):
            touched[name] = (int(math.prod(touched[name]) * share),)
    if case.kernel == "rope_append":  # each head of x goes to dst or to a row of the cache
        touched["cache"], touched["dst"] = (0,), touched["x"]
    sizes = {n: math.prod(touched[n]) * DTYPES[o.dtype].itemsize for n, o in case.tensors.items()}
    args = () if case.function else kernel_of(case.kernel).args
    again = sum(sizes.get(a.name, 0) for a in args if a.in_place)
    assert result.counts.nbytes == sum(sizes.values()) + again
    moves = case.function is None and kernel_of(case.kernel).moves_bytes
    assert (result.counts.operations > 0) != moves
    assert result.counts.bound >= result.counts.nbytes - again
    assert result.timing.rounds and all(t > 0 for t in result.timing.rounds)
    for name, found in result.peers.items():
        assert not isinstance(found, str) or name == "torch" or REASON.search(found)
    if case.function is not None:
        return
    kernel = kernel_of(case.kernel)
    if "f16" not in case.dtype or "shader-f16" in dev.features or kernel.moves_bytes:
        views = load(dev, case).views()
        known = inspect.signature(kernel.operations).parameters
        options = [case.args.get(o, known[o].default) for o in kernel.options]
        steps = kernel.plan(dev._context.caps, Scratch(), *views, *options)
        assert result.counts.dispatches == sum(s.groups > 0 for s in steps)


@gpu
def test_a_sample_is_one_submit_and_counts_its_dispatches(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpaced(dev, monkeypatch)  # a first dispatch that compiles says nothing of the device's speed
    loaded = load(dev, problem("softmax", (8, 32), "float32"), rotate=10_000)
    assert len(loaded.sets) == 5  # 2 KiB each
    sample = GpuSample(dev, loaded)
    dev.flush()
    before = dev.submits
    assert sample(12) > 0
    assert (sample.dispatches, dev.submits - before) == (12, 1)
    assert sample(MAX_LAUNCHES + 44) > 0
    assert (sample.dispatches, dev.submits - before) == (MAX_LAUNCHES + 44, 3)
    long = load(dev, problem("softmax", (1, 70_000), "float32"))
    assert long.count().dispatches == 3
    assert long.count().variant.count("softmax_") == 3
    assert long.count().nbytes == 2 * 280_000  # not what the passes add


@gpu
def test_all_sets_hold_the_same_values_and_are_written(dev: pk.Device) -> None:
    x, y = Operand((7, 33), "float32", order=(1, 0), gap=3, phase=2), Operand((7, 33), "float16")
    loaded = load(dev, Case("cpy", {"src": x, "dst": y}), rotate=6000)
    assert len(loaded.sets) > 2
    first = loaded.sets[0]["src"].numpy()
    assert len(np.unique(first)) > 200
    for _ in loaded.sets:
        loaded()
    for s in loaded.sets:
        assert s["src"].strides == (4, (7 + 5) * 4) and (s["src"].offset - 8) % 256 == 0
        assert (s["src"].numpy() == first).all()
        assert (s["dst"].numpy() == first.astype("f2")).all()


@gpu
def test_hot_uses_one_set_and_both_are_reported(dev: pk.Device) -> None:
    r = runner(dev, caches=("cold", "hot"), rotate=5000)
    report = r.run([problem("fill", (64,), "float32")])
    assert [(x.cache, x.rotated) for x in report.results] == [("cold", 20 * 256), ("hot", 256)]
    assert [x.key for x in report.results] == [
        (engine_label(dev), "fill", "f32-64", "cold"), (engine_label(dev), "fill", "f32-64", "hot"),
    ]  # fmt: skip


@gpu
def test_passes_load_a_case_anew_elsewhere(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gaps = []
    real = case_module.load

    def watched(dev: pk.Device, case: Case, **options: Any) -> Any:
        gaps.append(options.get("apart", 0))
        return real(dev, case, **options)

    monkeypatch.setattr(case_module, "load", watched)
    cases = [problem("fill", (64,), "float32"), problem("memset", (64,), "uint8")]
    told: list[str] = []
    r = Runner(
        [dev], effort=QUICK, passes=3, rotate=1 << 12, say=told.append, keep=tmp_path / "a.json"
    )
    report = r.run(cases, {"fill": {"numpy": numpy_peer(lambda case, t: None)}})
    assert [(x.timing.places, x.timing.blocks >= 3) for x in report.results] == [(3, True)] * 2
    assert [list(x.peers) for x in report.results] == [["numpy"], []]
    assert gaps == [0, 0, 0, 64, 64, 128, 128]  # two cases, the one with a peer, two and two
    assert sum("pass" in line for line in told) == 2
    far = [m[0] for line in told if (m := re.search(r"\d of 6, about \d+ s left", line))]
    assert [line[0] for line in far] == ["1", "2", "2", "2", "4"]  # two, a peer, two more passes
    kept = Report.load(tmp_path / "a.json").results
    assert [x.timing.places for x in kept] == [3, 3] and "numpy" in kept[0].peers
    apart = real(dev, cases[0], apart=1 << 12)
    assert apart.check().wrong == 0


@gpu
def test_a_run_stops_when_its_time_is_over(dev: pk.Device) -> None:
    r = Runner([dev], effort=QUICK, passes=2, seconds=0.0, say=lambda line: None)
    report = r.run([problem("fill", (64,), "float32")])
    assert (report.results, report.meta["note"]) == ([], "1 cases are left out: the time was over")
    assert r.run([problem("fill", (32,), "float32")]).meta["note"].startswith("2 cases")
    r = Runner([dev], effort=QUICK, say=lambda line: None)
    none = {"fill": {"numpy": numpy_peer(lambda case, t: None)}}
    assert (
        r.run([problem("fill", (64,), "float32")], none, lambda case: False).results[0].peers == {}
    )


@gpu
def test_parts_are_the_dispatches_of_a_call(dev: pk.Device) -> None:
    report = runner(dev, parts=True).run([problem("softmax", (1, 70_000), "float32")])
    (result,) = report.results
    assert len(result.parts) == result.counts.dispatches == 3
    assert " + ".join(label for label, _ in result.parts) == result.counts.variant
    again = Report.of(json.loads(json.dumps(report.record()))).results[0]
    assert again.parts == result.parts


@gpu
def test_the_wall_clock_of_a_call_stands_beside_its_gpu_time(dev: pk.Device) -> None:
    case = problem("fill", (64,), "float32")
    known = peers()["fill"]
    some = {"naive": known["naive"], "numpy": known["numpy"], "engine": EnginePeer(dev, 0)}
    (result,) = runner(dev).run([case], {"fill": some}).results
    assert len(result.timing.loops) == 2 and result.timing.per_call > result.timing.seconds / 10
    for name in some:
        ratio = result.ratio(name, "call")
        assert ratio is not None and ratio > 0
    assert result.peers["numpy"].loops == ()  # its time is by that clock already


@gpu
def test_a_case_and_its_peers_alternate(dev: pk.Device) -> None:
    order: list[str] = []

    def peer(name: str) -> Peer:
        def ready(loaded: Any) -> Calls:
            order.append(f"{name} ready")

            def sample(n: int) -> float:
                order.append(name)
                return 1e-6 * n

            return Calls(sample, "events", sample)

        return ready

    case = problem("fill", (64,), "float32")
    report = runner(dev, alternate=3).run([case], {"fill": {"a": peer("a"), "b": peer("b")}})
    (result,) = report.results
    assert result.timing.places == 4  # the pass, and three times with the peers
    a, b = result.peers["a"], result.peers["b"]
    assert isinstance(a, Timing) and isinstance(b, Timing)
    assert (a.places, b.places) == (3, 3) and len(a.loops) == len(b.loops) == 3 * 2
    assert len(result.timing.loops) == 4 * 2
    assert order[:2] == ["a ready", "b ready"]
    assert [k for k, _ in itertools.groupby(order[2:])] == ["a", "b"] * 3


@gpu
def test_the_other_engine_is_a_peer(dev: pk.Device) -> None:
    r = runner(dev)
    case = problem("fill", (64,), "float32")
    report = r.run([case], {"fill": {"engine": EnginePeer(dev, 0)}})
    assert report.results[0].ratio("engine") is not None


@gpu
def test_ceilings(dev: pk.Device) -> None:
    found, tracker = ceilings(dev, QUICK, 1 << 16)
    assert found.fill > 0 and found.copy > 0 and found.fma32 > 0
    assert (found.fma16 > 0) == ("shader-f16" in dev.features)
    assert found.launch_gpu > 0 and found.launch_host > 0
    assert {w.replace(",", " ").split()[0] for w in found.ways} == {"fill", "copy"}
    assert tracker.warm > 0


# -- checks ---------------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize(
    ("kernel", "shape", "dtype"),
    [
        ("softmax", (6, 40), "float32"), ("mul_mat", (5, 6, 7), "float32"),
        ("cpy", (40,), "float32:float16"), ("fill", (40,), "float32"),
        ("softmax", (3000, 700), "float16"),
    ],
)  # fmt: skip
def test_a_wrong_output_fails_its_case(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch, kernel: str, shape: tuple[int, ...], dtype: str
) -> None:
    case = problem(kernel, shape, dtype)
    loaded = load(dev, case)
    assert loaded.check().wrong == 0
    call = loaded.call

    def broken(**given: Any) -> None:
        call(**given)
        pk.kernels.fill(given["dst"][-1:], 2)  # the last row

    monkeypatch.setattr(loaded, "call", broken)
    with pytest.raises(CheckFailed, match=rf"\[{kernel}\] .* elements are wrong"):
        loaded.check()
    monkeypatch.setattr(loaded, "call", lambda **given: None)  # writes nothing
    with pytest.raises(CheckFailed):
        loaded.check()


@gpu
def test_a_failed_case_has_no_time_and_others_go_on(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pykernels.reference import softmax

    right = softmax.softmax
    monkeypatch.setattr(softmax, "softmax", lambda x, **k: right(x, **k) * 1.01)
    r = runner(dev)
    cases = [problem("softmax", (4, 8), "float32"), problem("fill", (64,), "float32")]
    report = r.run(cases)
    assert [x.kernel for x in report.results] == ["fill"]
    assert list(report.failed) == [f"softmax f32-4x8 {engine_label(dev)}"]


@gpu
def test_peers_are_checked_and_skipped_with_a_reason(dev: pk.Device) -> None:
    def skip(case: Case, t: Any) -> None:
        raise Skipped("not today")

    nothing = "@group(0) @binding(0) var<storage, read_write> dst: array<f32>;\n"
    nothing += "@compute @workgroup_size(1) fn main() { dst[0] = 1.0; }"
    case = problem("fill", (64,), "float32")
    report = runner(dev).run([case], {"fill": {"numpy": numpy_peer(skip)}})
    assert report.results[0].peers == {"numpy": "not today"}
    report = runner(dev).run([case], {"fill": {"numpy": numpy_peer(lambda case, t: 1 // 0)}})
    assert "it failed: ZeroDivisionError" in str(report.results[0].peers["numpy"])
    report = runner(dev).run([case], {"fill": {"naive": naive_peer(lambda case: (nothing, 1))}})
    assert "63 of 64 elements are wrong" in next(iter(report.failed.values()))


@gpu
def test_a_node_of_onnx_must_give_what_we_give(dev: pk.Device) -> None:
    loaded = load(dev, problem("softmax", (4, 8), "float32"))
    x = np.linspace(-1, 1, 32, dtype="f4").reshape(4, 8)
    y = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    node = Node("Softmax", "x", ("x",))
    onnx._compare(loaded, node, {"x": x}, y)
    with pytest.raises(Skipped, match="wrong on this device"):
        onnx._compare(loaded, node, {"x": x}, y * 1.01)
    with pytest.raises(Skipped, match="wrong on this device"):
        onnx._compare(loaded, node, {"x": x}, y * np.nan)


def test_main_cases_exist_and_every_kernel_has_one() -> None:
    known = {(c.kernel, c.id) for c in cases()}
    main = {k: ids for m in modules() for k, ids in m.MAIN.items()}
    assert main.keys() == {k for k, _ in known}
    listed = {(k, i) for k, ids in main.items() for i in ids}
    assert listed <= known
    assert {(c.kernel, c.id) for c in cases() if is_main(c)} == listed
    assert len(listed) < len(known) / 2  # they are measured where time is short


@gpu
@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        ("set_rows", (70, 40)), ("get_rows", (70, 40)), ("set_rows", (3, 2, 9, 40)),
        ("flash_attn", (1, 4, 2, 40, 50, 32)), ("flash_attn_backward", (1, 4, 2, 40, 50, 32)),
        ("conv2d_backward_weight", (2, 3, 9, 8, 5, 3, 3, 2, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_problems_have_inputs_that_mean_something(
    dev: pk.Device, kernel: str, shape: tuple[int, ...], dtype: str
) -> None:
    """What `pykernels bench KERNEL --shape` measures: random numbers are no index and no lse."""
    if dtype == "float16" and "shader-f16" not in dev.features and "rows" not in kernel:
        pytest.skip("the device has no shader-f16")
    loaded = load(dev, problem(kernel, shape, dtype))
    found = loaded.check()
    assert found.size > 0 and np.isfinite(found.error)


@gpu
@pytest.mark.parametrize("kernel", ["flash_attn", "flash_attn_backward"])
def test_attention_on_matrix_units_has_its_own_bound(dev: pk.Device, kernel: str) -> None:
    """Weights are halves between the products: as docs/design/attention.md says."""
    if "shader-f16" not in dev.features:
        pytest.skip("the device has no shader-f16")
    units = nullcontext() if dev._context.caps.matrix else emulated(dev, "attention_mma")
    tile = (
        () if dev._context.caps.matrix else (choice("flash_attn", body="attention_mma/emulated"),)
    )
    with units, force(dev, *tile):
        loaded = load(dev, problem(kernel, (1, 4, 2, 40, 50, 32), "float16"))
        assert loaded._rounded()
        assert loaded.check().wrong == 0


def test_default_problems_are_prepared() -> None:
    for kernel in ("set_rows", "get_rows"):
        index = problem(kernel, (), "float32").tensors["index"]
        assert index.values is not None
        places = index.values(np.random.default_rng(0), index.shape)
        assert sorted(places.tolist()) == list(range(index.shape[0]))
    assert problem("flash_attn_backward", (), "float32").prepare is not None


def test_operations_get_inputs_of_their_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    from pykernels.bench.cases.elementwise import OPS

    assert problem("exp", (9,), "float32").tensors["x"].values is None
    monkeypatch.setitem(OPS, "exp", replace(OPS["exp"], domain=((0.5, 2.0),)))
    values = problem("exp", (999,), "float32").tensors["x"].values
    assert values is not None
    x = values(np.random.default_rng(0), (999,))
    assert 0.5 <= x.min() < 0.51 and 1.99 < x.max() <= 2.0


def test_problem_of_any_kernel() -> None:
    for name in pk.kernels.__all__:
        case = problem(name, (), "float32")
        args = kernel_of(name).args
        needed = {a.name for a in args if not a.optional}
        assert needed <= set(case.tensors) <= {a.name for a in args}
    assert problem("log_softmax", (3, 4), "float16").dtype == "f16"
    assert problem("cpy", (3, 4), "float32:uint8").dtype == "f32>u8"
    with pytest.raises(pk.DTypeError):
        problem("cpy", (3,), "float33")


def test_several_outputs_are_compared_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "family", lambda kernel: kernel)
    module = ModuleType("pykernels.reference.two")
    module.two = lambda x: (x.astype("f8"), 2 * x.astype("f8"))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    x = np.arange(5, dtype="f4")
    assert verdict("two", {"x": x}, {}, [x, 2 * x]).wrong == 0
    assert verdict("two", {"x": x}, {}, [x, 2 * x + 1]).wrong == 5
    module.two_budget = lambda x: (0 * x, 0 * x + 1)  # type: ignore[attr-defined]
    assert verdict("two", {"x": x}, {}, [x, 2 * x + 1]).wrong == 0
    assert verdict("two", {"x": x}, {}, [x + 1, 2 * x]).wrong == 5


def test_budgets_allow_the_rounding_of_float16_and_may_ask_for_the_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reference, "family", lambda kernel: kernel)
    module = ModuleType("pykernels.reference.one")
    module.one = lambda x, shape: x.astype("f8")  # type: ignore[attr-defined]
    asked = []
    module.one_budget = lambda x, shape: asked.append(shape) or 0.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    x = np.array([1.0 / 3, 1e-6 / 3, 2.0**-26])
    assert verdict("one", {"x": x}, {}, [x.astype("f2")]).wrong == 0
    assert verdict("one", {"x": x}, {}, [(x + 2.0**-23).astype("f2")]).wrong == 2
    assert verdict("one", {"x": x}, {}, [x.astype("f4")]).wrong == 2
    assert asked == [(3,)] * 3


@gpu
def test_prepare_computes_inputs_from_others(dev: pk.Device) -> None:
    case = problem("softmax_backward", (4, 16), "float32")
    case = case.labelled(prepare=lambda t: pk.kernels.softmax(t["dy"], t["y"]))
    loaded = load(dev, case, rotate=4096)
    assert len(loaded.sets) > 1 and loaded.outputs == ["dst"]
    for s in loaded.sets:
        assert np.allclose(s["y"].numpy().sum(-1), 1)
    assert loaded.check().wrong == 0


@gpu
def test_a_part_of_a_triangle_begins_with_its_first_row(dev: pk.Device) -> None:
    """Another part of it is no triangle of the same diagonal."""
    case = problem("tri", (1024, 1024), "float32")
    assert load(dev, case).check().wrong == 0
    assert load(dev, case.labelled(args={"upper": True})).check().wrong == 0
