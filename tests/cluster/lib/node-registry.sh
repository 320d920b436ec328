#!/bin/bash
# In a node's namespaces: listens on these ports of its 127.0.0.1 for the registries of the machine.
#
# usage: node-registry.sh PORT...; environment: STATE
set -euo pipefail
for port; do
  ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue   # it does already
  MLK_CLUSTER_WAY=$port setsid socat "TCP-LISTEN:$port,bind=127.0.0.1,reuseaddr,nodelay,fork" "UNIX-CONNECT:$STATE/run/registry-$port.sock" \
    </dev/null >>"$STATE/log/forward.log" 2>&1 &
done
