# Settings and small functions of the commands of tests/cluster. Sourced by them, never run.
set -euo pipefail
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

harness=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
checkout=$(cd "$harness/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mlk
name=tests/cluster/$(basename "$0")

say() { echo "$name: $*" >&2; }
die() { say "$@"; exit 1; }
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# use_folder DIR: the cluster that the rest is about. $state holds all there is of it.
use_folder() {
  state=$(realpath -m "$1")
  log=$state/log
  cgroup=mlk-$(printf %s "$state" | sha256sum | cut -c1-10)
  member=MLK_CLUSTER_MEMBER=$state
}
use_folder "${MLK_CLUSTER_DIR:-$cache/cluster}"

# Every process of the cluster carries its folder in the environment, so that it is found also when whoever started
# it was killed before it could write down a pid. (Processes in containers do not: they die with their namespace.)
members() {  # members [NODE]: the pids, of node NODE only
  local files
  files=$(grep -lzsxF "$member" /proc/[0-9]*/environ) || true
  if [ -n "$files" ] && [ $# = 1 ]; then files=$(grep -lzsxF "MLK_CLUSTER_NODE=$1" $files) || true; fi
  [ -z "$files" ] || cut -d/ -f3 <<<"$files"
}

kill_members() {  # kill_members [NODE]: and waits until they are gone
  local pids all= try
  for try in {1..400}; do
    pids=$(members "$@")
    all+=" $pids"
    kill -9 $pids 2>/dev/null || true
    # What is being torn down has no environment any more, but still holds its ports.
    [ -n "$pids" ] || [ -n "$(alive $all)" ] || return 0
    sleep .02
  done
  die "processes do not end: $(alive $all)"
}

alive() {  # alive PID...: those that are neither gone nor waiting to be reaped
  local pid
  for pid; do
    ! grep -qs '^State:[[:space:]]*[^Z]' /proc/$pid/status || echo $pid
  done
}

first_process() {  # first_process [NODE]: the pid, seen from here, of PID 1 in the namespace of the cluster or of a node
  local pid depth=2
  [ $# = 0 ] || depth=3
  for pid in $(members "$@"); do
    if awk -v depth=$depth '/^NSpid:/ { found = NF == depth + 1 && $NF == 1 } END { exit !found }' /proc/$pid/status 2>/dev/null; then
      echo "$pid"
      return
    fi
  done
  return 1
}

inside() {  # inside PID COMMAND...: in the namespaces of that process, with the environment that marks a member
  local pid=$1
  shift
  nsenter -t "$pid" -n -m -p -u env "$member" "$@"
}

# wait_for SECONDS WHAT LOG COMMAND...: until the command succeeds; else says what was waited for and where to read on.
wait_for() {
  local seconds=$1 what=$2 file=$3 end=$((SECONDS + $1)) speak=$((SECONDS + 5)) given_up=
  shift 3
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $speak ]; then
      say "waiting for: $what (at most $seconds s)"
      speak=$end
    fi
    [ $SECONDS -lt $end ] || given_up="after $seconds s"
    ! ended || given_up="and no process of the cluster is left"
    if [ -n "$given_up" ]; then
      say "no $what $given_up"
      tail -n 8 "$file" >&2 2>/dev/null || true
      die "read on in $log"
    fi
    sleep .3   # most commands are a kubectl, and a start of it takes 0.15 s of a processor
  done
}

# ended: no process of the cluster is left. A process that was only just started, $started, does not carry the folder yet.
ended() { [ -z "$(alive ${started-})" ] && [ -z "$(members)" ]; }

# lock SECONDS: one command at a time changes the cluster. The folder itself is locked, so no file is left over; children
# that stay must be started with 9<&-.
lock() {
  local end=$((SECONDS + $1))
  while :; do
    mkdir -p "$state"
    exec 9<"$state"
    flock -w $((end > SECONDS ? end - SECONDS : 0)) 9 || die "another command is at work on $state for more than $1 s"
    [ "$state" -ef /proc/self/fd/9 ] && return 0   # else it was removed and made anew while we waited
  done
}

# wipe: ends whatever runs there and removes every trace. The marker guards folders that are not ours.
wipe() {
  local top try
  kill_members
  for top in /sys/fs/cgroup/"$cgroup" /sys/fs/cgroup/*/"$cgroup"; do
    for try in {1..100}; do
      [ -d "$top" ] || break
      find "$top" -depth -type d -exec rmdir {} + 2>/dev/null || true
      [ ! -d "$top" ] || sleep .05
    done
    [ ! -d "$top" ] || say "left over, not empty: $top"
  done
  if [ -e "$state/.mlk-cluster" ]; then
    find "$state" -mindepth 1 -maxdepth 1 ! -name .mlk-cluster -exec rm -rf --one-file-system {} +
    rm "$state/.mlk-cluster"
  fi
}

kubectl() { GOGC=400 GOMAXPROCS=1 "$bin/kubectl" --kubeconfig "$state/admin.kubeconfig" "$@"; }

load_settings() {  # bin, nodes, mode ... of a cluster that is up
  [ -e "$state/settings" ] || die "no cluster in $state: tests/cluster/up makes one"
  . "$state/settings"
}
