#!/bin/bash
# The output of `make demo` after the build: handwritten digits, trained on this machine with a parameter server.
set -euo pipefail
cd "$(dirname "$0")/../.."
export XDG_STATE_HOME=$PWD/build/demo
mkdir -p "$XDG_STATE_HOME"
errors=$XDG_STATE_HOME/demo.log  # messages of mlk, shown only when the demo fails

ended() {
  local status=$?
  if [ $status = 130 ]; then  # Ctrl-C: the hints of mlk are for those who have it on their PATH
    cat <<'TEXT'

What was begun goes on in the background. In this folder, to look at it:
  XDG_STATE_HOME=$PWD/build/demo build/mlk ls --local
To end it:
  XDG_STATE_HOME=$PWD/build/demo build/mlk local down
TEXT
  elif [ $status != 0 ] && [ $status != 141 ]; then  # 141: the reader of the output has gone
    cat "$errors"
  fi >&2
}
trap ended EXIT
trap 'exit 130' INT

echo "Two workers and a parameter server, all on this machine,"
echo "learn to read handwritten digits:"
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
cat <<'TEXT'

What to try next:
  export XDG_STATE_HOME=$PWD/build/demo

the same without a server, with all output:
  build/mlk submit examples/digits-allreduce.yaml --local --follow
nine variants, and what came of them:
  build/mlk sweep examples/digits-sweep.yaml --local
  build/mlk results digits-sweep --local
the objects that a Kubernetes cluster would get:
  build/mlk render examples/digits-ps.yaml
end what runs in the background:
  build/mlk local down
TEXT
