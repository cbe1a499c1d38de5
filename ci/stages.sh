# shellcheck shell=bash
# Sourced by check.sh and test.sh: stages that run side by side.

lines=() # what print_summary prints: one line for each stage
stages=  # the folder with each stage's output and result, until the script ends

# run_stages NAME...: the functions stage_NAME, as many at a time as there are cores. Each one's
# output is printed when those before it are, and its line goes into the summary.
run_stages() {
    local name cores
    cores=$(getconf _NPROCESSORS_ONLN)
    stages=$(mktemp -d)
    # Each stage has a core: a second thread of numpy's products waits for one, and the first spins.
    export OPENBLAS_NUM_THREADS=1
    printf '\nrunning %s: %s at a time\n' "$*" "$cores"
    for name in "$@"; do
        while (($(jobs -rp | wc -l) >= cores)); do sleep 0.5; done
        set -m # a process group for each stage, so that stop_stages reaches what it started
        run_stage "$name" >"$stages/$name.output" 2>&1 </dev/null &
        set +m
        printf '%s\n' "$!" >"$stages/$name.pid"
    done
    for name in "$@"; do
        # The result file says how it ended. Bash forgets a stage that ended long ago, when a process
        # of its own gets the same number, and would say so.
        wait "$(cat "$stages/$name.pid")" 2>/dev/null || true
        finish_stage "$name"
    done
}

run_stage() {
    local status=0 start=$SECONDS
    "stage_$1" || status=$?
    printf '%s %s\n' "$status" $((SECONDS - start)) >"$stages/$1.result"
}

finish_stage() {
    local name=$1 status=killed took="?" words
    [[ ! -f $stages/$name.result ]] || read -r status took <"$stages/$name.result"
    printf '\n== %s\n' "$name"
    cat "$stages/$name.output"
    words=$(describe_stage "$name" "$status" "$stages/$name.output")
    add_line "$name" "$status" "$took" "$words"
}

# describe_stage NAME STATUS OUTPUT: words for the summary, where there are better ones.
describe_stage() { :; }

# add_line NAME STATUS SECONDS [WORDS]
add_line() {
    local words=${4:-passed}
    if [[ $2 != 0 ]]; then
        words="FAILED (${4:-exit status $2})"
        failed=1
    fi
    lines+=("$1: $words in $3 s")
}

failed=0
print_summary() {
    echo
    printf '%s\n' "${lines[@]}"
    return "$failed"
}

stop_stages() {
    local pid
    for pid in $(jobs -rp); do kill -- "-$pid" 2>/dev/null || true; done
    [[ -z $stages ]] || rm -rf "$stages"
}
trap stop_stages EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
