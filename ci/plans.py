"""Fails, with file and line, if a line of a plan cannot be translated to JavaScript. An export of
that kernel would record single layouts, and could not launch any layout. The build itself fails for
expressions of specs.

python ci/plans.py
"""

from __future__ import annotations

import sys

from pykernels.export._write import untranslated

if __name__ == "__main__":
    found = [*untranslated()]
    print("\n".join(found) or "every plan has its JavaScript, or says why not")
    sys.exit(bool(found))
