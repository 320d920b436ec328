#include "cli/code/changes.h"

#include <doctest/doctest.h>

#include "cli/image/tar.h"

TEST_SUITE_BEGIN("code/changes");

using namespace mlk::image;

TEST_CASE("changed_paths() lists the new, gone and changed files of two archives, sorted by path") {
  const auto archive = [](const std::vector<std::pair<TarEntry, std::string>>& entries) {
    std::string out;
    for (const auto& [entry, content] : entries) append_to_tar(out, entry, content);
    out += tar_end();
    return out;
  };
  using Kind = TarEntry::Kind;
  const std::string before = archive({{{.path = "a"}, "1"},
                                      {{.path = "b"}, "1"},
                                      {{.path = "c"}, "1"},
                                      {{.path = "d", .kind = Kind::folder}, ""},
                                      {{.path = "l", .kind = Kind::link, .target = "a"}, ""},
                                      {{.path = "x"}, "1"}});
  const std::string after = archive({{{.path = "a"}, "1"},
                                     {{.path = "b"}, "2"},
                                     {{.path = "e", .kind = Kind::folder}, ""},
                                     {{.path = "l", .kind = Kind::link, .target = "b"}, ""},
                                     {{.path = "s.html"}, "1"},
                                     {{.path = "x", .executable = true}, "1"}});
  CHECK(changed_paths(before, after) == std::vector<std::string>{"b", "-c", "l", "+s.html", "x"});
  CHECK(changed_paths(after, after).empty());
}

TEST_CASE("changed_paths() shows a file as gone if it became a folder, and as new if it was a folder") {
  const auto archive = [](const TarEntry& entry) {
    std::string out;
    append_to_tar(out, entry, "");
    out += tar_end();
    return out;
  };
  const std::string file = archive({.path = "a"}),
                    folder = archive({.path = "a", .kind = TarEntry::Kind::folder}),
                    link = archive({.path = "a", .kind = TarEntry::Kind::link, .target = "b"});
  CHECK(changed_paths(file, folder) == std::vector<std::string>{"-a"});
  CHECK(changed_paths(folder, file) == std::vector<std::string>{"+a"});
  CHECK(changed_paths(file, link) == std::vector<std::string>{"a"});
  CHECK(changed_paths(link, link).empty());
}
