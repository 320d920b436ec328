#include "cli/image/pip.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/process.h"
#include "cli/util/text.h"

extern char** environ;  // NOLINT: POSIX has no header that declares it

namespace mlk::image {

using nlohmann::json;

namespace {

namespace fs = std::filesystem;

// Starts pip with three changes. (1) Markers are evaluated for the image. pip has no option for this, but all
// versions of pip call default_environment(), and pip's report contains the result. If a marker reads an
// unknown value, the marker must give the same result for all samples of this value. pip also checks
// Requires-Python against the Python of the image. (2) pip cannot start certain programs, which wheels do not
// need. git and Python itself would run code from a repository or a setup.py. The other programs only
// describe this machine to indexes, and they cost time. (3) The scripts of packages run with the first
// python3 in PATH. Standard input is a JSON object.
constexpr char starts_pip[] = R"python(
import json, os, re, runpy, subprocess, sys

told = json.load(sys.stdin)
sys.path[:] = [folder for folder in sys.path if folder and os.path.abspath(folder) != os.getcwd()]
own_python = sys.executable
plain_start = subprocess.Popen.__init__

def refuse(what):
    with open(told["refusal"], "w") as out:
        json.dump(what, out)
    os._exit(97)

def start(self, args, *more, **named):
    words = [args] if isinstance(args, (str, bytes)) else list(args)
    program = os.fsdecode(words[0])
    if program in (own_python, sys.executable) or os.path.basename(program) in ("git", "hg", "svn", "bzr"):
        refuse({"build": True})
    if os.path.basename(program) in ("lsb_release", "rustc", "uname"):
        raise FileNotFoundError(program)
    plain_start(self, args, *more, **named)

subprocess.Popen.__init__ = start

from pip._vendor.packaging import markers, tags

# Without the path of Python in sys.executable, packaging cannot find the C library of this machine.
own_platforms = list(tags.platform_tags())
tags.platform_tags = lambda: iter(own_platforms)
plain_evaluate = markers.Marker.evaluate

def evaluate(self, environment=None, *more, **named):
    text = str(self)
    worlds = [dict(environment or {})]
    for name, (begins, samples) in told["unknown"].items():
        if name in text:
            words = [word for value in re.findall('"([^"]*)"', text) for word in re.split("[ ,]+", value)]
            values = samples + [word for word in words if word.startswith(begins)]
            worlds = [dict(world, **{name: value}) for world in worlds for value in values]
    answers = set(plain_evaluate(self, world, *more, **named) for world in worlds)
    if len(answers) > 1:
        refuse({"marker": text})
    return answers.pop()

markers.Marker.evaluate = evaluate
markers.default_environment = lambda: dict(told["environment"])

# pip install asks Requires-Python of files without an index for its own Python.
from pip._internal.resolution.resolvelib import candidates

plain_python = candidates.RequiresPythonCandidate.__init__
numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", told["environment"]["python_full_version"])
target = tuple(int(number or 0) for number in numbers.groups())
candidates.RequiresPythonCandidate.__init__ = lambda self, version: plain_python(self, target)
sys.executable = "/usr/bin/env python3"
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
)python";

// mlk does not call `pip config list`, because the settings `user = true` and `quiet = 3` would change the
// output of that command.
constexpr char lists_settings[] = R"python(
import os, sys
sys.path[:] = [folder for folder in sys.path if folder and os.path.abspath(folder) != os.getcwd()]
from pip._internal.configuration import Configuration
found = Configuration(isolated=False)
found.load()
for key, value in found.items():
    for name, text in value.items() if isinstance(value, dict) else [(key, value)]:
        print("%s=%r" % (name, text))
)python";

constexpr char says_markers[] = R"python(
import json, os, platform, sys
version = ".".join(map(str, sys.version_info[:3]))
print(json.dumps({"python_version": "%d.%d" % sys.version_info[:2], "python_full_version": platform.python_version(),
    "implementation_name": sys.implementation.name, "implementation_version": version, "os_name": os.name,
    "platform_machine": platform.machine(), "platform_python_implementation": platform.python_implementation(),
    "platform_release": platform.release(), "platform_system": platform.system(),
    "platform_version": platform.version(), "sys_platform": sys.platform}))
)python";

constexpr std::array kept_keys{
    "index-url",       "pypi-url",      "extra-index-url", "no-index",     "find-links",
    "trusted-host",    "cert",          "client-cert",     "proxy",        "timeout",
    "default-timeout", "retries",       "cache-dir",       "no-cache-dir", "keyring-provider",
    "use-feature",     "use-deprecated"};
constexpr std::array path_keys{"find-links", "cert", "client-cert", "cache-dir"};

