// Checks which paths of a folder travel, rule by rule.
#include "cli/code/tree.h"

#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/image/open_file.h"
#include "cli/util/error.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("code/tree");

namespace {

namespace fs = std::filesystem;
using mlk::image::list_tree;
using mlk::image::Tree;
using mlk::image::TreeRules;
using PathsOfTree = std::vector<std::string>;

// The paths of a tree; folders have a slash at the end.
PathsOfTree paths_of_tree(const Tree& tree) {
  PathsOfTree out;
  for (const mlk::image::TreeEntry& entry : tree.entries) {
    const bool is_folder = entry.of_tar.kind == mlk::image::TarEntry::Kind::folder;
    out.push_back(entry.of_tar.path + (is_folder ? "/" : ""));
  }
  return out;
}

PathsOfTree paths_in(const fs::path& top, const TreeRules& rules = {}) {
  return paths_of_tree(list_tree(top, rules));
}

mlk::Error tree_refusal(const fs::path& top) {
  try {
    (void)list_tree(top, {});
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

}  // namespace

TEST_CASE("list_tree() leaves out the files of tools, and does not put them into `secrets` or `ignored`") {
  for (const char* file : {".git/x",
                           ".hg/x",
                           ".svn/x",
                           ".jj/x",
                           "__pycache__/x",
                           "a.pyc",
                           "a.pyo",
                           ".ipynb_checkpoints/x",
                           ".mypy_cache/x",
                           ".pytest_cache/x",
                           ".ruff_cache/x",
                           ".tox/x",
                           ".nox/x",
                           "node_modules/x",
                           ".DS_Store",
                           "slurm-1.out",
                           "nohup.out",
                           "train.py~",
                           "#train.py#",
                           "runs/Dec01/events.out.tfevents.1.host.2.0",
                           "mlruns/0/meta.yaml",
                           "lightning_logs/version_0/hparams.yaml",
                           "sub/__pycache__/x",
                           "sub/.git",
                           "env/pyvenv.cfg",
                           "c/CACHEDIR.TAG",
                           "wandb/latest-run/x",
                           "a/wandb/latest-run/x"}) {
    const TemporaryFolder folder;
    folder.write("f", "");
    folder.write(file, "");
    const Tree tree = list_tree(folder.path(), {});
    CHECK_MESSAGE(paths_of_tree(tree) == PathsOfTree{"f"}, std::string(file));
    CHECK_MESSAGE(tree.secrets.empty(), std::string(file));
    CHECK_MESSAGE(tree.ignored.empty(), std::string(file));
  }
}

TEST_CASE("experiment files do not travel, but other YAML files do") {
  struct Case {
    const char *name, *text;
    bool travels;
  };
  constexpr Case cases[] = {
      {"second.yaml", "name: x\nmode: single\nrun: python train.py\n", false},
      {"sub/third.yml", "# A comment\nmode: ps\nname: y\n\ntrain:\n  steps: 3\n", false},
      {"written.yaml", "# written by mlk run\nname: x\n", false},
      {"model.yaml", "name: x\nmode: train\ntrain: {lr: 1}\n", true},
      {"nested.yaml", "a:\n  name: x\n  mode: single\n  run: y\n", true},
      {"short.yaml", "name: x\nmode: single\n", true},
      {"text.txt", "name: x\nmode: single\nrun: python train.py\n", true},
  };
  for (const Case& each : cases) {
    const TemporaryFolder folder;
    folder.write(each.name, each.text);
    CHECK_MESSAGE(paths_of_tree(list_tree(folder.path(), {})).empty() != each.travels, each.name);
    CHECK_FALSE(paths_of_tree(list_tree(folder.path(), {.include = {each.name}, .exclude = {}, .never = {}}))
                    .empty());
  }
}

TEST_CASE("a folder travels if it is empty, but not if all of its content stays behind") {
  const TemporaryFolder folder;
  folder.write("f", "");
  folder.write(".gitignore", "*.pt\n");
  for (const char* file : {"checkpoints/a.pt", "old_pkg/__pycache__/x", "keys/id_rsa", "deep/er/a.pt",
                           "env/pyvenv.cfg", "mixed/a.pt", "mixed/deep/b.pt", "mixed/m.py", "only/x.yaml"})
    folder.write(file, "");
  fs::create_directory(folder.path() / "pipes");
  REQUIRE(::mkfifo((folder.path() / "pipes/p").c_str(), 0600) == 0);
  for (const char* empty : {"empty", "outer/inner"}) fs::create_directories(folder.path() / empty);
  CHECK(paths_in(folder.path(), {.include = {}, .exclude = {}, .never = {"only/x.yaml"}}) ==
        PathsOfTree{".gitignore", "empty/", "f", "mixed/", "mixed/m.py", "outer/", "outer/inner/"});
}

TEST_CASE("list_tree() keeps files whose names only resemble names that stay behind") {
  for (const char* file :
       {"a.pyd", "a.py", "pyc", "slurm-.out", "slurm-1.outx", "latest-run/x", "wandb/run/x",
        "mywandb/latest-run/x", "wandb/x/latest-run/x", "xnode_modules/x", "id_rsa2", "a.pemx", "x_netrc",
        "credentials.json2", "CACHEDIR.TAG2/x", "__pycache__", "node_modules"}) {
    const TemporaryFolder folder;
    folder.write(file, "");
    CHECK_MESSAGE(paths_in(folder.path()).back() == file, std::string(file));
  }
}

TEST_CASE("list_tree() keeps .gitignore and similar names, and lists each kind of secret in `secrets`") {
  for (const char* file : {".gitignore", ".gitattributes", ".gitmodules", ".gitkeep", ".keep", ".mlkignore",
                           ".dockerignore", ".python-version", "sub/.gitkeep"}) {
    const TemporaryFolder folder;
    folder.write(file, "");
    CHECK_MESSAGE(paths_in(folder.path()).back() == file, std::string(file));
  }
  for (const char* file :
       {".other", "_netrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk",
        "a.pem", "a.p12", "a.pfx", "a.ppk", "credentials.json", "kubeconfig", "sub/id_dsa"}) {
    const TemporaryFolder folder;
    folder.write(file, "");
    CHECK_MESSAGE(list_tree(folder.path(), {}).secrets == PathsOfTree{file}, std::string(file));
  }
}

TEST_CASE("a line of `exclude` with an exclamation mark brings back files that are usually left out") {
  const TemporaryFolder folder;
  for (const char* file : {"a.pyc", "b.pyc", ".env", "env/pyvenv.cfg", "env/x", "a.log"})
    folder.write(file, "");
  folder.write(".mlkignore", "*.log\n!b.pyc\n");
  CHECK(paths_in(folder.path()) == PathsOfTree{".mlkignore"});
  CHECK(paths_in(folder.path(),
                 {.include = {}, .exclude = {"!a.pyc", "!.env", "!/env", "!*.log"}, .never = {}}) ==
        PathsOfTree{".env", ".mlkignore", "a.log", "a.pyc", "env/", "env/pyvenv.cfg", "env/x"});
}

TEST_CASE("a rule of .mlkignore can bring back a virtual environment, but a rule of .gitignore cannot") {
  const TemporaryFolder folder;
  folder.write("env/pyvenv.cfg", "");
  folder.write(".gitignore", "!env\n");
  CHECK(paths_in(folder.path()) == PathsOfTree{".gitignore"});
  folder.write(".mlkignore", "!env\n");
  CHECK(paths_in(folder.path()) == PathsOfTree{".gitignore", ".mlkignore", "env/", "env/pyvenv.cfg"});
}

TEST_CASE("an included path and its parent folders travel, although the rest of the folder stays behind") {
  const TemporaryFolder folder;
  for (const char* file : {"env/pyvenv.cfg", "env/lib/x.py", "env/lib/y.py", "env/z", "env/empty/a"})
    folder.write(file, "");
  folder.write("env/lib/.gitignore", "x.py\n");
  const auto with = [&](PathsOfTree include) {
    return paths_in(folder.path(), {.include = std::move(include), .exclude = {}, .never = {}});
  };
  CHECK(with({}).empty());
  CHECK(with({"env/lib/x.py"}) == PathsOfTree{"env/", "env/lib/", "env/lib/x.py"});
  CHECK(with({"env/lib"}) ==
        PathsOfTree{"env/", "env/lib/", "env/lib/.gitignore", "env/lib/x.py", "env/lib/y.py"});
  CHECK(with({"env/none"}).empty());
}

TEST_CASE("a path in `never` and everything below it stay behind, even if `include` names the path") {
  const TemporaryFolder folder;
  for (const char* file : {"a", "b/c", "b/d", "ab"}) folder.write(file, "");
  CHECK(paths_in(folder.path(), {.include = {"a", "b"}, .exclude = {}, .never = {"a", "b/c"}}) ==
        PathsOfTree{"ab", "b/", "b/d"});
  CHECK(paths_in(folder.path(), {.include = {"b/c"}, .exclude = {}, .never = {"b"}}) ==
        PathsOfTree{"a", "ab"});
}

TEST_CASE(
    "list_tree() applies the ignore files of all folders up to the top of the repository; the deepest "
    "has priority") {
  const TemporaryFolder folder;
  folder.write(".git/HEAD", "");
  folder.write(".gitignore", "*.a\n*.b\n/x/y/top\n");
  folder.write("x/.gitignore", "!*.a\n/y/middle\n");
  folder.write("x/.mlkignore", "*.c\n");
  folder.write("x/y/.gitignore", "!keep.b\n");
  for (const char* file : {"f.a", "f.b", "keep.b", "f.c", "top", "middle", "z/top", "z/f.b"})
    folder.write(std::string("x/y/") + file, "");
  const Tree tree = list_tree(folder.path() / "x/y", {});
  CHECK(paths_of_tree(tree) == PathsOfTree{".gitignore", "f.a", "keep.b", "z/", "z/top"});
  CHECK(tree.ignored == PathsOfTree{"f.b", "middle", "top", "z/f.b"});
}

TEST_CASE("the repository's ignore files do not apply to code in a folder that the repository ignores") {
  const TemporaryFolder folder;
  folder.write(".git/HEAD", "");
  folder.write(".gitignore", "/out/\n*.a\n");
  folder.write("out/x/f.a", "");
  folder.write("in/x/f.a", "");
  CHECK(paths_in(folder.path() / "out/x") == PathsOfTree{"f.a"});
  CHECK(paths_in(folder.path() / "in/x").empty());
}

TEST_CASE("list_tree() refuses an ignore file of more than 1 MiB") {
  const TemporaryFolder folder;
  folder.write("f", "");
  const std::string longest = "f\n#" + std::string((1 << 20) - 3, 'x');
  folder.write(".gitignore", longest);
  CHECK(paths_in(folder.path()) == PathsOfTree{".gitignore"});
  folder.write(".gitignore", longest + "x");
  CHECK(tree_refusal(folder.path()).code() == mlk::ExitCode::usage);
}

TEST_CASE("list_tree() refuses folders that are nested more than 200 deep") {
  const TemporaryFolder folder;
  std::string path;
  for (int i = 0; i < 200; ++i) path += "d/";
  folder.write(path + "f", "");
  CHECK(list_tree(folder.path(), {}).entries.size() == 201);
  fs::create_directory(folder.path() / (path + "d"));
  const mlk::Error error = tree_refusal(folder.path());
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what()).ends_with("has more than 200 folders in each other"));
}

