#include "cli/local/node/pod_folder.h"

#include <csignal>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"

namespace mlk::local {

using nlohmann::json;

namespace {

constexpr std::size_t limit = 8 << 20;

// null if the file does not exist, or if its content is incomplete.
json read_record(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return nullptr;
  try {
    const json record = json_or_null(read_file(file, limit));
    return record.is_object() ? record : json();
  } catch (const Error&) {  // removed meanwhile
    return nullptr;
  }
}

// The result of `make` for the record; nullopt without a record, or if a field is missing or has another
// type.
template <class Make>
auto read_as(const std::filesystem::path& file, const Make& make)
    -> std::optional<decltype(make(std::declval<const json&>()))> {
  const json record = read_record(file);
  if (record.is_null()) return std::nullopt;
  try {
    return make(record);
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

// A whole number that fits into the type and is not negative; `otherwise` for any other value.
template <class Number>
Number number_in(const json& record, const char* field, Number otherwise = 0) {
  const json& value = record.at(field);
  if (!value.is_number_integer()) return otherwise;
  const auto number = value.get<std::int64_t>();
  return number < 0 || !std::in_range<Number>(number) ? otherwise : static_cast<Number>(number);
}

ProcessId process_in(const json& record) {
  if (!record.contains("supervisor")) return {};  // the record of an older mlk
  const json& id = record.at("supervisor");
  return {number_in<pid_t>(id, "pid"), number_in<unsigned long long>(id, "start"), id.at("boot")};
}

}  // namespace

std::optional<Start> PodFolder::start() const {
  return read_as(path_ / "process.json", [](const json& record) {
    return Start{record.at("pod"), number_in<long>(record, "grace_seconds", 30), record.at("argv"),
                 record.at("env"), record.at("working_folder")};
  });
}

std::optional<Stop> PodFolder::stop() const {
  return read_as(path_ / "stop.json", [](const json& record) {
    return Stop{number_in<long>(record, "grace_seconds"), record.at("reason")};
  });
}

std::optional<Started> PodFolder::started() const {
  return read_as(path_ / "started.json", [](const json& record) {
    return Started{record.at("at"), number_in<pid_t>(record, "group"), process_in(record)};
  });
}

std::optional<Exit> PodFolder::exit() const {
  return read_as(path_ / "exit.json", [](const json& record) {
    return Exit{number_in<int>(record, "code", 255),
                number_in<int>(record, "signal"),
                record.at("at"),
                record.at("started_at"),
                record.at("reason"),
                record.at("message")};
  });
}

void PodFolder::write(const Start& start) const {
  const json record = {{"pod", start.pod},
                       {"grace_seconds", start.grace_seconds},
                       {"argv", start.argv},
                       {"env", start.env},
                       {"working_folder", start.working_folder}};
  write_file_atomically(path_ / "process.json", record.dump(-1, ' ', false, json::error_handler_t::replace),
                        0600);
}

void PodFolder::write(const Stop& stop) const {
  write_file_atomically(path_ / "stop.json",
                        json{{"grace_seconds", stop.grace_seconds}, {"reason", stop.reason}}.dump(), 0600);
}

void PodFolder::write(const Started& started) const {
  const ProcessId& id = started.supervisor;
  const json record = {{"at", started.at},
                       {"group", started.group},
                       {"supervisor", {{"pid", id.pid}, {"start", id.start}, {"boot", id.boot}}}};
  write_file_atomically(path_ / "started.json", record.dump(), 0600);
}

void PodFolder::write(const Exit& exit) const {
  const json record = {{"code", exit.code},     {"signal", exit.signal},
                       {"at", exit.at},         {"started_at", exit.started_at},
                       {"reason", exit.reason}, {"message", exit.message}};
  write_file_atomically(path_ / "exit.json", record.dump(-1, ' ', false, json::error_handler_t::replace),
                        0600);
}

bool PodFolder::ask_to_stop(const Stop& stop) const {
  try {
    write(stop);
  } catch (const Error&) {  // a full disk
    std::error_code ignored;
    std::filesystem::remove(path_ / "stop.json", ignored);  // an earlier request may have another reason
  }
  return signal_holder(lock(), SIGTERM);
}

}  // namespace mlk::local
