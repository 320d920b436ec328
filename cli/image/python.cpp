#include "cli/image/python.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/process.h"
#include "cli/util/text.h"

namespace mlk::image {

using nlohmann::json;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_record = 16 << 20;

std::string shown(const fs::path& path) { return printable(path.string()); }

std::string text_at(const json& object, std::initializer_list<const char*> path) {
  const json* at = &object;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return "";
    at = &(*at)[key];
  }
  return at->is_string() ? at->get<std::string>() : "";
}

// The lines of pip's that begin with ERROR:, without that.
std::string errors_of(const std::string& output) {
  constexpr std::string_view mark = "ERROR: ";
  constexpr std::size_t longest = 600;
  std::vector<std::string> out;
  for (const std::string& line : split(output, '\n')) {
    if (line.starts_with(mark)) out.push_back(line.substr(mark.size()));
  }
  return printable(cut(join(out, "; "), longest));
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

ProcessResult run_pip(const PythonPackages& packages, std::vector<std::string> words) {
  Command command;
  command.argv = {"python3", "-m", "pip", "--disable-pip-version-check", "--no-input"};
  command.argv.insert(command.argv.end(), words.begin(), words.end());
  command.folder = fs::absolute(packages.requirements).parent_path().string();
  command.timeout = std::chrono::hours(1);
  command.output_limit = 64 << 20;
  command.go_on = [&](const ProcessResult&) { return !packages.go_on || packages.go_on(); };
  ProcessResult result = run_python(command);
  if (result.given_up) throw Error(ExitCode::interrupted, "interrupted");
  if (result.ok()) return result;
  if (result.error.find("No module named pip") != std::string::npos)
    throw Error(ExitCode::failure, "code.python: the python3 of this machine has no pip",
                "install it (python3-pip), or take an image that has the packages");
  if (result.error.find("no such option: --report") != std::string::npos)
    throw Error(ExitCode::failure, "code.python: the pip of this machine is older than 22.2",
                "let it renew itself: python3 -m pip install --upgrade pip");
  for (const char* sign :
       {"NewConnectionError", "ConnectTimeoutError", "NameResolutionError", "ProxyError"}) {
    if (result.error.find(sign) != std::string::npos)
      throw Error(ExitCode::failure, "code.python: pip cannot reach its index of packages",
                  "see all of what it says: python3 -m pip download -r " +
                      shell_word(packages.requirements.string()));
  }
  const std::string said = errors_of(result.error);
  const bool no_wheel = result.error.find("No matching distribution") != std::string::npos ||
                        result.error.find("Could not find a version") != std::string::npos;
  throw Error(
      no_wheel ? ExitCode::usage : ExitCode::failure,
      fmt::format("code.python: pip finds no wheels for Python {} on {} of what {} asks for: {}",
                  packages.target.version, packages.target.platform.text(), shown(packages.requirements),
                  said.empty() ? fmt::format("exit code {}", result.exit_code) : said),
      no_wheel ? "name a version that has a wheel, or take an image that has the package"
               : "see all of what pip says: python3 -m pip install --dry-run -r " +
                     shell_word(packages.requirements.string()));
}

std::vector<std::string> pip_words(const PythonPackages& packages, const fs::path& target) {
  std::vector<std::string> out{"install",
                               "--quiet",
                               "--only-binary=:all:",
                               "--no-compile",
                               "--target",
                               target.string(),
                               "--implementation",
                               "cp",
                               "--python-version",
                               packages.target.version};
  for (const std::string& platform : wheel_platforms(packages.target.platform)) {
    out.emplace_back("--platform");
    out.push_back(platform);
  }
  out.emplace_back("-r");
  out.push_back(fs::absolute(packages.requirements).string());
  return out;
}

Resolved resolve(const PythonPackages& packages) {
  std::vector<std::string> words = pip_words(packages, packages.cache / "none");
  for (const char* word : {"--dry-run", "--ignore-installed", "--report", "-"}) words.emplace_back(word);
  return parse_pip_report(run_pip(packages, words).output);
}

std::string key_of(const Resolved& resolved, const PythonTarget& target) {
  return sha256_hex(
      fmt::format("1 {} {}\n{}", target.platform.text(), target.version, join(resolved.packages, "\n")));
}

// A folder that goes away.
class Scratch {
 public:
  explicit Scratch(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error)
      throw Error(ExitCode::failure,
                  fmt::format("cannot make the folder {}: {}", shown(path_), error.message()));
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

void install(const PythonPackages& packages, const Resolved& resolved, const fs::path& into) {
  if (packages.note)
    packages.note(fmt::format("code.python: installing {} packages for Python {} on {}",
                              resolved.packages.size(), packages.target.version,
                              packages.target.platform.text()));
  const fs::path constraints = into.string() + ".txt";
  write_file_atomically(constraints, join(resolved.constraints, "\n") + "\n", 0600);
  std::vector<std::string> words = pip_words(packages, into);
  words.emplace_back("--constraint");
  words.push_back(constraints.string());
  run_pip(packages, words);
  fs::remove(constraints);
  // Scripts begin with the path of this machine's Python.
  fs::remove_all(into / "bin");
  fs::create_directories(into);  // of an empty list
}

// Without the lines of scripts, which are left out and differ from machine to machine.
std::string clean_record(const fs::path& path) {
  std::string out;
  for (const std::string& line : split(read_file(path, longest_record), '\n')) {
    if (!line.empty() && !line.starts_with("../../bin/")) out += line + "\n";
  }
  return out;
}

// All that is below a folder, but for what Python compiles, which differs from machine to machine.
void list_folder(const fs::path& folder, std::vector<fs::directory_entry>& out) {
  visit_folder(folder, [&](const fs::directory_entry& entry) {
    const fs::file_status status = entry.symlink_status();
    const bool is_folder = fs::is_directory(status) && entry.path().filename() != "__pycache__";
    if (is_folder || fs::is_regular_file(status)) out.push_back(entry);
    if (is_folder) list_folder(entry.path(), out);
  });
}

void add_folder(LayerWriter& writer, const fs::path& folder, const std::string& prefix) {
  std::vector<fs::directory_entry> entries;
  list_folder(folder, entries);
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.path().native() < b.path().native(); });
  for (const fs::directory_entry& entry : entries) {
    const std::string path = prefix + entry.path().native().substr(folder.native().size());
    const fs::file_status status = entry.symlink_status();
    const bool executable = (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
    const TarEntry file{.path = path, .executable = executable};
    if (fs::is_directory(status)) {
      writer.add({.path = path, .kind = TarEntry::Kind::folder});
    } else if (path.ends_with(".dist-info/RECORD")) {
      writer.add(file, clean_record(entry.path()));
    } else {
      writer.add_file(file, entry.path(), entry.file_size());
    }
  }
}

}  // namespace

