#!/usr/bin/env bash
# Formatting, lints, types, imports, whether pykernels/_generated and the generated pages are what
# codegen and ci/ make, whether every plan has its JavaScript, the documentation as a site, and
# ci/validate.sh. Runs all of them, also after a failure; --full validates all texts, changed or not.
# ci/test.sh sources this file for its stages.

set -euo pipefail
# shellcheck source=ci/setup.sh
. "$(dirname "$0")/setup.sh"
# shellcheck source=ci/stages.sh
. ci/stages.sh

export PYRIGHT_PYTHON_IGNORE_WARNINGS=1 # no look for a newer version

stage_format() { "$python" -m ruff format --check .; }
stage_lint() { "$python" -m ruff check .; }
stage_imports() { "${python%/*}/lint-imports" --no-logo --no-cache; }
stage_mypy() { "$python" -m mypy --strict; }
stage_pyright() { "$python" -m pyright --pythonpath "$python"; }
stage_fresh() {
    "$python" -m codegen --check && "$python" ci/readme.py --check && "$python" ci/docs.py --check
}
stage_plans() { "$python" ci/plans.py; }
stage_site() { bash ci/site.sh; }
stage_validate() { bash ci/validate.sh ${full:+--full}; }

# What takes seconds, and what takes longer.
CHECKS=(format lint imports fresh plans site) SLOW_CHECKS=(mypy pyright validate)

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    full=
    [[ ${1:-} != --full ]] || full=1
    setup_venv
    setup_naga
    setup_package
    run_stages "${CHECKS[@]}" "${SLOW_CHECKS[@]}"
    print_summary
fi
