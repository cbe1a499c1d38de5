#!/usr/bin/env bash
# Builds the documentation as a site, build/site/html; a warning, such as of a broken link, fails.
# Needs the generated pages of docs/reference (ci/docs.py), which are in the repository.
#
#   bash ci/site.sh [--serve]      --serve: also on http://localhost:8000 until Ctrl-C

set -euo pipefail
# shellcheck source=ci/setup.sh
. "$(dirname "$0")/setup.sh"

# .tools/site: a venv with the dependency group `docs` of pyproject.toml.
setup_site() {
    local stamp=.tools/site/docs-group.sha256 want
    want=$(digest pyproject.toml)
    if is_stamped "$stamp" "$want"; then return; fi
    say "installing the dependency group docs into .tools/site"
    "$python" -m venv --clear .tools/site
    .tools/site/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
    .tools/site/bin/python -m pip install --quiet --group docs
    printf '%s\n' "$want" >"$stamp"
}

setup_venv
setup_site
"$python" ci/site_source.py
(cd build/site && ../../.tools/site/bin/zensical build --strict --clean)
if [[ ${1:-} == --serve ]]; then
    say "http://localhost:8000"
    exec "$python" -m http.server --bind localhost --directory build/site/html 8000
fi
