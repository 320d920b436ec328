#!/bin/bash
# Starts the store, the API server, the controllers, the scheduler and, for real nodes, the names of pods; then waits.
# Takes from the environment: STATE, BIN, HARNESS (folders), ADDRESS, API_PORT, ETCD_PORT, PEER_PORT, MODE (real or kwok),
# GATES, RUNTIME_CONFIG.
set -euo pipefail
. "$HARNESS/lib/fill.sh"
pki=$STATE/pki
run=$STATE/run
echo -10 >/proc/self/autogroup 2>/dev/null || true   # as in node.sh

start() {  # start NAME ARGUMENT...
  local program=$1
  shift
  "$BIN/$program" "$@" </dev/null >>"$STATE/log/$program.log" 2>&1 &
}

keep() {  # keep NAME ARGUMENT...: started again whenever it ends
  local program=$1
  shift
  while :; do "$BIN/$program" "$@" || sleep .2; done </dev/null >>"$STATE/log/$program.log" 2>&1 &
}

store=http://127.0.0.1:$ETCD_PORT
peer=http://127.0.0.1:$PEER_PORT
mkdir -p -m 700 "$run/etcd"
start etcd --name store --data-dir "$run/etcd" --listen-client-urls "$store" --advertise-client-urls "$store" \
  --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "store=$peer" --unsafe-no-fsync --log-level warn

[ "$MODE" = real ] && bind=0.0.0.0 || bind=127.0.0.1
keep kube-apiserver --etcd-servers="$store" --bind-address=$bind --secure-port="$API_PORT" --advertise-address="$ADDRESS" \
  --endpoint-reconciler-type=none --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true \
  --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
  --client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/serving.crt" --tls-private-key-file="$pki/serving.key" \
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/service-account.pub" \
  --service-account-signing-key-file="$pki/service-account.key" \
  --kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key" --kubelet-preferred-address-types=InternalIP \
  --requestheader-client-ca-file="$pki/ca.crt" --requestheader-allowed-names=front-proxy --requestheader-username-headers=X-Remote-User \
  --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
  --proxy-client-cert-file="$pki/front-proxy.crt" --proxy-client-key-file="$pki/front-proxy.key" \
  --default-not-ready-toleration-seconds=5 --default-unreachable-toleration-seconds=5 \
  --feature-gates="$GATES" --runtime-config="$RUNTIME_CONFIG"

fill "$HARNESS/config/scheduler.yaml" KUBECONFIG="$pki/scheduler.kubeconfig" >"$run/scheduler.yaml"
start kube-scheduler --config="$run/scheduler.yaml" --secure-port=0 --feature-gates="$GATES"

if [ "$MODE" = real ]; then
  fill "$HARNESS/config/Corefile" ADDRESS="$ADDRESS" KUBECONFIG="$pki/admin.kubeconfig" >"$run/Corefile"
  start coredns -conf "$run/Corefile"
fi
# The controllers give up for good after 10 s without a healthy API server, which takes longer on a busy machine.
until (exec 3<>"/dev/tcp/$ADDRESS/$API_PORT") 2>/dev/null; do sleep 0.1; done   # this costs less than a kubectl
until "$BIN/kubectl" --kubeconfig "$pki/admin.kubeconfig" get --raw=/readyz >/dev/null 2>&1; do sleep 0.1; done
touch "$run/api-ready"
# Without the higher rate the first service accounts take 6 s longer. A node counts as lost after 10 s.
start kube-controller-manager --kubeconfig="$pki/controllers.kubeconfig" --secure-port=0 --leader-elect=false \
  --use-service-account-credentials=true --root-ca-file="$pki/ca.crt" --service-account-private-key-file="$pki/service-account.key" \
  --node-monitor-period=1s --node-monitor-grace-period=10s --kube-api-qps=200 --kube-api-burst=400 --feature-gates="$GATES"

while :; do wait -n || sleep 1; done   # as PID 1 it also reaps what others leave behind
