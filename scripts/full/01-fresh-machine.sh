# SPDX-License-Identifier: Apache-2.0
# ./demo and ./check work on a clean clone, and a second run of either spends under 20 s on set-up and build.
. "$(dirname "$0")/lib.sh"
[ -x demo ] || missing "there is no ./demo"
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
clone=$work/clone
git clone -q . "$clone" || failed "git clone failed"
[ -z "$(git status --porcelain)" ] || echo "note: the working tree has changes that are not committed; they are not in the clone"

# Where a bare Debian can be made (root, debootstrap, the right to mount), everything runs there, from nothing, in
# namespaces of its own: its processes and mounts end with it, and no signal leaves it.
cat >"$work/enter" <<'END'
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" && exec chroot "$1" sh -c "$2"
END
in_debian() { unshare --mount --pid --fork --kill-child sh "$work/enter" "$work/debian" "$1"; }
in_clone() { sh -c "cd $clone && $1"; }
where="a clean clone"
if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null &&
  debootstrap --variant=minbase bookworm "$work/debian" >"$work/debootstrap.log" 2>&1 && in_debian true; then
  cp -a "$clone" "$work/debian/root/clone"
  in_clone() { in_debian "cd /root/clone && $1"; }
  where="a bare Debian 12"
fi
for round in first second; do
  for program in ./demo ./check; do
    echo "---- $round run of $program"
    in_clone "$program" >"$work/log" 2>&1 || {
      tail -n 40 "$work/log"
      in_clone 'cat build/release/Testing/Temporary/LastTestsFailed.log; tail -n 200 build/release/check.log' 2>/dev/null
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