TEST_CASE("list_tree() refuses a path of more than 4095 bytes") {
  const TemporaryFolder folder;
  constexpr int folders = 16;
  const std::string name(240, 'd');
  // Makes sixteen nested folders and a file. One call cannot open such a long path.
  const auto make = [&](const std::string& of_file) {
    int open = ::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < folders; ++i) {
      (void)::mkdirat(open, name.c_str(), 0700);
      const int next = ::openat(open, name.c_str(), O_RDONLY | O_DIRECTORY);
      ::close(open);
      open = next;
    }
    const int file = ::openat(open, of_file.c_str(), O_WRONLY | O_CREAT, 0600);
    REQUIRE(file >= 0);
    ::close(file);
    ::close(open);
  };
  make(std::string(239, 'f'));
  CHECK(list_tree(folder.path(), {}).entries.back().of_tar.path.size() == 4095);
  make(std::string(240, 'f'));
  const mlk::Error error = tree_refusal(folder.path());
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what()).ends_with("has a path that is too long: more than 4095 bytes"));
}

TEST_CASE("list_tree() counts files, links and folders, and refuses more entries than allowed") {
  const TemporaryFolder folder;
  folder.write("a/f", "");
  folder.write("g", "");
  fs::create_symlink("g", folder.path() / "l");
  CHECK(list_tree(folder.path(), {}, 4).entries.size() == 4);
  try {
    (void)list_tree(folder.path(), {}, 3);
    FAIL("it was listed");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::usage);
    CHECK(std::string(error.what()).ends_with("has more than 3 files"));
  }
  CHECK(list_tree(folder.path(), {.include = {}, .exclude = {"g"}, .never = {}}, 3).entries.size() == 3);
  CHECK(mlk::image::most_tree_entries == 100'000);
}

