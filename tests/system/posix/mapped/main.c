/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the main of a program that was compiled with pthread.h of this folder, as the first thread. */
#include <ayatori/ayatori.h>

int ayatori_mapped_main(int argc, char** argv);

int main(int argc, char** argv) { return ayatori_run(argc, argv, ayatori_mapped_main); }
