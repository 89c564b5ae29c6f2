# SPDX-License-Identifier: Apache-2.0
# ./demo and ./check work on a clean clone, and a second run of either spends under 20 s on set-up and build.
. "$(dirname "$0")/lib.sh"
[ -x demo ] || missing "there is no ./demo"
work=$(mktemp -d)
cleanup() {
  umount "$work/debian/proc" "$work/debian/dev" 2>/dev/null
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
clone=$work/clone
git clone -q . "$clone" || failed "git clone failed"
[ -z "$(git status --porcelain)" ] || echo "note: the working tree has changes that are not committed; they are not in the clone"

# Where a bare Debian can be made (root, debootstrap, the right to mount), everything runs there, from nothing.
inside= where="a clean clone"
if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null &&
  debootstrap --variant=minbase bookworm "$work/debian" >"$work/debootstrap.log" 2>&1 &&
  mount --bind /proc "$work/debian/proc" && mount --bind /dev "$work/debian/dev"; then
  cp -a "$clone" "$work/debian/root/clone"
  clone=/root/clone inside="chroot $work/debian" where="a bare Debian 12"
fi
for round in first second; do
  for program in ./demo ./check; do
    echo "---- $round run of $program"
    $inside sh -c "cd $clone && $program" >"$work/log" 2>&1 || {
      tail -n 40 "$work/log"
      failed "the $round run of $program failed in $where"
    }
    tail -n 3 "$work/log"
    seconds=$(sed -n "s/^== set-up and build took \\([0-9]*\\) s.*/\\1/p" "$work/log")
    echo "set-up and build: $seconds s"
    if [ $round = second ] && [ "${seconds:-99}" -ge 20 ]; then
      failed "the second run of $program spent $seconds s on set-up and build"
    fi
  done
done
shown "./demo and ./check pass twice in $where"