// "index-url" for "PIP_INDEX_URL"; empty if `name` is no variable of pip.
std::string key_of_variable(std::string_view name) {
  constexpr std::string_view begins = "PIP_";
  if (!name.starts_with(begins)) return "";
  std::string out = lower_case(std::string(name.substr(begins.size())));
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

template <std::size_t N>
bool is_one_of(const std::array<const char*, N>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The string for which Python's repr() has printed `text`; nullopt: `text` is not quoted.
std::optional<std::string> unquoted(std::string_view text) {
  if (text.size() < 2 || (text[0] != '\'' && text[0] != '"') || text.back() != text[0]) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    out += c == 'n' || c == 'r' || c == 't' ? ' ' : c;  // pip splits values at each of these characters
  }
  return out;
}

// The value of one of path_keys, with `folder` before each relative path. URLs, and paths that begin with ~
// or $, do not change.
std::string with_absolute_paths(const std::string& value, const fs::path& folder) {
  std::vector<std::string> out;
  for (const std::string& word : split(value, ' ')) {
    if (word.empty()) continue;
    const bool stays = word[0] == '/' || word[0] == '~' || word[0] == '$' || word.find("://") != word.npos ||
                       word.starts_with("file:");
    out.push_back(stays ? word : (folder / word).lexically_normal().string());
  }
  return join(out, " ");
}

bool is_part_of_version(const std::string& part) {
  return !part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == part.npos;
}

ProcessResult run_python(const Command& command) {
  try {
    return run_process(command);
  } catch (const Error& error) {
    if (error.code() != ExitCode::not_found) throw;
    throw Error(ExitCode::failure, "code.python: there is no python3 here",
                "install python3 with pip, or take an image that has the packages");
  }
}

// The variables of this process, except TMPDIR and the variables of pip and Python.
std::vector<std::pair<std::string, std::string>> other_variables() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == text.npos || text.starts_with("PIP_") || text.starts_with("PYTHON") ||
        text.starts_with("TMPDIR="))
      continue;
    out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

PipSettings variables_of_pip() {
  PipSettings out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos && text.starts_with("PIP_"))
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

constexpr char no_file[] = "/dev/null";  // as PIP_CONFIG_FILE: then pip reads no files of settings

// The settings in pip's files of settings, one per line.
std::string listed_settings(const fs::path& folder, const std::function<bool()>& go_on,
                            const PipSettings& variables) {
  const auto named = variables.find("PIP_CONFIG_FILE");
  if (named != variables.end() && named->second == no_file) return "";
  Command command;
  command.argv = {"python3", "-E", "-c", lists_settings};
  command.empty_env = true;
  command.env = other_variables();
  if (named != variables.end())
    command.env.emplace_back("PIP_CONFIG_FILE", fs::absolute(named->second).string());
  command.folder = folder.string();
  command.go_on = [&](const ProcessResult&) { return !go_on || go_on(); };
  const ProcessResult result = run_python(command);
  if (result.given_up) throw Error(ExitCode::interrupted, "interrupted");
  if (result.error.find("ConfigurationFileCouldNotBeLoaded") != std::string::npos)
    throw Error(ExitCode::failure, "code.python: pip's settings cannot be read",
                "see what is wrong with them: python3 -m pip config list");
  return result.ok() ? result.output : "";  // if pip is missing, run_pip() reports it
}

}  // namespace

MarkerEnvironment marker_environment(const PythonTarget& target) {
  if (!target.markers.empty()) return {target.markers, {}};
  const std::string& architecture = target.platform.architecture;
  const std::string full = target.full_version.empty() ? target.version + ".0" : target.full_version;
  MarkerEnvironment out;
  out.known = {{"implementation_name", "cpython"},
               {"implementation_version", full},
               {"os_name", "posix"},
               {"platform_machine", machine_name(architecture)},
               {"platform_python_implementation", "CPython"},
               {"platform_release", ""},
               {"platform_system", "Linux"},
               {"platform_version", ""},
               {"python_full_version", full},
               {"python_version", target.version},
               {"sys_platform", "linux"}};
  // The kernel comes from the node, not from the image, so mlk does not know the release and version of the
  // kernel.
  for (const char* of_node : {"platform_release", "platform_version"})
    out.unknown[of_node] = {"", {"0", "99999"}};
  if (target.full_version.empty()) {
    for (const char* of_python : {"python_full_version", "implementation_version"})
      out.unknown[of_python] = {target.version + ".", {target.version + ".0", target.version + ".99"}};
  }
  return out;
}

std::string machine_name(const std::string& architecture) {
  return architecture == "amd64"   ? "x86_64"
         : architecture == "arm64" ? "aarch64"
         : architecture == "386"   ? "i686"
         : architecture == "arm"   ? "armv7l"
                                   : architecture;
}

