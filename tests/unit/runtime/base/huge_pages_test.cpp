#include "runtime/base/huge_pages.h"

#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/base/huge_pages");

namespace mlk::rt {
namespace {
namespace huge_pages {

constexpr std::uintptr_t page = 2 << 20;

// Private memory, unmapped at the end of the test.
struct Mapping {
  static constexpr std::size_t size = 10 << 20;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // The beginning of the first whole large page in the memory.
  std::uint8_t* first =
      reinterpret_cast<std::uint8_t*>((reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page);

  Mapping() { REQUIRE(memory != MAP_FAILED); }
  ~Mapping() { munmap(memory, size); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
};

// Whether the process has requested large pages at the address. "?" if the kernel does not report it.
std::string wish_at(const std::uint8_t* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') here = begin <= wanted && wanted < end;
    if (here && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos ? "yes" : "no";
  }
  return "?";
}

}  // namespace huge_pages

TEST_CASE("ask_for_huge_pages() requests large pages for each 2 MiB that lie completely in the range") {
  using namespace huge_pages;
  const Mapping trial;
  if (madvise(trial.first, page, MADV_HUGEPAGE) != 0 || wish_at(trial.first) != "yes") {
    MESSAGE("skipped: the kernel has no large pages, or does not tell of them");
    return;
  }
  const auto wishes = [](std::ptrdiff_t from, std::ptrdiff_t to) {
    const Mapping mapping;
    ask_for_huge_pages({mapping.first + from, mapping.first + to});
    std::string all;
    for (std::size_t i = 0; i < 4; ++i) {
      // Checks both ends of each large page.
      all += wish_at(mapping.first + i * page) == "yes" ? 'x' : '-';
      all += wish_at(mapping.first + (i + 1) * page - 1) == "yes" ? 'x' : '-';
    }
    return all;
  };
  constexpr std::ptrdiff_t large = page;
  CHECK(wishes(0, large) == "xx------");
  CHECK(wishes(0, 2 * large) == "xxxx----");
  CHECK(wishes(1, 3 * large) == "--xxxx--");
  CHECK(wishes(1, 3 * large - 1) == "--xx----");
  CHECK(wishes(0, 3 * large + 1) == "xxxxxx--");
  CHECK(wishes(0, large - 1) == "--------");
  CHECK(wishes(1, large + 1) == "--------");
  CHECK(wishes(1, 2 * large - 1) == "--------");
  CHECK(wishes(5, 5) == "--------");
}

}  // namespace
}  // namespace mlk::rt
