#include "cli/files/sent_files.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

constexpr std::size_t longest_record = 16 << 10, longest_line = 512, most_entries = 2'000'000;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ExitCode::failure, "the pod sends something else than files: " + why,
              "try again; the helper in the pod may be of another version of mlk");
}

// Takes the text up to the next blank off the front, as a number.
template <class Number>
Number take_number(std::string_view& text, int base = 10) {
  const std::string_view digits = text.substr(0, text.find(' '));
  Number out{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  if (error != std::errc() || end != digits.data() + digits.size())
    refuse("no number: " + printable(std::string(text)));
  text.remove_prefix(std::min(digits.size() + 1, text.size()));
  return out;
}

}  // namespace

std::string request_for(const std::vector<WantedFile>& wanted) {
  std::string body;
  for (const WantedFile& one : wanted) {
    body += std::to_string(one.offset) + " " + one.path;
    body += '\0';
  }
  return std::to_string(body.size()) + "\n" + body;
}

void SentList::add(std::string_view part) {
  while (!part.empty()) {
    if (complete_) refuse("text after the list");
    const std::size_t end = part.find('\0');
    rest_ += part.substr(0, end);
    if (rest_.size() > longest_record) refuse("a name is too long");
    if (end == part.npos) return;
    add_record(rest_);
    rest_.clear();
    part.remove_prefix(end + 1);
  }
}

void SentList::add_record(std::string_view record) {
  if (is_target_) {
    listing_.entries.back().target = record;
    is_target_ = false;
    return;
  }
  if (record == "none" || record == "end") {
    listing_.is_there = record == "end";
    complete_ = true;
    return;
  }
  if (record.size() < 2 || record[1] != ' ') refuse("no entry: " + printable(std::string(record)));
  if (listing_.entries.size() >= most_entries) refuse(fmt::format("more than {} files", most_entries));
  const char kind = record.front();
  record.remove_prefix(2);
  FileEntry entry;
  entry.mode = take_number<unsigned>(record, 8);
  entry.size = take_number<std::uint64_t>(record);
  entry.mtime_ns = take_number<std::int64_t>(record);
  entry.path = record;
  if (kind == 'e') return listing_.problems.push_back(printable(entry.path));
  if (kind != 'f' && kind != 'd' && kind != 'l') refuse("no entry: " + printable(entry.path));
  entry.kind = kind == 'f'   ? FileEntry::Kind::file
               : kind == 'd' ? FileEntry::Kind::folder
                             : FileEntry::Kind::link;
  is_target_ = kind == 'l';
  listing_.entries.push_back(std::move(entry));
}

void SentFiles::add(std::string_view part) {
  while (!part.empty()) {
    if (bytes_left_ > 0) {
      const std::size_t size = std::min<std::uint64_t>(bytes_left_, part.size());
      sink_.bytes(part.substr(0, size));
      bytes_left_ -= size;
      part.remove_prefix(size);
      continue;
    }
    if (left_ == 0) refuse("bytes after the last file");
    const std::size_t end = part.find('\n');
    line_ += part.substr(0, end);
    if (line_.size() > longest_line) refuse("a line is too long");
    if (end == part.npos) return;
    part.remove_prefix(end + 1);
    const std::string line = std::move(line_);
    line_.clear();
    add_line(line);
  }
}

void SentFiles::add_line(std::string_view line) {
  if (line.starts_with("- ")) {
    has_begun_ = false;
    --left_;
    return sink_.failed(printable(std::string(line.substr(2))));
  }
  if (!has_begun_) {
    const auto size = take_number<std::uint64_t>(line);
    sink_.begin(size, take_number<std::int64_t>(line));
    has_begun_ = true;
  } else if (line.starts_with("0 ")) {
    has_begun_ = false;
    --left_;
    sink_.end(std::string(line.substr(2)));
  } else {
    bytes_left_ = take_number<std::uint64_t>(line);
    if (bytes_left_ == 0) refuse("an empty part");
  }
}

}  // namespace mlk
