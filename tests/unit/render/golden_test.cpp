// Compares all objects of every job type, and of features with many objects, with golden files.
// tests/e2e/test_golden.py sends the golden files to a real API server.
#include "tests/unit/render/golden.h"

#include <doctest/doctest.h>

#include "cli/render/own.h"

TEST_SUITE_BEGIN("render/golden");

namespace mlk {
namespace {

constexpr char uid[] = "0f8fad5b-d9cb-469f-a165-70867728950e";
const FileContents digits{{{"digits",
                            {{"train-images-idx3-ubyte.gz", std::string("\x1f\x8b\0\1", 4)},
                             {"train-labels-idx1-ubyte.gz", "labels"}}}}};

void check(const std::string& name, const std::string& text, const FileContents& files = {},
           RenderOptions options = {}, const std::string& owner_uid = "") {
  const Templates templates;
  options.version = "0.0.0";
  Rendered rendered = render(test::load(text), files, templates, options);
  if (!owner_uid.empty()) own(rendered.objects, rendered.run, owner_uid);
  test::check_golden(name, test::as_list(rendered));
}

TEST_CASE("the mode `single` renders one worker with the bundled runtime") {
  check("single", R"(
name: digits
mode: single
image: registry.example/mlk-runtime:1
train: {data: {path: /data/digits}, steps: 3000}
data: [{name: digits, mount: /data/digits, files: data/digits}]
)",
        digits);
}

TEST_CASE("the mode `ps` renders servers and workers") {
  check("ps", R"(
name: digits
mode: ps
image: registry.example/mlk-runtime:1
train: {data: {path: /data/digits}, steps: 3000, consistency: async}
workers: {count: 3, min: 2, cpu: 250m, memory: 256Mi}
servers: {count: 2}
data: [{name: digits, mount: /data/digits, files: data/digits}]
)",
        digits);
}

TEST_CASE("the mode `allreduce` renders workers and no servers") {
  check("allreduce", R"(
name: digits
mode: allreduce
train: {data: {path: /data/digits/small}, steps: 3000}
workers: {count: 2}
data: [{name: digits, mount: /data/digits, configMap: digits}]
)");
}

TEST_CASE("each pod unpacks the folder of `code:` before its program starts") {
  FileContents files;
  files.code = CodeArchive{.digest = std::string(64, 'd'),
                           .bytes = std::string("\x1f\x8b\0\1", 4),
                           .source = R"({"branch":"main","clean":false,"commit":"c0ffee","path":"."})",
                           .files = {"train.py"}};
  check("code", R"(
name: digits
mode: allreduce
image: python:3
framework: torch
run: [python3, train.py, --lr, "0.1"]
code: .
workdir: src
workers: {count: 2}
)",
        files, {}, uid);
}

TEST_CASE("an experiment with nearly every key is rendered as attempt 2 and with owner references") {
  RenderOptions options;
  options.name_space = "research";
  options.attempt = 2;
  options.secret = std::string(64, 'a');
  check("ps-everything", R"(
name: everything
mode: ps
image: registry.example/team/trainer:1
image_pull_policy: Always
image_pull_secrets: [registry]
train:
  model: {type: mlp, hidden: [256, 128], weights: /data/claim/model.safetensors}
  data: {path: /data/digits, batch: 64}
  optimizer: {type: sgd, lr: 1e-3, momentum: 0}
  consistency: {staleness: 4}
  steps: 2000
  patience: 1h
workers: {count: 70, min: 35, cpu: 2.5, memory: 4Gi, gpu: 1, patch: {job: {spec: {ttlSecondsAfterFinished: 600}}}}
servers: {count: 2, cpu: 1500m, memory: 2Gi}
env: {LOG_LEVEL: info, EMPTY: "", NVIDIA_VISIBLE_DEVICES: all, WANDB_API_KEY: {secret: wandb/key}}
data:
  - {name: digits, mount: /data/digits, files: data/digits}
  - {name: claim, mount: /data/claim, pvc: datasets}
  - {name: csi, mount: /data/csi, csi: {driver: csi.example.org, volumeAttributes: {share: a}}}
  - {name: map, mount: /data/map, configMap: settings}
  - {name: scratch, mount: /scratch, emptyDir: {sizeLimit: 1Gi}, read_only: false}
checkpoint: {every: 50, keep: 2, volume: {pvc: checkpoints}}
metrics: {port: 9100, tensorboard: true}
scheduling:
  priority: system-cluster-critical
  node: {selector: {disk: ssd}, tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]}
restart: {retries: 5, on: [preemption, "128-255", 70, 75]}
time_limit: 12h
service_account: default
tags: [a, b]
note: the whole of it
patch:
  service: {metadata: {annotations: {example.org/a: b}}}
  pod: {spec: {hostAliases: [{ip: 10.0.0.1, hostnames: [db]}], containers: [{name: main, env: [{name: LOG_LEVEL, value: debug}]}]}}
)",
        digits, options, uid);
}

TEST_CASE("a user's program in a single pod is retried after a signal, but not after an exit code") {
  check("run-single", R"(
name: script
mode: single
image: registry.example/python:3
run: python train.py --epochs 3
workdir: /src
checkpoint: {volume: {emptyDir: {}}}
)");
}

TEST_CASE("a user's program on several workers is retried after an exit code other than 126 to 128") {
  check("run-allreduce", R"(
name: script
mode: allreduce
image: registry.example/python:3
run: [python, train.py]
workers: {count: 4, min: 3}
)");
}

TEST_CASE("hostPath and NFS volumes are rendered even if Pod Security may refuse them") {
  check("unrestricted", R"(
name: host
mode: single
image: registry.example/python:3
run: [./train]
data:
  - {name: node, mount: /data/node, hostPath: /srv/data}
  - {name: nfs, mount: /data/nfs, nfs: {server: nfs.example.org, path: /exports}}
  - {name: out, mount: /data/out, nfs: {server: nfs.example.org, path: /out}, read_only: false}
)");
}

}  // namespace
}  // namespace mlk
