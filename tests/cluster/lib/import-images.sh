#!/bin/bash
# In a node's namespaces: gives containerd the images.
#
# usage: import-images.sh FILE.tar...
set -euo pipefail
[ "$(stat -f -c %T /mnt)" = overlayfs ] && snapshotter=native || snapshotter=overlayfs   # as in node.sh
for file in "$@"; do
  ctr -a /run/containerd/containerd.sock -n k8s.io images import --snapshotter $snapshotter --digests=false "$file"
done
