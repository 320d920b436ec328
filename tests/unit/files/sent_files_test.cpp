// What mlk-pod sends is what mlk reads, wherever the bytes are cut.
#include "cli/files/sent_files.h"

#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "pod/send.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("files/sent_files");

namespace mlk {
namespace {

// What mlk-pod answers to the request, for this folder.
std::string sent_for(const std::string& request, const std::filesystem::path& folder) {
  const TemporaryFolder files;
  std::ofstream(files.path() / "request") << request;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (std::freopen((files.path() / "request").c_str(), "r", stdin) == nullptr ||
        std::freopen((files.path() / "answer").c_str(), "w", stdout) == nullptr)
      ::_exit(99);
    ::_exit(pod::send(folder.string()));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  std::ifstream in(files.path() / "answer");
  return {std::istreambuf_iterator<char>(in), {}};
}

// Passes the text on in two parts, cut at `at`, and then byte by byte if `at` is beyond the text.
template <class Reader>
void feed(Reader& reader, const std::string& text, std::size_t at) {
  if (at > text.size()) {
    for (const char& byte : text) reader.add({&byte, 1});
  } else {
    reader.add(std::string_view(text).substr(0, at));
    reader.add(std::string_view(text).substr(at));
  }
}

struct ReadFiles {
  std::string log;
  FileSink sink{
      .begin = [this](std::uint64_t size, std::int64_t) { log += "begin " + std::to_string(size) + "|"; },
      .bytes = [this](std::string_view bytes) { log += bytes; },
      .end = [this](const std::string& sha256) { log += "|end " + sha256.substr(0, 8) + "|"; },
      .failed = [this](const std::string& reason) { log += "failed " + reason + "|"; }};
};

TEST_CASE("the list of a folder has its files, folders and links, and arrives in any parts") {
  const TemporaryFolder folder;
  folder.write("out/a b", "12345");
  folder.write("out/line\nbreak", "");
  std::filesystem::create_symlink("a b", folder.path() / "out/link");
  const std::string sent = sent_for(request_for({}), folder.path());
  for (std::size_t at = 0; at <= sent.size() + 1; ++at) {
    SentList list;
    feed(list, sent, at);
    REQUIRE(list.is_complete());
    const auto& entries = list.listing().entries;
    REQUIRE(entries.size() == 4);
    CHECK(list.listing().is_there);
    CHECK(entries[0].kind == FileEntry::Kind::folder);
    CHECK(entries[1].path == "out/a b");
    CHECK(entries[1].size == 5);
    CHECK(entries[1].mtime_ns > 1'000'000'000'000'000'000);
    CHECK(entries[2].path == "out/line\nbreak");
    CHECK(entries[3].kind == FileEntry::Kind::link);
    CHECK(entries[3].target == "a b");
  }
}

TEST_CASE("a folder that is not there is no empty folder") {
  SentList list;
  list.add(sent_for(request_for({}), "/no/such/folder"));
  CHECK(list.is_complete());
  CHECK_FALSE(list.listing().is_there);
}

TEST_CASE("the contents of files arrive in any parts, from their offsets on") {
  const TemporaryFolder folder;
  folder.write("a", "0123456789");
  folder.write("empty", "");
  const std::string sent = sent_for(
      request_for({{"a", 0}, {"a", 7}, {"none", 0}, {"empty", 0}, {"a", 11}, {"a", 10}}), folder.path());
  const std::string digest = sha256_hex("0123456789").substr(0, 8), of_empty = sha256_hex("").substr(0, 8);
  for (std::size_t at = 0; at <= sent.size() + 1; ++at) {
    ReadFiles read;
    SentFiles files(6, read.sink);
    feed(files, sent, at);
    REQUIRE(files.is_complete());
    CHECK(read.log == "begin 10|0123456789|end " + digest + "|begin 10|789|end " + digest +
                          "|failed No such file or directory|begin 0||end " + of_empty +
                          "|failed became shorter|begin 10||end " + digest + "|");
  }
}

TEST_CASE("a large file arrives whole") {
  const TemporaryFolder folder;
  std::string content;
  for (std::uint64_t i = 0; content.size() < 3'000'000; ++i) content += std::to_string(i * 7919);
  folder.write("big", content);
  std::string came, sha;
  const FileSink sink{.begin = [](std::uint64_t, std::int64_t) {},
                      .bytes = [&](std::string_view bytes) { came += bytes; },
                      .end = [&](const std::string& sha256) { sha = sha256; },
                      .failed = [](const std::string& reason) { FAIL(reason); }};
  SentFiles files(1, sink);
  files.add(sent_for(request_for({{"big", 0}}), folder.path()));
  CHECK(came == content);
  CHECK(sha == sha256_hex(content));
}

TEST_CASE("text that mlk-pod does not send is refused") {
  for (const char* text : {"x 1 2 3 a", "f", "f 9 1 1 a", "f 644 x 1 a", "f 644 1", "hello"}) {
    SentList list;
    CHECK_THROWS_AS(list.add(std::string(text) + '\0'), Error);
  }
  SentList ended;
  ended.add(std::string_view("end\0", 4));
  CHECK_THROWS_AS(ended.add("f"), Error);
  SentList endless;
  CHECK_THROWS_AS(endless.add(std::string(1 << 20, 'x')), Error);
  for (const char* text : {"x\n", "5\n", "5 5\nx\n", "5 5\n0\n", "5 5\n-1\n"}) {
    ReadFiles read;
    SentFiles files(1, read.sink);
    CHECK_THROWS_AS(files.add(text), Error);
  }
  ReadFiles read;
  SentFiles files(1, read.sink);
  files.add("- gone\n");
  CHECK_THROWS_AS(files.add("5 5\n"), Error);
}

}  // namespace
}  // namespace mlk
