"""The share of wrong kernels that the tests find: mutants of bodies, plans, references and of the
recorder.

    python -m tests.proofs.mutation run --seed 1 --count 600 --into mutants.jsonl [--shard 1/4]
    python -m tests.proofs.mutation again --into mutants.jsonl     survivors, with all their tests
    python -m tests.proofs.mutation note --into mutants.jsonl 87 killed "which test"     by hand
    python -m tests.proofs.mutation table mutants.jsonl            the score by family

Each mutant is one small wrong change (see `mutation_operators`) at a place that the seed draws:
first a family, then a kind of file, then a file, then a kind of change. It is built in a copy of
the tree, and the tests of its family run for 20 s of the processor, those that are near to the
change first; then the cases of its kernels run with texts that check themselves, for 20 s. A mutant
is killed when a test fails, stillborn when it cannot be built or compiled (another is drawn for
it), and survives otherwise. A run that was stopped goes on where it was; `again` gives survivors
ten minutes, in which a test that does not end kills.
"""

from __future__ import annotations

import functools
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from codegen.build import variants_of
from codegen.errors import BuildError
from codegen.sources import GENERATED, kernel_files
from codegen.store import Entry, pack_texts
from pykernels.wgsl.texts import read, read_manifest
from tests.kernels.test_surplus_groups import ALONE, CHECKING
from tests.proofs.instrumented import OTHERS
from tests.proofs.mutation_operators import Mutation, mutations
from tests.proofs.test_instrumented import ALL

