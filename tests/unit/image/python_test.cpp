// Packages of Python as a layer, with a program in PATH that plays python3 and its pip.
#include "cli/image/python.h"

#include <cstdlib>
#include <fstream>

#include <doctest/doctest.h>

#include "cli/image/gzip.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/util/temporary_folder.h"

namespace {

namespace fs = std::filesystem;
using mlk::image::Layer;
using mlk::image::parse_pip_report;
using mlk::image::PythonPackages;
using Lines = std::vector<std::string>;

constexpr std::size_t enough = 16 << 20;

// A variable of this process until the end of the test.
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

// Packages are "six" 1.16.0 alone; calls are counted in `calls`. MACHINE is in what differs between machines.
const std::string playing_pip = R"(
echo "$*" >> "$PLAYED/calls"
case "$*" in
  *--dry-run*) cat "$PLAYED/report"; exit ;;
esac
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/six-1.16.0.dist-info" "$2/bin" "$2/six/__pycache__"
echo "#!$MACHINE/python3" > "$2/bin/six"
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

// A folder of programs that is all of PATH beside the shell's own, a cache and a file of requirements.
class Machine {
 public:
  explicit Machine(const std::string& script = playing_pip, const std::string& name = "one")
      : path_("PATH", (folder_.path() / "bin").string() + ":/usr/bin:/bin"),
        played_("PLAYED", folder_.path().string()),
        machine_("MACHINE", "/opt/" + name) {
    folder_.write("bin/python3", "#!/bin/sh\n" + script);
    fs::permissions(folder_.path() / "bin/python3", fs::perms::owner_all);
    folder_.write("report", R"({"version":"1","install":[{"metadata":{"name":"six","version":"1.16.0"},
      "download_info":{"archive_info":{"hashes":{"sha256":"aa"}}}}]})");
    folder_.write("code/requirements.txt", "six\n");
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

mlk::Error report_error(const std::string& report) {
  try {
    (void)parse_pip_report(report);
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

std::vector<mlk::image::TarFile> files_in(const std::string& tar) { return mlk::image::read_tar(tar); }

}  // namespace

TEST_CASE("a report of pip gives sorted packages with their digests, in either place where pip writes them") {
  const auto resolved = parse_pip_report(R"({"version":"1","pip_version":"23.0.1","install":[
    {"download_info":{"url":"https://x/torch.whl","archive_info":{"hash":"sha256=bb","hashes":{"sha256":"bb"}}},
     "is_direct":false,"requested":true,"metadata":{"metadata_version":"2.1","name":"torch","version":"2.1.0+cpu"}},
    {"download_info":{"archive_info":{"hash":"sha256=aa"}},"metadata":{"name":"Jinja2","version":"3.1"}},
    {"download_info":{"dir_info":{}},"metadata":{"name":"own","version":"0"}}],"environment":{}})");
  CHECK(resolved.packages == Lines{"Jinja2==3.1 sha256=aa", "own==0 ", "torch==2.1.0+cpu bb"});
  CHECK(resolved.constraints == Lines{"Jinja2==3.1", "own==0", "torch==2.1.0+cpu"});
  CHECK(parse_pip_report(R"({"install":[]})").packages.empty());
}

TEST_CASE("what is no report is refused") {
  for (const std::string& bad : Lines{"", "pip 23", "null", "[]", "{}", R"({"install":null})",
                                      R"({"install":{}})", std::string(300, '[')})
    CHECK_MESSAGE(
        std::string(report_error(bad).what()) == "code.python: pip gave no report of what it would install",
        bad);
  for (const std::string& bad :
       Lines{R"({"install":[5]})", R"({"install":[{}]})", R"({"install":[{"metadata":{"name":"x"}}]})",
             R"({"install":[{"metadata":{"name":"x","version":5}}]})", R"({"install":[{"metadata":"x"}]})"})
    CHECK_MESSAGE(report_error(bad).code() == mlk::ExitCode::failure, bad);
}

