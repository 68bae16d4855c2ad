#!/usr/bin/env bash
# Gets what a build for AArch64 on another machine needs, and looks at what was built.
#
# usage: scripts/arm64.sh unpack | rustc | symbols FILE | import FILE
#
# Debian's packages of that architecture are unpacked into target/arm64, by package lists of its own: nothing is installed, and dpkg hears
# nothing of another architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
ARM64=$PWD/target/arm64
LLVM_MAJOR=22

apt_arm64() {
    local command=$1
    shift
    "$command" -qq -o APT::Architectures::="$(dpkg --print-architecture)" -o APT::Architectures::=arm64 -o APT::Sandbox::User=root \
        -o Dir::State::lists="$ARM64/lists" -o Dir::Cache="$ARM64/cache" "$@"
}

# Debian's package lists of both architectures.
lists() {
    mkdir -p "$ARM64/lists/partial" "$ARM64/cache/archives/partial" "$ARM64/packages"
    apt_arm64 apt-get update
}

# Prints the path of a Rust compiler with the library for AArch64: that of the toolchain, or else Debian's, which has such a library too.
rustc() {
    local target=aarch64-unknown-linux-gnu rust=$ARM64/rust std package
    if [ -d "$(command rustc --print sysroot)/lib/rustlib/$target" ]; then
        type -P rustc
        return
    fi
    if [ ! -e "$rust/rustc" ]; then
        lists >&2
        std=$(apt_arm64 apt-cache depends libstd-rust-web-dev | grep -o 'libstd-rust-web-[0-9.]*$')
        rm -rf "$rust"
        mkdir -p "$rust"
        (cd "$rust" && apt_arm64 apt-get download rustc-web "$std" libstd-rust-web-dev libstd-rust-web-dev:arm64) >&2
        for package in "$rust"/*.deb; do dpkg-deb -x "$package" "$rust"; done
        rm "$rust"/*.deb
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q --sysroot %q "$@"\n' \
            "$(dirname "$(find "$rust/usr/lib" -name 'librustc_driver-*.so' | head -1)")" "$rust/usr/bin/rustc" "$rust/usr" >"$rust/wrapper"
        chmod +x "$rust/wrapper"
        mv "$rust/wrapper" "$rust/rustc"
    fi
    echo "$rust/rustc"
}

# LLVM and compression as archives to link, and the smallest Python that imports what was linked.
unpack() {
    [ ! -e "$ARM64/complete" ] || return 0
    local python package
    lists
    python=$(apt_arm64 apt-cache depends python3-minimal:arm64 | grep -o 'python3\.[0-9]*-minimal' | head -1)
    local names=("llvm-$LLVM_MAJOR-dev" "liblld-$LLVM_MAJOR" "liblld-$LLVM_MAJOR-dev" "libpolly-$LLVM_MAJOR-dev" libzstd-dev zlib1g-dev
        libc6 zlib1g libexpat1 "$python" "lib$python")
    (cd "$ARM64/packages" && rm -f ./*.deb && apt_arm64 apt-get download "${names[@]/%/:arm64}")
    for package in "$ARM64"/packages/*.deb; do dpkg-deb -x "$package" "$ARM64/tree"; done
    # llvm-config tells the paths of the LLVM around it, so this machine's serves.
    install -D "$(realpath "$(command -v "llvm-config-$LLVM_MAJOR")")" "$ARM64/tree/usr/lib/llvm-$LLVM_MAJOR/bin/llvm-config"
    touch "$ARM64/complete"
}

# Fails if the file needs a newer glibc than 2.28, or lacks the function that Python looks for.
symbols() {
    local symbols newer
    symbols=$("llvm-readelf-$LLVM_MAJOR" --dyn-syms --wide "$1")
    newer=$({ grep -o 'GLIBC_2\.[0-9.]*' <<<"$symbols" || true; } | sort -Vu | awk -F'[_.]' '$3 > 28' | tr '\n' ' ')
    [ -z "$newer" ] || { echo "error: it needs $newer" >&2; exit 1; }
    grep -q ' GLOBAL .*[0-9] PyInit__disc$' <<<"$symbols" || { echo "error: it does not define PyInit__disc" >&2; exit 1; }
}

# Imports the extension alone: the package needs NumPy.
import() {
    if ! command -v qemu-aarch64 >/dev/null; then
        echo "qemu-aarch64 is not there: the import is not tested"
        return
    fi
    qemu-aarch64 -L "$ARM64/tree" "$ARM64"/tree/usr/bin/python3.* -c '
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

loader = ExtensionFileLoader("_disc", sys.argv[1])
module = module_from_spec(spec_from_loader("_disc", loader))
loader.exec_module(module)
print("disc", module.__version__)' "$1"
}

"$@"
