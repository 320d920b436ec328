#include "cli/kube/log_tails.h"

namespace mlk::kube {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_at_once = 128;

TailAnswer answer_of(const LogTail& tail, const Answer& answer) {
  TailAnswer out{.status = answer.unreachable.empty() ? answer.response.status : 0};
  if (out.status != 200) return out;
  out.lines = parse_log(answer.response.body);
  out.cut_off = answer.response.body.size() >= tail.bytes;
  if (out.cut_off && !out.lines.empty()) out.lines.pop_back();  // the last line may be cut
  out.whole = !out.cut_off && out.lines.size() < static_cast<std::size_t>(tail.lines);
  return out;
}

}  // namespace

void LogTails::read(Clock::time_point deadline) {
  while (!due_.empty() || !under_way_.empty()) {
    const auto left = std::chrono::floor<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0)) break;
    start_due(left);
    under_way_.front().answer.wait_for(milliseconds(1));
    collect_answers();
  }
  due_.clear();
  under_way_.clear();
}

void LogTails::start_due(milliseconds left) {
  while (!due_.empty() && under_way_.size() < most_at_once) {
    Asked asked = std::move(due_.front());
    due_.pop_front();
    Request request = log_request(
        name_space_, asked.tail.pod,
        {.container = asked.tail.container, .tail_lines = asked.tail.lines, .limit_bytes = asked.tail.bytes});
    request.timeout = left;
    asked.answer = client_.ask(request);
    under_way_.push_back(std::move(asked));
  }
}

void LogTails::collect_answers() {
  for (auto asked = under_way_.begin(); asked != under_way_.end();) {
    if (asked->answer.wait_for(milliseconds(0)) != std::future_status::ready) {
      ++asked;
      continue;
    }
    asked->take(answer_of(asked->tail, asked->answer.get()));
    asked = under_way_.erase(asked);
  }
}

}  // namespace mlk::kube
