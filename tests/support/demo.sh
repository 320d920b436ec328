#!/bin/bash
# What `make demo` shows when mlk is built: handwritten digits, trained on this machine with a parameter server.
set -euo pipefail
cd "$(dirname "$0")/../.."
export XDG_STATE_HOME=$PWD/build/demo
build/mlk submit examples/digits-ps.yaml --local --follow --again
cat <<TEXT

Trained by two workers and a parameter server, as processes of this machine. To look around:

  export XDG_STATE_HOME=$XDG_STATE_HOME
  build/mlk logs digits-ps --local                                  every rank's output
  build/mlk submit examples/digits-allreduce.yaml --local --follow  without a server
  build/mlk submit examples/digits-ps.yaml --local --follow --set train.optimizer.lr=0.05
  build/mlk ls --local
  build/mlk render examples/digits-ps.yaml                          what a cluster would get
  build/mlk local down                                              end what runs in the background
TEXT
