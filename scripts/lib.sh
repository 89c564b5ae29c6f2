# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by ./check, ./demo, .ci/run and scripts/full/*.sh; the caller has changed into the project's root.

say() { printf '== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

now_s() { date +%s; }

# build PRESET [OPTIONS]: configures and builds; prints the end of the log when it fails.
build() {
  build_preset=$1
  shift
  mkdir -p "build/$build_preset"
  build_log=build/$build_preset/build.log
  {
    cmake --preset "$build_preset" && cmake --build --preset "$build_preset" "$@"
  } >"$build_log" 2>&1 || {
    tail -n 60 "$build_log"
    return 1
  }
}

# count_tests LOG: sets tests_passed, tests_failed and tests_skipped from the summary of a ctest run.
count_tests() {
  tests_failed=$(sed -n 's/.* \([0-9][0-9]*\) tests\{0,1\} failed out of .*/\1/p' "$1" | tail -n 1)
  tests_all=$(sed -n 's/.* tests\{0,1\} failed out of \([0-9][0-9]*\).*/\1/p' "$1" | tail -n 1)
  tests_skipped=$(grep -c '\*\*\*Skipped' "$1")
  if [ -z "$tests_all" ]; then # ctest itself failed, or found nothing
    tests_passed=0 tests_failed=1
  else
    tests_passed=$((tests_all - tests_failed - tests_skipped))
  fi
}

# failures LOG: what the failed tests of a ctest run said: the telling lines of each, or its last ones.
failures() {
  awk '
    function end_of_test() {
      if (on && !told) for (i = (count > 15 ? count - 14 : 1); i <= count; i++) print "  " line[i]
      on = told = count = left = 0
    }
    /^ *[0-9]+\/[0-9]+ Test +#/ {
      end_of_test()
      on = $0 ~ /\*\*\*(Failed|Timeout|Exception|Not Run)|Subprocess aborted/
      if (on) print
      next
    }
    /^ +Start +[0-9]+:/ { next }
    /^[0-9]+% tests passed/ { end_of_test() }
    on { line[++count] = $0 }
    on && /: Failure$|FAILED|[Ee]rror|Sanitizer/ { left = 12; told = 1 }
    on && left-- > 0 { print "  " $0 }
  ' "$1" | head -n 120
}

# Quick tier of the tests of a build: run_tests BUILD_FOLDER LOG [CTEST_OPTIONS...]
quick_labels='^(unit|litmus|sim|system|soak-quick|programs)$'
run_tests() {
  tests_folder=$1 tests_log=$2
  shift 2
  ctest --test-dir "$tests_folder" -j "${AYT_TEST_JOBS:-$(nproc)}" --timeout 300 --output-on-failure "$@" >"$tests_log" 2>&1
  tests_status=$?
  count_tests "$tests_log"
  return $tests_status
}

# Statistics files (JSON) without a JSON tool: one line a process, then one of totals.
stat_lines() { tr -d " \n\t" <"$1" | sed "s/\"id\":/\n&/g; s/\"total\":/\n&/g" | grep -E "^\"(id|total)\":"; }
# stat_total FILE COUNTER: its total, 0 when it is not there.
stat_total() {
  stat_lines "$1" | sed -n "/^\"total\":/s/.*\"$2\":\([0-9][0-9]*\).*/\1/p" | grep . || echo 0
}
# stat_table FILE COUNTER...: a column a process and one of totals.
stat_table() {
  stat_file=$1
  shift
  stat_lines "$stat_file" | awk -v names="$*" '
    { column = ++columns
      head[column] = substr($0, 2, 2) == "id" ? "process " (column - 1) : "total"
      count = split(names, name, " ")
      for (i = 1; i <= count; i++) {
        value[i, column] = match($0, "\"" name[i] "\":[0-9]+") \
          ? substr($0, RSTART + length(name[i]) + 3, RLENGTH - length(name[i]) - 3) : "-"
      }
    }
    END {
      printf "%-16s", ""
      for (c = 1; c <= columns; c++) printf " %12s", head[c]
      printf "\n"
      for (i = 1; i <= count; i++) {
        printf "%-16s", name[i]
        for (c = 1; c <= columns; c++) printf " %12s", value[i, c]
        printf "\n"
      }
    }'
}
