#!/bin/bash
# In the cluster's namespaces: starts node N in namespaces of its own and connects it to the bridge. A node that was
# there before comes back with an empty disk.
#
# usage: attach-node.sh N; environment: STATE, BIN, HARNESS, API_PORT, CGROUP, MLK_CLUSTER_MEMBER
set -euo pipefail
node=$1
folder=$STATE/nodes/$node
export MLK_CLUSTER_NODE=$node

for top in /sys/fs/cgroup/$CGROUP/n$node /sys/fs/cgroup/*/$CGROUP/n$node; do
  [ ! -d "$top" ] || find "$top" -depth -type d -exec rmdir {} + 2>/dev/null || true
done
rm -rf --one-file-system "$folder"
mkdir -p "$folder"
# The outer bash is what the link is moved to; the node's own PID 1 starts when the link is there.
setsid unshare -n -m -u --propagation private bash -c "
  hostname n$node
  echo \$\$ >$folder/pid
  until ip link show eth0 >/dev/null 2>&1; do sleep .02; done
  exec unshare -p -f --kill-child --mount-proc $HARNESS/lib/node.sh $node" </dev/null >>"$STATE/log/n$node.log" 2>&1 &
for try in {1..500}; do
  [ ! -s "$folder/pid" ] || break
  sleep .02
done
ip link del v$node 2>/dev/null || true
ip link add v$node type veth peer name eth0 netns "$(cat "$folder/pid")"
ip link set v$node master br0
ip link set v$node up
ip route replace 10.85.$node.0/24 via 10.250.0.$((10 + node))
