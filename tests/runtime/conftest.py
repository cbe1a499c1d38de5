"""The process that the isolated cases share ends when they are done, and ends well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime import _helpers


@pytest.fixture(scope="session", autouse=True)
def shared_process() -> Iterator[None]:
    yield
    _helpers.end_shared_process()
