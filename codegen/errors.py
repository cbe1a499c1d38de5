"""Errors of a build: each names a file and, if it is known, a line."""

from __future__ import annotations

__all__ = ["BuildError"]


class BuildError(Exception):
    """A kernel source cannot be built."""

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")
        self.file = file
        self.line = line
        self.message = message
