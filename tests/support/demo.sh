#!/bin/bash
# The output of `make demo` after the build: handwritten digits, trained on this machine with a parameter server.
set -euo pipefail
cd "$(dirname "$0")/../.."
export XDG_STATE_HOME=$PWD/build/demo
mkdir -p "$XDG_STATE_HOME"
errors=$XDG_STATE_HOME/demo.log  # messages of mlk, shown only when the demo fails
trap 'status=$?; [ $status = 0 ] || cat "$errors" >&2' EXIT

echo "Two workers and a parameter server, processes of this machine, learn to read handwritten digits:"
echo
run=$(build/mlk submit examples/digits-ps.yaml --local --again \
  --set train.report_every=300 --set train.evaluate_every=300 2>"$errors")
build/mlk logs -f "$run" --local 2>>"$errors" | awk '
  function value(key) { return match($0, " " key "=[^ ]+") ? substr($0, RSTART + length(key) + 2, RLENGTH - length(key) - 2) : "" }
  / mlk step=/ {
    if (!shown++) printf "%6s  %8s  %8s  %9s\n", "STEP", "LOSS", "ACCURACY", "SAMPLES/S"
    printf "%6s  %8s  %8s  %9s\n", value("step"), value("loss"), value("accuracy"), value("samples_per_s")
    fflush()
  }'
echo
build/mlk status "$run" --local | grep -v '^  metrics\|^    '
cat <<TEXT

What to try next:
  export XDG_STATE_HOME=$XDG_STATE_HOME
  build/mlk submit examples/digits-allreduce.yaml --local --follow   the same without a server, with all output
  build/mlk sweep examples/digits-sweep.yaml --local                 nine variants; then: build/mlk results digits-sweep --local
  build/mlk render examples/digits-ps.yaml                           the objects that a Kubernetes cluster would get
  build/mlk local down                                               end what runs in the background
TEXT
