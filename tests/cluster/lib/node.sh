#!/bin/bash
# PID 1 of a node: containerd and a kubelet that can touch nothing of the machine's.
#
# usage: node.sh N; environment: STATE, BIN, HARNESS, CGROUP
set -euo pipefail
. "$HARNESS/lib/fill.sh"
node=$1
folder=$STATE/nodes/$node
address=10.250.0.$((10 + node))
socket=/run/containerd/containerd.sock
ulimit -n 20000 2>/dev/null || true
# Linux schedules by session. Kubernetes comes before busy tests, since a node counts as lost if its kubelet reports late.
echo -10 >/proc/self/autogroup 2>/dev/null || true

# Network: the other nodes' pods are reached through those nodes, everything else does not exist.
ip link set lo up
ip addr add $address/24 dev eth0
ip link set eth0 up
ip route add default via 10.250.0.1
for other in {1..9}; do
  [ $other = "$node" ] || ip route add 10.85.$other.0/24 via 10.250.0.$((10 + other))
done
echo 1 >/proc/sys/net/ipv4/ip_forward
for port in "$STATE"/registries/*; do
  [ ! -e "$port" ] || "$HARNESS/lib/node-registry.sh" "$(basename "$port")"
done

# The kubelet sets these for the whole machine. It is shown files that already hold what it wants.
mkdir -p "$folder/sysctl"
while read -r setting value; do
  echo "$value" >"$folder/sysctl/${setting//\//.}"
  mount --bind "$folder/sysctl/${setting//\//.}" /proc/sys/$setting
done <<'SETTINGS'
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
SETTINGS

mkdir -p "$folder"/var/{lib/kubelet,log,tmp} "$folder"/{cni,containerd,opt}
ln -s /run "$folder/var/run"
mount --bind "$folder/var" /var
mount -t tmpfs tmpfs /run

# Control groups: a sub-tree of the cluster's own.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  for parent in /sys/fs/cgroup /sys/fs/cgroup/$CGROUP; do
    mkdir -p $parent
    for controller in $(cat $parent/cgroup.controllers); do
      echo +$controller >$parent/cgroup.subtree_control 2>/dev/null || true
    done
  done
  mkdir -p /sys/fs/cgroup/$CGROUP/n$node
else
  for hierarchy in /sys/fs/cgroup/*/; do
    mkdir -p "$hierarchy$CGROUP/n$node" 2>/dev/null || true
  done
  for group in /sys/fs/cgroup/cpuset/$CGROUP{,/n$node}; do
    for file in cpuset.cpus cpuset.mems; do cat /sys/fs/cgroup/cpuset/$file >$group/$file; done
  done
fi

# Overlays do not stack on an overlay, which is what the state folder lies on in most containers.
[ "$(stat -f -c %T "$folder")" = overlayfs ] && snapshotter=native || snapshotter=overlayfs
fill "$HARNESS/config/containerd.toml" FOLDER="$folder" SOCKET=$socket SNAPSHOTTER=$snapshotter >"$folder/containerd.toml"
fill "$HARNESS/config/pods.conflist" NODE="$node" >"$folder/cni/pods.conflist"
fill "$HARNESS/config/kubelet.yaml" FOLDER="$folder" SOCKET=$socket ADDRESS=$address CGROUP="/$CGROUP/n$node" CA="$STATE/pki/ca.crt" >"$folder/kubelet.yaml"

containerd -c "$folder/containerd.toml" >>"$STATE/log/n$node-containerd.log" 2>&1 </dev/null &
for try in {1..400}; do
  ! ctr -a $socket version >/dev/null 2>&1 || break
  sleep .05
done
"$HARNESS/lib/import-images.sh" "$STATE/images"/*.tar
"$BIN/kubelet" --config="$folder/kubelet.yaml" --kubeconfig="$STATE/pki/n$node.kubeconfig" --root-dir="$folder/kubelet" --cert-dir="$folder/pki" \
  --hostname-override=n$node --node-ip=$address --v=2 >>"$STATE/log/n$node-kubelet.log" 2>&1 </dev/null &
while :; do wait -n || sleep 1; done