TEST_CASE("a tree has the size and the executable bit of each file, and the target of each link") {
  const TemporaryFolder folder;
  folder.write("a", "12345");
  folder.write("b", "");
  fs::permissions(folder.path() / "b", fs::perms::owner_all);
  fs::create_symlink("a", folder.path() / "c");
  const Tree tree = list_tree(folder.path(), {});
  REQUIRE(tree.entries.size() == 3);
  CHECK(tree.entries[0].size == 5);
  CHECK_FALSE(tree.entries[0].of_tar.executable);
  CHECK(tree.entries[1].size == 0);
  CHECK(tree.entries[1].of_tar.executable);
  CHECK(tree.entries[2].of_tar.target == "a");
  CHECK(tree.entries[2].size == 0);
  CHECK(tree.no_files.empty());
}

TEST_CASE(
    "`no_files` lists pipes in order, and a link that leads out of the folder causes an error with a hint") {
  const TemporaryFolder folder;
  for (const char* name : {"z", "b", "m"}) {
    folder.write(std::string(name) + "d/f", "");
    REQUIRE(::mkfifo((folder.path() / name).c_str(), 0600) == 0);
    REQUIRE(::mkfifo((folder.path() / (std::string(name) + "d/p")).c_str(), 0600) == 0);
  }
  CHECK(list_tree(folder.path(), {}).no_files == PathsOfTree{"b", "bd/p", "m", "md/p", "z", "zd/p"});
  fs::create_symlink("..", folder.path() / "md/up");
  CHECK(tree_refusal(folder.path()).code() == mlk::ExitCode::ok);
  fs::create_symlink("../..", folder.path() / "md/out");
  CHECK(tree_refusal(folder.path()).hint() ==
        "leave it out with exclude: [/md/out], or put what it leads to on a volume (data:)");
}
