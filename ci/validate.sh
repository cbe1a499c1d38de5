#!/usr/bin/env bash
# The one place where this repository validates its own shaders, with the versions that
# ci/setup.sh (naga) and pyproject.toml (wgpudawn, that is Tint) pin:
#
#   1. naga and Tint on every text, with errors at the template's own line; writes validation.json
#   2. what the build leaves out: lints on control flow, and the translation to SPIR-V, MSL, HLSL
#      and GLSL. Verdicts are remembered by hash in .tools/cache
#   3. the manifest: its hashes are those of the texts, and a clean checkout builds the same ones
#
#   bash ci/validate.sh [--full] [--record]
#
# 1 and 2 look at the bodies that codegen/validated.txt does not vouch for, --full at all; --record
# writes that file when everything has passed.

set -euo pipefail
# shellcheck source=ci/setup.sh
. "$(dirname "$0")/setup.sh"

full=() record=
for argument in "$@"; do
    case $argument in
    --full) full=(--full) ;;
    --record) record=1 ;;
    *) say "usage: bash ci/validate.sh [--full] [--record]" && exit 2 ;;
    esac
done

setup_venv
setup_naga
setup_package
export PYKERNELS_CACHE=$root/.tools/cache
"$python" -m codegen --validate "${full[@]}"
"$python" ci/translations.py
"$python" ci/manifest.py
[[ -z $record ]] || "$python" -m codegen --record
