# Sourced by the scripts beside it: installs what is missing through the machine's own package manager. It says what it does before
# it does it, and no service of the machine is started, now or at the next boot.
# shellcheck shell=bash

say() { printf '%s\n' "$*" >&2; }
die() { say "$0: $*"; exit 2; }

# Runs a command as root: directly, or through sudo where there is one.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

can_be_root() { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }

# Prints the first package manager that this machine has and this user may use.
package_manager() {
  local manager
  if command -v brew >/dev/null; then echo brew; return; fi
  can_be_root || return 1
  for manager in apt-get dnf apk; do
    if command -v "$manager" >/dev/null; then echo "$manager"; return; fi
  done
  return 1
}

# install_packages MANAGER PACKAGE...
install_packages() {
  local manager=$1
  shift
  say "installing through $manager: $* (no service is started)"
  case $manager in
    apt-get) install_with_apt "$@" ;;
    dnf) as_root dnf install -y "$@" >&2 ;;
    apk) as_root apk add "$@" >&2 ;;
    brew) brew install "$@" >&2 ;;
    *) return 1 ;;
  esac
}

# Debian starts what it installs, unless a policy forbids it. The policy is put there for this one installation and taken away again;
# one that somebody else put there is used if it forbids, and respected if it does not. A subshell, so that the trap is its own.
install_with_apt() (
  policy=/usr/sbin/policy-rc.d
  if [ -e "$policy" ]; then
    denied=0
    as_root "$policy" redis-server start >/dev/null 2>&1 || denied=$?
    [ "$denied" = 101 ] || die "$policy allows services to start; install these yourself: $*"
  else
    trap 'as_root rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
  fi
  known=$(enabled_services)
  apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@" >&2
  }
  # The lists of a fresh machine are empty or old; they are fetched only where the first try fails.
  apt_install "$@" || { as_root apt-get -qq update >&2 && apt_install "$@"; }
  # What this installation enabled for the next boot is disabled again.
  comm -13 <(echo "$known") <(enabled_services) | while read -r unit; do
    [ -z "$unit" ] || as_root systemctl disable "$unit" >&2
  done
)

enabled_services() {
  command -v systemctl >/dev/null || return 0
  systemctl list-unit-files --type=service --state=enabled --no-legend 2>/dev/null | awk '{ print $1 }' | sort
}
