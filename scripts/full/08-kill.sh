# SPDX-License-Identifier: Apache-2.0
# kill -9 of any member or of the launcher at random moments, 200 times: the others end within 2 s, nothing is left.
. "$(dirname "$0")/lib.sh"
need tests/system/kill.sh
tests/system/kill.sh build/release 200 || failed "a killed job did not end as it should"
shown "200 kills: one clear line each, all gone within 2 s, nothing left"
