// The objects of every job type and of the hard parts, whole. tests/e2e/test_golden.py gives them to a real API server.
#include <doctest/doctest.h>

#include "tests/unit/render/golden.h"

namespace mlk {
namespace {

const FileContents digits{{"digits", {{"train-images-idx3-ubyte.gz", std::string("\x1f\x8b\0\1", 4)}, {"train-labels-idx1-ubyte.gz", "labels"}}}};

void check(const std::string& name, const std::string& text, const FileContents& files = {}, RenderOptions options = {}) {
  const Templates templates;
  options.version = "0.0.0";
  test::check_golden(name, test::as_list(render(test::load(text), files, templates, options)));
}

TEST_CASE("single: one worker with the bundled runtime and files that travel along") {
  check("single", R"(
name: digits
mode: single
image: registry.example/mlk-runtime:1
train: {data: {path: /data/digits}, steps: 3000}
data: [{name: digits, mount: /data/digits, files: data/digits}]
)", digits);
}

TEST_CASE("ps: servers and workers") {
  check("ps", R"(
name: digits
mode: ps
image: registry.example/mlk-runtime:1
train: {data: {path: /data/digits}, steps: 3000, consistency: async}
workers: {count: 3, min: 2, cpu: 250m, memory: 256Mi}
servers: {count: 2}
data: [{name: digits, mount: /data/digits, files: data/digits}]
)", digits);
}

TEST_CASE("allreduce: workers alone") {
  check("allreduce", R"(
name: digits
mode: allreduce
train: {data: {path: /data/digits/small}, steps: 3000}
workers: {count: 2}
data: [{name: digits, mount: /data/digits, configMap: digits}]
)");
}

}  // namespace
}  // namespace mlk