Resolved parse_pip_report(const std::string& report) {
  const json whole = json_or_null(report);
  const json list = whole.is_object() ? whole.value("install", json()) : json();
  if (!list.is_array())
    throw Error(ExitCode::failure, "code.python: pip gave no report of what it would install");
  std::vector<std::pair<std::string, std::string>> found;
  for (const json& item : list) {
    const std::string name = text_at(item, {"metadata", "name"}),
                      version = text_at(item, {"metadata", "version"});
    std::string digest = text_at(item, {"download_info", "archive_info", "hashes", "sha256"});
    if (digest.empty()) digest = text_at(item, {"download_info", "archive_info", "hash"});
    if (name.empty() || version.empty())
      throw Error(ExitCode::failure, "code.python: pip's report names a package without its version");
    found.emplace_back(name + "==" + version, digest);
  }
  std::sort(found.begin(), found.end());
  Resolved out;
  for (const auto& [pinned, digest] : found) {
    out.packages.push_back(pinned + " " + digest);
    out.constraints.push_back(pinned);
  }
  return out;
}

std::vector<std::string> wheel_platforms(const Platform& platform) {
  const std::string machine = platform.architecture == "amd64"   ? "x86_64"
                              : platform.architecture == "arm64" ? "aarch64"
                                                                 : platform.architecture;
  std::vector<std::string> out;
  constexpr int newest = 28, oldest = 17;  // of glibc 2; 2.17 is that of manylinux2014
  for (int minor = newest; minor >= oldest; --minor)
    out.push_back(fmt::format("manylinux_2_{}_{}", minor, machine));
  out.push_back("manylinux2014_" + machine);
  if (machine == "x86_64") {
    for (const char* older : {"manylinux_2_12_", "manylinux2010_", "manylinux_2_5_", "manylinux1_"})
      out.push_back(older + machine);
  }
  out.push_back("linux_" + machine);
  return out;
}

std::string minor_version(const std::string& version) {
  const std::vector<std::string> parts = split(version, '.');
  const auto is_number = [](const std::string& part) {
    return !part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == part.npos;
  };
  return parts.size() >= 2 && is_number(parts[0]) && is_number(parts[1]) ? parts[0] + "." + parts[1] : "";
}

std::string own_python_version() {
  Command command;
  command.argv = {"python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"};
  const ProcessResult result = run_python(command);
  const std::string version = minor_version(std::string(trim(result.output)));
  if (!result.ok() || version.empty())
    throw Error(ExitCode::failure, "code.python: the python3 of this machine does not say its version");
  return version;
}

Layer python_layer(const PythonPackages& packages, const std::string& prefix) {
  const Resolved resolved = resolve(packages);
  const fs::path file = packages.cache / ("python-" + key_of(resolved, packages.target) + ".tar.gz");
  if (const std::optional<Layer> kept = find_layer(file)) return *kept;
  const Scratch scratch(packages.cache / ("python.tmp-" + hex(random_bytes(4))));
  const fs::path folder = scratch.path() / "packages";
  install(packages, resolved, folder);
  LayerWriter writer(file, packages.go_on);
  for (std::size_t at = prefix.find('/'); at != prefix.npos; at = prefix.find('/', at + 1))
    writer.add({.path = prefix.substr(0, at), .kind = TarEntry::Kind::folder});
  writer.add({.path = prefix, .kind = TarEntry::Kind::folder});
  add_folder(writer, folder, prefix);
  return writer.finish();
}

fs::path python_folder(const PythonPackages& packages) {
  const Resolved resolved = resolve(packages);
  const fs::path folder = packages.cache / ("python-" + key_of(resolved, packages.target));
  std::error_code error;
  if (fs::is_directory(folder, error)) {
    fs::last_write_time(folder, fs::file_time_type::clock::now(), error);  // it is in use: unused_layers()
    return folder;
  }
  const Scratch scratch(packages.cache / ("python.tmp-" + hex(random_bytes(4))));
  install(packages, resolved, scratch.path() / "packages");
  fs::rename(scratch.path() / "packages", folder, error);
  if (error && !fs::is_directory(folder))
    throw Error(ExitCode::failure,
                fmt::format("cannot make the folder {}: {}", shown(folder), error.message()));
  return folder;
}

}  // namespace mlk::image
