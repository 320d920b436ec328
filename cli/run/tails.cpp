#include "cli/run/tails.h"

#include <algorithm>
#include <deque>
#include <future>

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/logs.h"
#include "cli/run/report.h"
#include "cli/run/status.h"

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

}  // namespace

void read_tails(kube::Client& client, const std::string& name_space, const std::vector<RunObjects*>& runs,
                milliseconds budget) {
  Tails(client, name_space, budget).read(runs);
}

}  // namespace mlk
