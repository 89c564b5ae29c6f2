#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An outsider's view: installs the build into a new folder, moves that, builds C++ programs with find_package and C++ and C
# programs with pkg-config against it, with the whole library and with the communication library alone, and runs them with
# the installed launcher.
# Usage: run.sh BUILD_FOLDER C++_COMPILER C_COMPILER
set -eu
build=$1 cxx=$2 cc=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() {
  echo "+ $*"
  "$@"
}
expect() {
  if [ "$1" != "$2" ]; then
    echo "expected '$2', got '$1'" >&2
    exit 1
  fi
}

run cmake --install "$build" --prefix "$work/staged" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/staged" "$work/moved" # neither package file may hold the folder it was installed into
prefix=$work/moved
cp -r "$here/outside" "$work/outside"
cp "$here/../../../examples/net_ring.cpp" "$work/outside"

run cmake -G Ninja -S "$work/outside" -B "$work/outside/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
run cmake --build "$work/outside/build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }

if cmake -G Ninja -S "$work/outside" -B "$work/outside/both" -DBOTH=ON -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" >"$work/both.log" 2>&1; then
  echo "both libraries in one program are not refused" >&2
  exit 1
fi
grep -q AYATORI_OPERATOR_NEW "$work/both.log" || { cat "$work/both.log"; exit 1; }

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name ayatori.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046  # flags are words
{
  run "$cxx" -std=c++20 -O1 "$work/outside/sum.cpp" -o "$work/sum_pc" $(pkg-config --cflags --libs ayatori)
  run "$cc" -O1 "$work/outside/sum_c.c" -o "$work/sum_c" $(pkg-config --cflags --libs ayatori)
  run "$cxx" -std=c++20 -O1 "$work/outside/where.cpp" -o "$work/where" $(pkg-config --cflags --libs ayatori)
  run "$cxx" -std=c++20 -O1 "$work/outside/net_ring.cpp" -o "$work/ring_pc" $(pkg-config --cflags --libs ayatori-net)
  # docs/guide/porting.md
  run "$cxx" -std=c++20 -O1 "$work/outside/where.cpp" -o "$work/where_local" $(pkg-config --cflags ayatori) \
    -L"$(pkg-config --variable=libdir ayatori)" -layatori_local_new -lsodium -pthread -ldl -Wl,-z,now
}

launcher=$prefix/bin/ayatori
expect "$(run "$launcher" --version | tail -n 1 | grep -c "$(pkg-config --modversion ayatori)")" 1
for program in "$work/outside/build/sum" "$work/sum_pc" "$work/sum_c"; do
  expect "$("$program")" 'sum 499500'
  expect "$("$launcher" run -n 2 -w 1 "$program")" 'sum 499500'
done
for program in "$work/outside/build/ring" "$work/outside/build/ring_all" "$work/ring_pc"; do
  expect "$("$program" 10 | tail -n 1)" 'check: ok'
  expect "$("$launcher" run -n 3 "$program" 10)" "$(printf 'sum 3000165, counter 30, 3 processes, 10 rounds\ncheck: ok')"
  expect "$("$launcher" run -n 2 --transport tcp "$program" 10 | tail -n 1)" 'check: ok'
done
expect "$("$work/where")" 'new: space'
expect "$("$work/where_local")" 'new: C library'
expect "$("$work/outside/build/where_local")" 'new: C library'
echo "installed package works"
