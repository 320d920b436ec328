#include "cli/local/pod_folder.h"

#include <ctime>
#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/files.h"

namespace mlk::local {

using nlohmann::json;

namespace {

constexpr std::size_t limit = 8 << 20;

// null when there is no such file, or none that is whole.
json read_record(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return nullptr;
  try {
    const json record = json::parse(read_file(file, limit), nullptr, false);
    return record.is_object() ? record : json();
  } catch (const Error&) {  // removed meanwhile
    return nullptr;
  }
}

}  // namespace

std::optional<Start> PodFolder::start() const {
  const json record = read_record(path_ / "process.json");
  if (record.is_null()) return std::nullopt;
  return Start{record.at("pod"), record.at("grace_seconds"), record.at("argv"), record.at("env"),
               record.at("working_folder")};
}

std::optional<Stop> PodFolder::stop() const {
  const json record = read_record(path_ / "stop.json");
  if (record.is_null()) return std::nullopt;
  return Stop{record.at("grace_seconds"), record.at("reason")};
}

std::optional<Started> PodFolder::started() const {
  const json record = read_record(path_ / "started.json");
  if (record.is_null()) return std::nullopt;
  return Started{record.at("at"), record.at("group"), record.at("boot")};
}

std::optional<Exit> PodFolder::exit() const {
  const json record = read_record(path_ / "exit.json");
  if (record.is_null()) return std::nullopt;
  return Exit{record.at("code"),       record.at("signal"), record.at("at"),
              record.at("started_at"), record.at("reason"), record.at("message")};
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
  const json record = {{"at", started.at}, {"group", started.group}, {"boot", started.boot}};
  write_file_atomically(path_ / "started.json", record.dump(), 0600);
}

void PodFolder::write(const Exit& exit) const {
  const json record = {{"code", exit.code},     {"signal", exit.signal},
                       {"at", exit.at},         {"started_at", exit.started_at},
                       {"reason", exit.reason}, {"message", exit.message}};
  write_file_atomically(path_ / "exit.json", record.dump(-1, ' ', false, json::error_handler_t::replace),
                        0600);
}

pid_t PodFolder::supervisor() const { return FileLock::holder(path_ / "lock"); }

FileLock::FileLock(const std::filesystem::path& file)
    : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (fd_ < 0) return;
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  held_ = ::fcntl(fd_, F_SETLK, &whole) == 0;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

pid_t FileLock::holder(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return 0;
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  const bool asked = ::fcntl(fd, F_GETLK, &whole) == 0;
  ::close(fd);
  return asked && whole.l_type != F_UNLCK ? whole.l_pid : 0;
}

long long boot_time() {
  struct timespec real{}, since_boot{};
  ::clock_gettime(CLOCK_REALTIME, &real);
  ::clock_gettime(CLOCK_MONOTONIC, &since_boot);
  return static_cast<long long>(real.tv_sec) - static_cast<long long>(since_boot.tv_sec);
}

}  // namespace mlk::local
