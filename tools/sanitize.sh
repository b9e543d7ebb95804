#!/usr/bin/env bash
# Builds and runs the unit tests and simulations under a sanitizer. Usage: tools/sanitize.sh asan|tsan
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$(nproc)"
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=suppressions=$PWD/tools/tsan.supp:second_deadlock_stack=1
ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)"
