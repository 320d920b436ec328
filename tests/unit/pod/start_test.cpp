// mlk-pod start: a program whose outputs stay, and whose start and end are as without mlk-pod.
#include "pod/start.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("pod/start");

namespace mlk::pod {
namespace {

namespace fs = std::filesystem;

// A pod: its working folder and the volume for its outputs.
class Pod {
 public:
  fs::path work() const { return folder_.path() / "work"; }
  fs::path outputs() const { return folder_.path() / "claim/run/outputs/0"; }

  // Runs `words` with mlk-pod start in the working folder. Returns the status of the process.
  int run(const std::vector<std::string>& words, const char* address = "") const {
    const pid_t child = begin(words, address);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return status;
  }

  pid_t begin(const std::vector<std::string>& words, const char* address = "") const {
    fs::create_directories(work());
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child > 0) return child;
    for (const int number : {SIGTERM, SIGINT, SIGSEGV, SIGABRT, SIGFPE, SIGILL}) ::signal(number, SIG_DFL);
    ::setenv("MLK_OUTPUTS", outputs().c_str(), 1);
    ::setenv("MLK_ADDRESS", address, 1);
    if (::chdir(work().c_str()) != 0 || std::freopen("said", "w", stderr) == nullptr) ::_exit(99);
    ::_exit(start(words));
  }

  std::string said() const { return text_of(work() / "said"); }
  static std::string text_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  TemporaryFolder folder_;
};

std::vector<std::string> shell(const std::string& script, std::vector<std::string> folders = {"out"}) {
  folders.insert(folders.end(), {"--", "sh", "-c", script});
  return folders;
}

TEST_CASE("each exit code of the program is that of mlk-pod") {
  const Pod pod;
  for (const int code : {0, 1, 2, 77, 126, 127, 128, 137, 143, 255}) {
    const int status = pod.run(shell("exit " + std::to_string(code)));
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
  }
}

TEST_CASE("mlk-pod ends by the signal by which the program has ended") {
  const Pod pod;
  for (const int number : {SIGKILL, SIGTERM, SIGINT, SIGSEGV, SIGABRT, SIGUSR1}) {
    const int status = pod.run(shell("kill -" + std::to_string(number) + " $$"));
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
  }
}

TEST_CASE("a program that cannot be executed ends as in a shell, with its name") {
  const Pod pod;
  int status = pod.run({"out", "--", "mlk-no-such-program"});
  CHECK(WEXITSTATUS(status) == 127);
  CHECK(pod.said() == "mlk: mlk-no-such-program: No such file or directory\n");
  status = pod.run({"out", "--", "/tmp"});
  CHECK(WEXITSTATUS(status) == 126);
  CHECK(pod.said() == "mlk: /tmp: Permission denied\n");
}

TEST_CASE("the program gets the signals that mlk-pod gets, and may end by itself") {
  for (const int number : {SIGTERM, SIGUSR1, SIGHUP}) {
    const Pod pod;
    const std::string name = std::to_string(number);
    const pid_t child = pod.begin(
        shell("trap 'echo got > got; exit 9' " + name + "; touch ready; while :; do sleep 0.01; done"));
    while (!fs::exists(pod.work() / "ready")) ::usleep(2000);
    ::kill(child, number);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 9);
    CHECK(fs::exists(pod.work() / "got"));
  }
}

TEST_CASE("a kill -9 of mlk-pod ends the program too") {
  const Pod pod;
  const pid_t child = pod.begin(shell("echo $$ > id.new; mv id.new id; while :; do sleep 0.01; done"));
  while (!fs::exists(pod.work() / "id")) ::usleep(2000);
  const pid_t program = std::stoi(Pod::text_of(pod.work() / "id"));
  ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  for (int i = 0; i < 5000 && ::kill(program, 0) == 0; ++i) {
    // The program may stay as a zombie until its new parent has seen its end.
    const std::string stat = Pod::text_of("/proc/" + std::to_string(program) + "/stat");
    if (stat.find(") Z") != std::string::npos) break;
    ::usleep(2000);
  }
  const std::string stat = Pod::text_of("/proc/" + std::to_string(program) + "/stat");
  CHECK((stat.empty() || stat.find(") Z") != std::string::npos));
}

TEST_CASE("what the program writes in the folder is in the volume at once") {
  const Pod pod;
  CHECK(pod.run(shell("mkdir out/sub; echo a > out/a; echo b > out/sub/b; cat " +
                      (pod.outputs() / "out/a").string() + " > seen")) == 0);
  CHECK(Pod::text_of(pod.work() / "seen") == "a\n");
  CHECK(Pod::text_of(pod.outputs() / "out/sub/b") == "b\n");
  CHECK(fs::is_symlink(pod.work() / "out"));
}

