"""naga, the shader compiler inside wgpu-native, through the naga-cli binary."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import ArgumentError, ShaderError
from ._types import LACKS, Finding, Severity, Source, Target
from ._usage import Override, measure, without_comments

_SUFFIX: dict[Target, str] = {"spv": ".spv", "msl": ".metal", "hlsl": ".hlsl", "glsl": ".comp"}
# Language versions that have subgroup operations; the bounds checks that wgpu uses on Metal.
_OPTIONS = (
    *("--spirv-version", "1.3", "--metal-version", "2.4", "--shader-model", "60"),
    *("--profile", "es310", "--index-bounds-check-policy", "Restrict"),
)
# GLSL ES 3.10 cannot query the number of a texture's levels, which clamping needs.
_GLSL = ("--image-load-bounds-check-policy", "Unchecked")
# Messages for a construct that a target cannot express; this is no error of the text.
_BEYOND = re.compile(
    r"TEXTURE_EXTERNAL|selected version doesn't support Features|Capability Capabilities\("
    r"|^(?!.*panicked).*(?:not (?:supported|implemented)|n't supported|[Uu]nsupported)",
    re.DOTALL,
)
# A GLSL file has one entry point, and its suffix names the stage.
_STAGES = {"compute": "comp", "vertex": "vert", "fragment": "frag"}
_ENTRY = re.compile(
    r"@(compute|vertex|fragment)\b(?:\s*+@\w++(?:\s*+\([^()]*+\))?+)*+\s*+fn\s+(\w+)"
)
# texts for each process: many, because a start is slow, but systems limit the arguments
_CHUNK = 256
_FAILED = "Validation failed for the following inputs:\n"
_UNREADY = re.compile(r"the `(\w+)` (?:enable-|language )extension is not yet supported")
_PLACE = re.compile(r"┌─ \S+?:(\d+):(\d+)")
_DIRECTIVE = re.compile(r"\b(enable|requires)\b([^;]*);")
_F16 = re.compile(r"\benable\s[^;]*\bf16\b")


class TranslationError(ShaderError):
    """naga could not translate a text."""


def find_naga() -> Naga | None:
    """Find naga: the program that PYKERNELS_NAGA names, else the checkout's ``.tools/bin/naga``,
    else naga on PATH.

    ArgumentError if PYKERNELS_NAGA is set and does not name a working naga.
    """
    named = os.environ.get("PYKERNELS_NAGA")
    root = Path(__file__).parents[2]
    local = root / ".tools" / "bin" / ("naga.exe" if os.name == "nt" else "naga")
    checkout = (root / "pyproject.toml").is_file() and local.is_file()
    path = named or (str(local) if checkout else shutil.which("naga"))
    if not path:
        return None
    try:
        return Naga(path)
    except (OSError, subprocess.CalledProcessError) as error:
        if not named:
            return None
        message = f"[validate] PYKERNELS_NAGA must name naga-cli's binary but is {named!r}: {error}"
        raise ArgumentError(message) from None


class Naga:
    """naga-cli as a validator and a translator."""

    name = "naga"

    def __init__(self, path: str | Path) -> None:
        self.path = os.path.abspath(path)
        done = self._run(".", "--version")
        done.check_returncode()
        self.version = done.stdout.split()[-1]

    def check(self, sources: Sequence[Source], targets: Sequence[Target] = ()) -> list[Finding]:
        """The first error of each text, and a finding for each target language into which naga
        cannot translate a valid text.

        GLSL is left out for a text with ``enable f16``: naga cannot write f16 there. A text that
        enables a standard extension that naga recognises but does not support (``subgroups``) gets
        a note, and is checked and translated without the directive.
        """
        findings: list[Finding] = []
        workers = os.cpu_count() or 1
        size = min(_CHUNK, -(-len(sources) // workers)) or 1
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
            for index, source in enumerate(sources):
                Path(folder, f"{index}.wgsl").write_bytes(source.text.encode())
            chunks = [
                range(start, min(start + size, len(sources)))
                for start in range(0, len(sources), size)
            ]
            reports: dict[int, str] = {}
            for part in pool.map(lambda chunk: self._validate(folder, chunk), chunks):
                reports.update(part)
            findings += self._without_directives(folder, sources, reports)
            findings += [_finding(sources[index], text) for index, text in reports.items()]

            def translate(index: int) -> list[Finding]:
                source = sources[index]
                usage = measure(source.text)
                if unset := usage.unset(source.overrides):
                    return [_needs_value(source, unset[0])]
                values = usage.constants(source.overrides).items()
                more = ["--override", ",".join(f"{k}={v:g}" for k, v in values)] if values else []
                f16 = _F16.search(source.text)
                wanted: list[Target] = [t for t in targets if t != "glsl"]
                errors = self._translate(folder, str(index), wanted, more)
                if "glsl" in targets and not f16:
                    entries = _ENTRY.findall(without_comments(source.text))
                    error = self._glsl(folder, str(index), entries, more)
                    if error is not None:
                        errors["glsl"] = error
                return [_finding(source, text, f"translate-{to}") for to, text in errors.items()]

            if targets:
                valid = [index for index in range(len(sources)) if index not in reports]
                for more in pool.map(translate, valid):
                    findings += more
        return findings

    def translate(self, source: Source, to: Target) -> bytes:
        """The text in another language; TranslationError with naga's message if naga fails."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "0.wgsl").write_bytes(source.text.encode())
            output = Path(folder, "0" + _SUFFIX[to])
            error = self._emit(folder, "0", [to])
            if error is None:
                return output.read_bytes()
        message = f"[naga] {source.name} does not translate to {to}: {_summary(error)}"
        raise TranslationError(message)

    def _without_directives(
        self, folder: str, sources: Sequence[Source], reports: dict[int, str]
    ) -> list[Finding]:
        """A note for each directive that naga lacks. The texts are validated again without these
        directives, and `reports` gets the new reports."""
        notes = []
        texts = {index: sources[index].text for index in reports}
        again = list(reports)
        while again:
            changed = []
            for index in again:
                report = reports[index]
                lacks = _UNREADY.search(report)
                text = _without_name(texts[index], *_place(report), lacks[1]) if lacks else None
                if lacks is None or text is None:
                    continue
                word = "requires" if "language" in lacks[0] else "enable"
                what = f"naga {self._major} has no `{word} {lacks[1]}`: checked without it"
                place = (sources[index].name, *_place(report))
                notes.append(Finding(*place, "note", what, self.name, LACKS, report))
                texts[index] = text
                Path(folder, f"{index}.wgsl").write_bytes(text.encode())
                del reports[index]
                changed.append(index)
            for index in changed:
                reports.update(self._validate(folder, range(index, index + 1)))
            again = [index for index in changed if index in reports]
        return notes

    @property
    def _major(self) -> str:
        return self.version.partition(".")[0]

    def _validate(self, folder: str, indices: range) -> dict[int, str]:
        """naga's report on each invalid text.

        If a text makes naga crash, the process reports nothing about the other texts. So both
        halves of the texts are validated again, until that text is alone.
        """
        done = self._run(folder, "--bulk-validate", *(f"{index}.wgsl" for index in indices))
        if done.returncode == 0:
            return {}
        body, _, trailer = done.stderr.partition(_FAILED)
        parts = re.split(r"^Error validating (\d+)\.wgsl:\n", body, flags=re.MULTILINE)
        reports = {int(i): text.strip() for i, text in zip(parts[1::2], parts[2::2], strict=True)}
        listed = {int(i) for i in re.findall(r"^ +(\d+)\.wgsl$", trailer, flags=re.MULTILINE)}
        if done.returncode == 1 and listed and listed == reports.keys():
            return reports
        if len(indices) == 1:
            return {indices[0]: done.stderr.strip() or f"naga ended with {done.returncode}"}
        half = len(indices) // 2
        return self._validate(folder, indices[:half]) | self._validate(folder, indices[half:])

    def _translate(
        self, folder: str, stem: str, targets: Sequence[Target], more: Sequence[str]
    ) -> dict[Target, str]:
        """naga's report for each target that failed. One process tries to write all targets; if it
        fails, each target gets its own process."""
        if not targets:
            return {}
        if self._emit(folder, stem, targets, more) is None:
            # removed at once, because thousands of texts may be translated in this folder
            for to in targets:
                Path(folder, stem + _SUFFIX[to]).unlink()
            return {}
        errors: dict[Target, str | None] = {
            to: self._emit(folder, stem, [to], more) for to in targets
        }
        return {to: text for to, text in errors.items() if text is not None}

    def _glsl(
        self, folder: str, stem: str, entries: Sequence[tuple[str, str]], more: Sequence[str]
    ) -> str | None:
        """naga's report on the first entry point without a translation to GLSL; None if each has
        one."""
        for stage, name in entries:
            file = f"{stem}.{_STAGES[stage]}"
            error = self._write(folder, stem, [file], *_GLSL, "--entry-point", name, *more)
            if error is not None:
                return error
            Path(folder, file).unlink()
        return None

    def _emit(
        self, folder: str, stem: str, targets: Sequence[Target], more: Sequence[str] = ()
    ) -> str | None:
        return self._write(folder, stem, [stem + _SUFFIX[to] for to in targets], *more)

    def _write(self, folder: str, stem: str, files: Sequence[str], *more: str) -> str | None:
        done = self._run(folder, f"{stem}.wgsl", *files, *_OPTIONS, *more)
        # When naga skips an output, it still exits with 0, so this looks for the files.
        written = [Path(folder, file) for file in files if Path(folder, file).is_file()]
        if done.returncode == 0 and len(written) == len(files):
            return None
        for path in written:
            path.unlink()
        return done.stderr.strip() or f"naga wrote nothing and ended with {done.returncode}"

    def _run(self, folder: str, *args: str) -> subprocess.CompletedProcess[str]:
        quiet = {"NO_COLOR": "1", "RUST_BACKTRACE": "0", "RUST_LOG": "off"}
        return subprocess.run(
            [self.path, *args],
            cwd=folder,
            env={**os.environ, **quiet},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )


