// Packages of Python as a layer. A program in PATH plays python3 and its pip.
#include "cli/image/python.h"

#include <cstdlib>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/image/gzip.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/image/pip_reports.h"
#include "tests/unit/util/temporary_folder.h"

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

// Sets a variable of this process until the end of the test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (had_) {
      ::setenv(name_, before_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string before_;
};

// The only package is "six" 1.16.0. `calls` lists the calls. MACHINE marks content that differs between
// machines.
const std::string playing_pip = R"(
cat > "$PLAYED/input"
case "$*" in *pip._internal.configuration*) cat "$PLAYED/settings" 2>/dev/null; exit 0 ;; esac
[ -e trap.py ] && exit 9
shift 3
echo "$*" >> "$PLAYED/calls"
env > "$PLAYED/variables"
case "$*" in
  *--dry-run*) while [ "$1" != --report ]; do [ "$1" = -r ] && cp "$2" "$PLAYED/wanted"; shift; done; cat "$PLAYED/report" > "$2"; exit ;;
esac
all="$*"
while [ "$1" != --target ]; do shift; done
cp "${all##* }" "$PLAYED/pinned"
mkdir -p "$2/six-1.16.0.dist-info" "$2/bin" "$2/six/__pycache__"
echo "#!$MACHINE/python3" > "$2/bin/six"
printf '[console_scripts]\nsix = six.cli:main\n' > "$2/six-1.16.0.dist-info/entry_points.txt"
echo "x = 1" > "$2/six/__init__.py"
echo "$MACHINE" > "$2/six/__pycache__/x.pyc"
printf '#!/bin/sh\n' > "$2/six/tool"
chmod 755 "$2/six/tool"
ln -s tool "$2/six/link"
cat > "$2/six-1.16.0.dist-info/RECORD" << end
../../bin/six,sha256=$MACHINE,10
six/__init__.py,sha256=a,6
six-1.16.0.dist-info/RECORD,,
end
)";

// A folder of programs in PATH beside those of the shell, a cache, and a file of requirements.
class Machine {
 public:
  explicit Machine(const std::string& script = playing_pip, const std::string& name = "one")
      : path_("PATH", (folder_.path() / "bin").string() + ":/usr/bin:/bin"),
        played_("PLAYED", folder_.path().string()),
        machine_("MACHINE", "/opt/" + name) {
    folder_.write("bin/python3", "#!/bin/sh\n" + script);
    fs::permissions(folder_.path() / "bin/python3", fs::perms::owner_all);
    report("six", "1.16.0", "aa");
    folder_.write("code/requirements.txt", "six\n");
  }
  void report(const std::string& package, const std::string& version, const std::string& digest,
              const std::string& python = "3.11") const {
    folder_.write("report", report_of(package, version, digest, python));
  }
  PythonPackages packages() const {
    return {.requirements = folder_.path() / "code/requirements.txt",
            .target = {{"linux", "amd64", ""}, "3.11"},
            .cache = folder_.path() / "cache"};
  }
  std::size_t installations() const {
    std::ifstream in(folder_.path() / "calls");
    std::size_t out = 0;
    for (std::string line; std::getline(in, line);) out += line.find("--dry-run") == line.npos ? 1 : 0;
    return out;
  }
  std::string calls() const { return mlk::read_file(folder_.path() / "calls", enough); }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  Variable path_, played_, machine_;
};

