#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# quick.sh BIN DIR benchmarks|bars|threads|latency|policies|arguments: what `ayatori bench` does with tiny sizes and with wrong arguments.
set -u
bin=$1 dir=$2 what=$3
scratch=$(mktemp -d "$dir/bench.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAILED: $*"
  cat "$scratch/log"
  exit 1
}
# Series without a sample have a median of null.
complete() {
  [ -s "$scratch/out.json" ] || fail "no JSON"
  ! grep -q '"median": null' "$scratch/out.json" || fail "a series has no sample"
}
refused() {
  "$bin/ayatori" bench "$@" >"$scratch/log" 2>&1
  status=$?
  [ $status -eq 125 ] || fail "bench $*: status $status"
  [ "$(wc -l <"$scratch/log")" -eq 1 ] || fail "bench $*: not one line"
}

case $what in
  benchmarks)
    "$bin/ayatori" bench --quick --json="$scratch/out.json" >"$scratch/log" 2>&1 || fail "status $?"
    complete
    names=$("$bin/ayatori" bench --help | sed -n 's/^Benchmarks: *//p')
    [ -n "$names" ] || fail "--help names no benchmark"
    for name in $names; do grep -q "\"benchmark\": \"$name\"" "$scratch/out.json" || fail "no result of $name"; done
    ;;
  bars)
    "$bin/ayatori" bench --bars --quick --json="$scratch/out.json" >"$scratch/log" 2>&1 || fail "status $?"
    complete
    ! grep -q '"measured": null' "$scratch/out.json" || fail "a bar could not be measured"
    [ "$(grep -c '"kept": ' "$scratch/out.json")" -ge 14 ] || fail "bars are missing"
    ;;
  threads | latency | policies)
    # Every table finds its place, and takes that of an older one.
    names=$("$bin/ayatori" bench $what --help | sed -n 's/.*Names: *//p')
    [ -n "$names" ] || fail "--help names nothing"
    case $what in threads) tables=$(for name in $names; do echo "$what $name"; done) ;; *) tables=$what ;; esac
    echo "$tables" | while read -r table; do printf 'Before %s.\n<!-- bench %s -->\nold\n<!-- /bench -->\n' "$table" "$table"; done \
      >"$scratch/page.md"
    plot=--plot="$scratch/plots"
    [ $what = threads ] && plot=
    "$bin/ayatori" bench $what --quick --json="$scratch/out.json" --tables="$scratch/page.md" $plot >"$scratch/log" 2>&1 ||
      fail "status $?"
    complete
    cat "$scratch/page.md" >>"$scratch/log"
    ! grep -q '^old' "$scratch/page.md" || fail "a table was not written"
    count=$(echo "$tables" | wc -l)
    [ "$(grep -c '^<!-- bench ' "$scratch/page.md")" -eq "$count" ] || fail "a mark is lost"
    [ "$(grep -c '^<!-- /bench -->' "$scratch/page.md")" -eq "$count" ] || fail "a mark is lost"
    [ "$(grep -c '^| --- ' "$scratch/page.md")" -eq "$count" ] || fail "not a table each"
    if [ $what = threads ]; then
      # Who is there ran, who is not is named.
      for system in tbb:oneTBB openmp:OpenMP std_thread:std::thread; do
        if [ -x "$bin/ayatori-bench-${system%%:*}" ]; then
          grep -q "\"${system#*:}, 2 workers\"" "$scratch/out.json" || fail "no result of ${system#*:}"
        else
          grep -q "${system#*:} (not built: " "$scratch/page.md" || fail "${system#*:} is not named as missing"
        fi
      done
      [ "$(grep -c '"kept": ' "$scratch/out.json")" -ge 17 ] || fail "bars are missing"
    else
      [ -s "$scratch/plots/$what.dat" ] && [ -s "$scratch/plots/$what.gp" ] || fail "no data of the picture"
      if command -v gnuplot >/dev/null; then
        head -c 4 "$scratch/plots/$what.png" | grep -q PNG || fail "no PNG"
        grep -q '</svg>' "$scratch/plots/$what.svg" || fail "no SVG"
      else
        grep -q gnuplot-nox "$scratch/log" || fail "the package with gnuplot is not named"
        echo "not checked: the pictures (gnuplot is not installed)"
      fi
    fi
    # A page without the place: told, and left as it is.
    echo nothing >"$scratch/other.md"
    "$bin/ayatori" bench latency tcp --quick --tables="$scratch/other.md" >"$scratch/log" 2>&1
    status=$?
    [ $status -eq 3 ] && [ "$(cat "$scratch/other.md")" = nothing ] || fail "a page without a place: status $status"
    ;;
  arguments)
    refused threads no_such_part
    refused threads --plot="$scratch"
    refused latency no_such_transport
    refused latency --bars
    refused latency --plot="$scratch/no-such-folder/plots"
    refused policies --repetitions=x
    refused steal --tables="$scratch/page.md"
    refused no_such_benchmark
    refused --no-such-option
    refused --repetitions=0
    refused --bars no_such_bar
    refused --json="$scratch/no-such-folder/out.json"
    refused --json="$scratch"
    "$bin/ayatori" bench --help >"$scratch/log" 2>&1 || fail "--help: status $?"
    ;;
esac
