#include "cli/run/read/tails.h"

#include <algorithm>
#include <deque>
#include <future>

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/logs.h"
#include "cli/run/state/report.h"
#include "cli/run/state/status.h"

namespace mlk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_at_once = 128;
constexpr seconds old_age{30};  // of a line: another rank may have reported since

// How much of a log to read. If there are more bytes, the server cuts off the end, where the newest lines
// are.
struct Extent {
  int lines;
  std::size_t bytes;
};
constexpr Extent first_look{40, 32 * 1024};
constexpr Extent longer_look{1000, 256 * 1024};  // for programs that print much else
constexpr Extent newest_lines{3, 256 * 1024};    // for programs with long lines
constexpr Extent ending_of_a_log{400, 256 * 1024};
constexpr milliseconds least_for_endings{100};

struct Look {
  RunObjects* run;
  std::vector<LogToRead> logs;
  std::size_t which;  // of `logs`
  Extent extent;
  std::future<kube::Answer> answer{};
};

class Tails {
 public:
  Tails(kube::Client& client, const std::string& name_space, milliseconds budget)
      : client_(client), name_space_(name_space), deadline_(Clock::now() + budget) {}

  void read(const std::vector<RunObjects*>& runs) {
    for (RunObjects* run : runs) {
      std::vector<LogToRead> logs = logs_to_read(*run);
      if (!logs.empty()) due_.push_back({run, std::move(logs), 0, first_look});
    }
    while (start_due() && Clock::now() < deadline_) {
      under_way_.front().answer.wait_for(milliseconds(1));
      take_answers();
    }
  }

 private:
  // False if there is nothing left to wait for.
  bool start_due() {
    while (!due_.empty() && under_way_.size() < most_at_once) {
      Look look = std::move(due_.front());
      due_.pop_front();
      const auto left = std::chrono::floor<milliseconds>(deadline_ - Clock::now());
      if (left <= milliseconds(0)) return false;
      kube::LogOptions options{.container = look.logs[look.which].container};
      options.tail_lines = look.extent.lines;
      options.limit_bytes = look.extent.bytes;
      kube::Request request = kube::log_request(name_space_, look.logs[look.which].pod, options);
      request.timeout = left;
      look.answer = client_.ask(request);
      under_way_.push_back(std::move(look));
    }
    return !under_way_.empty();
  }

  void take_answers() {
    for (auto look = under_way_.begin(); look != under_way_.end();) {
      if (look->answer.wait_for(milliseconds(0)) != std::future_status::ready) {
        ++look;
        continue;
      }
      take(*look, look->answer.get());
      look = under_way_.erase(look);
    }
  }

  void take(Look& look, const kube::Answer& answer) {
    const std::string& body = answer.response.body;
    const bool answered = answer.unreachable.empty() && answer.response.status == 200;
    std::size_t count = 0;
    const MetricsLine* found = nullptr;
    if (answered) {
      for (kube::LogLine& line : kube::parse_log(body)) {
        ++count;
        if (const std::optional<Metrics> metrics = parse_metrics(line.text))
          found = &(look.run->lines[look.logs[look.which].uid] = {*metrics, line.time});
      }
    }
    if (look.extent.lines != first_look.lines) return;
    const bool cut_off = body.size() >= look.extent.bytes;
    const bool is_whole = !cut_off && count < static_cast<std::size_t>(look.extent.lines);
    if (answered && cut_off) due_.push_back({look.run, look.logs, look.which, newest_lines});
    if (answered && !found && !is_whole && !cut_off)
      due_.push_back({look.run, look.logs, look.which, longer_look});
    const bool is_fresh = found && std::chrono::system_clock::now() - found->time < old_age;
    if (look.which > 0 || is_fresh) return;
    for (std::size_t other = 1; other < look.logs.size(); ++other)
      due_.push_back({look.run, look.logs, other, first_look});
  }

  kube::Client& client_;
  const std::string& name_space_;
  const Clock::time_point deadline_;
  std::deque<Look> due_, under_way_;
};

// More of the end of a log, for pods whose termination message lacks the program's error.
struct Ending {
  RunObjects* run;
  std::string uid;
  std::future<kube::Answer> answer;
};

std::vector<Ending> ask_for_endings(kube::Client& client, const std::string& name_space,
                                    const std::vector<RunObjects*>& runs, milliseconds budget) {
  std::vector<Ending> out;
  for (RunObjects* run : runs) {
    for (const LogToRead& log : endings_to_read(*run)) {
      if (out.size() == most_at_once) return out;
      kube::LogOptions options{.container = log.container};
      options.tail_lines = ending_of_a_log.lines;
      options.limit_bytes = ending_of_a_log.bytes;
      kube::Request request = kube::log_request(name_space, log.pod, options);
      request.timeout = budget;
      out.push_back({run, log.uid, client.ask(request)});
    }
  }
  return out;
}

// A longer one was cut off at its end, which is what matters.
void take_endings(std::vector<Ending>& endings, Clock::time_point deadline) {
  for (Ending& ending : endings) {
    if (ending.answer.wait_until(deadline) != std::future_status::ready) continue;
    const kube::Answer answer = ending.answer.get();
    const std::string& body = answer.response.body;
    if (!answer.unreachable.empty() || answer.response.status != 200 || body.size() >= ending_of_a_log.bytes)
      continue;
    std::string text;
    for (const kube::LogLine& line : kube::parse_log(body)) text.append(line.text).append("\n");
    if (!text.empty()) ending.run->endings[ending.uid] = std::move(text);
  }
}

}  // namespace

void read_tails(kube::Client& client, const std::string& name_space, const std::vector<RunObjects*>& runs,
                milliseconds budget) {
  const Clock::time_point deadline = Clock::now() + budget;
  std::vector<Ending> endings = ask_for_endings(client, name_space, runs, budget);
  Tails(client, name_space, budget).read(runs);
  take_endings(endings, std::max(deadline, Clock::now() + least_for_endings));
}

}  // namespace mlk
