#!/usr/bin/env bash
# What is too long for every run of CI, on lavapipe: bash ci/proofs.sh [part ...]
#
#   laws         5,000 inputs for each law of the pure parts
#   grid         3,000 combinations of small parameters for each function, beside numpy
#   allocations  a driver without memory at each allocation
#   losses       a device that is lost at each command encoder
#   files        5,000 broken files of each format that is read
#   fourier      500 Fourier transforms of random lengths, axes, strides and dtypes, beside numpy
#   exhaustive   every float16 and pairs of them, a million float32, through each operation
#   torch        20 calls of each function that torch has; needs torch in the environment
#   soak         an hour of requests of all kinds with faults, and the memory of the process
#   instrumented a case of each kernel with texts that check themselves, then without each barrier
#   interrupts   Ctrl-C at every place where Python looks for it (a quarter of an hour)
#   mutants      600 small wrong changes, and which test finds them (hours; goes on where it was)
#   survivors    ten minutes of tests for each mutant that survived
#
# Without a part: laws, grid, allocations, losses, files and exhaustive. SEED=N makes
# other mutants, MUTANTS=FILE is where they are noted (tests/proofs/mutants-N.jsonl). On another
# driver: PYKERNELS_TEST_COLUMN and VK_ICD_FILENAMES as in ci/drivers.sh.

set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=ci/setup.sh
. ci/setup.sh
setup_venv
setup_package
if [[ -z ${PYKERNELS_TEST_COLUMN:-} ]]; then
    has_adapter || setup_lavapipe
    export PYKERNELS_TEST_COLUMN=wgpu-lavapipe
fi
seed=${SEED:-1}
mutants=${MUTANTS:-tests/proofs/mutants-$seed.jsonl}
mkdir -p build

for part in "${@:-laws grid allocations losses files exhaustive}"; do
    for name in $part; do
        case $name in
        laws) PYKERNELS_LAWS=5000 "$python" -m pytest -q tests/proofs/test_laws.py ;;
        grid) "$python" -W ignore::RuntimeWarning -m tests.proofs.grid --most 3000 ;;
        allocations) "$python" -m tests.proofs.allocation_faults ;;
        losses) "$python" -m tests.proofs.device_losses ;;
        files) "$python" -m tests.proofs.file_fuzz --count 5000 ;;
        fourier) "$python" -m tests.proofs.fourier ;;
        exhaustive) "$python" -m tests.proofs.exhaustive ;;
        torch) "$python" -m tests.proofs.torch_view ;;
        soak) "$python" -m tests.runtime.soak --minutes 60 ;;
        instrumented)
            "$python" -m tests.proofs.instrumented
            "$python" -m tests.proofs.instrumented --barriers
            ;;
        interrupts) "$python" -m tests.runtime.interrupt_sweep 0 ;;
        mutants)
            "$python" -m tests.proofs.mutation run --seed "$seed" --count 600 --into "$mutants"
            "$python" -m tests.proofs.mutation table "$mutants"
            ;;
        survivors)
            "$python" -m tests.proofs.mutation again --seed "$seed" --into "$mutants"
            "$python" -m tests.proofs.mutation table "$mutants"
            ;;
        *)
            echo "no part is called $name: see the head of ci/proofs.sh" >&2
            exit 2
            ;;
        esac
    done
done