ROOT = Path(__file__).resolve().parents[2]
COPY = ("kernels", "codegen", "pykernels", "tests", "bench", "ci", "examples", "docs")
COMPILED = ("pykernels", "codegen", "tests", "bench")
STILLBORN = ("ShaderError", "error: ", "SyntaxError", "IndentationError", "KernelError: [")
KINDS = {"body": 0.6, "plan": 0.25, "reference": 0.15, "recorder": 0.1}
PASSED = re.compile(r"^[.s]+(?=\s*\[|$)", re.MULTILINE)
RUNTIME = "runtime"  # the family of the recorder
RECORDER = (
    "recorder", "pass_recorder", "overlap", "lifetimes", "launch", "lower", "prepare", "placement",
    "program", "buffers", "transfers", "capture",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    number: int
    attempt: int
    family: str
    kind: str
    path: str
    change: str
    outcome: str  # killed, stillborn, survived; equivalent, by hand: it changes no number
    by: str = ""  # the test that failed
    seconds: float = 0.0  # of the processor; of the clock for the first 129 mutants of seed 1


def _limit(seconds: int) -> None:
    """Seconds of the processor, so that what runs beside changes no verdict."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def files(family: str, kind: str) -> list[Path]:
    if kind == "body":
        return sorted((ROOT / "kernels" / family).rglob("*.wgsl"))
    if kind == "plan":
        plan = ROOT / "pykernels/plans" / family
        found = sorted(plan.rglob("*.py")) if plan.is_dir() else [plan.with_suffix(".py")]
        return [p for p in found if p.exists() and p.name != "__init__.py"]
    if kind == "recorder":
        return [ROOT / f"pykernels/runtime/{n}.py" for n in RECORDER if family == RUNTIME]
    return [p for p in [ROOT / "pykernels/reference" / f"{family}.py"] if p.exists()]


def families() -> list[str]:
    kernels = (p.name for p in (ROOT / "kernels").iterdir())
    return sorted(
        [RUNTIME, *(name for name in kernels if (ROOT / "tests/kernels" / name).is_dir())]
    )


def tests_of(root: Path, family: str) -> list[Path]:
    """The tests of a family: those of the recorder are the ones of how calls are run."""
    if family != RUNTIME:
        return sorted((root / "tests/kernels" / family).rglob("test_*.py"))
    beside = [root / f"tests/kernels/test_{name}.py" for name in ("aliases", "small_bindings")]
    return [*beside, *sorted((root / "tests/runtime").glob("test_*.py"))]


def bodies(family: Path) -> list[str]:
    """The bodies of a family whose specs stand alone (a kernel of several bodies has no text)."""
    found = [p.stem for p in kernel_files(ROOT) if family in p.parents]
    return [name for name in found if (ROOT / GENERATED / "wgsl" / f"{name}.json").is_file()]


def bodies_with(path: Path) -> list[str]:
    """The bodies that a file of kernels/ takes part in, of a library perhaps some more."""
    if path.suffix != ".wgsl":
        return []
    family, *folders, name = path.relative_to(ROOT / "kernels").with_suffix("").parts
    if "lib" not in folders:
        return [name]
    used = re.compile(rf'^// uses = .*"((.*/)?{name}|{"/".join(folders[1:])}/\$)', re.MULTILINE)
    sources = {p.stem: p.read_text() for p in kernel_files(ROOT)}
    return [b for b in bodies(ROOT / "kernels" / family) if used.search(sources[b])]


def draw(seed: int, number: int, attempt: int) -> tuple[str, str, Path, Mutation]:
    """The place of a mutant. The same numbers give the same place in the same tree."""
    rng = random.Random(f"{seed}/{number}/{attempt}")
    names = families()
    family = names[number % len(names)]
    while True:
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        if not (candidates := files(family, kind)):
            continue
        path = rng.choice(candidates)
        if not (found := mutations(path.read_text(), path.name)):
            continue
        what = rng.choice(sorted({m.kind for m in found}))
        chosen = rng.choice([m for m in found if m.kind == what])
        if kind != "reference" or not in_budget(path.read_text(), chosen.start):
            return family, kind, path, chosen


def in_budget(text: str, at: int) -> bool:
    """True inside of a function that gives a tolerance: a smaller one is no wrong kernel, and a
    larger one is found by planted errors alone."""
    functions = re.findall(r"^def (\w+)", text[:at], re.MULTILINE)
    return bool(functions) and functions[-1].endswith(("budget", "errors"))


def kernels_of(family: str) -> list[str]:
    """The kernels of a family that stand for its bodies."""
    known = json.loads(read("javascript.json"))["kernels"]
    return [n for n in ALL if known[n]["family"] == family]


@dataclass(frozen=True)
class Near:
    """What is near to a change: a distance of kernels and test files, the nearest below the rest,
    by the kernels that run the body and by the words of the file's and the function's name."""

    names: tuple[str, ...]  # of the file and the function
    running: frozenset[str]

    @classmethod
    def to(cls, path: Path, mutation: Mutation) -> Near:
        functions = re.findall(r"^def (\w+)", path.read_text()[: mutation.start], re.MULTILINE)
        kernels = read_manifest()["kernels"]
        changed = {path.stem, *bodies_with(path)}
        running = (k for k, facts in kernels.items() if changed & {k, *facts["bodies"]})
        return cls((path.stem, *functions[-1:]), frozenset(running))

    def distance(self, name: str) -> int:
        runs = any(f"{name}_".startswith(f"{k}_") for k in self.running)
        words = {word for own in self.names for word in own.split("_")}
        return -4 * runs - len(words & set(name.split("_")))

    def file(self, test: Path) -> int:
        return self.distance(test.stem.removeprefix("test_"))


def of_every_body(kernels: Sequence[str]) -> list[str]:
    """The tests that bodies of a family have a guard for workgroups beyond those of a call, and
    that launches which look for wrong indices count themselves."""
    file = "tests/kernels/test_surplus_groups.py"
    others = [f"{n}-{case}" for n in kernels for case in OTHERS.get(n, ())]
    guards = [n for n in (*kernels, *others) if n not in ALONE]
    return [
        f"{file}::test_every_body_has_a_guard",
        *(f"{file}::test_workgroups_beyond_the_call_do_nothing[{n}]" for n in guards),
        *(f"{file}::test_a_launch_that_checks_counts_itself_once[{n}]"
          for n in kernels if n in CHECKING),
    ]  # fmt: skip


class Tree:
    """A copy of the sources that mutants are built in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        for name in COPY:
            shutil.copytree(
                ROOT / name,
                root / name,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / name, root / name)
        # Compiled once. What Python compiles is known by its content, so that a change is seen at
        # once; the tests, which pytest compiles, are never changed.
        compiled = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *COMPILED)
        self.run(*compiled, timeout=600)
        tests = ("tests/kernels", "tests/runtime", "tests/proofs")
        collected = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *tests)
        self.run(*collected, timeout=600, PYTHONDONTWRITEBYTECODE="")

    def run(self, *command: str, timeout: float, **more: str) -> tuple[int, str]:
        env = dict(os.environ, PYTHONPATH=str(self.root), PYTHONDONTWRITEBYTECODE="1")
        env |= {"PYTHONUNBUFFERED": "1", **more}
        process = subprocess.Popen(
            [sys.executable, *command], cwd=self.root, env=env, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=functools.partial(_limit, math.ceil(timeout)),
        )  # fmt: skip
        try:
            out, _ = process.communicate(timeout=20 * timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
        return process.returncode, out

    def build(self, path: Path) -> str:
        """Render the texts of the bodies that a file of kernels/ takes part in; what failed."""
        try:
            for body in bodies_with(path):
                texts = [v for v in variants_of(self.root, body) if v.shipped]
                entries = (Entry(v.key, v.text, v.head_lines, v.features) for v in texts)
                target = self.root / self._texts(body)
                target.write_text(pack_texts(entries), encoding="utf-8")
        except BuildError as e:
            return str(e)
        return ""

    def restore(self, path: Path) -> None:
        """The file and its texts are as in the sources again."""
        for place in (path.relative_to(ROOT), *map(self._texts, bodies_with(path))):
            shutil.copyfile(ROOT / place, self.root / place)

    def _texts(self, body: str) -> Path:
        return Path(GENERATED) / "wgsl" / f"{body}.json"

    def test(self, family: str, path: Path, near: Near, seconds: float) -> tuple[str, str]:
        """The outcome, and the test that failed."""
        kernels = sorted(kernels_of(family), key=near.distance)
        outcome = self._tests(family, kernels, near, seconds)
        if outcome[0] != "survived" or path.suffix != ".wgsl":
            return outcome
        test = "tests/proofs/test_instrumented.py::test_a_kernel_is_silent"
        code, out = self.run(
            "-m", "pytest", "-xq", "-p", "no:cacheprovider", "--no-header", "--tb=line",
            *(f"{test}[{name}]" for name in kernels), timeout=seconds,
            PYKERNELS_TEST_FULL="1",
        )  # fmt: skip
        told = [line for line in out.splitlines() if line.startswith("E ")]
        if code == 1:
            return "killed", f"instrumented: {told[-1][:140] if told else out[-140:]}"
        return outcome

    def _tests(
        self, family: str, kernels: list[str], near: Near, seconds: float
    ) -> tuple[str, str]:
        # What is near to the change comes first.
        tests = sorted(tests_of(self.root, family), key=near.file)
        first = [k for k in kernels if near.distance(k) < 0]
        named = [str(t.relative_to(self.root)) for t in tests]
        apart = sum(near.file(t) < 0 for t in tests)
        code, out = self.run(
            "-m", "pytest", "-xq", "-p", "no:cacheprovider", "--no-header", "--tb=short", "-rN",
            "-p", "tests.proofs.mutation_order", *of_every_body(first), *named[:apart],
            *of_every_body([k for k in kernels if k not in first]), *named[apart:],
            timeout=seconds, MUTATION_NAMES=" ".join(near.names),
        )  # fmt: skip
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return "survived", f"time after {len(''.join(PASSED.findall(out)))} tests"
        if code in (0, 5):
            return "survived", ""
        failed = [line for line in out.splitlines() if line.startswith(("E  ", "tests/"))]
        if any(word in line for line in failed for word in STILLBORN) and "Mismatch" not in out:
            return "stillborn", failed[-1][:160] if failed else ""
        named = [line for line in out.splitlines() if line.startswith("____")]
        return "killed", (named[0].strip("_ ") if named else out.strip()[-160:])


def evaluate(tree: Tree, seed: int, number: int, attempt: int, seconds: float) -> Mutant:
    family, kind, path, mutation = draw(seed, number, attempt)
    target = tree.root / path.relative_to(ROOT)
    text = path.read_text()
    place = str(path.relative_to(ROOT))
    began = sum(os.times()[:4])
    target.write_text(mutation.apply(text))
    try:
        by = tree.build(path) if kind == "body" else ""
        outcome = "stillborn"
        if not by:
            outcome, by = tree.test(family, path, Near.to(path, mutation), seconds)
    finally:
        tree.restore(path)
    took = round(sum(os.times()[:4]) - began, 1)
    change = mutation.describe(text)
    return Mutant(number, attempt, family, kind, place, change, outcome, by[:160], took)


def told(mutant: Mutant, into: Path) -> None:
    with into.open("a") as f:
        f.write(json.dumps(asdict(mutant)) + "\n")
    line = f"{mutant.outcome:9} {mutant.seconds:5.1f} s  {mutant.path}:{mutant.change}"
    click.echo(f"{line}  {mutant.by.splitlines()[-1] if mutant.by else ''}")


def recorded(paths: Sequence[Path], *, first: bool = False) -> list[Mutant]:
    """The last word on each mutant, or the first one, without the stillborn ones."""
    found: dict[tuple[Path, int], Mutant] = {}
    for path in paths:
        for line in path.read_text().splitlines() if path.exists() else []:
            mutant = Mutant(**json.loads(line))
            if mutant.outcome != "stillborn" and not (first and (path, mutant.number) in found):
                found[path, mutant.number] = mutant
    return [found[key] for key in sorted(found)]


def interval(killed: int, of: int) -> tuple[float, float]:
    """Wilson's interval at 95 %."""
    if not of:
        return 0.0, 1.0
    z, p = 1.96, killed / of
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return max(middle - half, 0.0) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


@click.group(help=__doc__)
def main() -> None: ...


@main.command()
@click.option("--seed", default=1)
@click.option("--count", default=600)
@click.option("--into", type=click.Path(path_type=Path), required=True)
@click.option("--shard", default="1/1")
@click.option("--seconds", default=20.0)
@click.option("--tree", type=click.Path(path_type=Path), default=Path("build/mutants"))
def run(seed: int, count: int, into: Path, shard: str, seconds: float, tree: Path) -> None:
    """Make mutants and test them."""
    part, parts = map(int, shard.split("/"))
    done = {m.number for m in recorded([into])}
    copy = Tree((tree / f"{part}").resolve())
    for number in range(part - 1, count, parts):
        if number in done:
            continue
        for attempt in range(20):
            mutant = evaluate(copy, seed, number, attempt, seconds)
            told(mutant, into)
            if mutant.outcome != "stillborn":
                break


@main.command()
@click.option("--seed", default=1)
@click.option("--into", type=click.Path(path_type=Path), required=True)
@click.option("--seconds", default=600.0)
@click.option("--tree", type=click.Path(path_type=Path), default=Path("build/mutants"))
def again(seed: int, into: Path, seconds: float, tree: Path) -> None:
    """Give each survivor more time."""
    copy = Tree((tree / "again").resolve())
    for m in recorded([into]):
        _, _, path, mutation = draw(seed, m.number, m.attempt)
        same = mutation.describe(path.read_text()) == m.change and m.path.endswith(path.name)
        if m.outcome == "survived" and same:
            found = evaluate(copy, seed, m.number, m.attempt, seconds)
            if found.by == m.by and m.by.startswith("time after"):
                found = replace(found, outcome="killed", by=f"a test does not end: {m.by}")
            told(found, into)


@main.command()
@click.option("--into", type=click.Path(path_type=Path), required=True)
@click.argument("number", type=int)
@click.argument("outcome", type=click.Choice(["killed", "equivalent"]))
@click.argument("why")
def note(into: Path, number: int, outcome: str, why: str) -> None:
    """Note by hand which test kills a survivor, or why it changes no number."""
    found = [m for m in recorded([into]) if m.number == number and m.outcome == "survived"]
    if not found:
        raise click.ClickException(f"mutant {number} did not survive")
    [mutant] = found
    told(replace(mutant, outcome=outcome, by=why), into)


@main.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
def table(paths: tuple[Path, ...]) -> None:
    """Print the score by family, by kind of file and by kind of change."""
    soon = [m.outcome == "killed" for m in recorded(paths, first=True)]
    every = list(zip(recorded(paths), soon, strict=True))
    for title, key in (
        ("family", lambda m: m.family),
        ("kind of file", lambda m: m.kind),
        ("change", lambda m: m.change.split(": ")[1]),
    ):
        columns = "mutants | killed in 20 s | killed | no other numbers | open"
        print(f"\n| {title} | {columns} | score in 20 s, 95 % |\n|---|--:|--:|--:|--:|--:|---|")
        for name in [*sorted({key(m) for m, _ in every}), "all"]:
            own = [(m.outcome, soon) for m, soon in every if name in (key(m), "all")]
            of = Counter(outcome for outcome, _ in own)
            at_once = sum(soon for _, soon in own)
            low, high = interval(at_once, len(own) - of["equivalent"])
            score = f"{low:.0%} to {high:.0%}"
            print(
                f"| {name} | {len(own)} | {at_once} | {of['killed']} | {of['equivalent']} "
                f"| {of['survived']} | {score} |"
            )
    print("\nWhat survived 20 s, and what changes no number:")
    for m, soon in every:
        if not soon:
            print(f"- {m.path}:{m.change}: {m.outcome} ({m.by or 'all tests passed'})")


if __name__ == "__main__":
    main()
