#include "cli/image/python.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/image/pip_report.h"
#include "cli/image/requirements.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/own_folder.h"
#include "cli/util/text.h"

namespace mlk::image {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_record = 16 << 20, longest_report = 64 << 20;

std::string shown(const fs::path& path) { return printable(path.string()); }

std::string platform_in_words(const PythonTarget& target) {
  return target.platform.text() + (target.libc == Libc::musl ? " with musl" : "");
}

// pip lists all versions in its index, often hundreds, the newest last. mlk shows the last five.
std::string with_few_versions(std::string line) {
  constexpr std::string_view mark = "(from versions: ";
  const std::size_t begin = line.find(mark);
  const std::size_t end = begin == std::string::npos ? begin : line.find(')', begin);
  if (end == std::string::npos) return line;
  const std::size_t first = begin + mark.size();
  std::size_t left_out = end;
  for (int version = 0; version < 5; ++version) {
    left_out = line.rfind(", ", left_out - 1);
    if (left_out == std::string::npos || left_out < first) return line;
  }
  return line.replace(first, left_out - first, "...");
}

// The lines of pip's output that begin with ERROR:, without this prefix.
std::string errors_of(const std::string& output) {
  constexpr std::string_view mark = "ERROR: ";
  constexpr std::size_t longest = 600;
  std::vector<std::string> out;
  for (const std::string& line : split(output, '\n')) {
    if (line.starts_with(mark)) out.push_back(with_few_versions(line.substr(mark.size())));
  }
  return printable(cut(without_secrets(join(out, "; ")), longest));
}

// Throws an error that explains pip's failure to the user.
[[noreturn]] void explain(const PythonPackages& packages, const PipResult& result) {
  const std::string file = shown(packages.requirements);
  const std::string collected = last_collected(result.output);
  const std::string seen = collected.empty() ? "" : fmt::format("; it was looking at {}", collected);
  if (result.would_build)
    throw Error(ExitCode::usage,
                fmt::format("code.python: pip would build a package that {} asks for, and so execute it, on "
                            "this machine{}",
                            file, seen),
                "name a wheel of it instead, or take an image that has the package");
  if (!result.refused_marker.empty())
    throw Error(
        ExitCode::usage,
        fmt::format("code.python: mlk cannot tell whether the image meets the condition of a package: {}{}",
                    printable(result.refused_marker), seen),
        "say which Python it has, with three numbers: code: {python_version: \"" + packages.target.version +
            ".4\"}");
  if (result.error.find("No module named pip") != std::string::npos ||
      result.error.find("No module named 'pip'") != std::string::npos)
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
  throw Error(no_wheel ? ExitCode::usage : ExitCode::failure,
              fmt::format("code.python: pip finds no wheels for Python {} on {} of what {} asks for: {}",
                          packages.target.version, platform_in_words(packages.target), file,
                          said.empty() ? fmt::format("exit code {}", result.exit_code) : said),
              no_wheel
                  ? (packages.target.libc == Libc::musl
                         ? "many packages have wheels for glibc alone: take an image of Debian's instead "
                           "of Alpine's, or one that has the package"
                         : "name a version that has a wheel, or take an image that has the package")
                  : "see all of what pip says: python3 -m pip install --dry-run -r " +
                        shell_word(packages.requirements.string()));
}

PipResult call_pip(const PythonPackages& packages, const PipSettings& settings, const fs::path& folder,
                   std::vector<std::string> words) {
  PipResult result =
      run_pip({.folder = folder, .words = std::move(words), .settings = settings, .go_on = packages.go_on},
              packages.target);
  if (result.exit_code != 0) explain(packages, result);
  return result;
}

std::vector<std::string> pip_words(const PythonTarget& target, const fs::path& into) {
  constexpr char oldest_without_m[] = "3.8";
  std::vector<std::string> out{"install", "--only-binary=:all:", "--no-compile", "--progress-bar", "off"};
  const auto add = [&](const std::string& option, const std::string& value) {
    out.insert(out.end(), {option, value});
  };
  add("--target", into.string());
  add("--implementation", "cp");
  add("--python-version", target.full_version.empty() ? target.version : target.full_version);
  if (target.markers.empty()) {  // otherwise pip itself knows the wheels for this machine
    std::string abi = "cp" + target.version;
    std::erase(abi, '.');
    const bool has_m = target.version.size() == 3 && target.version < oldest_without_m;
    add("--abi", has_m ? abi + "m" : abi);
    for (const std::string& platform : wheel_platforms(target.platform, target.libc))
      add("--platform", platform);
  }
  return out;
}

struct Resolved {
  PipSettings settings;
  Requirements requirements;
  std::vector<ResolvedPackage> packages;
};

// `folder`: an empty folder.
Resolved resolve(const PythonPackages& packages, const fs::path& folder) {
  Resolved out;
  out.requirements = read_requirements(
      fs::absolute(packages.requirements).lexically_normal(),
      [](const fs::path& path) { return read_file(path, longest_requirements); }, own_variable);
  std::vector<std::string> words = pip_words(packages.target, folder / "none");
  const fs::path wanted = folder / "requirements.txt", constraints = folder / "constraints.txt",
                 report = folder / "report.json";
  write_file_atomically(wanted, out.requirements.wanted, 0600);
  words.insert(words.end(),
               {"-r", wanted.string(), "--dry-run", "--ignore-installed", "--report", report.string()});
  if (!out.requirements.constraints.empty()) {
    write_file_atomically(constraints, out.requirements.constraints, 0600);
    words.insert(words.end(), {"--constraint", constraints.string()});
  }
  out.settings = settings_of_user(folder, packages.go_on);
  (void)call_pip(packages, out.settings, folder, words);
  std::error_code error;
  out.packages = parse_pip_report(fs::is_regular_file(report, error) ? read_file(report, longest_report) : "",
                                  marker_environment(packages.target));
  return out;
}

std::string key_of(const Resolved& resolved, const PythonTarget& target) {
  std::string text = fmt::format("2 {} {}", platform_in_words(target), target.version);
  for (const ResolvedPackage& one : resolved.packages)
    text += fmt::format("\n{}=={} {}", one.name, one.version, one.digest);
  return sha256_hex(text);
}

// Makes a new folder in the cache.
fs::path make_scratch(const fs::path& cache) {
  fs::path out = cache / ("python.tmp-" + hex(random_bytes(4)));
  make_cache_folder(cache);
  make_cache_folder(out);
  return out;
}

// Writes the commands (console scripts) that the packages declare. These scripts contain no path of a Python,
// so their text is the same on every machine.
void write_scripts(const fs::path& packages) {
  std::vector<fs::path> entry_points;
  visit_folder(packages, [&](const fs::directory_entry& entry) {
    const fs::path file = entry.path() / "entry_points.txt";
    if (entry.path().extension() == ".dist-info" && fs::is_regular_file(file)) entry_points.push_back(file);
  });
  std::sort(entry_points.begin(), entry_points.end());
  for (const fs::path& file : entry_points) {
    for (const auto& [name, text] : entry_scripts(read_file(file, longest_record))) {
      fs::create_directories(packages / scripts_folder);
      write_file_atomically(packages / scripts_folder / name, text, 0755);
    }
  }
}

void install(const PythonPackages& packages, const Resolved& resolved, const fs::path& scratch,
             const fs::path& into) {
  if (packages.note)
    packages.note(fmt::format("code.python: installing {} packages for Python {} on {}",
                              resolved.packages.size(), packages.target.version,
                              platform_in_words(packages.target)));
  fs::create_directories(into);
  if (resolved.packages.empty()) return;
  const fs::path list = scratch / "pinned.txt";
  write_file_atomically(
      list, resolved.requirements.options + pinned(resolved.packages, resolved.requirements.urls), 0600);
  std::vector<std::string> words = pip_words(packages.target, into);
  words.insert(words.end(), {"--no-deps", "-r", list.string()});
  (void)call_pip(packages, resolved.settings, scratch, words);
  write_scripts(into);
}

// In this file, pip stores the URL or path from which a package comes. The layer does not contain the file,
// since a URL may hold a token, and paths differ from machine to machine.
constexpr char origin_file[] = ".dist-info/direct_url.json";

// The text of a RECORD without the line for origin_file, and without the lines for scripts, because mlk
// writes the scripts itself.
std::string clean_record(const fs::path& path) {
  std::string out;
  for (const std::string& line : split(read_file(path, longest_record), '\n')) {
    const bool is_origin = line.substr(0, line.find(',')).ends_with(origin_file);
    if (!line.empty() && !is_origin && !line.starts_with("../../bin/")) out += line + "\n";
  }
  return out;
}

// Lists the files and folders below a folder, but skips each __pycache__, because compiled files differ from
// machine to machine.
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
    if (path.ends_with(origin_file)) continue;
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

std::vector<std::string> wheel_platforms(const Platform& platform, Libc libc) {
  const std::string machine = machine_name(platform.architecture);
  if (libc == Libc::musl) return {"musllinux_1_2_" + machine, "musllinux_1_1_" + machine, "linux_" + machine};
  std::vector<std::string> out;
  constexpr int newest = 28, oldest = 17;  // minor versions of glibc 2; manylinux2014 is 2.17
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

Layer python_layer(const PythonPackages& packages, const std::string& prefix) {
  const FolderToRemove scratch(make_scratch(packages.cache));
  const Resolved resolved = resolve(packages, scratch.path());
  const fs::path file = packages.cache / ("python-" + key_of(resolved, packages.target) + ".tar.gz");
  if (const std::optional<Layer> kept = find_layer(file)) return *kept;
  const fs::path folder = scratch.path() / "packages";
  install(packages, resolved, scratch.path(), folder);
  LayerWriter writer(file, packages.go_on);
  for (std::size_t at = prefix.find('/'); at != prefix.npos; at = prefix.find('/', at + 1))
    writer.add({.path = prefix.substr(0, at), .kind = TarEntry::Kind::folder});
  writer.add({.path = prefix, .kind = TarEntry::Kind::folder});
  add_folder(writer, folder, prefix);
  return writer.finish();
}

fs::path python_folder(const PythonPackages& packages) {
  const FolderToRemove scratch(make_scratch(packages.cache));
  const Resolved resolved = resolve(packages, scratch.path());
  const fs::path folder = packages.cache / ("python-" + key_of(resolved, packages.target));
  std::error_code error;
  if (is_own(folder)) {
    fs::last_write_time(folder, fs::file_time_type::clock::now(), error);  // for unused_layers()
    return folder;
  }
  install(packages, resolved, scratch.path(), scratch.path() / "packages");
  fs::permissions(scratch.path() / "packages", fs::perms::owner_all, error);
  fs::remove_all(folder, error);  // it may exist, but is_own() refused it
  fs::rename(scratch.path() / "packages", folder, error);
  if (error && !fs::is_directory(folder))
    throw Error(ExitCode::failure,
                fmt::format("cannot make the folder {}: {}", shown(folder), error.message()));
  return folder;
}

}  // namespace mlk::image
