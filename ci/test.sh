#!/usr/bin/env bash
# Everything: ci/check.sh, the tests that need no GPU, the others on both software drivers and both
# engines, and what is exported in a browser.
#
#   bash ci/test.sh [--full] [pytest arguments]
#
# Each kernel has its seconds in each column: tests/budget.py says which cases run in them; --full
# runs all. A column whose driver cannot be installed fails where CI=true and is skipped, with its
# reason, elsewhere; so does the browser.

set -euo pipefail
# shellcheck source=ci/setup.sh
. "$(dirname "$0")/setup.sh"
# shellcheck source=ci/stages.sh
. ci/stages.sh

arguments=()
for argument in "$@"; do
    if [[ $argument == --full ]]; then
        export PYKERNELS_TEST_FULL=1
    else
        arguments+=("$argument")
    fi
done

# run_pytest NAME MARKER: a cache for each, as they run at the same time.
run_pytest() {
    local status=0
    "$python" -m pytest --color=no -o "cache_dir=.pytest_cache/$1" -m "$2" "${arguments[@]}" ||
        status=$?
    # No tests is a failure, unless the caller chose which tests to run.
    [[ $status == 5 && ${#arguments[@]} != 0 ]] || return "$status"
}

# run_column ENGINE DRIVER ICD: what tests/conftest.py reads, and what the Vulkan loader reads.
run_column() {
    export PYKERNELS_TEST_COLUMN=$1-$2 VK_ICD_FILENAMES=$3 VK_DRIVER_FILES=$3
    run_pytest "$1-$2" gpu
}

stage_host() { run_pytest host "not gpu and not browser"; }
stage_browser() { run_pytest browser browser; }
stage_wgpu-lavapipe() { run_column wgpu lavapipe "$PYKERNELS_ICD_LAVAPIPE"; }
stage_wgpu-swiftshader() { run_column wgpu swiftshader "$PYKERNELS_ICD_SWIFTSHADER"; }
stage_dawn-swiftshader() { run_column dawn swiftshader "$PYKERNELS_ICD_SWIFTSHADER"; }

# pytest's own last line without its time. A crash leaves none.
describe_stage() {
    local counts='[0-9]+ (passed|failed|error|skipped|deselected|xfailed|xpassed).*|no tests ran'
    sed -nE "s/^=* ?($counts) in [0-9.]+s.*/\\1/p" "$3" |
        sed -E 's/^[0-9]+ deselected$/no tests ran/; s/, [0-9]+ deselected//' | tail -n 1
}

SECONDS=0
setup_venv
setup_naga
setup_typescript || true # its tests skip without it, and fail in CI
setup_bundlers || true
setup_models || true     # likewise
columns=(host) skipped=()
if setup_lavapipe; then columns+=(wgpu-lavapipe); else skipped+=(wgpu-lavapipe); fi
if setup_swiftshader; then
    columns+=(wgpu-swiftshader dawn-swiftshader)
else
    skipped+=(wgpu-swiftshader dawn-swiftshader)
fi
if setup_chromium; then columns+=(browser); else skipped+=(browser); fi
setup_package
add_line setup 0 "$SECONDS" ready

SECONDS=0 status=0
bash ci/check.sh || status=$?
add_line check "$status" "$SECONDS"

run_stages "${columns[@]}"
# Nothing run at all is a failure, whoever chose it: setup and check are the first two lines.
if ! printf '%s\n' "${lines[@]:2}" | grep -qv 'no tests ran'; then failed=1; fi
for column in "${skipped[@]}"; do
    if [[ ${CI:-} == true || ${#columns[@]} == 1 ]]; then
        failed=1
        lines+=("$column: FAILED (its driver or browser is missing)")
    else
        lines+=("$column: SKIPPED, as its driver or browser is missing")
    fi
done
print_summary
