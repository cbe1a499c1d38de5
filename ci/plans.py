"""Fails, with file and line, if a line of a plan has no translation to JavaScript: an export would
then record single layouts of that kernel, instead of launching any layout. The build itself fails
for expressions of specs.

python ci/plans.py
"""

from __future__ import annotations

import sys

from pykernels.export._write import untranslated

if __name__ == "__main__":
    found = [*untranslated()]
    print("\n".join(found) or "every plan has its JavaScript, or says why not")
    sys.exit(bool(found))
