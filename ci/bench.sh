#!/usr/bin/env bash
# Every benchmark on this machine's best adapter, with all peers that are installed, on both
# engines: bash ci/bench.sh [arguments of pykernels bench]
#
# Ten minutes or so; --time 180 stops after three, the main cases and their peers first;
# --peers torch,naive takes fewer peers, --alternate 3 times them in turn with ours.
# BENCH_PYTHON names a Python that has pykernels already (an installed wheel will do): nothing is
# installed then, and nothing of the checkout but bench/results is used.
#
# Results go to bench/results/<adapter>/: results.json (all readings), results.md, results.svg.
# What was there before is compared with them. Peers: pip install torch onnxruntime-webgpu onnx
# into .venv; what is missing is said and skipped.

set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=ci/setup.sh
. ci/setup.sh
ready_python drivers

adapter=$("$python" -P -c 'import pykernels as pk; print(pk.list_adapters("wgpu")[0]["name"])')
name=$(printf '%s' "$adapter" | tr -cs 'A-Za-z0-9' '-' | tr '[:upper:]' '[:lower:]' | sed 's/^-//; s/-$//')
folder=bench/results/$name
arguments=(--peers all --save "$folder")
if [[ -f $folder/results.json ]]; then
    cp "$folder/results.json" "$folder/before.json"
    trap 'rm -f "$folder/before.json"' EXIT
    arguments+=(--compare "$folder/before.json")
fi
"$python" -P -c 'from pykernels.cli import main; main()' bench "${arguments[@]}" "$@"
