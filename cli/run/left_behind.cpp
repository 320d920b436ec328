#include "cli/run/left_behind.h"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

// Close enough to a shell's splitting: a word that is split wrongly is not the name of a file.
std::vector<std::string> words_of(const nlohmann::json& run) {
  if (run.is_array()) return run.get<std::vector<std::string>>();
  std::string text = run.is_string() ? run.get<std::string>() : "";
  constexpr std::string_view between = " \t\n;|&()<>\"'`$=";
  std::replace_if(text.begin(), text.end(), [&](char c) { return between.find(c) != between.npos; }, ' ');
  return split(text, ' ');
}

// Whether the file travels along and is found from the working folder.
bool travels(const Experiment& experiment, const FileContents& files, const fs::path& file) {
  const fs::path workdir = experiment.effective.value("workdir", "");
  if (files.code) {
    const std::string inside = (workdir / file).lexically_normal().string();
    return std::binary_search(files.code->files.begin(), files.code->files.end(), inside);
  }
  return std::any_of(experiment.data.begin(), experiment.data.end(), [&](const DataEntry& entry) {
    const auto content = files.folders.find(entry.name);
    if (content == files.folders.end() || workdir.empty()) return false;
    const fs::path inside = (workdir / file).lexically_normal().lexically_relative(entry.mount);
    return content->second.count(inside.string()) > 0;
  });
}

}  // namespace

std::vector<std::string> files_left_behind(const Experiment& experiment, const FileContents& files,
                                           const fs::path& beside) {
  std::vector<std::string> found;
  if (!experiment.effective.contains("run")) return found;
  for (const std::string& word : words_of(experiment.effective["run"])) {
    std::error_code error;
    const fs::path file(word);
    if (word.empty() || file.is_absolute() || !fs::is_regular_file(beside / file, error)) continue;
    if (travels(experiment, files, file) || std::find(found.begin(), found.end(), word) != found.end())
      continue;
    found.push_back(word);
  }
  return found;
}

std::string advice_on_left_behind(const std::string& file, bool has_code) {
  if (has_code)
    return file +
           " of `run:` lies beside the experiment file, but not at this place in the code that travels; see "
           "code: and workdir: in the file, .gitignore and .mlkignore";
  return file +
         " of `run:` lies beside the experiment file and does not travel with the run. Unless the image "
         "holds it, add to the file:\n"
         "    code: .";
}

}  // namespace mlk
