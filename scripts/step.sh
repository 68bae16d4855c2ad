#!/usr/bin/env bash
# One step of a make target: says its name, runs it with all its output, says how long it took.
#
# usage: scripts/step.sh run NAME COMMAND...      scripts/step.sh done NAME
set -euo pipefail

case $1 in
    run)
        name=$2
        shift 2
        printf '==> %s\n' "$name" >&2
        code=0
        "$@" || code=$?
        if [ "$code" -ne 0 ]; then
            printf '==> %s: FAILED after %d s (exit code %d): %s\n' "$name" "$SECONDS" "$code" "$*" >&2
            exit "$code"
        fi
        printf '==> %s: ok, %d s\n' "$name" "$SECONDS" >&2
        ;;
    done) printf '==> %s: everything passed\n' "$2" >&2 ;;
    *)
        echo "usage: scripts/step.sh run NAME COMMAND... | done NAME" >&2
        exit 2
        ;;
esac
