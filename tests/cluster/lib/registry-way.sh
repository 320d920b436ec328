# The machine's end of the ways from the nodes to registries on this machine. Sourced, never run; needs common.sh.

ways() {  # ways PORT: the pids of all that belongs to the way of that port
  local files
  files=$(grep -lzsxF "$member" /proc/[0-9]*/environ) || return 0
  files=$(grep -lzsxF "MLK_CLUSTER_WAY=$1" $files) || return 0
  cut -d/ -f3 <<<"$files"
}

open_way() {  # open_way PORT: nodes that start from now on open their end by themselves
  mkdir -p "$state/registries"
  [ ! -e "$state/registries/$1" ] || [ -z "$(ways "$1")" ] || return 0
  rm -f "$state/run/registry-$1.sock"
  (cd "$state/run" && exec setsid env "$member" MLK_CLUSTER_WAY="$1" socat "UNIX-LISTEN:registry-$1.sock,fork" "TCP:127.0.0.1:$1,nodelay") \
    </dev/null >>"$log/forward.log" 2>&1 9<&- &
  touch "$state/registries/$1"
}

close_way() {  # close_way PORT
  rm -f "$state/registries/$1" "$state/run/registry-$1.sock"
  kill $(ways "$1") 2>/dev/null || true
}
