"""Fails if a line of a plan has no JavaScript, with its file and line: an export would then record
layouts of that kernel, instead of launching any layout. Expressions of specs fail the build.

python ci/plans.py
"""

from __future__ import annotations

import sys

from pykernels.export._write import untranslated

if __name__ == "__main__":
    found = [*untranslated()]
    print("\n".join(found) or "every plan has its JavaScript, or says why not")
    sys.exit(bool(found))
