#include "cli/run/facts/program_error.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "cli/run/facts/last_words.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

constexpr std::string_view traceback_head = "Traceback (most recent call last):";
constexpr std::size_t most_lines_below = 40;     // an error with more lines below it does not count
constexpr std::size_t most_of_termination = 79;  // lines; the kubelet reads no more
constexpr std::size_t nearly_cut = 1900;         // bytes; the kubelet cuts at 2048

struct LogText {
  std::string_view text;     // without the mark of its process
  std::string_view process;  // "[rank1]: "; empty without a mark
  bool by_launcher = false;
};

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::size_t indent_of(std::string_view line) { return std::min(line.find_first_not_of(" \t"), line.size()); }

// The length of the mark that names a process: "[rank1]: " of PyTorch, "[1,3]<stderr>: " of Open MPI,
// "(pid=12) " of Ray, " | " of a group of exceptions.
std::size_t length_of_mark(std::string_view line) {
  if (line.starts_with("[rank")) {
    const std::size_t end = line.find(']');
    if (end == std::string_view::npos || line.substr(end, 2) != "]:") return 0;
    return end + (line.substr(end, 3) == "]: " ? 3 : 2);
  }
  if (const std::size_t end = line.find("<stderr>:"); line.starts_with('[') && end < 24)
    return end + 9 + (line.substr(end + 9).starts_with(' ') ? 1 : 0);
  if (const std::size_t end = line.find(") ");
      line.starts_with('(') && end < 80 && holds(line.substr(0, end), "pid="))
    return end + 2;
  const std::size_t indent = indent_of(line);
  return indent > 0 && indent < 20 && line.substr(indent).starts_with("| ") ? indent + 2 : 0;
}

// The number after `words`; nullopt if the line does not contain `words` and a number.
std::optional<int> number_behind(std::string_view line, std::string_view words) {
  constexpr std::size_t most_digits = 6;
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view number = line.substr(at + words.size());
  number = number.substr(0, most_digits + (number.starts_with('-') ? 1 : 0));
  int value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// Whether a launcher has printed this line, judged from the line alone.
bool is_word_of_launcher(std::string_view line) {
  constexpr std::array words = {"torch/distributed/elastic/",
                                "torch.distributed.elastic",
                                "torch/distributed/run.py",
                                "torch.distributed.run",
                                "MPI_ABORT was invoked on rank",
                                "with errorcode ",
                                "NOTE: invoking MPI_ABORT causes",
                                "You may or may not see output from other processes",
                                "exactly when Open MPI kills them",
                                "Primary job  terminated normally",
                                "a non-zero exit code. Per user-direction",
                                "non-zero status, thus causing",
                                "mpirun detected that one or more",
                                "prterun detected that one or more",
                                "mpirun has exited due to process rank",
                                "prterun has exited due to process rank",
                                "mpirun noticed that process rank",
                                "prterun noticed that process rank",
                                "the job to be terminated. The first process to do so was",
                                "Process name: [",
                                "Exit code:    ",
                                "application called MPI_Abort",
                                "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
                                "YOUR APPLICATION TERMINATED WITH THE EXIT STRING",
                                "CLEANING UP REMAINING PROCESSES",
                                "YOU CAN IGNORE THE BELOW CLEANUP MESSAGES",
                                "Sending process "};
  if (line.starts_with("=   ")) return true;  // a line of MPICH's banner
  return std::any_of(words.begin(), words.end(), [&](const char* each) { return holds(line, each); });
}

// Whether the line is one that programs print below an error, and that gives no information about the error.
bool is_footer(std::string_view line) {
  constexpr std::array beginnings = {"For simplicity, JAX has removed its internal frames",
                                     "Set JAX_TRACEBACK_FILTERING=off",
                                     "Set the environment variable HYDRA_FULL_ERROR=1",
                                     "wandb: ",
                                     "note: run with `RUST_BACKTRACE=1`",
                                     "The stack trace below excludes JAX-internal frames",
                                     "The preceding is the original exception",
                                     "JAX_TRACEBACK_FILTERING="};
  const std::string_view words = trim(line);
  const bool says_nothing = std::none_of(words.begin(), words.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80;
  });
  return says_nothing || std::any_of(beginnings.begin(), beginnings.end(),
                                     [&](const char* each) { return words.starts_with(each); });
}

