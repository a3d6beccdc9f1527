# shellcheck shell=bash
# Sourced by tools/quickstart and tools/check: the machine's packages, and how to build on it.

build_packages="g++ cmake ninja-build libboost-graph-dev nlohmann-json3-dev libcli11-dev libfmt-dev
  catch2 libtbb-dev libyaml-cpp-dev zlib1g-dev git"
# shellcheck disable=SC2034  # used by tools/check
check_packages="$build_packages clang-format clang-tidy"

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# install_missing PACKAGE...: does nothing where all are there, and asks for root only if it must.
install_missing() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "Not a Debian: make sure that these are installed: $*"
    return
  fi
  local package missing=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null) == ii* ]] ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "install these as root, then run this again: ${missing[*]}"
    as_root=(sudo)
  fi
  echo "Installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq || die "apt-get update failed"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install ${missing[*]}"
}

# One job per core, and no more than the memory holds: a compiler takes up to 1.5 GB.
build_jobs() {
  local cores free_mb
  cores=$(nproc)
  free_mb=$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo)
  local most=$((free_mb / 1500))
  ((most < 1)) && most=1
  echo $((cores < most ? cores : most))
}

# Options for cmake: compile through ccache where it is there.
launcher() {
  if command -v ccache >/dev/null; then
    echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache
  fi
}