PipSettings allowed_settings(const std::string& listed, const PipSettings& variables,
                             const fs::path& folder) {
  PipSettings by_section[2];  // settings of `install` win over global settings
  for (const std::string& line : split(listed, '\n')) {
    const std::size_t equals = line.find('='), dot = line.find('.');
    if (equals == line.npos || dot > equals) continue;
    const std::string section = line.substr(0, dot), key = line.substr(dot + 1, equals - dot - 1);
    const std::optional<std::string> value = unquoted(trim(std::string_view(line).substr(equals + 1)));
    const bool counts = value && !value->empty();  // pip ignores an empty value
    if (counts && is_one_of(kept_keys, key) && (section == "global" || section == "install"))
      by_section[section == "install" ? 1 : 0][key] = *value;
  }
  PipSettings by_key = by_section[0];
  for (const auto& [key, value] : by_section[1]) by_key[key] = value;
  for (const auto& [name, value] : variables) {
    const std::string key = key_of_variable(name);
    if (!value.empty() && is_one_of(kept_keys, key)) by_key[key] = value;
  }
  PipSettings out;
  for (const auto& [key, value] : by_key)
    out["PIP_" + as_variable_name(key)] =
        is_one_of(path_keys, key) ? with_absolute_paths(value, folder) : value;
  return out;
}

PipSettings settings_of_user(const fs::path& folder, const std::function<bool()>& go_on) {
  const PipSettings variables = variables_of_pip();
  return allowed_settings(listed_settings(folder, go_on, variables), variables, fs::current_path());
}

PipResult run_pip(const PipCall& call, const PythonTarget& target) {
  Command command;
  // -E and the empty folder keep Python from importing the user's code. -I would also prevent this import,
  // but -I would hide a pip that is installed for this user.
  command.argv = {"python3", "-E", "-c", starts_pip, "--disable-pip-version-check", "--no-input"};
  command.argv.insert(command.argv.end(), call.words.begin(), call.words.end());
  command.empty_env = true;
  command.env = other_variables();
  command.env.insert(command.env.end(), call.settings.begin(), call.settings.end());
  command.env.emplace_back("PIP_CONFIG_FILE", no_file);
  command.env.emplace_back("TMPDIR", call.folder.string());
  command.folder = call.folder.string();
  const fs::path refusal = call.folder / "refusal.json";
  const MarkerEnvironment markers = marker_environment(target);
  json unknown = json::object();
  for (const auto& [name, value] : markers.unknown) unknown[name] = {value.begins, value.samples};
  command.input =
      json_text({{"environment", markers.known}, {"unknown", unknown}, {"refusal", refusal.string()}});
  command.timeout = std::chrono::hours(1);
  command.output_limit = 64 << 20;
  command.go_on = [&](const ProcessResult&) { return !call.go_on || call.go_on(); };
  ProcessResult result = run_python(command);
  if (result.given_up) throw Error(ExitCode::interrupted, "interrupted");
  PipResult out{result.ok() ? 0 : result.exit_code, std::move(result.output), std::move(result.error)};
  if (out.exit_code == 0) return out;
  std::error_code error;
  if (!fs::is_regular_file(refusal, error)) return out;
  const json told = json_or_null(read_file(refusal, 1 << 20));
  if (told.is_object() && told.contains("build")) out.would_build = true;
  if (told.is_object() && told.contains("marker") && told["marker"].is_string())
    out.refused_marker = told["marker"].get<std::string>();
  return out;
}

PythonTarget own_python() {
  Command command;
  command.argv = {"python3", "-I", "-c", says_markers};
  const ProcessResult result = run_python(command);
  const json said = json_or_null(result.output);
  PythonTarget out;
  if (result.ok() && said.is_object()) {
    for (const auto& [name, value] : said.items()) {
      if (value.is_string()) out.markers[name] = value.get<std::string>();
    }
  }
  out.full_version = out.markers["python_full_version"];
  out.version = minor_version(out.full_version);
  if (out.version.empty())
    throw Error(ExitCode::failure, "code.python: the python3 of this machine does not say its version");
  return out;
}

std::string minor_version(const std::string& version) {
  const std::vector<std::string> parts = split(version, '.');
  return parts.size() >= 2 && is_part_of_version(parts[0]) && is_part_of_version(parts[1])
             ? parts[0] + "." + parts[1]
             : "";
}

std::string full_version(const std::string& version) {
  const std::vector<std::string> parts = split(version, '.');
  return parts.size() == 3 && std::all_of(parts.begin(), parts.end(), is_part_of_version) ? version : "";
}

}  // namespace mlk::image
