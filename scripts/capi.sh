#!/usr/bin/env bash
# Builds the C API and installs its header and both libraries.
#
# usage: scripts/capi.sh DIR [PROFILE]      DIR gets include/ and lib/; PROFILE is cargo's, by default release
set -euo pipefail
out=$(realpath -m "$1")
profile=${2:-release}
cd "$(dirname "$0")/.."
cargo build --quiet --package disc-capi --profile "$profile"
target=${CARGO_TARGET_DIR:-target}
built=$target/$([ "$profile" = dev ] && echo debug || echo "$profile")
mkdir -p "$out/include" "$out/lib"
cp crates/disc-capi/include/disc.h "$out/include/disc.h"
cp "$built/libdisc_capi.so" "$out/lib/libdisc.so"
cp "$built/libdisc_capi.a" "$out/lib/libdisc.a"
