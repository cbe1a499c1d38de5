#!/usr/bin/env bash
# The demo, on the best adapter of this machine: bash ci/demo.sh [arguments of ci/demo.py].
# Installs what it needs: a .venv with six packages and, where there is no adapter, lavapipe. Builds
# the kernels without validating texts that codegen/validated.txt vouches for.

set -euo pipefail
# shellcheck source=ci/setup.sh
. "$(dirname "$0")/setup.sh"

setup_venv demo
(has_adapter || setup_lavapipe) & # while the kernels are built; ci/demo.py says what is missing
setup_package
wait
exec "$python" ci/demo.py "$@"
