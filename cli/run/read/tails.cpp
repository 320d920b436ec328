#include "cli/run/read/tails.h"

#include <deque>
#include <optional>

#include "cli/kube/log_tails.h"
#include "cli/run/facts/metrics_reader.h"
#include "cli/run/state/report.h"
#include "cli/run/state/status.h"

namespace mlk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds old_age{30};            // if a line is older, another rank may have a newer line
constexpr std::size_t most_endings = 64;  // for all runs together, to leave time for other logs

// How much of a log to read.
struct Extent {
  int lines;
  std::size_t bytes;
};
constexpr Extent first_look{40, 32 * 1024};
constexpr Extent longer_look{1000, 256 * 1024};  // for programs that also print many other lines
constexpr Extent newest_lines{3, 256 * 1024};    // for programs with long lines
constexpr Extent ending_of_a_log{400, 256 * 1024};

kube::LogTail tail_of(const LogToRead& log, const Extent& extent) {
  return {.pod = log.pod, .container = log.container, .lines = extent.lines, .bytes = extent.bytes};
}

// The logs of one run that may hold its newest metrics line.
class RunTails {
 public:
  RunTails(kube::LogTails& tails, RunObjects& run) : tails_(tails), run_(run), logs_(logs_to_read(run)) {
    if (!logs_.empty()) read(0, first_look);
  }

 private:
  void read(std::size_t which, const Extent& extent) {
    const bool is_first = extent.lines == first_look.lines;
    tails_.add(tail_of(logs_[which], extent), [this, which, is_first](const kube::TailAnswer& answer) {
      const std::optional<Time> found = note_lines(which, answer);
      if (is_first) search_on(which, answer, found);
    });
  }

  // Stores the newest metrics line of this log, and returns its time.
  std::optional<Time> note_lines(std::size_t which, const kube::TailAnswer& answer) {
    std::optional<Time> found;
    MetricsReader reader;
    for (const kube::LogLine& line : answer.lines) {
      const std::optional<Metrics> metrics = reader.read(line.text);
      if (!metrics) continue;
      run_.lines[logs_[which].uid] = {*metrics, line.time};
      found = line.time;
    }
    return found;
  }

  void search_on(std::size_t which, const kube::TailAnswer& answer, const std::optional<Time>& found) {
    const bool answered = answer.status == 200;
    if (answered && answer.cut_off) read(which, newest_lines);
    if (answered && !found && !answer.whole && !answer.cut_off) read(which, longer_look);
    const bool is_fresh = found && std::chrono::system_clock::now() - *found < old_age;
    if (which > 0 || is_fresh) return;
    for (std::size_t other = 1; other < logs_.size(); ++other) read(other, first_look);
  }

  kube::LogTails& tails_;
  RunObjects& run_;
  const std::vector<LogToRead> logs_;
};

// Adds requests for a longer end of the logs of pods whose termination message lacks the program's error.
void add_endings(kube::LogTails& tails, const std::vector<RunObjects*>& runs) {
  std::size_t count = 0;
  for (RunObjects* run : runs) {
    for (const LogToRead& log : endings_to_read(*run)) {
      if (++count > most_endings) return;
      tails.add(tail_of(log, ending_of_a_log), [run, uid = log.uid](const kube::TailAnswer& answer) {
        std::string text;
        for (const kube::LogLine& line : answer.lines) text.append(line.text).append("\n");
        // A text that was cut off at its end lacks the error, so it is not stored.
        if (!text.empty() && !answer.cut_off) run->endings[uid] = std::move(text);
      });
    }
  }
}

}  // namespace

void read_tails(kube::Client& client, const std::string& name_space, const std::vector<RunObjects*>& runs,
                milliseconds budget) {
  const auto deadline = std::chrono::steady_clock::now() + budget;
  kube::LogTails tails(client, name_space);
  add_endings(tails, runs);
  std::deque<RunTails> of_runs;  // a deque, since the addresses of its elements must not change
  for (RunObjects* run : runs) of_runs.emplace_back(tails, *run);
  tails.read(deadline);
}

}  // namespace mlk
