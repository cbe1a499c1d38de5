#!/usr/bin/env bash
# Every test, and the cases of matrix units, on this machine's GPU, in pieces that can be taken up
# again: bash ci/gpu.sh [--part I/N] [--minutes M] [--columns wgpu,dawn,dawn-matrix] [--only TEXT]
#
# What was changed since the last report, and what uses matrix units, comes first. A piece that
# passed with the same texts is not run again. The report is bench/results/<adapter>/gpu.json.
# BENCH_PYTHON names a Python that has pykernels and pytest already: nothing is installed then.

set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=ci/setup.sh
. ci/setup.sh
ready_python
exec "$python" -P ci/gpu.py "$@"
