// What `mlk-pod send` writes and reads; pod/send.h describes the form. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/files/file_source.h"

namespace mlk {

// The request for these files; for the list of all files if there are none.
std::string request_for(const std::vector<WantedFile>& wanted);

// Reads a list that comes in parts. Throws Error{failure} for a text that is no such list, and for a list of
// more than two million entries.
class SentList {
 public:
  void add(std::string_view part);
  bool is_complete() const { return complete_; }
  const FileSource::Listing& listing() const { return listing_; }

 private:
  void add_record(std::string_view record);

  FileSource::Listing listing_;
  std::string rest_;
  bool is_target_ = false;  // the next record is the target of the last link
  bool complete_ = false;
};

// Reads the contents of files that come in parts, and passes them on. Throws Error{failure} for a text that
// has another form.
class SentFiles {
 public:
  SentFiles(std::size_t files, const FileSink& sink) : left_(files), sink_(sink) {}
  void add(std::string_view part);
  bool is_complete() const { return left_ == 0; }

 private:
  void add_line(std::string_view line);

  std::size_t left_;
  const FileSink& sink_;
  std::string line_;              // a line that has not come whole
  std::uint64_t bytes_left_ = 0;  // of the part of a file that is coming
  bool has_begun_ = false;        // a file
};

}  // namespace mlk
