// Archives of code: any bytes, nearly right archives, and archives that mlk writes. Files of the last kind
// are read back unchanged.
#include "cli/image/tar.h"

#include <cstdint>
#include <fuzzer/FuzzedDataProvider.h>
#include <map>
#include <string>

#include "cli/image/gzip.h"
#include "cli/util/error.h"
#include "tests/fuzz/demand.h"

using mlk::fuzz::demand;
using mlk::image::TarEntry;
using mlk::image::TarFile;

namespace {

void demand_safe(const std::vector<TarFile>& files) {
  for (const TarFile& file : files) {
    demand(!file.entry.path.empty() && file.entry.path.front() != '/');
    demand(("/" + file.entry.path + "/").find("/../") == std::string::npos);
    if (file.entry.kind == TarEntry::Kind::link)
      demand(mlk::image::leads_inside(file.entry.path, file.entry.target));
  }
}

std::string written(FuzzedDataProvider& input, std::map<std::string, std::string>& contents) {
  std::string tar;
  const auto count = input.ConsumeIntegralInRange<std::size_t>(0, 4);
  for (std::size_t i = 0; i < count; ++i) {
    std::string name;
    for (const char c : input.ConsumeRandomLengthString(300)) name += c == '\0' || c == '/' ? '_' : c;
    contents["n" + name] = input.ConsumeRandomLengthString(2000);
  }
  for (const auto& [path, content] : contents)
    mlk::image::append_to_tar(tar, {.path = path, .executable = input.ConsumeBool()}, content);
  tar += mlk::image::tar_end();
  return tar;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  std::map<std::string, std::string> contents;
  std::string tar = written(input, contents);
  const std::vector<TarFile> read = mlk::image::read_tar(tar);
  demand(read.size() == contents.size());
  for (const TarFile& file : read) demand(contents.at(file.entry.path) == file.content);
  while (input.remaining_bytes() > 0 && input.ConsumeBool())
    tar[input.ConsumeIntegralInRange<std::size_t>(0, tar.size() - 1)] = input.ConsumeIntegral<char>();
  if (input.ConsumeBool()) tar = input.ConsumeRandomLengthString();
  const std::string rest = input.ConsumeRemainingBytesAsString();
  try {
    demand_safe(mlk::image::read_tar(tar));
  } catch (const mlk::Error&) {
    // The error says why the archive cannot be read.
  }
  try {
    demand(mlk::image::gunzip(rest, 1 << 16).size() <= 1 << 16);
  } catch (const mlk::Error&) {
    // The error says why the bytes cannot be unpacked.
  }
  return 0;
}