def _place(report: str) -> tuple[int, int]:
    place = _PLACE.search(report)
    return (int(place[1]), int(place[2])) if place else (1, 1)


def _without_name(text: str, line: int, column: int, name: str) -> str | None:
    """The text without `name` in the directive at this place, replaced by blanks; None if there is
    no directive."""
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    at = starts[line - 1] + column - 1
    for m in _DIRECTIVE.finditer(without_comments(text)):
        if m.start() <= at < m.end():
            left = re.sub(rf"\b{name}\b", " " * len(name), m[0])
            if not re.search(r"\w", left.removeprefix(m[1])):
                left = re.sub(r"[^\n]", " ", left)
            return text[: m.start()] + left + text[m.end() :]
    return None


def _finding(source: Source, report: str, code: str = "") -> Finding:
    line, column = _place(report)
    message = _summary(report)
    if code:
        message = f"no {code.removeprefix('translate-')} output: {message}"
    severity: Severity = "note" if code and _BEYOND.search(report) else "error"
    return Finding(source.name, line, column, severity, message, Naga.name, code, report)


def _needs_value(source: Source, o: Override) -> Finding:
    message = f"not translated: override {o.name} has no default, give --override {o.name}=VALUE"
    place = (source.name, o.line, o.column)
    return Finding(*place, "note", message, Naga.name, "override", message)


def _summary(report: str) -> str:
    """The line of a report that names the error."""
    if m := re.search(r"panicked at [^\n]*\n([^\n]*)", report):
        return f"naga panicked: {m[1]}"
    if "overflowed its stack" in report:
        return "naga overflowed its stack"
    if m := re.search(r"^error: (.*)", report, flags=re.MULTILINE):
        notes = re.findall(r"^ *= (?!note:)(.*)", report, flags=re.MULTILINE)
        return ": ".join([m[1], *notes])
    return " ".join(report.removeprefix("Could not parse WGSL:").split())[:200]
