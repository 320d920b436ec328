// The examples are valid and short. The templates have the labels by which mlk selects objects.
#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>

#include "cli/run/facts/labels.h"
#include "cli/util/files.h"
#include "tests/unit/paths.h"
#include "tests/unit/render/golden.h"

TEST_SUITE_BEGIN("render/examples");

namespace mlk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t limit = 1 << 20;

FileContents files_of(const Experiment& experiment, const fs::path& folder) {
  FileContents out;
  for (const DataEntry& entry : experiment.data) {
    if (entry.files.empty()) continue;
    for (const fs::directory_entry& file : fs::directory_iterator(folder / entry.files)) {
      out.folders[entry.name][file.path().filename()] = read_file(file.path(), limit);
    }
  }
  return out;
}

TEST_CASE("every example has fewer than 25 lines, begins with a comment, and can be rendered") {
  const fs::path folder = mlk::test::source_dir() / "examples";
  int examples = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    ++examples;
    const std::string name = entry.path().stem();
    INFO(name);
    const std::string text = read_file(entry.path(), limit);
    CHECK(std::count(text.begin(), text.end(), '\n') < 25);
    CHECK(text.starts_with("# "));
    if (text.find("\nsweep:") != std::string::npos) continue;  // tests/unit/sweeps checks sweeps
    const Experiment experiment = test::load(text);
    CHECK(experiment.name == name);
    const Rendered run = render(experiment, files_of(experiment, folder), Templates(), {});
    CHECK(run.objects.back()["kind"] == "Job");
  }
  CHECK(examples >= 5);
}

TEST_CASE("rendered objects have the labels by which mlk selects objects") {
  const Templates templates;
  const Rendered run = render(test::load("name: x\nmode: single\nrun: a\n"), {}, templates, {});
  for (const char* label : {labels::run, labels::name, labels::mode, labels::hash, labels::managed_by}) {
    CHECK_MESSAGE(run.owner["metadata"]["labels"].contains(label), label);
  }
  const nlohmann::json& job = run.objects.back();
  for (const nlohmann::json& labelled : {job, job["spec"]["template"]}) {
    for (const char* label : {labels::run, labels::name, labels::role, labels::managed_by}) {
      CHECK_MESSAGE(labelled["metadata"]["labels"].contains(label), label);
    }
  }
}

}  // namespace
}  // namespace mlk
