# SPDX-License-Identifier: Apache-2.0
# The communication library keeps its bars of docs/performance.md. Each benchmark has three attempts: machines have bad minutes.
. "$(dirname "$0")/lib.sh"

# keeps COMMAND...: one attempt of the three keeps every bar of it.
keeps() {
  need "$bin/$1"
  for attempt in 1 2 3; do
    echo "== $* (attempt $attempt)"
    "$bin/$@"
    case $? in
      0) attempts="$attempts $1 $attempt" && return ;;
      3) missing "$1 could not measure" ;;
    esac
  done
  failed "$*: a bar missed in each of three attempts"
}

attempts=
keeps shm_bars
keeps tcp_micro 24
keeps ucx_micro 24
keeps offload_micro tcp 200 7
shown "all bars kept; attempts:$attempts"
