#!/usr/bin/env bash
# What is promised of speed on a GPU and was not measured there yet, beside torch, each with its
# command: bash ci/speed.sh [--list] [TEXT]
#
# --list prints the commands. TEXT: those that contain it. About half an hour; each output is shown
# and kept in bench/results/speed/. BENCH_PYTHON names a Python that has pykernels, torch and numpy:
# nothing is installed then. A command that fails does not stop the others.

set -euo pipefail
cd "$(dirname "$0")/.."

commands() {
    cat <<'END'
host:        -m bench.latency --functions
latency:     -m bench.latency
sweep:       -m pykernels bench --sweep all --peers torch --json bench/results/speed/sweep.json --csv bench/results/speed/sweep.csv --plot bench/results/speed/sweep.svg
tune:        -m pykernels tune --restart
check:       -m pykernels tune --check 100
precision:   -m bench.precision
columns16:   -m pykernels bench mul_mat --shape 4096x16x4096 --config 'mul_mat/16x64 splits=16' --config 'mul_mat/64 splits=6'
deep:        -m pykernels bench flash_attn --shape 1x8x8x2048x2048x256 --shape 1x8x8x2048x2048x512 --config attention_tile/large --config 'products queries=2048' --config 'products queries=512' --config 'products queries=256' --parts
deepunits:   -m pykernels bench flash_attn --engine dawn-matrix --dtype float16 --shape 1x8x8x2048x2048x256 --shape 1x8x8x2048x2048x512 --config attention_tile/large --parts
halves16:    -m pykernels bench mul_mat --dtype float16 --shape 16x4096x4096 --shape 32x4096x4096 --shape 64x4096x4096
rows64:      -m pykernels bench mul_mat --shape 64x14336x4096 --config 'gemm_tile splits=7' --config 'mul_mat/64 splits=2'
networks:    -m bench.networks
winograd:    -m pykernels bench conv2d --shape 8x128x28x28x128x3x3x1x1x1 --shape 8x64x56x56x64x3x3x1x1x1 --config 'winograd/2' --config 'winograd/4'
resnet:      -m bench.networks --only resnet-50
units:       -m bench.networks --engine dawn-matrix
END
}

if [[ ${1:-} == --list ]]; then
    commands | grep -F -- "${2:-}"
    exit
fi
# shellcheck source=ci/setup.sh
. ci/setup.sh
ready_python
mkdir -p bench/results/speed
failed=0
while IFS=: read -r name words; do
    eval "arguments=($words)" # the lines above, with their quotes
    printf '\n== %s: python %s\n' "$name" "${arguments[*]}"
    "$python" "${arguments[@]}" 2>&1 | tee "bench/results/speed/$name.txt" || failed=1
done < <(commands | grep -F -- "${1:-}")
exit "$failed"
