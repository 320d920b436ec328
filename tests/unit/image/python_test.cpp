// Checks how pip installs packages of Python, and the layer or folder with these packages.
#include "cli/image/python.h"

#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/image/gzip.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/image/played_pip.h"

TEST_SUITE_BEGIN("image/python");

namespace {

namespace fs = std::filesystem;
using mlk::image::Layer;
using mlk::image::Libc;
using mlk::image::PythonPackages;
using mlk::image::samples::report_of;
using mlk::image::samples::report_with;
using Lines = std::vector<std::string>;

constexpr std::size_t enough = 16 << 20;

std::vector<mlk::image::TarFile> files_in(const std::string& tar) { return mlk::image::read_tar(tar); }

}  // namespace

TEST_CASE("wheel_platforms() begins with the newest glibc or musl, and ends with linux") {
  const Lines amd64 = mlk::image::wheel_platforms({"linux", "amd64", ""}, Libc::glibc);
  CHECK(amd64.front() == "manylinux_2_28_x86_64");
  for (const char* name :
       {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64", "linux_x86_64"})
    CHECK(std::count(amd64.begin(), amd64.end(), name) == 1);
  const Lines arm64 = mlk::image::wheel_platforms({"linux", "arm64", "v8"}, Libc::glibc);
  CHECK(arm64.back() == "linux_aarch64");
  CHECK(std::count(arm64.begin(), arm64.end(), "manylinux1_aarch64") == 0);
  CHECK(mlk::image::wheel_platforms({"linux", "ppc64le", ""}, Libc::glibc).back() == "linux_ppc64le");
  CHECK(mlk::image::wheel_platforms({"linux", "arm64", ""}, Libc::musl) ==
        Lines{"musllinux_1_2_aarch64", "musllinux_1_1_aarch64", "linux_aarch64"});
}

TEST_CASE("python_layer() packs the packages and their scripts into the same layer on every machine") {
  std::string digest;
  for (const char* name : {"one", "other"}) {
    const Machine machine(playing_pip, name);
    const Layer layer = mlk::image::python_layer(machine.packages(), "mlk/python");
    CHECK((digest.empty() || digest == layer.blob.digest));
    digest = layer.blob.digest;
    const std::string tar = mlk::image::gunzip(mlk::read_file(layer.file, enough), enough);
    Lines paths;
    for (const auto& file : files_in(tar)) {
      paths.push_back(file.entry.path);
      if (file.entry.path == "mlk/python/six/tool" || file.entry.path == "mlk/python/bin/six")
        CHECK(file.entry.executable);
      if (file.entry.path.ends_with("RECORD"))
        CHECK(file.content == "six/__init__.py,sha256=a,6\nsix-1.16.0.dist-info/RECORD,,\n");
    }
    CHECK(paths == Lines{"mlk", "mlk/python", "mlk/python/bin", "mlk/python/bin/six", "mlk/python/six",
                         "mlk/python/six-1.16.0.dist-info", "mlk/python/six-1.16.0.dist-info/RECORD",
                         "mlk/python/six-1.16.0.dist-info/entry_points.txt", "mlk/python/six/__init__.py",
                         "mlk/python/six/tool"});
    CHECK(tar.find("/opt/") == tar.npos);
    const auto left = fs::directory_iterator(machine.packages().cache);
    CHECK(std::distance(fs::begin(left), fs::end(left)) == 2);  // the layer and its note
  }
}

TEST_CASE("python_layer() lets pip install the resolved packages if no cached layer has them") {
  const Machine machine;
  Lines notes;
  PythonPackages packages = machine.packages();
  packages.note = [&](const std::string& note) { notes.push_back(note); };
  const Layer layer = mlk::image::python_layer(packages, "mlk/python");
  CHECK(mlk::image::python_layer(packages, "mlk/python").file == layer.file);
  CHECK(machine.installations() == 1);
  CHECK(notes == Lines{"code.python: installing 1 packages for Python 3.11 on linux/amd64"});
  const std::string calls = machine.calls();
  for (const char* words : {"--only-binary=:all:", "--implementation cp --python-version 3.11 --abi cp311",
                            "--platform manylinux_2_17_x86_64", "--no-deps -r ", "--report "})
    CHECK_MESSAGE(calls.find(words) != calls.npos, std::string(words));
  CHECK(mlk::read_file(machine.folder().path() / "pinned", enough) == "six==1.16.0 --hash=sha256:aa\n");
  machine.report("six", "1.16.0", "bb");  // another build of the same version
  CHECK(mlk::image::python_layer(packages, "mlk/python").file != layer.file);
  machine.report("six", "1.16.0", "aa", "3.12");
  packages.target.version = "3.12";
  (void)mlk::image::python_layer(packages, "mlk/python");
  CHECK(machine.installations() == 3);
}

TEST_CASE("python_layer() gives pip the platform names of musl if the image has musl") {
  const Machine machine;
  PythonPackages packages = machine.packages();
  const Layer layer = mlk::image::python_layer(packages, "mlk/python");
  packages.target.libc = Libc::musl;
  machine.folder().write("calls", "");
  CHECK(mlk::image::python_layer(packages, "mlk/python").file != layer.file);
  CHECK(machine.calls().find("--platform musllinux_1_2_x86_64") != std::string::npos);
  CHECK(machine.calls().find("manylinux") == std::string::npos);
}

TEST_CASE("pip gets no PYTHONPATH, and only those settings of the user that name sources of packages") {
  const Machine machine;
  machine.folder().write("code/trap.py", "");
  machine.folder().write("settings", "global.index-url='one'\nglobal.user='true'\ninstall.prefix='/x'\n");
  const EnvironmentVariable user("PIP_USER", "1"), prefix("PIP_PREFIX", "/nowhere"),
      target("PIP_TARGET", "/nowhere"), only("PIP_REQUIRE_VIRTUALENV", "1"), verbose("PIP_VERBOSE", "2"),
      path("PYTHONPATH", "/nowhere"), extra("PIP_EXTRA_INDEX_URL", "https://me:word@two/");
  (void)mlk::image::python_folder(machine.packages());
  const std::string variables = "\n" + mlk::read_file(machine.folder().path() / "variables", enough);
  for (const char* there : {"\nPIP_INDEX_URL=one\n", "\nPIP_EXTRA_INDEX_URL=https://me:word@two/\n",
                            "\nPIP_CONFIG_FILE=/dev/null\n"})
    CHECK_MESSAGE(variables.find(there) != variables.npos, std::string(there));
  for (const char* gone :
       {"PIP_USER", "PIP_PREFIX", "PIP_TARGET", "PIP_REQUIRE", "PIP_VERBOSE", "PYTHONPATH"})
    CHECK_MESSAGE(variables.find(gone) == variables.npos, std::string(gone));
  CHECK(machine.calls().find("word") == std::string::npos);
}

TEST_CASE("python_layer() does not start pip if a requirement would run code of a package") {
  const Machine machine;
  for (const char* line : {"-e .", "./own", "own @ git+https://x/own.git", "--no-binary=six", "-e ../own"}) {
    machine.folder().write("code/requirements.txt", std::string("six\n") + line + "\n");
    CHECK_THROWS_WITH_AS((void)mlk::image::python_layer(machine.packages(), "mlk/python"),
                         doctest::Contains("code.python: requirements.txt:2: '"), mlk::Error);
  }
  CHECK_FALSE(fs::exists(machine.folder().path() / "calls"));
}

TEST_CASE("python_folder() makes a folder of packages once, and each call marks the folder as used") {
  const Machine machine;
  const fs::path folder = mlk::image::python_folder(machine.packages());
  CHECK(fs::exists(folder / "six/__init__.py"));
  CHECK(mlk::read_file(folder / "bin/six", enough).starts_with("#!/usr/bin/env python3\n"));
  fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(48));
  CHECK(mlk::image::python_folder(machine.packages()) == folder);
  CHECK(machine.installations() == 1);
  CHECK(mlk::image::unused_layers(machine.packages().cache, std::chrono::hours(24)).empty());
}

TEST_CASE("python_folder() replaces a changed file if other users could write to the folder") {
  const Machine machine;
  const fs::path folder = mlk::image::python_folder(machine.packages());
  std::ofstream(folder / "six/__init__.py") << "planted";
  fs::permissions(folder, fs::perms::all);
  CHECK(mlk::image::python_folder(machine.packages()) == folder);
  CHECK(machine.installations() == 2);
  CHECK(mlk::read_file(folder / "six/__init__.py", enough) != "planted");
  CHECK((fs::status(folder).permissions() & fs::perms::others_write) == fs::perms::none);
}

TEST_CASE("python_folder() returns an empty folder for an empty list of packages") {
  const Machine machine;
  machine.folder().write("report", report_with(""));
  CHECK(fs::is_empty(mlk::image::python_folder(machine.packages())));
}

TEST_CASE("python_layer() and python_folder() leave nothing in the cache if pip fails") {
  const Machine machine(
      "case \"$*\" in *pip._internal.configuration*) exit;; *--dry-run*) while [ \"$1\" != --report ]; do "
      "shift; "
      "done; cat "
      "\"$PLAYED/report\" > \"$2\";; "
      "*) echo 'ERROR: no space' >&2; exit 1;; esac");
  CHECK_THROWS_WITH_AS((void)mlk::image::python_layer(machine.packages(), "mlk/python"),
                       doctest::Contains("no space"), mlk::Error);
  CHECK_THROWS_AS((void)mlk::image::python_folder(machine.packages()), mlk::Error);
  CHECK(fs::is_empty(machine.packages().cache));
}

TEST_CASE("wheel_platforms() lists every platform name for glibc, the newest first") {
  const auto with = [](const std::string& machine, bool has_older) {
    Lines out;
    for (int minor = 28; minor >= 17; --minor)
      out.push_back("manylinux_2_" + std::to_string(minor) + "_" + machine);
    out.push_back("manylinux2014_" + machine);
    if (has_older)
      for (const char* older : {"manylinux_2_12_", "manylinux2010_", "manylinux_2_5_", "manylinux1_"})
        out.push_back(older + machine);
    out.push_back("linux_" + machine);
    return out;
  };
  CHECK(mlk::image::wheel_platforms({"linux", "amd64", ""}, Libc::glibc) == with("x86_64", true));
  CHECK(mlk::image::wheel_platforms({"linux", "arm64", ""}, Libc::glibc) == with("aarch64", false));
}

TEST_CASE("pip gets the image's Python version as far as it is known, and the ABI of this version") {
  struct Row {
    const char *version, *full, *words;
  };
  for (const Row& row : {Row{"3.7", "", "--python-version 3.7 --abi cp37m "},
                         Row{"3.6", "3.6.1", "--python-version 3.6.1 --abi cp36m "},
                         Row{"3.8", "", "--python-version 3.8 --abi cp38 "},
                         Row{"3.9", "3.9.18", "--python-version 3.9.18 --abi cp39 "},
                         Row{"3.10", "", "--python-version 3.10 --abi cp310 "},
                         Row{"3.11", "3.11.4", "--python-version 3.11.4 --abi cp311 "}}) {
    const Machine machine;
    PythonPackages packages = machine.packages();
    packages.target.version = row.version;
    packages.target.full_version = row.full;
    machine.folder().write("report", "");
    CHECK_THROWS_AS((void)mlk::image::python_layer(packages, "mlk/python"), mlk::Error);
    CHECK_MESSAGE(machine.calls().find(row.words) != std::string::npos, machine.calls());
  }
}

TEST_CASE("pip gets no platform and no ABI if the packages are to run on this machine") {
  const Machine machine;
  PythonPackages packages = machine.packages();
  packages.target.markers = {{"os_name", "posix"}};
  (void)mlk::image::python_folder(packages);
  CHECK(machine.installations() == 1);
  const std::string calls = machine.calls();
  for (const char* unknown : {"--abi", "--platform"})
    CHECK_MESSAGE(calls.find(unknown) == calls.npos, std::string(unknown));
  for (const char* after : {" -r ", " --no-deps "})
    CHECK(calls.find(std::string("--implementation cp --python-version 3.11") + after) != calls.npos);
  CHECK(
      calls.starts_with("--disable-pip-version-check --no-input install --only-binary=:all: "
                        "--no-compile --progress-bar off --target "));
}

TEST_CASE("pip gets the constraints and the package sources that the requirements name") {
  const Machine machine;
  (void)mlk::image::python_layer(machine.packages(), "mlk/python");
  CHECK(machine.calls().find("--constraint") == std::string::npos);
  CHECK(machine.calls().find(" --dry-run --ignore-installed --report ") != std::string::npos);
  CHECK(mlk::read_file(machine.folder().path() / "wanted", enough) == "six\n");
  machine.folder().write("code/requirements.txt", "-c limits.txt\n-i one\nsix\n");
  machine.folder().write("code/limits.txt", "six<2\n");
  machine.report("six", "1.16.0", "cc");
  machine.folder().write("calls", "");
  (void)mlk::image::python_layer(machine.packages(), "mlk/python");
  CHECK(machine.calls().find(" --constraint ") != std::string::npos);
  CHECK(mlk::read_file(machine.folder().path() / "wanted", enough) == "--index-url=one\nsix\n");
  CHECK(mlk::read_file(machine.folder().path() / "pinned", enough) ==
        "--index-url=one\nsix==1.16.0 --hash=sha256:cc\n");
}

TEST_CASE("python_layer() makes another layer if a package, its version or the target platform differs") {
  const Machine machine;
  PythonPackages packages = machine.packages();
  std::vector<fs::path> files{mlk::image::python_layer(packages, "mlk/python").file};
  machine.report("seven", "1.16.0", "aa");
  files.push_back(mlk::image::python_layer(packages, "mlk/python").file);
  machine.report("six", "1.16.1", "aa");
  files.push_back(mlk::image::python_layer(packages, "mlk/python").file);
  packages.target.platform.variant = "v3";
  files.push_back(mlk::image::python_layer(packages, "mlk/python").file);
  std::sort(files.begin(), files.end());
  CHECK(std::unique(files.begin(), files.end()) == files.end());
  CHECK(machine.installations() == 4);
}

TEST_CASE("python_layer() reads entry points, and changes RECORD, only in folders named *.dist-info") {
  const Machine machine(playing_pip + R"(
mkdir -p "$2/own.egg-info" "$2/own"
printf '[console_scripts]\nown = own:main\n' > "$2/own.egg-info/entry_points.txt"
printf '../../bin/kept\n' > "$2/own/RECORD"
)");
  const Layer layer = mlk::image::python_layer(machine.packages(), "a/b/c");
  Lines paths;
  const std::string tar = mlk::image::gunzip(mlk::read_file(layer.file, enough), enough);
  for (const auto& file : files_in(tar)) {
    paths.push_back(file.entry.path);
    if (file.entry.path == "a/b/c/own/RECORD") CHECK(file.content == "../../bin/kept\n");
    if (file.entry.path == "a/b/c/six/__init__.py") CHECK_FALSE(file.entry.executable);
  }
  CHECK(Lines(paths.begin(), paths.begin() + 5) == Lines{"a", "a/b", "a/b/c", "a/b/c/bin", "a/b/c/bin/six"});
  CHECK(std::count(paths.begin(), paths.end(), "a/b/c/bin/own") == 0);
}

TEST_CASE("the layer of python_layer() holds no URL of a package, since a URL may hold a token") {
  const Machine machine(playing_pip + R"(
echo '{"url":"https://x/six-1.16.0.whl?token"}' > "$2/six-1.16.0.dist-info/direct_url.json"
echo six-1.16.0.dist-info/direct_url.json,sha256=b,9 >> "$2/six-1.16.0.dist-info/RECORD"
)");
  const Layer layer = mlk::image::python_layer(machine.packages(), "mlk/python");
  const std::string tar = mlk::image::gunzip(mlk::read_file(layer.file, enough), enough);
  CHECK(tar.find("token") == std::string::npos);
  CHECK(tar.find("direct_url") == std::string::npos);
  CHECK(tar.find("six-1.16.0.dist-info/RECORD,,\n") != std::string::npos);
}

TEST_CASE(
    "python_layer() uses the pip settings of the file that PIP_CONFIG_FILE names, and none if it names "
    "/dev/null") {
  const Machine machine("case \"$*\" in *pip._internal.configuration*) env > \"$PLAYED/listing\";; esac\n" +
                        playing_pip);
  machine.folder().write("settings", "global.index-url='one'\n");
  const auto variables = [&] { return "\n" + mlk::read_file(machine.folder().path() / "variables", enough); };
  {
    const EnvironmentVariable named("PIP_CONFIG_FILE", "own.conf"), user("PIP_USER", "1"),
        temporary("TMPDIR", fs::temp_directory_path().string());
    (void)mlk::image::python_layer(machine.packages(), "mlk/python");
    const std::string listing = "\n" + mlk::read_file(machine.folder().path() / "listing", enough);
    CHECK(listing.find("\nPIP_CONFIG_FILE=" + (fs::current_path() / "own.conf").string() + "\n") !=
          std::string::npos);
    CHECK(listing.find("PIP_USER") == std::string::npos);
    CHECK(variables().find("\nPIP_INDEX_URL=one\n") != std::string::npos);
    CHECK(variables().find("\nTMPDIR=" + (machine.packages().cache / "python.tmp-").string()) !=
          std::string::npos);
    CHECK(variables().find("\nPLAYED=") != std::string::npos);
  }
  fs::remove(machine.folder().path() / "listing");
  machine.report("six", "1.16.0", "bb");
  const EnvironmentVariable none("PIP_CONFIG_FILE", "/dev/null");
  (void)mlk::image::python_layer(machine.packages(), "mlk/python");
  CHECK_FALSE(fs::exists(machine.folder().path() / "listing"));
  CHECK(variables().find("PIP_INDEX_URL") == std::string::npos);
}

TEST_CASE("the program that starts pip gets the known marker values and the list of unknown markers") {
  const Machine machine;
  (void)mlk::image::python_layer(machine.packages(), "mlk/python");
  const nlohmann::json told =
      nlohmann::json::parse(mlk::read_file(machine.folder().path() / "input", enough));
  CHECK(told["environment"]["python_version"] == "3.11");
  CHECK(told["environment"].size() == 11);
  CHECK(told["unknown"]["python_full_version"] ==
        nlohmann::json::array({"3.11.", nlohmann::json::array({"3.11.0", "3.11.99"})}));
  CHECK(told["unknown"].size() == 4);
  CHECK(told["refusal"].get<std::string>().ends_with("/refusal.json"));
}

TEST_CASE("if other users could write to the folder, python_folder() makes it again, for its owner only") {
  const Machine machine;
  const fs::path folder = mlk::image::python_folder(machine.packages());
  CHECK(fs::status(folder).permissions() == fs::perms::owner_all);
  std::ofstream(folder / "planted") << "x";
  fs::permissions(folder, fs::perms::all);
  CHECK(mlk::image::python_folder(machine.packages()) == folder);
  CHECK_FALSE(fs::exists(folder / "planted"));
  CHECK(fs::status(folder).permissions() == fs::perms::owner_all);
  CHECK(machine.installations() == 2);
}

TEST_CASE("the cache stays empty if the file of requirements is missing or too long") {
  const Machine machine;
  machine.folder().write("code/requirements.txt", std::string((4 << 20) - 4, '#') + "\nsix");
  CHECK_NOTHROW((void)mlk::image::python_folder(machine.packages()));
  fs::remove_all(machine.packages().cache);
  machine.folder().write("code/requirements.txt", std::string((4 << 20) - 3, '#') + "\nsix");
  CHECK_THROWS_AS((void)mlk::image::python_folder(machine.packages()), mlk::Error);
  fs::remove(machine.folder().path() / "code/requirements.txt");
  try {
    (void)mlk::image::python_layer(machine.packages(), "mlk/python");
    FAIL("it is there");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::not_found);
  }
  CHECK(fs::is_empty(machine.packages().cache));
}
