#!/usr/bin/env bash
# Writes requirements/lock.txt: the exact version of every Python package, those included that ours depend on.
#
# To be run after a change of requirements/*.txt; `scripts/lock.sh --upgrade` also takes newer versions of what is not pinned there.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
PATH=$PATH:$PWD/../.tools/bin
# What lock.txt says already is kept, unless a requirement contradicts it.
uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-annotate \
    --custom-compile-command scripts/lock.sh "$@" dev.txt test.txt wheel.txt bench.txt docs.txt examples.txt peer.txt --output-file lock.txt
