// The files in a folder of this machine.
#pragma once

#include <filesystem>
#include <functional>

#include "cli/files/file_source.h"

namespace mlk {

class FolderSource : public FileSource {
 public:
  // `check` is called again and again, and may throw.
  FolderSource(std::filesystem::path folder, std::function<void()> check)
      : folder_(std::move(folder)), check_(std::move(check)) {}
  Listing list() override;
  void read(const std::vector<WantedFile>& wanted, const FileSink& sink) override;

 private:
  void list_below(const std::string& below, Listing& out) const;
  void read_one(const WantedFile& wanted, const FileSink& sink) const;

  const std::filesystem::path folder_;
  const std::function<void()> check_;
};

}  // namespace mlk
