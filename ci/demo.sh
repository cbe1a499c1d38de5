#!/usr/bin/env bash
# The main job on real sizes, on the best adapter of this machine: bash ci/demo.sh [arguments of
# ci/demo.py]. Needs neither Rust nor naga.

set -euo pipefail
# shellcheck source=ci/setup.sh
. "$(dirname "$0")/setup.sh"

setup_venv
has_adapter || setup_lavapipe || true # ci/demo.py says what it lacks
if ! command -v naga >/dev/null; then
    say "naga-cli is not here, so the shaders are validated with Tint only (ci/test.sh installs it)"
fi
setup_package
exec "$python" ci/demo.py "$@"
