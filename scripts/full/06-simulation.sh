# SPDX-License-Identifier: Apache-2.0
# 20,000 seeds of the protocols in simulation pass; every planted bug is caught and its seed replays it.
. "$(dirname "$0")/lib.sh"
need $bin/sim_protocol
$bin/sim_protocol --seeds 20000 || failed "a seed failed"
all_tests_pass planted
shown "20,000 seeds pass; $tests_passed tests of planted bugs pass"
