# SPDX-License-Identifier: Apache-2.0
# The benchmarks keep the bars of docs/performance.md.
. "$(dirname "$0")/lib.sh"
need bench/bars.sh
bench/bars.sh build/release || failed "a bar is not kept"
shown "all bars kept"