TEST_CASE("a second start finds the files of the first one") {
  const Pod pod;
  CHECK(pod.run(shell("echo 1 > out/step")) == 0);
  fs::remove(pod.work() / "out");
  CHECK(pod.run(shell("test $(cat out/step) = 1 && echo 2 > out/step")) == 0);
  CHECK(pod.run(shell("test $(cat out/step) = 2")) == 0);
}

TEST_CASE("the files of a folder of the code are there too, but do not replace those of an earlier start") {
  const Pod pod;
  CHECK(pod.run(shell("echo old > out/model")) == 0);
  fs::remove(pod.work() / "out");
  fs::create_directories(pod.work() / "out/sub");
  std::ofstream(pod.work() / "out/model") << "of the code\n";
  std::ofstream(pod.work() / "out/sub/readme") << "of the code\n";
  CHECK(pod.run(shell("cat out/model out/sub/readme > seen")) == 0);
  CHECK(Pod::text_of(pod.work() / "seen") == "old\nof the code\n");
}

TEST_CASE("a program that makes its folder anew does not lose what it writes there") {
  const Pod pod;
  CHECK(
      pod.run(shell("echo first > out/a; echo first > out/b; rm -rf out; mkdir -p out/sub; echo new > out/a;"
                    "echo s > out/sub/s; ln -s a out/latest; exit 3")) == 3 << 8);
  CHECK(Pod::text_of(pod.outputs() / "out/a") == "new\n");
  CHECK(Pod::text_of(pod.outputs() / "out/b") == "first\n");
  CHECK(Pod::text_of(pod.outputs() / "out/sub/s") == "s\n");
  CHECK(fs::read_symlink(pod.outputs() / "out/latest") == "a");
}

TEST_CASE("several folders, also in folders that are not there yet") {
  const Pod pod;
  CHECK(pod.run(shell("echo 1 > a/one; echo 2 > 'b/c d/two'", {"a", "b/c d"})) == 0);
  CHECK(Pod::text_of(pod.outputs() / "a/one") == "1\n");
  CHECK(Pod::text_of(pod.outputs() / "b/c d/two") == "2\n");
}

TEST_CASE("a file with the name of an output is a mistake before the program starts") {
  const Pod pod;
  fs::create_directories(pod.work());
  std::ofstream(pod.work() / "out") << "a file\n";
  const int status = pod.run(shell("touch started"));
  CHECK(WEXITSTATUS(status) == 126);
  CHECK(pod.said() == "mlk: outputs: out is there already and is no folder; outputs names folders\n");
  CHECK_FALSE(fs::exists(pod.work() / "started"));
  CHECK(Pod::text_of(pod.work() / "out") == "a file\n");
}

TEST_CASE("a volume that cannot be written is a mistake before the program starts") {
  const Pod pod;
  fs::create_directories(pod.outputs().parent_path().parent_path());
  std::ofstream(pod.outputs().parent_path()) << "a file in the place of the folder\n";
  const int status = pod.run(shell("touch started"));
  CHECK(WEXITSTATUS(status) == 126);
  CHECK(pod.said().starts_with("mlk: uid "));
  CHECK(pod.said().find(" cannot write in ") != std::string::npos);
  CHECK_FALSE(fs::exists(pod.work() / "started"));
}

TEST_CASE("on one machine, nothing is linked in a working folder of the user") {
  const Pod pod;
  fs::create_directories(pod.work() / "out");
  const std::vector<std::string> words = shell("echo a > out/a", {"--own-folder", "out"});
  CHECK(pod.run(words, "127.0.0.1:7070") == 0);
  CHECK_FALSE(fs::is_symlink(pod.work() / "out"));
  CHECK(pod.run(words, "run-worker-0.run:7070") == 0);
  CHECK(fs::is_symlink(pod.work() / "out"));
  CHECK(Pod::text_of(pod.outputs() / "out/a") == "a\n");
}

TEST_CASE("a million lines and the input of the program pass by mlk-pod") {
  const Pod pod;
  const int status =
      pod.run(shell("seq 1000000 | tail -1 > last; exec 0< last; read line; echo $line > again"));
  CHECK(status == 0);
  CHECK(Pod::text_of(pod.work() / "again") == "1000000\n");
}

}  // namespace
}  // namespace mlk::pod
