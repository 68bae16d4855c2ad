#!/usr/bin/env bash
# Fuzzes the reader of packages with libFuzzer: each target of fuzz/ for some seconds, in 300 MB of memory and 5 s an input.
#
# usage: scripts/fuzz.sh SECONDS [TARGET]...
#
# It needs the nightly toolchain and installs cargo-fuzz into .tools/. New inputs go to fuzz/found, an input that fails to fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
SECONDS_EACH=${1:?usage: scripts/fuzz.sh SECONDS [TARGET]...}
shift
[ $# -gt 0 ] || set -- package manifest
export PATH=$PWD/.tools/bin:$PATH

cargo +nightly --version >/dev/null 2>&1 || {
    echo "fuzzing needs nightly Rust: rustup toolchain install nightly --profile minimal" >&2
    exit 6
}
command -v cargo-fuzz >/dev/null || cargo install --quiet --locked --root .tools cargo-fuzz

# AddressSanitizer keeps freed memory back, 256 MB by default: more than a target may use.
export ASAN_OPTIONS=quarantine_size_mb=16
for target in "$@"; do
    mkdir -p "fuzz/found/$target"
    cargo +nightly fuzz run "$target" "fuzz/found/$target" "fuzz/corpus/$target" -- -max_total_time="$SECONDS_EACH" \
        -rss_limit_mb=300 -malloc_limit_mb=300 -timeout=5 -max_len=65536
done
