// Words that people type from habit with kubectl, git and Slurm.

#include "cli/args/habits.h"

#include <memory>

#include <doctest/doctest.h>

#include "cli/args/command_tree.h"
#include "tests/unit/app/tree.h"

TEST_SUITE_BEGIN("app/habits");

namespace {

// The hint for a command line that mlk refuses.
std::string hint(const std::vector<std::string>& words) {
  mlk::test::Tree tree;
  CHECK(tree.run(words) == 2);
  const std::string said = tree.err.str();
  const std::size_t at = said.find("\nhint: ");
  return at == said.npos ? said : said.substr(at + 7, said.size() - at - 8);
}

}  // namespace

TEST_CASE("a hint translates a command of kubectl, git or Slurm into a command of mlk") {
  CHECK(hint({"describe", "digits"}) == "did you mean: mlk status digits");
  CHECK(hint({"list", "pods"}) == "did you mean: mlk ls");
  CHECK(hint({"ps"}) == "did you mean: mlk ls");
  CHECK(hint({"rm", "-f", "digits"}) == "did you mean: mlk delete digits");
  CHECK(hint({"cancel", "digits"}) == "did you mean: mlk stop digits");
  CHECK(hint({"kill"}) == "did you mean: mlk stop RUN");
  CHECK(hint({"apply", "-f", "my file.yaml"}) == "did you mean: mlk submit 'my file.yaml'");
  CHECK(hint({"create", "x.yaml"}) == "did you mean: mlk submit x.yaml");
  CHECK(hint({"run", "x.yaml"}) == "an experiment file is for: mlk submit x.yaml");
  CHECK(hint({"log", "digits"}) == "did you mean: mlk logs -f digits");
  CHECK(hint({"top", "digits"}) == "did you mean: mlk status digits");
  CHECK(hint({"exec", "-it", "digits"})
            .starts_with("kubectl exec does it; `mlk status RUN -o json` names the pods."));
  CHECK(hint({"exec", "--local", "digits"}).ends_with("With --local they are processes of this machine"));
  CHECK(hint({"rerun", "digits"}) == "did you mean: mlk retry digits");
  CHECK(hint({"up"}) == "did you mean: mlk local up");
}

TEST_CASE("a hint shows FILE instead of the typed word if the word is the name of a run") {
  CHECK(hint({"start", "digits-abcde"}) == "did you mean: mlk submit FILE");
  CHECK(hint({"start", "folder/x"}) == "did you mean: mlk submit folder/x");
}

TEST_CASE("a hint translates a flag of another program into a flag of mlk") {
  CHECK(hint({"submit", "-f", "x.yaml"}) == "the file stands by itself: mlk submit x.yaml");
  CHECK(hint({"submit", "x.yaml", "--filename=x.yaml"}).starts_with("the file stands by itself"));
  CHECK(hint({"ls", "-A"}) == "one namespace at a time: -n NAMESPACE");
  CHECK(hint({"status", "digits", "-w"}) == "did you mean: mlk logs -f RUN");
  CHECK(hint({"submit", "x.yaml", "--num-workers", "4"}) == "did you mean: --set workers.count=N");
  CHECK(hint({"delete", "--all"}) == "say which with --where, or name the runs: `mlk ls -o name` lists them");
}

TEST_CASE("the hint for deleting the local cluster shows the command and says what it deletes") {
  const std::string deletes = "mlk local down && rm -r ${XDG_STATE_HOME:-~/.local/state}/mlk/local";
  for (const char* flag : {"--delete", "--purge", "--volumes", "-v"}) {
    const std::string said = hint({"local", "down", flag});
    CHECK_MESSAGE(said.ends_with(deletes), said);
    CHECK(said.find("its runs, their logs, and what they wrote into its own volumes") != said.npos);
  }
  for (const char* word : {"delete", "rm", "reset"}) CHECK(hint({"local", word}).ends_with(deletes));
  CHECK(hint({"local", "start"}) == "did you mean: mlk local up");
  CHECK(hint({"local", "stop"}) == "did you mean: mlk local down");
  CHECK(hint({"local", "ps"}) == "did you mean: mlk local status");
}

TEST_CASE("a typing error gets a hint with the nearest word") {
  CHECK(hint({"statsu", "digits"}) == "did you mean: mlk status");
  CHECK(hint({"submit", "--folow"}) == "did you mean: --follow");
  CHECK(hint({"ls", "--everything"}) == "see: mlk ls --help");
}

TEST_CASE("no command or flag of mlk counts as a word of another program") {
  mlk::test::Tree tree;
  const std::unique_ptr<CLI::App> root = mlk::make_app(tree.session);
  for (const char* word : {"up", "down", "status", "kubeconfig"}) CHECK(mlk::habit_of_local(word).empty());
  for (const CLI::App* command : mlk::visible_commands(*root)) {
    CHECK_MESSAGE(mlk::habit_of_command(command->get_name(), {}).empty(), command->get_name());
    for (const std::string& flag : mlk::option_names(*command, *root))
      CHECK_MESSAGE(mlk::habit_of_flag(command->get_name(), flag, {}).empty(), command->get_name(), flag);
  }
}
