#!/usr/bin/env bash
# Formatting, lints, types, imports, whether pykernels/_generated and the generated pages are what
# codegen and ci/ make, and ci/validate.sh.
# Runs all of them, also after a failure. --full validates all texts, changed or not.

set -euo pipefail
# shellcheck source=ci/setup.sh
. "$(dirname "$0")/setup.sh"
# shellcheck source=ci/stages.sh
. ci/stages.sh
# shellcheck source=ci/checks.sh
. ci/checks.sh

full=
[[ ${1:-} != --full ]] || full=1

setup_venv
setup_naga
setup_package
run_stages "${CHECKS[@]}" "${SLOW_CHECKS[@]}"
print_summary
