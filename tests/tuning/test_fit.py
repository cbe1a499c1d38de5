"""How a table is found: residence from times, rates, and the search, on modelled devices."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import generic_tables
from pykernels.bench.tune import facts, modelled
from pykernels.bench.tune.calibrate import calibrated
from pykernels.bench.tune.choices import choices, chosen, question, text_of
from pykernels.bench.tune.fit import SETTINGS, Where, fit, loss, losses
from pykernels.bench.tune.modelled import LAPTOPS, LARGE, Modelled, ModelledTimes, caps_of
from pykernels.bench.tune.problems import Limits, Problem, others, problems
from pykernels.bench.tune.scale import scaled
from pykernels.plans.matmul import select_quant
from pykernels.tuning import TABLES, Tuning, as_data, named

ROOT = Path(__file__).parents[2]
SETS = {"generic-large": LARGE, "generic-laptop": LAPTOPS}


# -- what a device is -----------------------------------------------------------------------------


@pytest.mark.parametrize("partial", [(0.0, 1.0), (0.0, 0.6, 1.0), (0.0, 0.57, 0.73, 1.0)])
def test_residence_is_read_from_times(partial: tuple[float, ...]) -> None:
    resident = len(partial) - 1
    times = [(n, 3e-4 * (n // resident + partial[n % resident])) for n in facts.GROUPS]
    assert facts.residence(times) == partial


@pytest.mark.parametrize("units", [1, 7, 30, 132])
def test_units_are_where_times_double(units: int) -> None:
    assert facts.steps(lambda groups: math.ceil(groups / units) * 1e-3) == units


def test_times_without_steps_tell_no_units() -> None:
    assert facts.steps(lambda groups: groups**0.7 * 1e-3) is None
    assert facts.steps(lambda groups: 1e-3) is None


@pytest.mark.parametrize("groups", [1, 7, 132, 131, 2112])
def test_tiles_make_a_grid(groups: int) -> None:
    a, b = facts.grid(groups)
    assert 0.96 * groups <= a * b <= groups


# -- generic tables -------------------------------------------------------------------------------


@functools.cache
def times(devices: tuple[Modelled, ...]) -> list[ModelledTimes]:
    return generic_tables.times(devices)


def lost(t: Tuning, devices: tuple[Modelled, ...]) -> float:
    found = [loss(each.caps, t, each.questions, each) for each in times(devices)]
    return sum(found) / len(found)


@pytest.mark.parametrize("name", SETS)
def test_a_generic_table_loses_least_on_its_devices(name: str) -> None:
    """Less than any other table that is shipped."""
    own = lost(named(name), SETS[name])
    assert own < min(lost(named(n), SETS[name]) for n in ("nvidia-h200", *SETS, "generic-small")
                     if n != name)  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_generic_tables_are_what_the_search_finds(name: str) -> None:
    found = generic_tables.middle(SETS[name], named(name)).tuning
    assert as_data(found) == as_data(named(name)), "run python -m bench.generic_tables --write"
    page = (ROOT / "docs/design/tuning.md").read_text(encoding="utf-8")
    assert generic_tables.shown(SETS[name], found) in page


# -- the search -----------------------------------------------------------------------------------


def test_settings_name_keys_that_there_are() -> None:
    data = as_data(named("nvidia-h200"))
    for family, settings in SETTINGS.items():
        for setting in settings:
            at = data[family]
            for key in setting.path:
                at = at[key]
            assert all(type(v) is type(at) or isinstance(at, float) for v in setting.values(64, at))


def found_for(d: Modelled) -> tuple[Tuning, Tuning]:
    """The generic table of a device, and the one that is found for it."""
    base = named("generic-large" if d in LARGE else "generic-laptop")
    mine = next(t for t in times(LARGE if d in LARGE else LAPTOPS) if t.device == d)
    start = scaled(base, d.units)
    start = replace(start, device=replace(start.device, copy=d.copy))
    rated = calibrated(mine.caps, start, mine.questions, mine.known)
    return base, fit(
        [Where(mine.caps, mine.questions, mine)], start, [rated, *map(named, TABLES)]
    ).tuning


@pytest.mark.parametrize("d", [LAPTOPS[0], LARGE[1]], ids=lambda d: d.name)
def test_a_fitted_table_serves_problems_that_it_was_not_fitted_to(d: Modelled) -> None:
    """Devices at the lower end of their sets, for which a middle table is not the best."""
    base, found = found_for(d)
    caps = caps_of(d)
    some = others(60, Limits(d.rate * 0.005, d.copy * 0.01))
    found_questions = [question(caps, p, modelled.views(p)) for p in some]
    asked = [q for q in found_questions if q is not None and q.module is not select_quant]
    unseen = ModelledTimes(d, asked)
    before, after = (
        sum(losses(caps, t, asked, unseen)) / len(asked) for t in (base, found)
    )  # fmt: skip
    assert after < before
    assert math.exp(after) < 1.1  # what is asked of a measured table


# -- problems and choices -------------------------------------------------------------------------


def test_problems_are_some_sixty_and_cover_all_bodies() -> None:
    caps = caps_of(LARGE[0])
    asked = modelled.questions(caps)
    assert 50 <= len(asked) <= 70
    bodies = {c.body for q in asked for c in choices(caps, q)}
    assert {"gemv", "mul_mat/32", "mul_mat/16x64", "mul_mat/64", "gemm_tile", "decode",
            "attention_tile/large",
            "conv_direct", "implicit_gemm/128x128", "implicit_gemm_3x3/64x128",
            "64x128"} <= bodies  # fmt: skip


def test_bytes_are_asked_for_too() -> None:
    """All bodies for them, in several splits, and the keys of tables that choose among them."""
    caps = replace(caps_of(LARGE[-1]), tuning=named("nvidia-h200"))
    asked = [p for p in problems() if p.kernel == "mul_mat_i8"]
    found = [question(caps, p, modelled.views(p)) for p in asked]
    bodies = {c.body for q in found if q is not None for c in choices(caps, q)}
    assert {"gemv_i8", "mul_mat_i8/32", "mul_mat_i8/64"} == bodies

    class Times:
        """Splits cost, and large tiles most."""

        def seconds(self, i: int, choice: Any) -> float:
            return float(choice.splits + 10.0 * choice.body.endswith("64"))

        def known(self, i: int, choice: Any) -> float:
            return self.seconds(i, choice)

        def best(self, i: int) -> float:
            return 1.0

    questions = [q for q in found if q is not None]
    best = fit([Where(caps, questions, Times())], caps.tuning, []).tuning
    for q in questions:
        choice = chosen(caps, best, q)
        assert choice.splits == 1 and not choice.body.endswith("64"), (q, choice)


def test_other_problems_are_others_and_always_the_same() -> None:
    limits = Limits(1e10, 1e8)
    some = [*others(100, limits)]
    assert len({*some}) == 100 and not {*some} & {*problems(), *problems(small=True)}
    assert some == [*others(100, limits)] != [*others(100, limits, seed=1)]
    assert all(limits.allow(p) for p in some)
    assert {p.kernel for p in some} == {"mul_mat", "conv2d", "flash_attn", "mul_mat_quant"}


def test_what_a_table_chooses_is_asked_without_a_device() -> None:
    caps = caps_of(LARGE[-1])
    p = Problem("mul_mat", (4096, 4096, 4096))
    q = question(caps, p, modelled.views(p))
    assert q is not None
    assert text_of(chosen(caps, named("nvidia-h200"), q)).startswith("gemm_tile")
    assert text_of(chosen(caps, named("generic-small"), q)) == "mul_mat/32"
