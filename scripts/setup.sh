#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what the build and the checks need on Debian 12. Run by ./check, ./demo and .ci/run; a second run only looks.
# Usage: setup.sh [--full]     --full: also clang 19 and its tools for CI, debootstrap, gnuplot, oneTBB, Open MPI's mpirun, ucx_perftest,
#                              Valgrind and Slurm for ./check --full; no service is started or enabled
set -eu

packages='g++ cmake ninja-build pkg-config ccache git ca-certificates gdb
  libgtest-dev libbenchmark-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libpng-dev nettle-dev libdw-dev libseccomp-dev libsodium-dev libucx-dev libhwloc-dev'
full_packages='debootstrap clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev gnuplot-nox libtbb-dev
  openmpi-bin libpmix-dev ucx-utils valgrind slurmctld slurmd slurm-client munge'
services='slurmctld slurmd munge' # tests start their own

case ${1:-} in
  '') ;;
  --full) packages="$packages $full_packages" ;;
  *)
    echo "usage: setup.sh [--full]" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; install by hand what these packages hold:" $packages >&2
  exit 1
fi
# What dpkg-query knows nothing about it leaves out, so the installed ones are subtracted from the list.
# shellcheck disable=SC2086  # a list of words
installed=" $(dpkg-query -W -f='${db:Status-Status}:${binary:Package} ' $packages 2>/dev/null || true)"
missing=
for package in $packages; do
  case $installed in
    *" installed:$package "* | *" installed:$package:"*) ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null; then
  as_root=sudo
else
  echo "setup: these packages are missing, and only root can install them (there is no sudo here):$missing" >&2
  exit 1
fi
echo "setup: installing$missing"
log=$(mktemp)
policy=/usr/sbin/policy-rc.d # asked by packages before they start a service
new_services=
for service in $services; do
  case "$missing " in *" $service "*) new_services="$new_services $service" ;; esac
done
if [ -n "$new_services" ] && [ ! -e $policy ]; then
  trap 'rm -f "$log"; $as_root rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
  $as_root chmod 755 $policy
else
  trap 'rm -f "$log"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
if ! { $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup: apt-get could not install:$missing" >&2
  exit 1
fi
if [ -n "$new_services" ] && command -v systemctl >/dev/null; then
  # shellcheck disable=SC2086
  $as_root systemctl disable $new_services >/dev/null 2>&1 || true
fi