TEST_CASE("wheels may have the names of platforms from the newest glibc to the oldest") {
  const Lines amd64 = mlk::image::wheel_platforms({"linux", "amd64", ""});
  CHECK(amd64.front() == "manylinux_2_28_x86_64");
  for (const char* name :
       {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64", "linux_x86_64"})
    CHECK(std::count(amd64.begin(), amd64.end(), name) == 1);
  const Lines arm64 = mlk::image::wheel_platforms({"linux", "arm64", "v8"});
  CHECK(arm64.back() == "linux_aarch64");
  CHECK(std::count(arm64.begin(), arm64.end(), "manylinux1_aarch64") == 0);
  CHECK(mlk::image::wheel_platforms({"linux", "ppc64le", ""}).back() == "linux_ppc64le");
}

TEST_CASE("a version of Python has two numbers") {
  CHECK(mlk::image::minor_version("3.11.9") == "3.11");
  CHECK(mlk::image::minor_version("3.13") == "3.13");
  for (const char* bad : {"", "3", "3.", ".11", "3.x", "x.11", "3.1111", "3.11rc1", "-3.11", "3 .11"})
    CHECK_MESSAGE(mlk::image::minor_version(bad).empty(), std::string(bad));
}

TEST_CASE("the layer has the packages below its folder, without scripts and what differs between machines") {
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
      if (file.entry.path == "mlk/python/six/tool") CHECK(file.entry.executable);
      if (file.entry.path.ends_with("RECORD"))
        CHECK(file.content == "six/__init__.py,sha256=a,6\nsix-1.16.0.dist-info/RECORD,,\n");
    }
    CHECK(paths == Lines{"mlk", "mlk/python", "mlk/python/six", "mlk/python/six-1.16.0.dist-info",
                         "mlk/python/six-1.16.0.dist-info/RECORD", "mlk/python/six/__init__.py",
                         "mlk/python/six/tool"});
    CHECK(tar.find("/opt/") == tar.npos);
    const auto left = fs::directory_iterator(machine.packages().cache);
    CHECK(std::distance(fs::begin(left), fs::end(left)) == 2);  // the layer and its note
  }
}

TEST_CASE("pip is told the platform and the versions that it has chosen, and installs them once") {
  const Machine machine;
  Lines notes;
  PythonPackages packages = machine.packages();
  packages.note = [&](const std::string& note) { notes.push_back(note); };
  const Layer layer = mlk::image::python_layer(packages, "mlk/python");
  CHECK(mlk::image::python_layer(packages, "mlk/python").file == layer.file);
  CHECK(machine.installations() == 1);
  CHECK(notes == Lines{"code.python: installing 1 packages for Python 3.11 on linux/amd64"});
  const std::string calls = machine.calls();
  for (const char* words : {"-m pip ", "--only-binary=:all:", "--implementation cp --python-version 3.11",
                            "--platform manylinux_2_17_x86_64", "--constraint ", "--report -"})
    CHECK_MESSAGE(calls.find(words) != calls.npos, std::string(words));
  machine.folder().write("report", R"({"install":[{"metadata":{"name":"six","version":"1.17"}}]})");
  CHECK(mlk::image::python_layer(packages, "mlk/python").file != layer.file);
  packages.target.version = "3.12";
  (void)mlk::image::python_layer(packages, "mlk/python");
  CHECK(machine.installations() == 3);
}

TEST_CASE("a folder of packages is made once, and counts as used whenever it is") {
  const Machine machine;
  const fs::path folder = mlk::image::python_folder(machine.packages());
  CHECK(fs::exists(folder / "six/__init__.py"));
  CHECK_FALSE(fs::exists(folder / "bin"));
  fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(48));
  CHECK(mlk::image::python_folder(machine.packages()) == folder);
  CHECK(machine.installations() == 1);
  CHECK(mlk::image::unused_layers(machine.packages().cache, std::chrono::hours(24)).empty());
}

TEST_CASE("an empty list of packages is an empty folder") {
  const Machine machine("case \"$*\" in *--dry-run*) echo '{\"install\":[]}';; esac");
  CHECK(fs::is_empty(mlk::image::python_folder(machine.packages())));
}

TEST_CASE("what pip says is told with what helps") {
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
}

TEST_CASE("an installation that fails leaves nothing in the cache") {
  const Machine machine(
      "case \"$*\" in *--dry-run*) cat \"$PLAYED/report\";; *) echo 'ERROR: no space' >&2; exit 1;; esac");
  CHECK_THROWS_WITH_AS((void)mlk::image::python_layer(machine.packages(), "mlk/python"),
                       doctest::Contains("no space"), mlk::Error);
  CHECK_THROWS_AS((void)mlk::image::python_folder(machine.packages()), mlk::Error);
  CHECK(fs::is_empty(machine.packages().cache));
}

TEST_CASE("a user who stops ends pip") {
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

TEST_CASE("a machine without Python says so") {
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
  fails_with([] { return mlk::image::own_python_version(); }, "python3");
}

TEST_CASE("a python3 that does not say its version is told") {
  for (const char* script : {"echo three", "exit 1", "echo 3.11; exit 1"}) {
    const Machine machine(script);
    CHECK_THROWS_WITH_AS((void)mlk::image::own_python_version(),
                         "code.python: the python3 of this machine does not say its version", mlk::Error);
  }
  const Machine machine("echo 3.12");
  CHECK(mlk::image::own_python_version() == "3.12");
}
