// Tests how an experiment file and the files that travel with its run are read.
#include "cli/run/inputs/prepare.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/image/gzip.h"
#include "cli/image/layer.h"
#include "cli/render/limits.h"
#include "cli/util/error.h"
#include "tests/unit/util/environment_variable.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("run/inputs/prepare");

namespace mlk {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Names = std::vector<std::string>;

const std::string plain_program = "name: x\nmode: single\nimage: i\nrun: python3 train.py\n";

// An experiment file beside a program, with a cache and settings for this test.
struct Beside {
  TemporaryFolder folder;
  EnvironmentVariable cache{"XDG_CACHE_HOME", (folder.path() / "cache").string()};
  EnvironmentVariable config{"XDG_CONFIG_HOME", (folder.path() / "config").string()};
  const fs::path work = folder.path() / "work";

  Beside() {
    folder.write("work/train.py", "print()");
    folder.write("work/data/a", "1");
  }
  ExperimentFile file(const std::string& more) const {
    folder.write("work/x.yaml", plain_program + more);
    return read_experiment_file((work / "x.yaml").string());
  }
  Prepared prepared(const std::string& more, const PrepareOptions& options = {}) const {
    return prepare(file(more), options, load_templates());
  }
  Error error(const std::string& more, const PrepareOptions& options = {}) const {
    try {
      (void)prepared(more, options);
    } catch (const Error& error) {
      return error;
    }
    return {ExitCode::ok, "accepted"};
  }
};

TEST_CASE("read_experiment_file() returns the typed name, the folder and the text") {
  const TemporaryFolder folder;
  const fs::path path = folder.write("a/x.yaml", "name: x\n");
  const ExperimentFile file = read_experiment_file(path.string());
  CHECK(file.name == path.string());
  CHECK(file.folder == folder.path() / "a");
  CHECK(file.text == "name: x\n");
  CHECK_THROWS_AS(read_experiment_file((folder.path() / "none.yaml").string()), Error);
}

TEST_CASE("an experiment file may have one MiB, but not a byte more") {
  const TemporaryFolder folder;
  const std::size_t most = 1 << 20;
  CHECK(read_experiment_file(folder.write("x", std::string(most, '#')).string()).text.size() == most);
  const std::string larger = folder.write("y", std::string(most + 1, '#')).string();
  CHECK_THROWS_AS(read_experiment_file(larger), Error);
}

TEST_CASE("paths in an experiment from a pipe are relative to the working folder") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "name: x\n", 8) == 8);
  ::close(ends[1]);
  std::string text, what;
  fs::path folder = "unset";
  try {
    const ExperimentFile file = read_experiment_file("/dev/fd/" + std::to_string(ends[0]));
    text = file.text;
    folder = file.folder;
  } catch (const Error& error) {
    what = error.what();
  }
  ::close(ends[0]);
  CHECK(what == "");
  CHECK(text == "name: x\n");
  CHECK(folder.empty());
}

TEST_CASE("a folder in an experiment is reported if it is missing or is a file") {
  const TemporaryFolder folder;
  folder.write("file", "");
  fs::create_directory(folder.path() / "there");
  const ExperimentFile file{"x.yaml", folder.path(), ""};
  const FileContext context = file_context_of(file, {.overrides = {}, .allow_files = {}, .manual = "man it"});
  CHECK(context.manual == "man it");
  REQUIRE(context.wrong_with_folder);
  CHECK(context.wrong_with_folder("there") == "");
  CHECK(context.wrong_with_folder(".") == "");
  CHECK(context.wrong_with_folder("none") == "there is no folder " + (folder.path() / "none").string() +
                                                 "; it is relative to the experiment file");
  CHECK(context.wrong_with_folder("file") == (folder.path() / "file").string() + " is a file, not a folder");
  // A machine that has only the carried files cannot check folders.
  PrepareOptions carried{.overrides = {}, .allow_files = {}, .manual = "man it"};
  carried.carried.emplace();
  CHECK_FALSE(file_context_of(file, carried).wrong_with_folder);
  CHECK(file_context_of(file, carried).manual == "man it");
}