mlk::Error python_error(const std::string& script) {
  const Machine machine(script);
  try {
    (void)mlk::image::python_layer(machine.packages(), "mlk/python");
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

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

TEST_CASE("the layer has the packages and mlk's own scripts for them, and is the same on every machine") {
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

TEST_CASE("pip installs the resolved versions for the platform only if the cache has no layer with them") {
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
  machine.report("six", "1.16.0", "bb");  // the package is built again with the same version
  CHECK(mlk::image::python_layer(packages, "mlk/python").file != layer.file);
  machine.report("six", "1.16.0", "aa", "3.12");
  packages.target.version = "3.12";
  (void)mlk::image::python_layer(packages, "mlk/python");
  CHECK(machine.installations() == 3);
}

TEST_CASE("for an image with musl, pip gets the platforms of musl, and the cache stores another layer") {
  const Machine machine;
  PythonPackages packages = machine.packages();
  const Layer layer = mlk::image::python_layer(packages, "mlk/python");
  packages.target.libc = Libc::musl;
  machine.folder().write("calls", "");
  CHECK(mlk::image::python_layer(packages, "mlk/python").file != layer.file);
  CHECK(machine.calls().find("--platform musllinux_1_2_x86_64") != std::string::npos);
  CHECK(machine.calls().find("manylinux") == std::string::npos);
}

TEST_CASE("pip runs in a folder of its own, with the user's settings of the network and no other settings") {
  const Machine machine;
  machine.folder().write("code/trap.py", "");
  machine.folder().write("settings", "global.index-url='one'\nglobal.user='true'\ninstall.prefix='/x'\n");
  const Variable user("PIP_USER", "1"), prefix("PIP_PREFIX", "/nowhere"), target("PIP_TARGET", "/nowhere"),
      only("PIP_REQUIRE_VIRTUALENV", "1"), verbose("PIP_VERBOSE", "2"), path("PYTHONPATH", "/nowhere"),
      extra("PIP_EXTRA_INDEX_URL", "https://me:word@two/");
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

TEST_CASE("pip never gets requirements that would run code from the folder") {
  const Machine machine;
  for (const char* line : {"-e .", "./own", "own @ git+https://x/own.git", "--no-binary=six", "-e ../own"}) {
    machine.folder().write("code/requirements.txt", std::string("six\n") + line + "\n");
    CHECK_THROWS_WITH_AS((void)mlk::image::python_layer(machine.packages(), "mlk/python"),
                         doctest::Contains("code.python: requirements.txt:2: '"), mlk::Error);
  }
  CHECK_FALSE(fs::exists(machine.folder().path() / "calls"));
}

TEST_CASE("python_folder() makes a folder of packages once, and marks the folder as used with each call") {
  const Machine machine;
  const fs::path folder = mlk::image::python_folder(machine.packages());
  CHECK(fs::exists(folder / "six/__init__.py"));
  CHECK(mlk::read_file(folder / "bin/six", enough).starts_with("#!/usr/bin/env python3\n"));
  fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(48));
  CHECK(mlk::image::python_folder(machine.packages()) == folder);
  CHECK(machine.installations() == 1);
  CHECK(mlk::image::unused_layers(machine.packages().cache, std::chrono::hours(24)).empty());
}

TEST_CASE("a folder of packages to which other users could write is made anew") {
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

TEST_CASE("an error shows pip's message with a hint") {
  mlk::Error error = python_error("echo '/usr/bin/python3: No module named pip' >&2; exit 1");
  CHECK(error.code() == mlk::ExitCode::failure);
  CHECK(std::string(error.what()) == "code.python: the python3 of this machine has no pip");
  error = python_error("echo 'no such option: --report' >&2; exit 2");
  CHECK(std::string(error.what()) == "code.python: the pip of this machine is older than 22.2");
  error = python_error(
      "printf 'WARNING: x\\nERROR: Could not find a version\\nERROR: No matching distribution found for "
      "\\033[1mx\\n' >&2; exit 1");
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what())
            .find(": Could not find a version; No matching distribution found for ?[1mx") !=
        std::string::npos);
  error = python_error("exit 3");
  CHECK(error.code() == mlk::ExitCode::failure);
  CHECK(std::string(error.what()).ends_with("exit code 3"));
  error = python_error("echo garbage");
  CHECK(std::string(error.what()) == "code.python: pip gave no report of what it would install");
  error = python_error("echo ConfigurationFileCouldNotBeLoaded >&2; exit 1");
  CHECK(std::string(error.what()) == "code.python: pip's settings cannot be read");
  const std::string refuses =
      "case \"$*\" in *pip._internal.configuration*) exit;; esac; echo 'Collecting own (from a==1->-r x)'; "
      "echo '%' > "
      "refusal.json; exit 97";
  const auto refused = [&](const std::string& what) {
    std::string script = refuses;
    return python_error(script.replace(script.find('%'), 1, what));
  };
  error = refused(R"({"build": true})");
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what()).find("would build a package") != std::string::npos);
  CHECK(std::string(error.what()).ends_with("; it was looking at own (from a==1)"));
  error = refused(R"({"marker": "python_full_version < \"3.11.4\""})");
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what()).find("python_full_version < \"3.11.4\"; it was looking at own") !=
        std::string::npos);
}

TEST_CASE("an installation that fails leaves nothing in the cache") {
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

TEST_CASE("an interruption by the user ends pip") {
  const Machine machine("sleep 600");
  PythonPackages packages = machine.packages();
  packages.go_on = [] { return false; };
  try {
    (void)mlk::image::python_layer(packages, "mlk/python");
    FAIL("it went on");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::interrupted);
  }
}

