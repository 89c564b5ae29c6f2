#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the arrows between the layers: prints every #include that points upward or sideways; 0 such lines pass.
# Usage: layers.sh [PROJECT]
cd "${1:-$(dirname "$0")/..}" || exit 2
layers='base net gas store dsm ult tasks api'
bad=0
# allow FOLDER LAYER...: files below FOLDER (or a file) include, of all layers, only these.
allow() {
  folder=$1 && shift
  [ -e "$folder" ] || return 0
  for layer in $layers; do
    case " $* " in *" $layer "*) continue ;; esac
    if grep -HrnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<]$layer/" "$folder"; then bad=1; fi
  done
}
allow src/base base
allow src/net net base
allow src/gas gas base net
allow src/store store base
allow src/dsm dsm base net gas store
allow src/ult ult base net
allow src/tasks tasks base net gas store dsm ult
allow src/api $layers
allow tools base net
# `ayatori bench net` measures the transports, which no public header offers (docs/design/bench-net.md).
allow bench/net base net
for folder in include apps examples bench/*; do [ "$folder" = bench/net ] || allow "$folder"; done
# Of net, the tools see only the bootstrap and the table of statistics; `ayatori doctor` loads UCX as its transport does.
if grep -rnE '#[[:space:]]*include[[:space:]]*"net/' tools | grep -v '"net/bootstrap/' |
  grep -v '^tools/ayatori/doctor_ucx.cpp:.*"net/ucx/library.hpp"'; then bad=1; fi
# What of net is public lies in include/; what is below net does not know it.
if grep -rnE '#include <ayatori/net' src/base; then bad=1; fi
# net/open is for programs alone: nothing of the library needs it but the hook of its start.
if grep -rn '#include "net/open/' src | grep -vE '^src/net/open/|^src/api/start.cpp:.*"net/open/prepare.hpp"'; then bad=1; fi
[ $bad = 0 ] && echo "no include points upward"
exit $bad
