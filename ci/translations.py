"""Runs checks that a build leaves out: lints on control flow, and naga's translation of each text
to SPIR-V, MSL, HLSL and GLSL. It checks the bodies that `python -m codegen --validate` found
changed since codegen/validated.txt was written. If that command ran with `--full`, it checks all
bodies.

    python ci/translations.py
"""

from __future__ import annotations

import hashlib
import json
import sys

from pykernels.validate import Lints, agree, find_naga
from pykernels.validate._cache import default_folder
from pykernels.validate._files import collection
from pykernels.validate._pool import Checker, check
from pykernels.wgsl.texts import read, read_manifest

TARGETS = ("spv", "msl", "hlsl", "glsl")


def main() -> int:
    naga = find_naga()
    verdicts = json.loads(read("validation.json"))
    built = hashlib.sha256(read("manifest.json").encode()).hexdigest()
    if naga is None or verdicts.get("manifest") != built:
        print("error: run bash ci/setup.sh and python -m codegen --validate", file=sys.stderr)
        return 1
    bodies = {*verdicts["changed"]} & {*read_manifest()["bodies"]}
    sources = [s for s in collection() if s.name.partition(" ")[0] in bodies]
    checkers = [Checker("naga", naga.version, TARGETS), Checker("lint", Lints.version)]
    versions = {c.name: c.version for c in checkers}
    found = agree(sources, check(sources, checkers, cache=default_folder()), versions)
    for finding in found:
        print(finding)
    errors = sum(f.severity == "error" for f in found)
    print(f"translations: {len(sources)} texts of {len(bodies)} bodies, {errors} errors")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
