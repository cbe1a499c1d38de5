"""Options of `pytest bench`: engine, adapter, peers, warm-up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

import pykernels as pk
from pykernels.bench.clock import Effort
from pykernels.bench.report import Report
from pykernels.bench.run import Runner
from pykernels.bench.table import table

REPORT = pytest.StashKey[Report]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pykernels")
    group.addoption("--engine", choices=("wgpu", "dawn"), default="wgpu")
    group.addoption("--adapter", help="a part of its name")
    group.addoption("--peers", default="", help="all, or some of numpy,torch,ort,naive")
    group.addoption("--cache", choices=("cold", "hot"), default="cold")


@pytest.fixture(scope="session")
def wanted_peers(request: pytest.FixtureRequest) -> list[str]:
    return str(request.config.getoption("peers")).split(",")


@pytest.fixture(scope="session")
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """The device with its ceilings; prints the table of all cases at the end."""
    option = request.config.getoption
    dev = pk.Device(option("adapter"), engine=option("engine"))
    effort = replace(Effort.of(dev), blocks=1)
    if request.config.getoption("benchmark_disable"):
        effort = Effort(warm=0.0, rounds=1, blocks=1, reading=0.0)
    made = Runner([dev], effort=effort, caches=(option("cache"),), say=lambda line: None)
    if not request.config.getoption("benchmark_disable"):
        made.ceilings(1 << 20 if os.environ.get("PYKERNELS_BENCH_EDGE", "0") != "0" else 1 << 30)
    request.config.stash[REPORT] = made.report
    yield made
    dev.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    report = terminalreporter.config.stash.get(REPORT, None)
    if report is not None and report.results:
        terminalreporter.section("GPU time")
        for line in table(report):
            terminalreporter.write_line(line)
