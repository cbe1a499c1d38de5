"""The first hour of somebody who measures: what is here, is it right, and how fast is it.

Plain code as such a user writes it, run from an installed wheel by test_first_hour.py.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np

import pykernels as pk

rng = np.random.default_rng(0)
# The ceilings of the device take ten seconds and more: the first table has them.
MEASURED = {"PYKERNELS_BENCH_CEILINGS": "0"}


def pykernels(*args, code=0, columns=100, **env):
    """What the command prints, and its messages; it ends with this code."""
    done = subprocess.run(
        ["pykernels", *map(str, args)], capture_output=True, text=True, timeout=240,
        env={**os.environ, "COLUMNS": str(columns), **env},
    )  # fmt: skip
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def wrong(*args):
    """The one line that tells of wrong use."""
    _, message = pykernels(*args, code=2)
    return message.splitlines()[-1]


def what_is_here():
    text, _ = pykernels("doctor")
    assert f"pykernels {pk.__version__}" in text and "engine wgpu: 0.32" in text
    assert "missing: wgpudawn" in text and "pip install 'wgpudawn" in text
    report = json.loads(pykernels("doctor", "--json")[0])
    assert report["adapters"][0]["name"] == pk.list_adapters("wgpu")[0]["name"]
    assert report["build"]["kernels"] > 10 and report["build"]["variants"] > 1000

    listed, _ = pykernels("list")
    rows = json.loads(pykernels("list", "--json")[0])
    assert len(rows) == len(listed.splitlines()) == report["build"]["kernels"]
    assert re.search(r"^softmax +\d+ +float32, float16, bfloat16 ", listed, re.MULTILINE)
    assert all(len(line) <= 100 for line in listed.splitlines())
    modules = subprocess.run(["python", "-m", "pykernels", "--version"], capture_output=True)
    assert pk.__version__ in modules.stdout.decode()


def is_it_right():
    x = rng.standard_normal((32, 300)).astype(np.float32)
    np.save("x.npy", x)
    told, _ = pykernels("run", "softmax", "--in", "x.npy", "--out", "y.npy", "--set", "scale=0.5",
                        "--check")  # fmt: skip
    assert "passed" in told, told
    e = np.exp(0.5 * x.astype(np.float64))
    np.testing.assert_allclose(np.load("y.npy"), e / e.sum(-1, keepdims=True), rtol=1e-5)
    np.save("w.npy", rng.standard_normal((20, 300)).astype(np.float32))
    pykernels("run", "mul_mat", "--in", "a=x.npy", "--in", "b=w.npy", "--out", "p.npy", "--check")
    assert np.load("p.npy").shape == (20, 32)
    assert "did you mean 'softmax'" in wrong("run", "sofmax", "--in", "x.npy")
    assert "nothing.npy" in wrong("run", "softmax", "--in", "nothing.npy")
    assert "scale" in wrong("run", "softmax", "--in", "x.npy", "--set", "scale=abc")
    assert "there are" in wrong("run", "softmax", "--in", "x.npy", "--device", "h100")


def how_fast_is_it():
    cases, _ = pykernels("bench", "softmax", "fill", "--list")
    assert "softmax f32-4096x4096" in cases and "fill" in cases
    table, told = pykernels(
        "bench", "softmax", "--shape", "64x100", "--shape", "64x101", "--dtype", "f32",
        "--json", "first.json", "--markdown", "first.md", "--peers", "numpy",
    )  # fmt: skip
    assert "ceilings of wgpu: fill" in table and "GB/s" in table
    assert "1 of 2" in told and "s left: softmax f32-64x100" in told and "wrote first.json" in told
    for line in ("softmax  f32-64x100", "softmax  f32-64x101"):
        assert line in table, table
    assert all(len(line) <= 100 for line in table.splitlines())
    report = json.loads(Path("first.json").read_text())
    results = {result["id"]: result for result in report["results"]}
    assert all(result["check"]["wrong"] == 0 for result in results.values())
    assert results["f32-64x100"]["counts"]["nbytes"] == 2 * 4 * 64 * 100
    assert "| softmax | f32-64x100 |" in Path("first.md").read_text()
    narrow, _ = pykernels("bench", "--from", "first.json", columns=80)
    assert all(len(line) <= 80 for line in narrow.splitlines()), narrow
    assert all(w in narrow for w in ("softmax", "64x101", "us", "GB/s"))
    assert "did you mean 'softmax'" in wrong("bench", "sofmax")
    assert "4096by4096" in wrong("bench", "softmax", "--shape", "4096by4096")
    some, told = pykernels(
        "bench", "fill", "memset", "--time", "30", "--edge", "16", "--only", "f32-64",
        "--cache", "hot", **MEASURED,
    )  # fmt: skip
    assert "us" in some and "s left" in told


def what_got_slower():
    same, _ = pykernels("bench", "--compare", "first.json", "first.json")
    assert same == "the same run\n"
    report = json.loads(Path("first.json").read_text())
    for result in report["results"]:
        if result["id"] == "f32-64x100":
            grow(result["timing"], 10)
    report["meta"]["run"] = "another"
    Path("second.json").write_text(json.dumps(report))
    # A busy machine may be too noisy to tell, and then says so.
    slower, code = compared("first.json", "second.json")
    assert re.search(r"(slower|too noisy) .*softmax f32-64x100", slower) and code in (1, 4)
    faster, code = compared("second.json", "first.json")
    assert "slower " not in faster and code in (0, 4)
    left_out = report["results"].pop()["id"]
    Path("third.json").write_text(json.dumps(report))
    gone, code = compared("first.json", "third.json")
    assert f"missing: softmax {left_out}" in gone and code == 3
    # The machine may be busy: only that both are measured again, whatever they take now.
    done = subprocess.run(
        ["pykernels", "bench", "--compare", "first.json"], capture_output=True, text=True,
        env={**os.environ, **MEASURED},
    )  # fmt: skip
    assert done.returncode in (0, 1, 4) and "2 cases: " in done.stdout, done.stdout + done.stderr
    assert wrong("bench", "--compare", "nothing.json", "first.json")


def compared(a, b):
    """What a comparison says, and its exit code."""
    done = subprocess.run(["pykernels", "bench", "--compare", a, b], capture_output=True, text=True)
    return done.stdout, done.returncode


def grow(timing, factor):
    """All times of a case, as if it had been measured on a slower device."""
    for key, value in timing.items():
        if isinstance(value, list) and all(isinstance(v, float) for v in value):
            timing[key] = [factor * v for v in value]


def from_python():
    dev = pk.default_device()
    x = dev.rand((64, 512), seed=0)
    with dev.profile() as p:
        for _ in range(3):
            y = pk.softmax(x)
        pk.matmul(x, y.T)
    table = str(p)
    assert "softmax" in table and "mul_mat" in table and " 3" in table
    p.save_chrome_trace("trace.json")
    names = {event.get("name", "") for event in events(json.loads(Path("trace.json").read_text()))}
    assert any("softmax" in name for name in names), names
    before = dev.submits
    with dev.batch():
        for _ in range(10):
            x = pk.softmax(x)
    assert dev.submits == before + 1
    stats = dev.memory_stats()
    assert stats.peak >= stats.current > 0
    dev.set_memory_budget(stats.current)
    try:
        dev.empty(1 << 24)
    except MemoryError as e:
        assert "budget" in str(e), e
    else:
        raise AssertionError("beyond the budget")
    dev.set_memory_budget(None)


def events(trace):
    return trace["traceEvents"] if isinstance(trace, dict) else trace


for part in (what_is_here, is_it_right, how_fast_is_it, what_got_slower, from_python):
    part()
    print(f"{part.__name__.replace('_', ' ')}: as expected", flush=True)