TEST_CASE("read_file_beside() reads a file from the folder of the experiment") {
  const TemporaryFolder folder;
  folder.write("work/points/p.csv", "12345");
  folder.write("common/x", "3");
  const ExperimentFile file{"x.yaml", folder.path() / "work", ""};
  const auto read = [&](const std::string& named, const PrepareOptions& options, std::size_t limit = 5) {
    return read_file_beside(file, options, named, "sweep.points", limit);
  };
  const ExperimentFile points = read("points/p.csv", {});
  CHECK(points.text == "12345");
  CHECK(points.name == (folder.path() / "work/points/p.csv").string());
  CHECK(points.folder == folder.path() / "work/points");
  CHECK_THROWS_AS(read("points/p.csv", {}, 4), Error);
  CHECK_THROWS_AS(read("../common/x", {}), Error);
  CHECK(read("../common/x",
             {.overrides = {}, .allow_files = {(folder.path() / "common").string()}, .manual = ""})
            .text == "3");
  PrepareOptions carried;
  carried.carried.emplace();
  carried.carried->texts = {{"q.csv", "carried"}};
  CHECK(read("q.csv", carried).text == "carried");
  CHECK(read("q.csv", carried).name == (folder.path() / "work/q.csv").string());
  CHECK(read("q.csv", carried).folder == folder.path() / "work");
  try {
    (void)read("points/p.csv", carried);
    FAIL("was not carried");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::not_found);
    CHECK(error.what() == std::string("sweep.points: points/p.csv was not carried along"));
  }
}

TEST_CASE("the registry comes from the experiment, or else from the environment") {
  const Beside beside;
  PrepareOptions options;
  options.registry = "of.environment/team";
  CHECK(registry_of(options, beside.prepared("").experiment) == "of.environment/team");
  CHECK(registry_of(options, beside.prepared("registry: of.file/team\n").experiment) == "of.file/team");
  CHECK(registry_of({}, beside.prepared("").experiment).empty());
}

TEST_CASE("the files of data folders are sent with the run, but data on volumes is not") {
  const Beside beside;
  const Prepared made =
      beside.prepared("data: [{name: d, mount: /d, files: data}, {name: v, mount: /v, pvc: claim}]\n");
  CHECK(made.files.folders == std::map<std::string, std::map<std::string, std::string>>{{"d", {{"a", "1"}}}});
  CHECK_FALSE(made.files.code);
  CHECK_FALSE(made.files.user.on_machine);
  PrepareOptions local;
  local.local = true;
  CHECK(beside.prepared("", local).files.user.on_machine);
  PrepareOptions carried;
  carried.carried.emplace();
  carried.carried->files.folders["e"] = {{"b", "2"}};
  CHECK(beside.prepared("data: [{name: d, mount: /d, files: data}]\n", carried).files.folders ==
        std::map<std::string, std::map<std::string, std::string>>{{"e", {{"b", "2"}}}});
}

TEST_CASE("neither the experiment file nor its file of points is sent with the code") {
  const Beside beside;
  beside.folder.write("work/points.csv", "a");
  const ExperimentFile file = beside.file("code: .\n");
  const Experiment experiment = prepare(file, {}, load_templates()).experiment;
  FileContents files = read_files(file, {}, experiment);
  REQUIRE(files.code);
  CHECK(files.code->files == Names{"data/a", "points.csv", "train.py"});
  CHECK(json::parse(files.code->source)["path"] == ".");
  CHECK_FALSE(json::parse(files.code->source).contains("layer"));
  CHECK_FALSE(json::parse(files.code->source).contains("folder"));
  CHECK_FALSE(files.code->bytes.empty());
  CHECK_FALSE(files.code->is_layer());
  CHECK(files.code->on_machine.empty());
  CHECK(files.code->requirements.empty());
  CHECK(read_files(file, {}, experiment, "points.csv").code->files == Names{"data/a", "train.py"});
  // The files are left out also if they are behind a link, and so is the link itself.
  fs::create_symlink("points.csv", beside.work / "link.csv");
  CHECK(read_files(file, {}, experiment, "link.csv").code->files == Names{"data/a", "train.py"});
  fs::remove(beside.work / "link.csv");
  // Files that lie elsewhere remove nothing from the code.
  beside.folder.write("points.csv", "b");
  CHECK(read_files(file, {}, experiment, "../points.csv").code->files ==
        Names{"data/a", "points.csv", "train.py"});
}

