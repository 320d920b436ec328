// Each kind of external input is read in one place of the code. These tests find code that bypasses this
// place.

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("project/doors");

namespace fs = std::filesystem;

namespace {

std::string without_comment(const std::string& line) { return line.substr(0, line.find("//")); }

// Only the files in `doors` may have a line below `roots` that matches the pattern. Each of these files must
// have such a line.
void only_in(const std::set<std::string>& doors, const std::string& pattern, const std::string& instead,
             const std::vector<std::string>& roots = {"cli", "sweeps"}) {
  const std::regex forbidden(pattern);
  const fs::path top = mlk::test::source_dir();
  std::set<std::string> used;
  int files = 0;
  for (const std::string& root : roots) {
    if (!fs::exists(top / root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(top / root)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp") continue;
      ++files;
      const std::string path = entry.path().lexically_relative(top).string();
      std::ifstream in(entry.path());
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        if (!std::regex_search(without_comment(line), forbidden)) continue;
        used.insert(path);
        const bool is_door = doors.count(path) == 1;
        CHECK_MESSAGE(is_door, path, ":", number, ": ", line, " goes around ", instead);
      }
    }
  }
  CHECK(files > 5);
  for (const std::string& door : doors) CHECK_MESSAGE(used.count(door) == 1, door, " needs no exception");
}

}  // namespace

TEST_CASE("only cli/util/json.cpp parses JSON in cli/ and sweeps/") {
  only_in({"cli/util/json.cpp"},
          "json::(parse|accept|sax_parse|from_(cbor|msgpack|ubjson|bson|bjdata))\\b|>>\\s*json|\"_json\\b",
          "parse_json() and json_or_null() of cli/util/json.h");
}

TEST_CASE("only three files of cli/ and sweeps/ convert text to floating-point numbers") {
  only_in({"cli/util/number.cpp", "cli/util/quantity.cpp", "cli/experiment/values.cpp"},
          "\\b(strto(d|f|ld)|stod|stof|atof|sscanf)\\b", "number_of_word() of cli/util/number.h");
}

TEST_CASE("only the readers of experiments and kubeconfigs parse YAML in cli/ and sweeps/") {
  only_in({"cli/yaml/yaml.cpp", "cli/kube/login/kubeconfig_file.cpp"},
          "YAML::(Load|LoadAll|LoadFile|LoadAllFromFile|Parser)\\b",
          "the readers of experiment files and kubeconfigs");
}

TEST_CASE("cli/commands and cli/ui write JSON only with json_text(), which escapes terminal controls") {
  only_in({}, "\\.dump\\(", "json_text() of cli/util/json.h", {"cli/commands", "cli/ui"});
}

TEST_CASE("in cli/, only the listed files write to the standard streams directly") {
  only_in({"cli/app.cpp", "cli/util/printable_stream.h", "cli/util/printable_stream.cpp"},
          "\\bPrintableStream\\b", "the one door of cli/app.cpp", {"cli"});
  // main() writes before the session exists and after the session has ended. The other files belong to
  // processes of the local cluster, whose standard error is a log. fstat() of an output is allowed
  // everywhere.
  only_in({"cli/main.cpp", "cli/local/controllers.cpp", "cli/local/serve.cpp", "cli/local/node/kubelet.cpp",
           "cli/local/state/store.cpp", "cli/local/jobs/jobs.cpp", "cli/local/node/supervisor.cpp"},
          "std::(cout|cerr|clog)\\b|\\b(printf|puts|fputs|perror|fwrite)\\s*\\(|([^t]\\(|[^(])STD(OUT|ERR)_"
          "FILENO\\s*,",
          "Session::out and Session::err", {"cli"});
}

TEST_CASE("in cli/commands, cli/run and sweeps/, only the listed sources open files or folders") {
  // prepare.cpp reads the experiment file and the user's own templates. local.cpp reads mlk's own kubeconfig.
  only_in({"cli/run/inputs/user_files.cpp", "cli/run/inputs/prepare.cpp", "cli/commands/local.cpp"},
          "\\b(read_file|visit_folder|ifstream|fopen|(recursive_)?directory_iterator)\\s*\\(",
          "read_user_folder() of cli/run/inputs/user_files.h", {"cli/commands", "cli/run", "sweeps"});
}
