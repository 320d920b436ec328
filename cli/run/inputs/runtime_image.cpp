// Builds the image of the runtime from the files of this machine.

#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "cli/run/inputs/build.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/process.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;
using image::LayerWriter;
using image::TarEntry;

constexpr char programs_folder[] = "usr/local/bin";
constexpr unsigned user = 65532;  // "nonroot", the user of the pods of `train:`

// The paths at which the loader finds the shared objects of a program, and the path of the loader itself.
std::vector<std::string> libraries_of(const fs::path& program) {
  Command command;
  command.argv = {"ldd", program.string()};
  command.env = {{"LC_ALL", "C"}};
  const ProcessResult result = run_process(command);
  std::vector<std::string> out;
  if ((result.output + result.error).find("not a dynamic executable") != std::string::npos) return out;
  for (const std::string& line : split(result.output, '\n')) {
    // ldd prints "libz.so.1 => /lib/libz.so.1 (0x...)", "/lib64/ld-linux-x86-64.so.2 (0x...)",
    // "libx.so => not found"
    const std::string_view text = trim(line);
    if (text.find("=> not found") != text.npos)
      throw Error(ExitCode::failure,
                  fmt::format("{}: a library of it is missing: {}", program.string(), text));
    const std::size_t slash = text.find('/'), end = text.find(" (0x");
    if (slash != text.npos && end != text.npos && slash < end)
      out.emplace_back(text.substr(slash, end - slash));
  }
  if (!result.ok() || out.empty())
    throw Error(ExitCode::failure, fmt::format("ldd does not tell the libraries of {}", program.string()));
  return out;
}

// A layer of files, with the folders above them.
class Files {
 public:
  void folder(const std::string& path, unsigned mode = 0) {
    for (std::size_t at = path.find('/'); at != path.npos; at = path.find('/', at + 1))
      entries_.insert(
          {path.substr(0, at), {{.path = path.substr(0, at), .kind = TarEntry::Kind::folder}, {}, {}}});
    entries_[path] = {{.path = path, .kind = TarEntry::Kind::folder, .mode = mode}, {}, {}};
  }
  void text(const std::string& path, std::string content) {
    above(path);
    entries_[path] = {{.path = path}, std::move(content), {}};
  }
  // Adds a file. Follows links.
  void file(const std::string& path, const fs::path& from) {
    above(path);
    std::error_code error;
    const fs::path real = fs::canonical(from, error);
    if (error)
      throw Error(ExitCode::failure, fmt::format("{}: {}", printable(from.string()), error.message()));
    entries_[path] = {{.path = path, .executable = true}, {}, real};
  }
  image::Layer write(const std::string& name) const {
    const fs::path cache = image::layer_cache();
    LayerWriter writer(cache / name);
    for (const auto& [path, file] : entries_) {
      if (file.from.empty()) {
        writer.add(file.entry, file.content);
      } else {
        writer.add_file(file.entry, file.from, fs::file_size(file.from));
      }
    }
    // The file is named by its content, so that the cache holds the layer once.
    return writer.finish(
        [&](const std::string& digits) { return cache / fmt::format("{}-{}.tar.gz", name, digits); });
  }

 private:
  struct File {
    TarEntry entry;
    std::string content;
    fs::path from;
  };
  void above(const std::string& path) {
    const std::string folder_of = fs::path(path).parent_path().string();
    if (!folder_of.empty() && !entries_.contains(folder_of)) folder(folder_of);
  }
  std::map<std::string, File> entries_;
};

// Finds the file of a program beside the file `mlk`, or else in PATH.
fs::path find_program(const fs::path& mlk, const std::string& name) {
  std::error_code error;
  if (const fs::path beside = mlk.parent_path() / name; fs::is_regular_file(beside, error)) return beside;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "" : path, ':')) {
    if (const fs::path file = fs::path(folder) / name; fs::is_regular_file(file, error)) return file;
  }
  throw Error(ExitCode::failure, fmt::format("there is no {} beside {} nor in PATH", name, mlk.string()),
              "install it, or build it: make build");
}

}  // namespace

Build assemble_runtime(const fs::path& mlk) {
  Files system;
  for (const char* folder : {"dev", "etc", "proc", "root", "sys", "var/run"}) system.folder(folder);
  constexpr unsigned for_all_sticky = 01777;
  system.folder("tmp", for_all_sticky);
  system.text(
      "etc/passwd",
      fmt::format("root:x:0:0:root:/root:/sbin/nologin\nmlk:x:{0}:{0}:mlk:/tmp:/sbin/nologin\n", user));
  system.text("etc/group", fmt::format("root:x:0:\nmlk:x:{}:\n", user));
  std::map<std::string, fs::path> programs{{"mlk", mlk}, {"mlk-runtime", find_program(mlk, "mlk-runtime")}};
  std::error_code error;
  // The plugin for GPUs opens NVIDIA's libraries itself, where a node has them.
  if (const fs::path plugin = programs["mlk-runtime"].parent_path() / "libmlk-cuda.so";
      fs::is_regular_file(plugin, error))
    programs["libmlk-cuda.so"] = plugin;
  Files libraries;
  for (const auto& [name, program] : programs) {
    for (const std::string& library : libraries_of(program)) libraries.file(library.substr(1), library);
  }
  std::vector<image::Addition> additions{{system.write("system"), "system"},
                                         {libraries.write("libraries"), "libraries"}};
  for (const auto& [name, program] : programs) {
    Files own;
    own.file(fmt::format("{}/{}", programs_folder, name), program);
    additions.push_back({own.write(name), name});
  }
  const image::Settings settings{.platform = registry::own_platform(),
                                 .env = {{"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"HOME", "/tmp"}},
                                 .user = std::to_string(user),
                                 .entrypoint = {"mlk-runtime"}};
  return {.base = std::nullopt, .composed = image::compose(std::nullopt, additions, settings)};
}

}  // namespace mlk