TEST_CASE("the keys `include` and `exclude` select the files of the code folder that are sent") {
  const Beside beside;
  beside.folder.write("work/.env", "secret");
  CHECK(beside.prepared("code: {path: ., exclude: [data]}\n").files.code->files == Names{"train.py"});
  CHECK(beside.prepared("code: {path: ., include: [.env]}\n").files.code->files ==
        Names{".env", "data/a", "train.py"});
}

TEST_CASE("the key `code.layer` needs a registry") {
  const Beside beside;
  const std::string layer = "code: {path: ., layer: true}\n";
  const Error refused = beside.error(layer);
  CHECK(refused.code() == ExitCode::usage);
  CHECK(refused.what() == std::string("code.layer needs a registry for the image"));
  CHECK(refused.hint() == "name one: registry: in the file, or export MLK_REGISTRY=registry.example/team");
  PrepareOptions of_environment;
  of_environment.registry = "r.example/team";
  PrepareOptions for_image;
  for_image.all_code_is_layer = true;
  const std::string with_registry = "registry: r.example/team\n" + layer;
  for (const auto& [more, options] : {std::pair(layer, of_environment),
                                      {with_registry, PrepareOptions()},
                                      {std::string("code: .\n"), for_image}}) {
    const Prepared made = beside.prepared(more, options);
    REQUIRE(made.files.code);
    CHECK(made.files.code->is_layer());
    CHECK(image::find_layer(made.files.code->layer_file));
    CHECK(made.files.code->bytes.empty());
    CHECK(made.files.code->on_machine.empty());
    CHECK(json::parse(made.files.code->source)["layer"] == true);
  }
  // A small folder needs no registry.
  CHECK_FALSE(beside.prepared("code: .\n", of_environment).files.code->is_layer());
  PrepareOptions local;
  local.local = true;
  CHECK_FALSE(beside.prepared(layer, local).files.code->is_layer());
}

// Bytes that cannot be compressed.
std::string noise(std::size_t bytes) {
  std::string out(bytes, ' ');
  unsigned state = 1;
  for (char& c : out) c = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return out;
}

TEST_CASE("code that is too large for a ConfigMap becomes a layer or, with --local, a file of this machine") {
  const Beside beside;
  beside.folder.write("work/weights", noise(most_config_map_bytes));
  CHECK(beside.error("code: .\n").code() == ExitCode::usage);
  PrepareOptions with_registry, local;
  with_registry.registry = "r.example/team";
  local.local = true;
  const Prepared layer = beside.prepared("code: .\n", with_registry);
  CHECK(layer.files.code->is_layer());
  CHECK(layer.files.code->bytes.empty());
  const Prepared here = beside.prepared("code: .\n", local);
  CHECK_FALSE(here.files.code->is_layer());
  CHECK(here.files.code->bytes.empty());
  const fs::path kept = here.files.code->on_machine;
  CHECK(kept.filename() == "code-" + here.files.code->digest);
  CHECK(fs::is_regular_file(kept / "code.tar.gz"));
  CHECK(json::parse(here.files.code->source)["folder"] == kept.string());
  CHECK(layer.files.code->digest == here.files.code->digest);
}

