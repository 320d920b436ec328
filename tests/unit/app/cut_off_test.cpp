// Tests Ctrl-C while a command writes to this machine's disk: the command ends and leaves no files behind.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/app/home_folder.h"
#include "tests/unit/app/tree.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/registry/played_image.h"

TEST_SUITE_BEGIN("app/cut_off");

namespace mlk {
namespace {

namespace fs = std::filesystem;
using test::FakeCluster;
using test::HomeFolder;
using test::Tree;

constexpr int interrupted_code = static_cast<int>(ExitCode::interrupted);

// A user who interrupts mlk at the request number `interrupt_at` to the cluster; 0: never.
struct Impatient : FakeCluster {
  const TemporaryFolder folder;
  const HomeFolder home;
  int requests = 0;

  std::pair<int, std::string> type(std::vector<std::string> words, int interrupt_at = 0) {
    Tree tree;
    requests = 0;
    before([&, interrupt_at](const local::Request&) -> std::optional<local::Answer> {
      if (++requests == interrupt_at) tree.interrupted = 2;
      return std::nullopt;
    });
    words.insert(words.end(), {"--kubeconfig", kubeconfig()});
    const int code = tree.run(words);
    before({});
    return {code, code == 0 ? tree.out.str() : tree.err.str()};
  }
  std::string submit(const std::string& more) {
    const fs::path file = folder.write("x.yaml", "name: x\nmode: single\nimage: i\nrun: sh main.sh\n" + more);
    const auto [code, said] = type({"submit", file.string()});
    REQUIRE_MESSAGE(code == 0, said);
    return said.substr(0, said.find('\n'));
  }
};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path().filename().string());
  return out;
}

}  // namespace

TEST_CASE("an interrupted mlk get leaves no folder") {
  for (const std::string more :
       {"code: {path: of_code}\n", "data: [{name: d, mount: /d, files: of_data}]\n"}) {
    INFO(more);
    Impatient user;
    user.folder.write("of_code/main.sh", "echo\n");
    user.folder.write("of_data/numbers", "1\n");
    const std::string run = user.submit(more);
    const TemporaryFolder target;
    const std::string to = (target.path() / "d").string();
    REQUIRE(user.type({"get", run, "--to", to}).first == 0);
    CHECK(names_in(target.path()) == std::vector<std::string>{"d"});
    fs::remove_all(to);
    CHECK(user.type({"get", run, "--to", to}, user.requests) ==
          std::pair(interrupted_code, std::string("mlk: error: interrupted\n")));
    CHECK(names_in(target.path()).empty());
  }
}

TEST_CASE("an interrupted mlk diff leaves no folder with files to compare") {
  Impatient user;
  user.folder.write("of_code/main.sh", "echo one\n");
  const std::string first = user.submit("code: {path: of_code}\n");
  user.folder.write("of_code/main.sh", "echo two\n");
  const std::string second = user.submit("code: {path: of_code}\n");
  REQUIRE(first != second);
  const auto [code, said] = user.type({"diff", first, second});
  REQUIRE(code == 0);
  CHECK(said.find("+echo two\n") != std::string::npos);
  CHECK(user.type({"diff", first, second}, user.requests) ==
        std::pair(interrupted_code, std::string("mlk: error: interrupted\n")));
  CHECK(names_in(user.home.place("TMPDIR")).empty());
}

TEST_CASE("an interrupted mlk build --output leaves no folder and no file") {
  const HomeFolder home;
  PlayedRegistry played;
  add_image(played, "base/x", "1", {"the first layer", "the second layer"});
  const TemporaryFolder folder;
  folder.write("code/main.sh", "echo\n");
  const fs::path file =
      folder.write("x.yaml", "name: x\nmode: single\nrun: sh main.sh\nimage: " + played.name +
                                 "/base/x:1\ncode: {path: code}\n");
  for (const std::string kind : {"oci:", "docker-archive:"}) {
    INFO(kind);
    const TemporaryFolder target;
    const auto build = [&](int interrupt_at) {
      Tree tree;
      int layers = 0;
      played.before = [&, interrupt_at](const PlayedRegistry::Request& request, PlayedRegistry::Response&) {
        const bool of_layer = request.path.ends_with(sha256_hex("the first layer")) ||
                              request.path.ends_with(sha256_hex("the second layer"));
        if (of_layer && request.method == "GET" && ++layers == interrupt_at) tree.interrupted = 2;
        return false;
      };
      const int code =
          tree.run({"build", file.string(), "--output", kind + (target.path() / "image").string()});
      played.before = {};
      return std::pair(code, tree.err.str());
    };
    const auto [code, said] = build(2);
    CHECK(code == interrupted_code);
    CHECK(said == "mlk: error: interrupted\n");
    CHECK(names_in(target.path()).empty());
    CHECK(build(0).first == 0);
    CHECK(names_in(target.path()) == std::vector<std::string>{"image"});
  }
}

}  // namespace mlk
