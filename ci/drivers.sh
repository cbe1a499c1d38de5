# shellcheck shell=bash
# Part of setup.sh: Vulkan drivers. Where they are goes into these two, which may also be set
# before, for a driver that lies elsewhere than where Debian or Chrome puts it:
#
#   PYKERNELS_ICD_LAVAPIPE       lvp_icd*.json
#   PYKERNELS_ICD_SWIFTSHADER    vk_swiftshader_icd.json
#
# and a browser, for what is exported: PYKERNELS_CHROMIUM.

# shellcheck disable=SC2154 # setup.sh sets it
has_adapter() {
    # OpenGL does not count: it is too little for the kernels.
    "$python" - 2>/dev/null <<'PY'
import sys, wgpu
sys.exit(all(a.info["backend_type"] == "OpenGL" for a in wgpu.gpu.enumerate_adapters_sync()))
PY
}

# first_file PACKAGE NAME FALLBACK...: the file of that name in the Debian package, else the
# first fallback that exists.
first_file() {
    local package=$1 name=$2 file
    shift 2
    for file in $(dpkg -L "$package" 2>/dev/null | grep "$name" || true) "$@"; do
        [[ -f $file ]] || continue
        printf '%s\n' "$file"
        return
    done
    return 1
}

find_lavapipe() {
    [[ -n ${PYKERNELS_ICD_LAVAPIPE:-} ]] ||
        PYKERNELS_ICD_LAVAPIPE=$(first_file mesa-vulkan-drivers 'lvp_icd\..*json$' \
            /usr/share/vulkan/icd.d/lvp_icd.*json)
    export PYKERNELS_ICD_LAVAPIPE
    [[ -f $PYKERNELS_ICD_LAVAPIPE ]]
}

find_swiftshader() {
    [[ -n ${PYKERNELS_ICD_SWIFTSHADER:-} ]] ||
        PYKERNELS_ICD_SWIFTSHADER=$(first_file chromium-common 'vk_swiftshader_icd\.json$' \
            /usr/lib*/chromium*/vk_swiftshader_icd.json /opt/google/chrome/vk_swiftshader_icd.json)
    export PYKERNELS_ICD_SWIFTSHADER
    [[ -f $PYKERNELS_ICD_SWIFTSHADER ]]
}

setup_lavapipe() {
    find_lavapipe || { apt_install libvulkan1 mesa-vulkan-drivers && find_lavapipe; } ||
        missing "lavapipe: install Mesa's Vulkan drivers (Debian: mesa-vulkan-drivers)," \
            "or set PYKERNELS_ICD_LAVAPIPE to lvp_icd.json"
}

# Debian's chromium is three packages; SwiftShader is in chromium-common, which needs no browser.
setup_swiftshader() {
    find_swiftshader || { apt_install libvulkan1 chromium-common && find_swiftshader; } ||
        missing "SwiftShader: it comes with Chromium (Debian: chromium-common)," \
            "or set PYKERNELS_ICD_SWIFTSHADER to vk_swiftshader_icd.json"
}

find_chromium() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        [[ -z ${PYKERNELS_CHROMIUM:-} ]] || break
        PYKERNELS_CHROMIUM=$(command -v "$name") || PYKERNELS_CHROMIUM=
    done
    export PYKERNELS_CHROMIUM
    [[ -x $PYKERNELS_CHROMIUM ]]
}

setup_chromium() {
    find_chromium || { apt_install chromium && find_chromium; } ||
        missing "Chromium (Debian: chromium), or set PYKERNELS_CHROMIUM to its executable"
}