TEST_CASE("a list of packages is refused if it names files outside of the experiment's folder") {
  const Beside beside;
  beside.folder.write("work/requirements.txt", "");
  for (const char* named : {"requirements.txt", "./requirements.txt"}) {
    const std::string more = std::string("code: {path: ., python: ") + named + "}\n";
    const fs::path list = beside.prepared(more).files.code->requirements;
    CHECK(list.lexically_normal() == beside.work / "requirements.txt");
  }
  beside.folder.write("x.txt", "");
  beside.folder.write("work/requirements.txt", "-r ../x.txt\n");
  const std::string with_list = "code: {path: ., python: requirements.txt}\n";
  CHECK(beside.error(with_list).code() == ExitCode::usage);
  PrepareOptions allowed;
  allowed.allow_files = {(beside.folder.path() / "x.txt").string()};
  CHECK(beside.error(with_list, allowed).code() == ExitCode::ok);
  const Error absent = beside.error("code: {path: ., python: none.txt}\n");
  CHECK(absent.code() == ExitCode::not_found);
  CHECK(absent.what() == std::string("code.python: none.txt is no file of the code that travels"));
  CHECK(beside.error("code: {path: ., python: requirements.txt, exclude: [requirements.txt]}\n").code() ==
        ExitCode::not_found);
}

TEST_CASE("a rebuilt wheel of `code.python` changes the name of the run even if git ignores the wheel") {
  const Beside beside;
  const auto run_with = [&](const std::string& list, const std::string& wheel) {
    beside.folder.write("work/requirements.txt", list);
    beside.folder.write("work/.gitignore", "/dist/\n");
    beside.folder.write("work/dist/own.whl", wheel);
    const Prepared made = beside.prepared("code: {path: ., python: requirements.txt}\n");
    return identify(made.experiment, digests_of(made.experiment, made.files), load_templates(), 1).run;
  };
  const std::string first = run_with("./dist/own.whl\n", "one");
  CHECK(run_with("./dist/own.whl\n", "one") == first);
  CHECK(run_with("./dist/own.whl\n", "two") != first);
  CHECK(run_with("six\n", "one") == run_with("six\n", "two"));
}

TEST_CASE("the user's home folder is refused as the folder of `code:`") {
  const Beside beside;
  {
    const EnvironmentVariable home("HOME", beside.work.string());
    const Error refused = beside.error("code: .\n");
    CHECK(refused.code() == ExitCode::usage);
    CHECK_MESSAGE(std::string(refused.what()).ends_with(" is your home folder"), refused.what());
    CHECK(refused.hint() == "put the program and its experiment file into a folder of their own");
    CHECK(beside.error("code: data\n").code() == ExitCode::ok);
  }
  const EnvironmentVariable root("HOME", "/");
  CHECK(beside.error("code: .\n").code() == ExitCode::ok);
}

TEST_CASE("a program that the pods will not find gives a warning") {
  const Beside beside;
  CHECK(beside.prepared("code: .\n").warnings.empty());
  const Names told = beside.prepared("").warnings;
  REQUIRE(told.size() == 1);
  CHECK(told[0].starts_with("train.py of `run:` lies beside the experiment file"));
}

TEST_CASE("a missing code folder is reported together with the other mistakes of the file") {
  const Beside beside;
  const std::string what = beside.error("code: nowhere\nextra: 1\n").what();
  CHECK_MESSAGE(what.find("there is no folder " + (beside.work / "nowhere").string()) != std::string::npos,
                what);
  CHECK_MESSAGE(what.find("extra") != std::string::npos, what);
}

TEST_CASE("templates of the user are the .yaml files below the folder of templates") {
  const Beside beside;
  const Names before = load_templates().names().job_types;
  beside.folder.write("config/mlk/templates/jobs/mine.yaml", "roles: []\nobjects: []\n");
  beside.folder.write("config/mlk/templates/jobs/other.yml", "roles: []\n");
  beside.folder.write("config/mlk/templates/jobs/notes.txt", "no template");
  Names after = load_templates().names().job_types;
  CHECK(after.size() == before.size() + 1);
  CHECK(std::find(after.begin(), after.end(), "mine") != after.end());
  // A link to a folder is not followed, since it may lead back up.
  fs::create_directory_symlink("..", beside.folder.path() / "config/mlk/templates/jobs/up");
  CHECK(load_templates().names().job_types == after);
  fs::create_symlink("mine.yaml", beside.folder.path() / "config/mlk/templates/jobs/linked.yaml");
  after = load_templates().names().job_types;
  CHECK(std::find(after.begin(), after.end(), "linked") != after.end());
}

}  // namespace
}  // namespace mlk
