#include "cli/run/state/record.h"

#include <nlohmann/json.hpp>

#include "cli/run/facts/labels.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;

constexpr std::size_t longest_record = 512 * 1024;

std::string line(const json& object, const char* key) { return printable(text_of(object, {key})); }

std::optional<Failure> read_failure(const json& value) {
  if (!value.is_object()) return std::nullopt;
  Failure failure;
  failure.role = line(value, "role");
  failure.rank = number_of(value, {"rank"}, 0);
  failure.exit_code = number_of(value, {"exit_code"}, -1);
  failure.signal = number_of(value, {"signal"}, 0);
  failure.container = line(value, "container");
  failure.reason = line(value, "reason");
  failure.message = line(value, "message");
  failure.disruption = at_path(value, {"disruption"}) == true;
  failure.attempt = number_of(value, {"attempt"}, 1);
  failure.attempts = number_of(value, {"attempts"}, 1);
  failure.at = time_of(value, {"at"});
  return failure;
}

// Contains only the data that `ls` shows, since every `ls` reads the summary, and all annotations together
// may have 256 KiB.
json summary_of(const RunStatus& status) {
  json record = to_record(status);
  record.erase("ranks");
  if (record["result"].is_object()) record["result"].erase("curve");
  for (const char* failure : {"first_failure", "last_failure"}) {
    if (!record[failure].is_object()) continue;
    std::string message = record[failure]["message"];
    record[failure]["message"] = cut_front(message, 300);
  }
  return record;
}

std::optional<RunStatus> parse_record(const json& value) {
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  if (text.size() > longest_record) return std::nullopt;
  return from_record(json_or_null(text));
}

}  // namespace

std::optional<RunStatus> from_record(const json& record) {
  if (!record.is_object() || number_of(record, {"schema"}, 0) != 1) return std::nullopt;
  const std::optional<Phase> phase = parse_phase(text_of(record, {"phase"}));
  if (!phase) return std::nullopt;
  RunStatus status;
  status.run = line(record, "run");
  status.name = line(record, "name");
  status.mode = line(record, "mode");
  status.phase = *phase;
  status.why = line(record, "why");
  status.created = time_of(record, {"created"});
  status.started = time_of(record, {"started"});
  status.ended = time_of(record, {"ended"});
  status.restarts = number_of(record, {"restarts"}, 0);
  status.steps = count_of(record, {"steps"}, 0);
  if (const json& result = at_path(record, {"result"}); result.is_object()) status.result = result;
  status.result_at = time_of(record, {"result_at"});
  status.first_failure = read_failure(at_path(record, {"first_failure"}));
  status.last_failure = read_failure(at_path(record, {"last_failure"}));
  status.last_checkpoint = line(record, "last_checkpoint");
  for (const json& value : at_path(record, {"ranks"})) {
    RankStatus rank;
    rank.role = line(value, "role");
    rank.rank = number_of(value, {"rank"}, 0);
    rank.state = line(value, "state");
    rank.node = line(value, "node");
    rank.restarts = number_of(value, {"restarts"}, 0);
    rank.reason = line(value, "reason");
    rank.since = time_of(value, {"since"});
    status.ranks.push_back(std::move(rank));
  }
  return status;
}

std::optional<RunStatus> recorded_status(const json& owner) {
  std::optional<RunStatus> status = parse_record(at_path(owner, {"data", "record"}));
  if (!status) status = parse_record(at_path(owner, {"metadata", "annotations", annotations::summary}));
  return status;
}

json record_patch(const RunStatus& status) {
  // Text that is not UTF-8, such as the last lines of a program, must not keep mlk from writing the record.
  const auto dump = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  return {
      {"metadata",
       {{"annotations",
         {{annotations::phase, to_string(status.phase)}, {annotations::summary, dump(summary_of(status))}}}}},
      {"data", {{"record", dump(to_record(status))}}}};
}

json record_removal_patch() {
  return {{"metadata", {{"annotations", {{annotations::phase, nullptr}, {annotations::summary, nullptr}}}}},
          {"data", {{"record", nullptr}}}};
}

}  // namespace mlk
