"""A plugin of pytest for mutation runs: tests whose text names the changed file or function come
first. `MUTATION_NAMES` has the names."""

from __future__ import annotations

import functools
import inspect
import os
import re

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    names = "|".join(map(re.escape, os.environ["MUTATION_NAMES"].split()))
    named = re.compile(rf"(?<![a-z0-9])({names})(?![a-z0-9])")

    @functools.cache
    def names_it(function: object) -> bool:
        return bool(named.search(inspect.getsource(function)))  # type: ignore[arg-type]

    items.sort(key=lambda item: not names_it(getattr(item, "function", None)))
