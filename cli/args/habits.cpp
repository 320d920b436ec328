#include "cli/args/habits.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "cli/util/text.h"

namespace mlk {
namespace {

struct Habit {
  std::string_view words;  // each between two blanks
  std::string_view instead;
};

constexpr Habit command_habits[] = {
    {" list ps jobs runs squeue sacct ", "mlk ls"},
    {" describe show inspect info top stats ", "mlk status RUN"},
    {" rm remove del destroy purge ", "mlk delete RUN"},
    {" cancel kill abort scancel terminate ", "mlk stop RUN"},
    {" suspend pause halt ", "mlk stop RUN"},
    {" continue unpause unsuspend restart ", "mlk resume RUN"},
    {" apply create launch start train sbatch srun fit ", "mlk submit FILE"},
    {" rerun resubmit requeue ", "mlk retry RUN"},
    {" validate lint check verify ", "mlk submit --dry-run FILE"},
    {" log tail attach ", "mlk logs -f RUN"},
    {" watch await ", "mlk wait RUN"},
    {" template manifest ", "mlk render FILE"},
    {" config auth login whoami cluster-info sinfo ", "mlk context"},
    {" up down ", "mlk local WORD"},
    {" explain ", "man mlk-experiment"},
};

constexpr Habit other_habits[] = {
    {" exec ssh shell sh ",
     "kubectl exec does it; `mlk status RUN -o json` names the pods. With --local they are processes of this "
     "machine"},
    {" port-forward cp debug ",
     "kubectl does it; `mlk status RUN -o json` names the pods. With --local their ports and files are on "
     "this machine"},
    {" edit set patch scale ", "change the experiment file and submit it: that is a new run"},
    {" rename ", "change `name` in the experiment file and submit it: that is a new run"},
};

// No flag of mlk deletes the embedded cluster, because its files may be somebody's only checkpoints.
constexpr std::string_view delete_local =
    "`mlk local down` keeps its objects. This deletes its runs, their logs, and what they wrote into its own "
    "volumes: mlk local down && rm -r ${XDG_STATE_HOME:-~/.local/state}/mlk/local";

constexpr Habit local_habits[] = {
    {" delete rm remove reset destroy purge clean wipe prune ", delete_local},
    {" start create init run restart ", "mlk local up"},
    {" stop kill halt ", "mlk local down"},
    {" info show ps ls ", "mlk local status"},
};

struct FlagHabit {
  std::string_view commands;  // each between two blanks; empty: all commands
  std::string_view flags;
  std::string_view instead;
};

constexpr FlagHabit flag_habits[] = {
    {" submit render ", " -f --file --filename ", "the file stands by itself: mlk COMMAND FILE"},
    {" submit render ", " --name ", "--set name=NAME"},
    {" submit render ", " --image ", "--set image=IMAGE"},
    {" submit render ", " --mode ", "--set mode=MODE"},
    {" submit render ", " --workers --num-workers --replicas --nodes -N ", "--set workers.count=N"},
    {" submit render ", " --servers --num-servers --ps ", "--set servers.count=N"},
    {" submit render ", " --gpus --gpu --gpus-per-node ", "--set workers.gpu=N"},
    {" submit render ", " --cpu --cpus ", "--set workers.cpu=N"},
    {" submit render ", " --memory --mem ", "--set workers.memory=8Gi"},
    {" submit render ", " --lr --learning-rate ",
     "--set train.optimizer.lr=LR; for a program of your own: mlk submit FILE -- --lr LR"},
    {" submit render ", " --steps ", "--set train.steps=N"},
    {" submit ", " -w --watch ", "--follow"},
    {" status wait ", " -f --follow -w --watch ", "mlk logs -f RUN"},
    {" ls ", " -w --watch ", "mlk wait RUN"},
    {" ls ", " --name ", "mlk ls NAME"},
    {" ls status logs wait stop resume delete ", " -A --all-namespaces ",
     "one namespace at a time: -n NAMESPACE"},
    {" delete stop resume ", " --all ",
     "say which with --where, or name the runs: `mlk ls -o name` lists them"},
    {" delete ", " -f --filename ", "names of runs are given: `mlk ls -o name` lists them"},
    {" delete ", " --force --now ", "mlk delete RUN needs no force; --no-wait does not wait for the end"},
    {" down ", " --delete --rm --remove --purge --prune --volumes -v --all --clean --wipe --reset ",
     delete_local},
    {" logs ", " -c ", "--container NAME"},
    {" logs ", " -p --previous ", "all tries of a rank are shown; --rank RANK shows one rank"},
    {"", " -q --quiet ", "results go to standard output alone: 2>/dev/null hides the rest"},
};

bool has(std::string_view list, std::string_view word) {
  return word.find(' ') == std::string_view::npos && list.find(" " + std::string(word) + " ") != list.npos;
}

// Names of runs and trials have no dot. But a word with a slash may be a file or a trial, such as x/3.
bool may_be_run(const std::string& operand) { return operand.find('.') == operand.npos; }
bool may_be_file(const std::string& operand) { return operand.find_first_of("./") != operand.npos; }

// Returns the advice with the typed words in place of RUN, FILE, WORD and COMMAND.
std::string filled_in(std::string_view advice, const std::string& word,
                      const std::vector<std::string>& rest) {
  const auto operand =
      std::find_if(rest.begin(), rest.end(), [](const std::string& each) { return !each.starts_with("-"); });
  std::vector<std::string> out = split(advice, ' ');
  for (std::string& part : out) {
    const bool is_meant = operand != rest.end() && ((part == "RUN" && may_be_run(*operand)) ||
                                                    (part == "FILE" && may_be_file(*operand)));
    if (is_meant) part = printable(shell_word(*operand));
    if (part == "WORD" || part == "COMMAND") part = word;
  }
  const std::string text = join(out, " ");
  const bool command = text.starts_with("mlk ") && text.find(';') == text.npos;
  return command || text.starts_with("--") ? "did you mean: " + text : text;
}

std::string habit_in(std::span<const Habit> habits, const std::string& word,
                     const std::vector<std::string>& rest) {
  for (const Habit& habit : habits) {
    if (has(habit.words, word)) return filled_in(habit.instead, word, rest);
  }
  return "";
}

}  // namespace

std::string habit_of_command(const std::string& word, const std::vector<std::string>& rest) {
  const std::string habit = habit_in(command_habits, word, rest);
  return habit.empty() ? habit_in(other_habits, word, {}) : habit;
}

std::string habit_of_local(const std::string& word) { return habit_in(local_habits, word, {}); }

std::string habit_of_flag(const std::string& command, const std::string& flag,
                          const std::vector<std::string>& rest) {
  for (const FlagHabit& habit : flag_habits) {
    const bool here = habit.commands.empty() || has(habit.commands, command);
    if (here && has(habit.flags, flag)) return filled_in(habit.instead, command, rest);
  }
  return "";
}

}  // namespace mlk
