// Jobs, pods and folders that the tests of the embedded cluster share.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/local/node/pod_log.h"
#include "cli/util/time.h"

namespace mlk::local::samples {

using nlohmann::json;

inline const Time noon = *parse_time("2026-11-21T12:00:00Z");

// The folder for many small files: in memory, since a disk needs more processor time for them. Containers
// often have little memory there, so then /tmp.
inline std::string parent_of_small_files() {
  const std::string memory = "/dev/shm";
  std::error_code error;
  const auto space = std::filesystem::space(memory, error);
  return !error && ::access(memory.c_str(), W_OK) == 0 && space.available >= 1u << 30 ? memory : "/tmp";
}

// A new folder, which the destructor removes.
class Folder {
 public:
  explicit Folder(const std::string& parent = "/tmp") {
    std::string path = parent + "/mlk-local-test-XXXXXX";
    path_ = ::mkdtemp(path.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The log of pod "p".
inline std::string read_log(const std::filesystem::path& pods, const LogOptions& options) {
  PodLogs logs(pods);
  std::string text;
  logs.read(
      "p", options,
      [&](std::string_view part) {
        text += part;
        return true;
      },
      [] { return true; }, [] { return true; });
  return text;
}

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

// A Job as the store holds it; `spec` is merged over the defaults.
inline json job(int completions, const json& spec = json::object()) {
  json result = {{"apiVersion", "batch/v1"},
                 {"kind", "Job"},
                 {"metadata", {{"name", "j"}, {"namespace", "default"}, {"uid", "job-uid"}}},
                 {"spec",
                  {{"completions", completions},
                   {"parallelism", completions},
                   {"completionMode", "Indexed"},
                   {"backoffLimit", 2147483647},
                   {"backoffLimitPerIndex", 2},
                   {"podReplacementPolicy", "Failed"},
                   {"template",
                    {{"metadata", {{"labels", {{"app", "x"}}}}},
                     {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}}}}}}}}}},
                 {"status", {{"startTime", "2026-11-21T11:00:00Z"}}}};
  result["spec"].merge_patch(spec);
  return result;
}

// A pod of the Job that job() returns. A pod with `phase` Failed has ended with `exit_code` at noon.
inline json pod(int index, const std::string& phase, int exit_code = 0, int failures = 0) {
  static int number = 0;
  const std::string suffix = std::to_string(++number);
  const std::string text = std::to_string(index);
  json result = {{"metadata",
                  {{"name", "j-" + text + "-" + suffix},
                   {"namespace", "default"},
                   {"uid", "pod-" + suffix},
                   {"annotations",
                    {{"batch.kubernetes.io/job-completion-index", text},
                     {"batch.kubernetes.io/job-index-failure-count", std::to_string(failures)}}},
                   {"finalizers", {"batch.kubernetes.io/job-tracking"}}}},
                 {"status", {{"phase", phase}}}};
  if (phase == "Failed" || phase == "Succeeded") {
    result["status"]["containerStatuses"] = json::array(
        {{{"name", "main"},
          {"state", {{"terminated", {{"exitCode", exit_code}, {"finishedAt", "2026-11-21T12:00:00Z"}}}}}}});
  }
  return result;
}

}  // namespace mlk::local::samples
