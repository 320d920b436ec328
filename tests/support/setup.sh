#!/bin/bash
# Installs what is missing for a purpose, after saying what; at once when nothing is. Debian 12 and Ubuntu 24.04; elsewhere it
# names what is missing and leaves the machine alone.
#
# usage: tests/support/setup.sh build|test|format|lint
set -euo pipefail
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
root=$(cd "$(dirname "$0")/../.." && pwd)
fail() { echo "set-up: $*" >&2; exit 1; }

# Package, and by what it is known to be there: a program, a header (<...>) or a file (/...). What comes from elsewhere, as
# Docker's containerd does, is as good.
build='g++ g++
cmake cmake
ninja-build ninja
pkg-config pkg-config
ccache ccache
mold mold
libcli11-dev <CLI/CLI.hpp>
nlohmann-json3-dev <nlohmann/json.hpp>
libyaml-cpp-dev <yaml-cpp/yaml.h>
libcurl4-openssl-dev <curl/curl.h>
libwslay-dev <wslay/wslay.h>
libssl-dev <openssl/ssl.h>
zlib1g-dev <zlib.h>
libdeflate-dev <libdeflate.h>
libfmt-dev <fmt/format.h>
libre2-dev <re2/re2.h>
libcpp-httplib-dev <httplib.h>
libdnnl-dev <dnnl.h>
doctest-dev <doctest/doctest.h>
musl-tools musl-gcc'
test='containerd containerd
runc runc
containernetworking-plugins /usr/lib/cni/bridge
socat socat
openmpi-bin mpirun.openmpi
libopenmpi-dev mpicc.openmpi
mpich mpiexec.mpich
libmpich-dev mpicc.mpich
busybox-static busybox
iproute2 ip
openssl openssl
docker-registry docker-registry
skopeo skopeo
umoci umoci
python3 python3
jq jq
zsh zsh
fish fish
clang-19 clang++-19
libclang-rt-19-dev /usr/lib/llvm-19/lib/clang/19/include/fuzzer/FuzzedDataProvider.h'
# For tests of the report in a browser. Ubuntu has Chromium as a snap only, which sees no pipes and few folders: there, and
# wherever it is missing, those tests are skipped.
browser='chromium-headless-shell chromium-headless-shell'
format='clang-format-19 clang-format-19'

missing=()
look_for() {  # look_for TABLE: adds the packages that are not there
  local package sign
  while read -r package sign; do
    case $sign in
      '<'*) compgen -G "/usr/include/${sign:1:-1}" || compgen -G "/usr/include/*-linux-gnu/${sign:1:-1}" || compgen -G "/usr/local/include/${sign:1:-1}" ;;
      /*) [ -e "$sign" ] ;;
      *) command -v "$sign" ;;
    esac >/dev/null || missing+=("$package")
  done <<<"$1"
}

has_module() {  # has_module PYTHON MODULE
  "$1" -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$2'))" 2>/dev/null
}

look_for_pip() {  # tests of packages use it; clang-tidy, the CUDA toolkit and, where there is none, Go come as wheels
  has_module python3 pip || missing+=(python3-pip)
}

system=$(. /etc/os-release 2>/dev/null && echo "${ID-}-${VERSION_ID-}") || system=unknown
case ${1-} in
  build) look_for "$build" ;;
  test)
    look_for "$build"$'\n'"$test"$'\n'"$format"
    [ "$system" != debian-12 ] || look_for "$browser"
    has_module python3 xdist || has_module /usr/bin/python3 xdist || missing+=(python3-pytest python3-pytest-xdist)
    look_for_pip
    ;;
  format) look_for "$format" ;;
  lint) look_for_pip ;;
  *) fail "usage: tests/support/setup.sh build|test|format|lint" ;;
esac
[ ${#missing[@]} -gt 0 ] || exit 0

case $system in
  debian-12 | ubuntu-24.04) ;;
  *) fail "this needs, by their Debian names: ${missing[*]}; they are installed by hand on $system (only Debian 12 and Ubuntu 24.04 are prepared)" ;;
esac
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || fail "not root and no sudo; have this done: apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi
echo "set-up: installing with apt-get: ${missing[*]}" >&2

# Installing containerd or a registry must not start it: systemctl does nothing when offline, and runlevel 1 starts no services.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 SYSTEMD_OFFLINE=1 RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=300 "$@" >&2
}
install() { apt install -y -q --no-install-recommends "${missing[@]}"; }
if ! compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null; then apt update -q; fi
install || { apt update -q && install; } || fail "apt-get could not install: ${missing[*]}"
# Nor may one be there after the next boot, on all addresses: the tests start their own.
case " ${missing[*]} " in *' docker-registry '*) "${as_root[@]}" env SYSTEMD_OFFLINE=1 update-rc.d docker-registry disable >&2 ;; esac
