#!/usr/bin/env bash
# Runs every libFuzzer target for a while, each with its corpus. Usage: tools/fuzz.sh BUILD_DIRECTORY SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 seconds=$2
for target in "$build"/bin/*_fuzz; do
  name=$(basename "$target")
  mkdir -p "$build/corpus/$name"
  kept=fuzz/corpus/$name
  [ -d "$kept" ] || kept=
  echo "== $name, $seconds s"
  "$target" "$build/corpus/$name" $kept -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 2>&1 | tail -n 4
done
