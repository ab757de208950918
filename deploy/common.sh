# Sourced by the scripts of this folder: where the tree is, messages, packages, and how many jobs a build may run.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { echo "== $*"; }

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# The packages of the list that are not installed. $1: "build", or "test" for those that only tests need.
missing_packages() {
  local wanted=(sed '/# test$/d') installed package
  [ "$1" = build ] || wanted=(grep '# test$')
  installed="$(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' | sed -n 's/\(:[a-z0-9]*\)\? installed$//p')"
  while read -r package; do
    grep -qxF "$package" <<<"$installed" || echo "$package"
  done < <("${wanted[@]}" "$root/deploy/packages.txt" | sed 's/\s*#.*//; /^\s*$/d')
}

# Runs a command as root. $1 says what the user must run where that is not possible.
as_root() {
  local by_hand="$1"
  shift
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "not root, and there is no sudo; as root, run: $by_hand"
  fi
}

# Packages of the tests bring daemons, which Debian would start and start again at each boot: neither happens.
install_packages() {
  command -v dpkg-query >/dev/null || die "this is not Debian: install what deploy/packages.txt lists, then run cmake"
  local kind="${1:-build}" packages
  packages="$(missing_packages "$kind" | xargs)"
  [ -n "$packages" ] || return 0
  local install="apt-get install -y --no-install-recommends $packages"
  say "installing $packages"
  if [ "$kind" = test ]; then install="$root/deploy/without_services.sh $install"; fi
  as_root "apt-get update && $install" apt-get update -qq || die "apt-get update failed"
  # shellcheck disable=SC2086  # one word per package
  as_root "$install" env DEBIAN_FRONTEND=noninteractive $install -qq >/dev/null || die "failed: $install"
}

# libtorch calls whatever libblas.so.3 Debian's alternatives name. The reference BLAS is replaced; any other is the
# administrator's choice, and is kept.
use_openblas() {
  local arch fast name library
  arch="$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)"
  fast="/usr/lib/$arch/openblas-pthread"
  for name in blas lapack; do
    library="lib$name.so.3"
    [ "$(readlink -f "/usr/lib/$arch/$library")" = "$(readlink -f "/usr/lib/$arch/$name/$library")" ] || continue
    say "making OpenBLAS the $library"
    set -- update-alternatives --quiet --set "$library-$arch" "$fast/$library"
    as_root "$*" "$@" || die "failed: $*"
  done
}

# One job per processor, but no more than memory allows: a file that includes libtorch takes more than 1 GiB.
default_jobs() {
  local by_memory
  by_memory=$(($(awk '/MemAvailable/ {print $2}' /proc/meminfo) / (1536 * 1024)))
  echo $((by_memory < 1 ? 1 : by_memory < $(nproc) ? by_memory : $(nproc)))
}
