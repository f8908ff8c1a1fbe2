# SPDX-License-Identifier: Apache-2.0
#
# Running commands in the root of another Debian system: sourced after lib.sh by the scripts that make one (debian-root,
# test-debs). It makes none itself. Nothing stays mounted, whatever happens: /proc, /sys and /dev are seen in a mount
# namespace of the command's own.

# The environment inside; use_network adds the proxies.
inside=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)

# in_root ROOT command...
in_root() {
  local root="$1"
  shift
  if unshare --mount true 2>/dev/null; then
    unshare --mount -- sh -c '
      root=$1; shift
      mount --rbind /proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" || true
      exec chroot "$root" "$@"' sh "$root" "${inside[@]}" "$@"
  else
    chroot "$root" "${inside[@]}" "$@"
  fi
}

# use_network ROOT: the way to the registries is this system's, with the certificates that it trusts; and what is made again
# in a minute need not be safe on the disk.
use_network() {
  local root="$1" file variable
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/thrown-away"
  for file in /etc/resolv.conf /etc/hosts /etc/apt/apt.conf /etc/pip.conf; do
    [ ! -f "$file" ] || cp -L "$file" "$root$file"
  done
  if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/trusted-outside.crt"
    inside+=(PIP_CERT=/etc/trusted-outside.crt SSL_CERT_FILE=/etc/trusted-outside.crt)
  fi
  for variable in http_proxy https_proxy no_proxy; do
    [ -z "${!variable:-}" ] || inside+=("$variable=${!variable}")
  done
}

# answers MIRROR SUITE: whether that suite can be had from there.
answers() {
  python3 - "${1%/}/dists/$2/InRelease" <<'END'
import sys, urllib.request
try:
    urllib.request.urlopen(sys.argv[1], timeout=20).read(1)
except OSError:
    sys.exit(1)
END
}

# check NAME command...: runs it, and says whether it passed, was skipped (77) or failed; then its output is shown and $bad is 1. What is
# tried is $title, and the output is in $log: both are the script's.
check() {
  local name="$1" start=$SECONDS status=0
  shift
  "$@" >"$log" 2>&1 || status=$?
  if [ "$status" -eq 0 ]; then
    say "$title: $name: passed ($((SECONDS - start)) s)"
  elif [ "$status" -eq 77 ]; then
    say "$title: $name: skipped: $(tail -n 1 "$log")"
  else
    tail -n 40 "$log"
    say "$title: $name: FAILED with $status"
    bad=1
  fi
}
