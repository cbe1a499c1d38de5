"""The committed record of texts that the validators found no error in.

`codegen/validated.txt` has the versions of the validators, and a hash for each body over all its
texts with their limits and features. A build does not validate a body whose hash is in the record.
A body with a changed text has another hash, so it is validated. `python -m codegen --record` writes
it; `bash ci/validate.sh --full --record` does so after all its checks.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from pykernels.validate import Source
from pykernels.validate._cache import Cache

from .variants import Variant

__all__ = ["RECORD", "changed", "digests", "read", "write"]

RECORD = Path("codegen") / "validated.txt"
HEAD = """\
# Bodies whose texts these validators found no error in. bash ci/validate.sh --full --record
"""


def digests(variants: Sequence[Variant]) -> dict[str, str]:
    """For each body, a hash over all its texts and everything else that a verdict on them depends
    on."""
    found: dict[str, list[str]] = defaultdict(list)
    for v in variants:
        found[v.spec.name].append(Cache.key(Source(v.name, v.text, v.limits, v.features)))
    return {
        body: hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()
        for body, keys in sorted(found.items())
    }


def read(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The versions of the validators and the hashes of the bodies; both are empty without a
    record."""
    path = root / RECORD
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    words = [line.split() for line in lines if not line.startswith("#")]
    versions = {name: version for kind, name, version in words if kind == "validator"}
    return versions, {name: digest for kind, name, digest in words if kind == "body"}


def write(root: Path, versions: Mapping[str, str], bodies: Mapping[str, str]) -> None:
    """Replace the record."""
    lines = [f"validator {name} {version}" for name, version in sorted(versions.items())]
    lines += [f"body {name} {digest}" for name, digest in sorted(bodies.items())]
    (root / RECORD).write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def changed(root: Path, variants: Sequence[Variant], versions: Mapping[str, str]) -> set[str]:
    """The bodies that the record does not vouch for. `versions` has the validators of this machine.
    If the version of one of them differs from the record, all bodies are returned."""
    recorded, known = read(root)
    found = digests(variants)
    if any(recorded.get(name) != version for name, version in versions.items()):
        return set(found)
    return {body for body, digest in found.items() if known.get(body) != digest}
