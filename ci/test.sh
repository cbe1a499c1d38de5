#!/usr/bin/env bash
# Everything: ci/check.sh, the tests that need no GPU, the others on both software drivers and both
# engines, and what is exported in a browser.
#
#   bash ci/test.sh [--full] [--durations] [pytest arguments]
#   bash ci/test.sh NAME [pytest arguments]
#
# NAME is a kernel, a body or a function: builds if a source has changed, validates the texts of
# that kernel, and runs the tests of its name on the drivers that are here; installs nothing.
#
# Each kernel has its seconds in each column: tests/budget.py says which cases run in them; --full
# runs all, and validates all texts: else those that codegen/validated.txt does not vouch for.
# --durations prints the slowest tests of each stage, and of all. A column whose driver cannot be installed fails where CI=true and is skipped, with its
# reason, elsewhere; so does the browser.

set -euo pipefail
# shellcheck source=ci/setup.sh
. "$(dirname "$0")/setup.sh"
# shellcheck source=ci/check.sh
. ci/check.sh # which has ci/stages.sh, too

arguments=() options=() full= kernel=
if [[ ${1:-} =~ ^[a-z_][a-zA-Z0-9_]*$ && ! -e $1 ]]; then
    kernel=$1
    shift
fi
for argument in "$@"; do
    case $argument in
    --full) full=1 && export PYKERNELS_TEST_FULL=1 ;;
    --durations) options=(--durations=40 --durations-min=1) ;;
    *) arguments+=("$argument") ;;
    esac
done

# run_pytest NAME MARKER [PATH...]: a cache for each, as they run at the same time. PATH is where the
# marker is, unless the caller chose tests.
run_pytest() {
    local status=0 chosen=("${arguments[@]}")
    ((${#chosen[@]})) || chosen=("${@:3}")
    "$python" -m pytest --color=no -o "cache_dir=.pytest_cache/$1" -m "$2" "${options[@]}" \
        "${chosen[@]}" || status=$?
    # No tests is a failure, unless the caller chose which tests to run.
    [[ $status == 5 && ${#arguments[@]} != 0 ]] || return "$status"
}

# run_column ENGINE DRIVER ICD: what tests/conftest.py reads, and what the Vulkan loader reads.
run_column() {
    export PYKERNELS_TEST_COLUMN=$1-$2 VK_ICD_FILENAMES=$3 VK_DRIVER_FILES=$3
    run_pytest "$1-$2" gpu
}

stage_host() { run_pytest host "not gpu and not browser"; }
stage_browser() { run_pytest browser browser tests/browser; }
stage_wgpu-lavapipe() { run_column wgpu lavapipe "$PYKERNELS_ICD_LAVAPIPE"; }
stage_wgpu-swiftshader() { run_column wgpu swiftshader "$PYKERNELS_ICD_SWIFTSHADER"; }
stage_dawn-swiftshader() { run_column dawn swiftshader "$PYKERNELS_ICD_SWIFTSHADER"; }

# pytest's own last line without its time. A crash leaves none.
describe_stage() {
    local counts='[0-9]+ (passed|failed|error|skipped|deselected|xfailed|xpassed).*|no tests ran'
    sed -nE "s/^=* ?($counts) in [0-9.]+s.*/\\1/p" "$3" |
        sed -E 's/^[0-9]+ deselected$/no tests ran/; s/, [0-9]+ deselected//' | tail -n 1
}

# The slowest tests of all stages, from what pytest says of each with --durations.
print_durations() {
    [[ ${#options[@]} != 0 ]] || return 0
    printf '\nslowest of all:\n'
    for stage in "$@"; do
        sed -nE "s/^([0-9.]+)s (call|setup|teardown) +(tests.*)/\\1 s  $stage: \\3 (\\2)/p" \
            "$stages/$stage.output"
    done | sort -rn | sed -n 1,40p
}

# run_name NAME: a person's loop, in under a minute.
run_name() {
    local found
    "$python" -c 'import pytest' 2>/dev/null || setup_venv
    setup_runtime_folder
    "$python" -c 'import codegen, pathlib, sys; sys.exit(not codegen.is_fresh(pathlib.Path()))' ||
        "$python" -m codegen --no-validate
    found=$("$python" -m tests.named "$1")
    mapfile -t found <<<"$found"
    arguments=("${found[@]}" "${arguments[@]}")
    stage_texts() { "$python" -m codegen "$kernel"; }
    columns=(host)
    if find_lavapipe; then columns=(wgpu-lavapipe "${columns[@]}"); fi
    if find_swiftshader; then columns+=(wgpu-swiftshader dawn-swiftshader); fi
    if "$python" -c 'import sys; from pykernels.wgsl.texts import read_manifest as m
sys.exit(sys.argv[1] not in {*m()["kernels"], *m()["bodies"]})' "$1"; then columns+=(texts); fi
    run_stages "${columns[@]}"
    print_durations "${columns[@]}"
    if ! printf '%s\n' "${lines[@]}" | grep -q passed; then failed=1; fi
    print_summary
}

if [[ -n $kernel ]]; then
    run_name "$kernel"
    exit
fi

SECONDS=0
set -m # process groups, so that stop_stages reaches what runs in the background
setup_naga & # a minute or two of compilation, beside downloads
naga=$!
set +m
setup_venv
# Downloads, and the crate wgpu, beside the build. Their tests skip without them, and fail in CI.
set -m
{ for part in actionlint typescript bundlers models rust; do "setup_$part" || true; done; } &
downloads=$!
set +m
columns=() skipped=()
if setup_lavapipe; then columns+=(wgpu-lavapipe); else skipped+=(wgpu-lavapipe); fi
if setup_swiftshader; then
    columns+=(wgpu-swiftshader dawn-swiftshader)
else
    skipped+=(wgpu-swiftshader dawn-swiftshader)
fi
columns+=(host)
if setup_chromium; then columns+=(browser); else skipped+=(browser); fi
wait "$naga" # the build validates texts that nothing vouches for
setup_package
wait "$downloads" || true
add_line setup 0 "$SECONDS" ready

# One column has what no driver changes: SwiftShader compiles in half of lavapipe's time.
for column in wgpu-swiftshader wgpu-lavapipe; do
    if [[ " ${columns[*]} " == *" $column "* ]]; then
        export PYKERNELS_TEST_ONCE=$column
        break
    fi
done
# What takes seconds comes first, then the longest: two stages run as long as there are two.
run_stages "${CHECKS[@]}" "${columns[@]}" "${SLOW_CHECKS[@]}"
print_durations "${columns[@]}"
# Nothing run at all is a failure, whoever chose it.
if ! printf '%s\n' "${lines[@]:$((1 + ${#CHECKS[@]})):${#columns[@]}}" | grep -qv 'no tests ran'
then
    failed=1
fi
for column in "${skipped[@]}"; do
    if [[ ${CI:-} == true || ${#columns[@]} == 1 ]]; then
        failed=1
        lines+=("$column: FAILED (its driver or browser is missing)")
    else
        lines+=("$column: SKIPPED, as its driver or browser is missing")
    fi
done
print_summary
