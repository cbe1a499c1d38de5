"""Fails, with file and line, if a line of a plan cannot be translated to JavaScript. An export of
that kernel could launch only the layouts that it records, instead of all layouts. If an expression
of a spec cannot be translated, the build itself fails.

python ci/plans.py
"""

from __future__ import annotations

import sys

from pykernels.export._write import untranslated

if __name__ == "__main__":
    found = [*untranslated()]
    print("\n".join(found) or "every plan has its JavaScript, or says why not")
    sys.exit(bool(found))
