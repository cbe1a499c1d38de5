"""Computes the hash of everything that a build reads; needs only the standard library."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import BuildError
from .signatures import signatures

__all__ = [
    "GENERATED", "Rule", "functions_by_hand", "kernel_files", "plan_names", "recorded_hash",
    "rules_of", "source_hash",
]  # fmt: skip

# Files of the package that a build reads, besides pykernels/wgsl.
_READ = (
    "_version.py", "call/casts.py", "contract.py", "export/_expressions.py", "tensors/layout.py",
)  # fmt: skip
GENERATED = Path("pykernels") / "_generated"


def kernel_files(root: Path) -> list[Path]:
    """The kernel sources: `kernels/FAMILY/NAME.wgsl`; `kernels/lib` is shared text."""
    found = (root / "kernels").glob("*/*.wgsl")
    return sorted(p for p in found if p.parent.name != "lib")


def plan_names(root: Path) -> frozenset[str]:
    """The kernels whose plans are written by hand: `pykernels/plans/FAMILY/NAME.py`."""
    files = (root / "pykernels" / "plans").glob("*/[a-z]*.py")
    return frozenset(p.stem for p in files if (root / "kernels" / p.parent.name).is_dir())


def functions_by_hand(root: Path) -> dict[str, str]:
    """The functions of layer two that are written by hand, each with its module.

    `__all__` of `pykernels/functional/FAMILY.py` names them, as a list of strings.
    """
    found: dict[str, str] = {}
    for path in sorted((root / "pykernels" / "functional").glob("[a-z]*.py")):
        file = path.relative_to(root).as_posix()
        line, names = _exported(path, file)
        for name in names:
            if name in found:
                raise BuildError(file, line, f"{name} is in {found[name]} already")
            found[name] = f"pykernels.functional.{path.stem}"
    return found


def _exported(path: Path, file: str) -> tuple[int, list[str]]:
    """The names in `__all__` of a file, and the line of `__all__`; the file is not run."""
    line = 1
    for node in ast.parse(path.read_text(encoding="utf-8"), file).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        if ast.unparse(target) == "__all__":
            line = node.lineno
            try:
                names = ast.literal_eval(node.value)
            except ValueError:
                break
            return line, [str(name) for name in names]
    raise BuildError(file, line, "__all__ must list the file's functions")


class Rule(NamedTuple):
    """A function of a module of rules: the names of its parameters, and True if it returns None."""

    takes: tuple[str, ...]
    gives_none: bool


def rules_of(path: Path) -> dict[str, Rule]:
    """The functions of a module by their names; the module is not run."""
    if not path.is_file():
        return {}
    return {
        d.name: Rule(
            tuple(a.arg for a in (*d.args.args, *d.args.kwonlyargs)),
            d.returns is not None and ast.unparse(d.returns) == "None",
        )
        for d in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(d, ast.FunctionDef)
    }


def classes_of(path: Path) -> list[str]:
    """The names of a module's classes; the module is not run."""
    if not path.is_file():
        return []
    found = ast.parse(path.read_text(encoding="utf-8")).body
    return [d.name for d in found if isinstance(d, ast.ClassDef)]


def _paths(root: Path) -> Iterator[Path]:
    yield from sorted((root / "kernels").rglob("*.wgsl"))
    yield from sorted((root / "kernels").glob("*/*.toml"))
    yield from sorted((root / "codegen").glob("*.py"))
    yield from (root / "pykernels" / name for name in _READ)
    yield from sorted((root / "pykernels" / "wgsl").glob("*.py"))


def source_hash(root: Path) -> str:
    """sha256 over everything that a build reads. Of plans, a build reads only the names; of
    functions, only the annotated signatures; of rules, only the parameters."""
    digest = hashlib.sha256()
    for path in _paths(root):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    # These parts of handwritten functions and plans decide what is generated around them.
    by_hand = functions_by_hand(root)
    functions = [f"{home}.{name}" for name, home in by_hand.items()]
    written = signatures(root, by_hand)
    seen = [*written.imports, *(line for lines in written.functions.values() for line in lines)]
    rules = (root / "pykernels" / "rules").glob("*.py")
    takes = [f"{path.stem}.{n}{rule}" for path in rules for n, rule in rules_of(path).items()]
    for names in (plan_names(root), functions, seen, takes):
        digest.update("\0".join(sorted(names)).encode() + b"\1")
    return digest.hexdigest()


def recorded_hash(root: Path) -> str:
    """The hash in the generated manifest; "" if there is no manifest."""
    try:
        manifest = json.loads((root / GENERATED / "manifest.json").read_text(encoding="utf-8"))
        return str(manifest["sources"])
    except (OSError, ValueError, KeyError):
        return ""
