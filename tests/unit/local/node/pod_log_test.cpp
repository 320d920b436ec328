// Logs with more bytes than one read returns.
#include "cli/local/node/pod_log.h"

#include <fstream>

#include <doctest/doctest.h>

#include "cli/local/node/log_writer.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/pod_log");

using namespace mlk::local;
using mlk::local::samples::Folder;

TEST_CASE("a limit of bytes holds for the whole answer, which may be sent in several parts") {
  const Folder folder;
  std::filesystem::create_directories(folder.path() / "p");
  {
    std::ofstream log(folder.path() / "p/log");
    for (int i = 0; i < 200; ++i) {
      log << "2026-11-21T12:00:00.000000001Z stdout F " << std::string(999, static_cast<char>('a' + i % 26))
          << "\n";
    }
  }
  for (const std::uint64_t limit : {1u, 1000u, 65'536u, 80'000u, 150'001u, 1'000'000u}) {
    CAPTURE(limit);
    PodLogs logs(folder.path());
    LogOptions options;
    options.limit_bytes = limit;
    std::string text;
    logs.read(
        "p", options,
        [&](std::string_view part) {
          text += part;
          return true;
        },
        [] { return true; }, [] { return true; });
    CHECK(text.size() == std::min<std::uint64_t>(limit, 200'000));
    CHECK(text[0] == 'a');
    if (text.size() > 100'000) CHECK(text[100'000] == static_cast<char>('a' + 100 % 26));
  }
}

TEST_CASE("a line of up to 16 KiB is one entry of the log, and a longer line is divided into several") {
  for (const std::size_t size : {16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1}) {
    CAPTURE(size);
    const Folder folder;
    {
      LogFile file(folder.path() / "log", 1 << 20);
      LogStream out(file, "stdout");
      out.feed(std::string(size, 'x') + "\n");
    }
    std::ifstream log(folder.path() / "log");
    int entries = 0;
    for (std::string line; std::getline(log, line);) ++entries;
    CHECK(entries == (size > 16 * 1024 ? 2 : 1));
  }
}
