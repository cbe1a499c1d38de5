"""Compiles the pipelines of captured programs and of calls before they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pykernels.errors import BufferStateError, DTypeError

from .blocks import Block
from .bound import Command
from .capture import capturing
from .context import Context
from .program import Program, Recording

__all__ = ["warm_up"]


def warm_up(
    context: Context, work: Sequence[Any], progress: Callable[[int, int], object] | None
) -> None:
    """Compile the pipelines of programs and of functions that make calls, and dispatch each
    pipeline once without workgroups. `progress` gets the number of ready pipelines, and the number
    of all pipelines."""
    context.check()
    context.refuse("warmup", "inside a capture or a recorded pass")
    for given in work:
        if not callable(given):
            raise DTypeError(
                "[warmup] work must be captured programs, or functions that make calls, but is "
                f"{type(given).__name__}"
            )
    if not (progress is None or callable(progress)):
        raise DTypeError(
            f"[warmup] progress must be a function of two numbers but is {type(progress).__name__}"
        )
    recordings = [_recording(context, given) for given in work]
    first: dict[Any, tuple[Command, Sequence[Block]]] = {}
    for recording in recordings:
        for command in recording.commands:
            first.setdefault(command[0], (command, recording.base.blocks))
    for done, (command, blocks) in enumerate(first.values(), 1):
        command[0].compile()
        with context.lock:
            context.recorder.prime(command, blocks)
        context.transfers.poll()
        if progress is not None:
            progress(done, len(first))


def _recording(context: Context, given: Any) -> Recording:
    """The recording of a program, or of a function that is captured here while threads compile."""
    if not isinstance(given, Program):
        with capturing(context, {}, compiled=False) as program:
            given()
        given = program
    recording: Recording = given._recording
    if recording.context is not context:
        raise BufferStateError("[warmup] the program belongs to another device")
    if recording.state:
        raise BufferStateError(f"[warmup] the program {recording.state}")
    return recording
