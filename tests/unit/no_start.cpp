// SPDX-License-Identifier: Apache-2.0
// Linked into the unit tests: they call the layers themselves, so the library's start-up code must not run before.
extern "C" {
extern const int ayatori_no_start;
const int ayatori_no_start = 1;
}