// Whether a process that waits for other processes has printed the error. Such an error says only that
// one of the other processes has failed.
bool is_error_of_launcher(std::string_view error) {
  constexpr std::array types = {"ChildFailedError", "CalledProcessError", "ProcessExitedException",
                                "ProcessRaisedException",
                                "Horovod detected that one or more processes exited"};
  const std::string_view head = error.substr(0, error.find(' '));
  return std::any_of(types.begin(), types.end(),
                     [&](std::string_view each) { return holds(holds(each, " ") ? error : head, each); });
}

// Whether the line is an error of Python ("ValueError: text", "jax.errors.TracerError", "KeyboardInterrupt")
// or of another language, whose errors have their own form.
bool has_type_of_error(std::string_view line) {
  if (line.starts_with("Fatal Python error: ") || line.starts_with("panic: ") ||
      line.starts_with("fatal: ") ||  // of git, which init containers run
      line.starts_with("terminate called after throwing an instance of "))
    return true;
  if (line.starts_with("thread '") && holds(line, "' panicked at")) return true;
  const std::string_view type = line.substr(0, line.find(':'));
  const bool is_name = !type.empty() && std::all_of(type.begin(), type.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
  const std::string_view last = type.substr(type.rfind('.') + 1);
  const bool is_type = last.ends_with("Error") || last.ends_with("Exception") ||
                       last.ends_with("Interrupt") || last == "StopIteration" ||
                       last.ends_with("ExceptionGroup");
  return is_name && is_type && last.front() >= 'A' && last.front() <= 'Z';
}

struct RootCause {
  std::optional<int> rank, exit_code;
};

class Reader {
 public:
  explicit Reader(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      const std::size_t mark = length_of_mark(line);
      lines_.push_back({line.substr(mark), line.substr(0, mark)});
      whole_.push_back(line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  ProgramError read() {
    read_torchrun();
    read_mpi();
    for (LogText& line : lines_) line.by_launcher = line.by_launcher || is_word_of_launcher(line.text);
    ProgramError out;
    std::string error = error_of_traceback();
    if (error.empty()) error = error_without_traceback();
    out.is_found = !error.empty();
    out.line = out.is_found ? error + (rank_of_torch_ ? fmt::format(" (rank {})", *rank_of_torch_) : "")
                            : words_without_error();
    if (out.is_found && rank_of_mpi_) out.line = fmt::format("rank {} of MPI: {}", *rank_of_mpi_, error);
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (!lines_[i].by_launcher || i == words_of_mlk_) out.text.append(whole_[i]).append("\n");
    }
    out.text = trim(out.text);
    return out;
  }

  bool has_launcher() const {
    return rank_of_mpi_.has_value() ||
           std::any_of(lines_.begin(), lines_.end(), [](const LogText& line) { return line.by_launcher; });
  }

 private:
  // Reads torchrun's own traceback and its banner. The banner names the rank that failed first, and has the
  // traceback of this rank if the program has recorded it (@record).
  void read_torchrun() {
    const auto banner = std::ranges::find_if(lines_, [](const LogText& line) {
      return holds(line.text, "errors.ChildFailedError") ||
             line.text.starts_with("Root Cause (first observed");
    });
    if (banner == lines_.end()) return;
    auto first = static_cast<std::size_t>(banner - lines_.begin());
    // The beginning of torchrun's traceback may be cut off.
    while (first > 0 && is_frame_of_launcher(first - 1)) --first;
    if (first > 0 && lines_[first - 1].text == traceback_head) --first;
    bool is_root = false, is_recorded = false;
    for (std::size_t i = first; i < lines_.size(); ++i) {
      const std::string_view line = lines_[i].text;
      if (line.starts_with("Root Cause")) is_root = true;
      if (is_root && !root_.rank) root_.rank = number_behind(line, "rank      : ");
      if (is_root && !root_.exit_code) root_.exit_code = number_behind(line, "exitcode  : ");
      if (line.starts_with("=====") && is_root && is_recorded) is_recorded = false;
      lines_[i].by_launcher = !(is_root && is_recorded);
      if (holds(line, "traceback : Traceback")) {
        is_recorded = true;
        lines_[i].by_launcher = !is_root;
      }
    }
    rank_of_torch_ = root_.rank;
  }

  bool is_frame_of_launcher(std::size_t i) const {
    return lines_[i].process.empty() && (lines_[i].text.starts_with("  ") || trim(lines_[i].text).empty()) &&
           lines_[i].text != traceback_head;
  }

  // Reads mlk-mpi's last line, "mlk: rank 3 of MPI ended with exit code 1".
  void read_mpi() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const std::string_view line = lines_[i].text;
      if (line.starts_with("mlk: rank ") && holds(line, " of MPI ")) {
        rank_of_mpi_ = number_behind(line, "mlk: rank ");
        words_of_mlk_ = i;
        lines_[i].by_launcher = true;
      }
    }
  }

  // The error below the frames of a traceback; empty if the text ends before the error.
  std::string error_below(std::size_t head) const {
    const bool is_recorded = holds(lines_[head].text, "traceback : Traceback");
    const std::size_t indent = indent_of(lines_[head].text);
    for (std::size_t i = head + 1; i < lines_.size(); ++i) {
      const LogText& line = lines_[i];
      if (line.process != lines_[head].process && !line.process.empty() && !lines_[head].process.empty() &&
          line.process.find("rank") != std::string_view::npos)
        continue;  // another process writes in between
      if (line.by_launcher && !is_recorded) continue;
      if (trim(line.text).empty() || indent_of(line.text) > indent) continue;
      return with_rest(i);
    }
    return "";
  }

  // An error, and the beginning of its message if the message begins on the next line.
  std::string with_rest(std::size_t i) const {
    std::string error(trim(lines_[i].text));
    if (error.starts_with("terminate called after throwing an instance of '") && i + 1 < lines_.size()) {
      const std::string_view what = trim(lines_[i + 1].text);
      constexpr std::string_view said = "what():  ";
      const std::size_t from = error.find('\'') + 1;
      const std::string type = error.substr(from, error.rfind('\'') - from);
      return what.starts_with(said) ? type + ": " + std::string(what.substr(said.size())) : type;
    }
    const bool goes_on = error.ends_with(':') || holds(error, "RayTaskError(");
    for (std::size_t next = i + 1; goes_on && next < lines_.size(); ++next) {
      const std::string_view line = trim(lines_[next].text);
      if (line.empty()) continue;
      if (holds(error, "RayTaskError(")) {
        if (indent_of(lines_[next].text) == 0 && has_type_of_error(line)) return std::string(line);
        continue;
      }
      if (!is_footer(line) && line != traceback_head && !lines_[next].by_launcher)
        error += " " + std::string(line);
      break;
    }
    while (error.ends_with(':')) error.pop_back();
    return error;
  }

  // Whether the traceback did not end the program: Python prints such a traceback and continues.
  bool is_ignored(std::size_t head) const {
    return head > 0 && (lines_[head - 1].text.starts_with("Exception ignored in") ||
                        lines_[head - 1].text.starts_with("--- Logging error ---"));
  }

  bool is_near_the_end(std::size_t i) const {
    std::size_t below = 0;
    for (++i; i < lines_.size(); ++i)
      below += !lines_[i].by_launcher && indent_of(lines_[i].text) == 0 && !is_footer(lines_[i].text) ? 1 : 0;
    return below <= most_lines_below;
  }

  std::string error_of_traceback() const {
    std::string blaming;
    for (std::size_t end = lines_.size(); end > 0 && is_near_the_end(end - 1); --end) {
      const std::size_t i = end - 1;
      const std::string_view line = lines_[i].text;
      if (!line.ends_with(traceback_head) || is_ignored(i)) continue;
      if (lines_[i].by_launcher && !holds(line, "traceback : ")) continue;
      if (root_.rank && lines_[i].process.starts_with("[rank") &&
          number_behind(lines_[i].process, "[rank") != root_.rank)
        continue;
      const std::string error = error_below(i);
      if (error.empty() || is_error_of_launcher(error)) continue;
      if (!blames_a_peer(error)) return error;
      if (blaming.empty()) blaming = error;
    }
    return blaming;
  }

  // Finds a SyntaxError, an error of another language, or the error of a traceback whose beginning is cut
  // off.
  std::string error_without_traceback() const {
    std::size_t seen = 0;
    for (std::size_t i = lines_.size(); i-- > 0 && seen < most_lines_below;) {
      if (lines_[i].by_launcher || is_footer(lines_[i].text)) continue;
      ++seen;
      if (has_type_of_error(lines_[i].text) && !is_error_of_launcher(lines_[i].text)) return with_rest(i);
    }
    return "";
  }

  std::string words_without_error() const {
    if (root_.rank && root_.exit_code) {
      return *root_.exit_code < 0
                 ? fmt::format("rank {} was ended by signal {}", *root_.rank, -*root_.exit_code)
                 : fmt::format("rank {} ended with exit code {}", *root_.rank, *root_.exit_code);
    }
    if (words_of_mlk_ < lines_.size()) return std::string(trim(lines_[words_of_mlk_].text.substr(5)));
    std::size_t fallback = lines_.size();
    for (std::size_t i = lines_.size(); i-- > 0;) {
      if (trim(lines_[i].text).empty()) continue;
      if (fallback == lines_.size()) fallback = i;
      if (!lines_[i].by_launcher && !is_footer(lines_[i].text)) return hydra_head(i);
    }
    return fallback == lines_.size() ? "" : std::string(trim(lines_[fallback].text));
  }

  // If line `i` is among the lines in which Hydra explains its own error, returns the first of these lines,
  // since it names the mistake. Otherwise returns line `i`.
  std::string hydra_head(std::size_t i) const {
    const bool is_hydra =
        std::any_of(lines_.begin() + static_cast<std::ptrdiff_t>(i), lines_.end(),
                    [](const LogText& line) { return holds(line.text, "HYDRA_FULL_ERROR=1"); });
    while (is_hydra && i > 0 && !trim(lines_[i - 1].text).empty()) --i;
    return std::string(trim(lines_[i].text));
  }

  std::vector<LogText> lines_;
  std::vector<std::string_view> whole_;
  RootCause root_;
  std::optional<int> rank_of_torch_, rank_of_mpi_;
  std::size_t words_of_mlk_ = std::string_view::npos;
};

}  // namespace

ProgramError program_error(std::string_view text) {
  Reader reader(text);
  ProgramError out = reader.read();
  if (out.text.empty()) out.text = trim(text);
  return out;
}

bool lacks_the_error(std::string_view text) {
  Reader reader(text);
  if (reader.read().is_found) return false;
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  return reader.has_launcher() || text.size() >= nearly_cut || lines >= most_of_termination;
}

std::string with_lines_below(std::string_view message, std::string_view log_end) {
  const std::string_view known = trim(message);
  if (known.empty()) return std::string(log_end);
  const std::string_view last = trim(known.substr(known.rfind('\n') + 1));
  std::size_t below = std::string_view::npos;
  for (std::size_t begin = 0; begin < log_end.size();) {
    const std::size_t end = std::min(log_end.find('\n', begin), log_end.size());
    if (trim(log_end.substr(begin, end - begin)) == last) below = end + 1;
    begin = end + 1;
  }
  if (below >= log_end.size() || trim(log_end.substr(below)).empty()) return std::string(message);
  return std::string(known) + '\n' + std::string(log_end.substr(below));
}

}  // namespace mlk
