# SPDX-License-Identifier: Apache-2.0
# 1,000 short runs of a mixed program over 3..8 processes x 1, 2 workers: no hang, no wrong result, no leftover.
. "$(dirname "$0")/lib.sh"
need tests/soak/run.sh
tests/soak/run.sh build/release 1000 || failed "the soak failed"
shown "1,000 runs right, nothing left behind"