TEST_CASE("the error names python3 if the machine has no Python") {
  const TemporaryFolder empty;
  const Variable path("PATH", empty.path().string());
  empty.write("requirements.txt", "");
  const PythonPackages packages{.requirements = empty.path() / "requirements.txt",
                                .target = {{"linux", "amd64", ""}, "3.11"},
                                .cache = empty.path() / "cache"};
  const auto fails_with = [](const auto& action, const std::string& part) {
    try {
      (void)action();
    } catch (const mlk::Error& error) {
      CHECK(error.code() == mlk::ExitCode::failure);
      CHECK(std::string(error.what()).find(part) != std::string::npos);
      return;
    }
    FAIL("there is one");
  };
  fails_with([&] { return mlk::image::python_layer(packages, "mlk/python"); }, "there is no python3 here");
  fails_with([] { return mlk::image::own_python(); }, "python3");
}

TEST_CASE("own_python() fails if python3 does not print its version") {
  const std::string said = R"(echo '{"python_full_version": "3.12.4", "os_name": "posix", "x": 5}')";
  for (const std::string& script :
       Lines{"echo three", "exit 1", said + "; exit 1", "echo '{}'", "echo 3.12"}) {
    const Machine machine(script);
    CHECK_THROWS_WITH_AS((void)mlk::image::own_python(),
                         "code.python: the python3 of this machine does not say its version", mlk::Error);
  }
  const Machine machine(said);
  CHECK(mlk::image::own_python().version == "3.12");
  CHECK(mlk::image::own_python().full_version == "3.12.4");
  CHECK(mlk::image::own_python().markers.at("os_name") == "posix");
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

TEST_CASE("pip gets the known part of the Python version, and the names of its ABIs") {
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
  const Machine machine;
  PythonPackages packages = machine.packages();
  packages.target.markers = {{"os_name", "posix"}};
  (void)mlk::image::python_layer(packages, "mlk/python");
  CHECK(machine.calls().find("--abi") == std::string::npos);
  CHECK(machine.calls().find("--implementation cp --python-version 3.11 --platform ") != std::string::npos);
  CHECK(
      machine.calls().starts_with("--disable-pip-version-check --no-input install --only-binary=:all: "
                                  "--no-compile --progress-bar off --target "));
}

TEST_CASE("pip gets constraints and sources of packages if the requirements have some") {
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

TEST_CASE("packages of another name, version or platform give another layer") {
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

TEST_CASE("mlk changes only the RECORD of a package, and writes the programs of its entry points") {
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

TEST_CASE("each failure of pip has its exit code and its hint") {
  struct Row {
    const char* said;
    mlk::ExitCode code;
    const char *part, *hint;
  };
  using mlk::ExitCode;
  for (const Row& row :
       {Row{"No module named 'pip'", ExitCode::failure, "has no pip", "install it (python3-pip)"},
        Row{"no such option: --report", ExitCode::failure, "older than 22.2", "let it renew itself"},
        Row{"x NewConnectionError x", ExitCode::failure, "cannot reach its index", "see all of what it says"},
        Row{"ConnectTimeoutError", ExitCode::failure, "cannot reach its index", "see all of what it says"},
        Row{"NameResolutionError", ExitCode::failure, "cannot reach its index", "see all of what it says"},
        Row{"ProxyError", ExitCode::failure, "cannot reach its index", "see all of what it says"},
        Row{"ERROR: No matching distribution", ExitCode::usage,
            "finds no wheels for Python 3.11 on linux/amd64 of what ", "name a version that has a wheel"},
        Row{"ERROR: Could not find a version", ExitCode::usage, "asks for: Could not find a version",
            "name a version that has a wheel"},
        Row{"ERROR: other", ExitCode::failure, "asks for: other", "see all of what pip says"},
        Row{"xERROR: other", ExitCode::failure, "asks for: exit code 4", "see all of what pip says"}}) {
    const mlk::Error error = python_error(std::string("echo \"") + row.said + "\" >&2; exit 4");
    CHECK_MESSAGE(error.code() == row.code, std::string(row.said));
    CHECK_MESSAGE(std::string(error.what()).find(row.part) != std::string::npos, std::string(error.what()));
    CHECK_MESSAGE(error.hint().starts_with(row.hint), error.hint());
  }
  const mlk::Error error = python_error("printf 'ERROR: %01000d' 0 >&2; exit 4");
  CHECK(std::string(error.what()).find(std::string(550, '0')) != std::string::npos);
  CHECK(std::string(error.what()).find(std::string(601, '0')) == std::string::npos);
}

TEST_CASE("an error shows the last five of the versions that pip lists") {
  const auto shown = [](const std::string& versions) {
    return std::string(
        python_error("echo 'ERROR: Could not find a version that satisfies x==9 (from versions: " + versions +
                     ")' >&2; echo 'ERROR: No matching distribution found for x==9' >&2; exit 1")
            .what());
  };
  const std::string next = "); No matching distribution found for x==9";
  using Row = std::pair<const char*, const char*>;
  for (const auto& [versions, part] :
       {Row{"none", "(from versions: none"}, Row{"1, 2, 3, 4, 5", "(from versions: 1, 2, 3, 4, 5"},
        Row{"1, 2, 3, 4, 5, 6", "(from versions: ..., 2, 3, 4, 5, 6"},
        Row{"0.9, 1, 2, 3, 4, 5, 6rc1", "(from versions: ..., 2, 3, 4, 5, 6rc1"}})
    CHECK_MESSAGE(shown(versions).ends_with(part + next), shown(versions));
  const mlk::Error cut_off = python_error("echo 'ERROR: a, b, c, d, e, f (from versions: 1, 2' >&2; exit 1");
  CHECK(std::string(cut_off.what()).ends_with("a, b, c, d, e, f (from versions: 1, 2"));
}

TEST_CASE("the error for a missing wheel names musl if the image has musl") {
  const Machine machine("echo 'ERROR: No matching distribution' >&2; exit 1");
  PythonPackages packages = machine.packages();
  packages.target.libc = Libc::musl;
  try {
    (void)mlk::image::python_layer(packages, "mlk/python");
    FAIL("there is one");
  } catch (const mlk::Error& error) {
    CHECK(std::string(error.what()).find("on linux/amd64 with musl of what") != std::string::npos);
    CHECK(error.hint().starts_with("many packages have wheels for glibc alone"));
  }
}

TEST_CASE("mlk reports a refused marker or build only if refusal.json is well-formed and pip fails") {
  const auto refused = [](const std::string& what) {
    return python_error("case \"$*\" in *pip._internal.configuration*) exit;; esac; echo '" + what +
                        "' > refusal.json; exit 97");
  };
  for (const char* odd : {"", "5", "[\"build\"]", "{}", R"({"marker": 5})", "{"})
    CHECK_MESSAGE(std::string(refused(odd).what()).ends_with("exit code 97"), std::string(odd));
  const mlk::Error marker = refused(R"({"marker": "a < b"})");
  CHECK(std::string(marker.what()).ends_with("meets the condition of a package: a < b"));
  CHECK(marker.hint().ends_with("code: {python_version: \"3.11.4\"}"));
  CHECK(refused(R"({"build": true})").hint().starts_with("name a wheel of it instead"));
  // A refusal is ignored if pip succeeds.
  const mlk::Error none = python_error("echo '{\"build\": true}' > refusal.json; exit 0");
  CHECK(std::string(none.what()) == "code.python: pip gave no report of what it would install");
}

TEST_CASE("mlk reads pip's settings from the file in PIP_CONFIG_FILE, and none if this is /dev/null") {
  const Machine machine("case \"$*\" in *pip._internal.configuration*) env > \"$PLAYED/listing\";; esac\n" +
                        playing_pip);
  machine.folder().write("settings", "global.index-url='one'\n");
  const auto variables = [&] { return "\n" + mlk::read_file(machine.folder().path() / "variables", enough); };
  {
    const Variable named("PIP_CONFIG_FILE", "own.conf"), user("PIP_USER", "1"),
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
  const Variable none("PIP_CONFIG_FILE", "/dev/null");
  (void)mlk::image::python_layer(machine.packages(), "mlk/python");
  CHECK_FALSE(fs::exists(machine.folder().path() / "listing"));
  CHECK(variables().find("PIP_INDEX_URL") == std::string::npos);
}

TEST_CASE("the program that starts pip gets the known environment and the unknown values") {
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

TEST_CASE("a folder of packages that other users may write to is made anew and closed to them") {
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

TEST_CASE("missing or too long requirements leave nothing in the cache") {
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
