// Tests the image of the runtime, built with programs of this machine in place of mlk's own programs.
#include <map>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/image/gzip.h"
#include "cli/image/tar.h"
#include "cli/run/inputs/build.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("run/inputs/runtime_image");

namespace mlk {
namespace {

namespace fs = std::filesystem;
using image::TarEntry;

constexpr std::size_t large = 64 << 20;

// Two programs that need libraries. The cache is in the same folder.
struct Installed {
  TemporaryFolder folder;
  std::string cache_before = std::getenv("XDG_CACHE_HOME") == nullptr ? "" : std::getenv("XDG_CACHE_HOME");

  Installed() {
    ::setenv("XDG_CACHE_HOME", (folder.path() / "cache").c_str(), 1);
    fs::create_directory(folder.path() / "bin");
    for (const char* name : {"mlk", "mlk-runtime"}) {
      fs::copy_file("/bin/ls", program(name));
      fs::permissions(program(name), fs::perms::owner_read);  // as a build may set them
    }
  }
  ~Installed() {
    if (cache_before.empty())
      ::unsetenv("XDG_CACHE_HOME");
    else
      ::setenv("XDG_CACHE_HOME", cache_before.c_str(), 1);
  }
  fs::path program(const char* name) const { return folder.path() / "bin" / name; }
};

// The kind of each entry of the layers: "x" is a file that can be executed.
std::map<std::string, std::string> entries_of(const Build& build) {
  std::map<std::string, std::string> out;
  for (const image::Layer& layer : build.composed.own) {
    const std::string tar = image::gunzip(read_file(layer.file, large), large);
    for (const image::TarFile& file : image::read_tar(tar)) {
      out[file.entry.path] = file.entry.kind == TarEntry::Kind::folder ? "folder"
                             : file.entry.executable                   ? "x"
                                                                       : "file";
    }
  }
  return out;
}

TEST_CASE("the image of the runtime holds the programs and their libraries") {
  const Installed installed;
  const Build build = assemble_runtime(installed.program("mlk"));
  CHECK_FALSE(build.base);
  CHECK(build.composed.own.size() == 4);  // the system, the libraries, and a layer for each program
  const std::map<std::string, std::string> entries = entries_of(build);
  for (const char* program : {"usr/local/bin/mlk", "usr/local/bin/mlk-runtime"}) {
    REQUIRE(entries.contains(program));
    CHECK(entries.at(program) == "x");
  }
  bool has_loader = false;
  for (const auto& [path, entry] : entries) {
    const bool is_library = path.find(".so") != path.npos;
    if (is_library) CHECK_MESSAGE(entry == "x", path);
    has_loader = has_loader || path.find("ld-linux") != path.npos;
    for (std::size_t at = path.find('/'); at != path.npos; at = path.find('/', at + 1))
      CHECK_MESSAGE(entries.contains(path.substr(0, at)), path);
  }
  CHECK(has_loader);
  REQUIRE(entries.contains("tmp"));
  CHECK(entries.at("tmp") == "folder");
  const std::string system = image::gunzip(read_file(build.composed.own.front().file, large), large);
  CHECK(system.find("0001777") != system.npos);  // the mode of the sticky folder, in its tar header
  for (const char* folder : {"dev", "etc", "proc", "root", "sys", "var/run"}) {
    REQUIRE_MESSAGE(entries.contains(folder), folder);
    CHECK(entries.at(folder) == "folder");
  }
  for (const char* file : {"etc/passwd", "etc/group"}) {
    REQUIRE(entries.contains(file));
    CHECK(entries.at(file) == "file");
  }
  const nlohmann::json configuration = nlohmann::json::parse(build.composed.configuration);
  CHECK(configuration.at("config").at("User") == "65532");
  CHECK(configuration.at("config").at("Entrypoint") == nlohmann::json{"mlk-runtime"});
  CHECK(assemble_runtime(installed.program("mlk")).composed.digest == build.composed.digest);
}

TEST_CASE("assemble_runtime() names a program that it does not find") {
  const Installed installed;
  fs::remove(installed.program("mlk-runtime"));
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", installed.folder.path().c_str(), 1);
  std::string said;
  try {
    (void)assemble_runtime(installed.program("mlk"));
  } catch (const Error& error) {
    said = error.what();
  }
  ::setenv("PATH", path.c_str(), 1);
  CHECK(said == "there is no mlk-runtime beside " + installed.program("mlk").string() + " nor in PATH");
  CHECK_FALSE(fs::exists(installed.folder.path() / "cache" / "mlk" / "layers"));
}

}  // namespace
}  // namespace mlk
