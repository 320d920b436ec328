// Tests which programs are in the image of the runtime, and where mlk finds them. Texts stand in for the
// programs, so no libraries are needed.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/image/gzip.h"
#include "cli/image/tar.h"
#include "cli/run/inputs/build.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("run/inputs/runtime_programs");

namespace mlk {
namespace {

namespace fs = std::filesystem;

// The test has its own folders for the programs, its own PATH and its own cache.
struct ProgramsOfTexts {
  TemporaryFolder folder;
  const std::string path_before = std::getenv("PATH");
  const char* const cache_here = std::getenv("XDG_CACHE_HOME");
  const std::string cache_before = cache_here == nullptr ? "" : cache_here;

  ProgramsOfTexts() {
    ::setenv("XDG_CACHE_HOME", (folder.path() / "cache").c_str(), 1);
    ::setenv(
        "PATH",
        (path_before + ":" + (folder.path() / "empty").string() + ":" + (folder.path() / "path").string())
            .c_str(),
        1);
    folder.write("bin/mlk", "#!/bin/sh\n");
  }
  ~ProgramsOfTexts() {
    ::setenv("PATH", path_before.c_str(), 1);
    if (cache_here == nullptr)
      ::unsetenv("XDG_CACHE_HOME");
    else
      ::setenv("XDG_CACHE_HOME", cache_before.c_str(), 1);
  }
  Build build() const { return assemble_runtime(folder.path() / "bin/mlk"); }
  // The content of this file in the layers; "none" if no layer has the file.
  static std::string content(const Build& build, const std::string& path) {
    constexpr std::size_t most = 1 << 20;
    for (const image::Layer& layer : build.composed.own) {
      const std::string tar = image::gunzip(read_file(layer.file, most), most);
      for (const image::TarFile& file : image::read_tar(tar)) {
        if (file.entry.path == path) return std::string(file.content);
      }
    }
    return "none";
  }
};

TEST_CASE("the image of the runtime gets mlk-runtime from the folder of mlk, or else from PATH") {
  const ProgramsOfTexts programs;
  programs.folder.write("path/mlk-runtime", "of PATH");
  CHECK(ProgramsOfTexts::content(programs.build(), "usr/local/bin/mlk-runtime") == "of PATH");
  fs::create_directory(programs.folder.path() / "bin/mlk-runtime");
  CHECK(ProgramsOfTexts::content(programs.build(), "usr/local/bin/mlk-runtime") == "of PATH");
  fs::remove(programs.folder.path() / "bin/mlk-runtime");
  programs.folder.write("bin/mlk-runtime", "beside");
  CHECK(ProgramsOfTexts::content(programs.build(), "usr/local/bin/mlk-runtime") == "beside");
}

TEST_CASE("the image of the runtime holds the plugin for GPUs if the plugin lies beside mlk-runtime") {
  const ProgramsOfTexts programs;
  programs.folder.write("path/mlk-runtime", "of PATH");
  programs.folder.write("bin/libmlk-cuda.so", "of another one");
  CHECK(programs.build().composed.own.size() == 4);
  programs.folder.write("path/libmlk-cuda.so", "plugin");
  const Build build = programs.build();
  CHECK(build.composed.own.size() == 5);
  CHECK(ProgramsOfTexts::content(build, "usr/local/bin/libmlk-cuda.so") == "plugin");
}

TEST_CASE("the image of the runtime has a user `mlk` with the number 65532 and a home folder") {
  const ProgramsOfTexts programs;
  programs.folder.write("bin/mlk-runtime", "beside");
  const Build build = programs.build();
  CHECK(ProgramsOfTexts::content(build, "etc/passwd") ==
        "root:x:0:0:root:/root:/sbin/nologin\nmlk:x:65532:65532:mlk:/tmp:/sbin/nologin\n");
  CHECK(ProgramsOfTexts::content(build, "etc/group") == "root:x:0:\nmlk:x:65532:\n");
  CHECK(ProgramsOfTexts::content(build, "usr/local/bin/mlk") == "#!/bin/sh\n");
  const nlohmann::json config = nlohmann::json::parse(build.composed.configuration).at("config");
  CHECK(config.at("Env") == nlohmann::json{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"});
  CHECK(config.at("User") == "65532");
}

TEST_CASE("the error for a missing program says how to install the program") {
  const ProgramsOfTexts programs;
  try {
    (void)programs.build();
    FAIL("there is no mlk-runtime");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::failure);
    CHECK(error.hint() == "install it, or build it: make build");
  }
}

}  // namespace
}  // namespace mlk
