# shellcheck shell=bash
# Sourced by check.sh and test.sh: the stages that need no test.

# shellcheck disable=SC2154 # setup.sh sets it
export PYRIGHT_PYTHON_IGNORE_WARNINGS=1 # no look for a newer version

stage_format() { "$python" -m ruff format --check .; }
stage_lint() { "$python" -m ruff check .; }
stage_imports() { "${python%/*}/lint-imports" --no-logo --no-cache; }
stage_mypy() { "$python" -m mypy --strict; }
stage_pyright() { "$python" -m pyright --pythonpath "$python"; }
stage_fresh() {
    "$python" -m codegen --check && "$python" ci/readme.py --check && "$python" ci/docs.py --check
}
stage_validate() { bash ci/validate.sh ${full:+--full}; }

# shellcheck disable=SC2034 # who sources this runs them
CHECKS=(format lint imports fresh) SLOW_CHECKS=(mypy pyright validate)
