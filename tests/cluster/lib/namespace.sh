#!/bin/bash
# PID 1 of a cluster with real nodes, in network, mount and PID namespaces of its own: when it dies, all of it is gone.
# Shows the state folder at /mnt, so that inside all paths are short and none lies under /var or /run, which nodes replace.
#
# usage: namespace.sh STATE BIN HARNESS; environment as in control-plane.sh, and NODES, CGROUP
set -euo pipefail
mkdir -p "$1/bin" "$1/harness"
mount --bind "$2" "$1/bin"
mount --bind "$3" "$1/harness"
mount --bind "$1" /mnt
mount --move "$1/bin" /mnt/bin
mount --move "$1/harness" /mnt/harness
cd /mnt
export STATE=/mnt BIN=/mnt/bin HARNESS=/mnt/harness ADDRESS=10.250.0.1
mount -t tmpfs tmpfs /run
ulimit -n 20000 2>/dev/null || true

# The network: one bridge that the nodes hang on, no way out of it.
ip link set lo up
ip link add br0 type bridge
ip addr add $ADDRESS/24 dev br0
ip link set br0 up
ip route add default via $ADDRESS dev br0
echo 1 >/proc/sys/net/ipv4/ip_forward

# Without a kube-proxy one Service is still needed: the API server, as pods know it.
ip addr add 10.96.0.1/32 dev lo
socat TCP-LISTEN:443,bind=10.96.0.1,reuseaddr,nodelay,fork TCP:$ADDRESS:$API_PORT,nodelay >>/mnt/log/forward.log 2>&1 </dev/null &

# A UNIX socket crosses network namespaces: this is how the API server is reached from the machine.
socat UNIX-LISTEN:/mnt/run/api.sock,fork TCP:$ADDRESS:$API_PORT,nodelay >>/mnt/log/forward.log 2>&1 </dev/null &
for node in $(seq "$NODES"); do
  "$HARNESS/lib/attach-node.sh" "$node" &
done
exec "$HARNESS/lib/control-plane.sh"
