#!/bin/sh
# A grid without `mlk sweep`, by the shell: one run for each value, the submits side by side. Arguments are for mlk, for
# example --local or -n NAMESPACE.
set -e
cd "$(dirname "$0")"

for lr in 0.1 0.01 0.001; do
  echo "$lr"
done | xargs -P 4 -I {} mlk submit -o name "$@" --set name=grid --set train.optimizer.lr={} digits-single.yaml

mlk wait "$@" $(mlk ls "$@" grid -o name)
mlk results "$@" grid -o tsv
