#include "cli/run/inputs/missing_files.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

// Splits almost like a shell. A wrongly split word does no harm, since it does not name a file.
std::vector<std::string> words_of(const nlohmann::json& run) {
  if (run.is_array()) return run.get<std::vector<std::string>>();
  std::string text = run.is_string() ? run.get<std::string>() : "";
  constexpr std::string_view between = " \t\n;|&()<>\"'`$=";
  std::replace_if(text.begin(), text.end(), [&](char c) { return between.find(c) != between.npos; }, ' ');
  return split(text, ' ');
}

// Whether the file travels with the run and is found from the working folder.
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

bool is_script(const std::string& word) { return word.ends_with(".py") || word.ends_with(".sh"); }

bool starts_scripts(const std::string& word) {
  const std::string name = fs::path(word).filename().string();
  constexpr std::array names = {"bash", "sh", "torchrun", "accelerate", "deepspeed"};
  return name.starts_with("python") || std::find(names.begin(), names.end(), name) != names.end();
}

// The plain words of the first command, up to the first word with special characters of a shell.
std::vector<std::string> first_command(const nlohmann::json& run) {
  std::vector<std::string> words =
      run.is_array() ? run.get<std::vector<std::string>>() : std::vector<std::string>();
  if (run.is_string()) {
    const std::string text = run.get<std::string>();
    words = split(std::string(trim(text.substr(0, text.find_first_of("\n;|&()<>")))), ' ');
  }
  const auto special = [](const std::string& word) {
    return word.find_first_of(" \t\n;|&()<>\"'`$*?[]{}~\\") != word.npos;
  };
  words.erase(std::find_if(words.begin(), words.end(), special), words.end());
  return words;
}

// The script that the first command starts, as a path from the working folder; empty if the command starts no
// script.
std::string script_of(const nlohmann::json& run) {
  const std::vector<std::string> words = first_command(run);
  if (words.empty()) return "";
  if (is_script(words.front())) return words.front().find('/') == std::string::npos ? "" : words.front();
  if (!starts_scripts(words.front())) return "";
  for (const std::string& word : words) {
    if (word == "-c") return "";
    if (is_script(word) && !word.starts_with('-')) return word;
  }
  return "";
}

// The file of the code that the user probably means, as a path from the working folder: a file of the same
// name in another folder, else a file with a similar name.
std::string meant_script(const std::vector<std::string>& code, const fs::path& workdir,
                         const fs::path& script) {
  std::vector<std::string> candidates;
  for (const std::string& file : code) {
    const fs::path from = fs::path(file).lexically_relative(workdir);
    if (fs::path(file).filename() == script.filename()) return from.string();
    if (fs::path(file).extension() == script.extension()) candidates.push_back(from.string());
  }
  return nearest(script.lexically_normal().string(), candidates);
}

}  // namespace

std::string advice_on_missing_program(const Experiment& experiment, const FileContents& files,
                                      const fs::path& beside) {
  const bool is_known = files.code && !files.code->files.empty();  // a sweep's driver has no such list
  if (!is_known || !experiment.effective.contains("run")) return "";
  const fs::path script = script_of(experiment.effective["run"]);
  const fs::path workdir = experiment.effective.value("workdir", ".");
  const std::string inside = (workdir / script).lexically_normal().string();
  std::error_code error;
  if (script.empty() || script.is_absolute() || workdir.is_absolute() || inside.starts_with("..") ||
      travels(experiment, files, script) || fs::exists(beside / script, error))
    return "";
  const std::string meant = meant_script(files.code->files, workdir, script);
  return printable("`run:` names " + script.string() + ", which is not in the code" +
                   (meant.empty() ? "" : "; did you mean " + meant + "?"));
}

std::vector<std::string> files_left_behind(const Experiment& experiment, const FileContents& files,
                                           const fs::path& beside) {
  std::vector<std::string> found;
  if (!experiment.effective.contains("run")) return found;
  for (const std::string& word : words_of(experiment.effective["run"])) {
    std::error_code error;
    const fs::path file(word);
    if (word.empty() || file.is_absolute() || !fs::is_regular_file(beside / file, error)) continue;
    if (travels(experiment, files, file) || std::ranges::find(found, word) != found.end()) continue;
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

std::vector<std::string> advice_on_program(const Experiment& experiment, const FileContents& files,
                                           const fs::path& beside) {
  std::vector<std::string> advice;
  for (const std::string& file : files_left_behind(experiment, files, beside))
    advice.push_back(advice_on_left_behind(printable(file), files.code.has_value()));
  if (std::string text = advice_on_missing_program(experiment, files, beside); !text.empty())
    advice.push_back(std::move(text));
  return advice;
}

}  // namespace mlk
