#include "cli/image/requirements.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

constexpr int most_nested = 16;
constexpr std::string_view wheel_ending = ".whl";
constexpr std::array archive_endings{".zip",    ".tar.gz", ".tgz",      ".tar", ".tar.bz2", ".tbz",
                                     ".tar.xz", ".txz",    ".tar.lzma", ".tlz", ".tar.lz"};
constexpr std::array repository_schemes{"git", "hg", "svn", "bzr", "ssh", "sftp"};
constexpr std::string_view name_letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

bool is_archive(std::string_view path) {
  return std::any_of(archive_endings.begin(), archive_endings.end(),
                     [&](const char* ending) { return path.ends_with(ending); });
}

// "git+https" for "git+https://host/x"; empty if `text` is no URL.
std::string scheme_of(std::string_view text) {
  const std::size_t end = text.find(':');
  if (end == text.npos || end == 0) return "";
  std::string out;
  for (const char c : text.substr(0, end)) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && (out.empty() || !((c >= '0' && c <= '9') || c == '+' || c == '.' || c == '-')))
      return "";
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return out;
}

// The path of a URL "file:...".
std::string path_of_url(std::string_view url) {
  constexpr std::string_view this_machine = "//localhost/", no_host = "//";
  std::string_view path = url.substr(0, url.find_first_of("?#"));
  path.remove_prefix(path.find(':') + 1);
  path.remove_prefix(path.starts_with(this_machine) ? this_machine.size() - 1
                     : path.starts_with(no_host)    ? no_host.size()
                                                    : 0);
  return percent_decode(path);
}

NamedSource classify_url(const std::string& url) {
  const std::string scheme = scheme_of(url);
  const std::string_view path = std::string_view(url).substr(0, url.find_first_of("?#"));
  const bool is_repository = scheme.find('+') != scheme.npos ||
                             std::count(repository_schemes.begin(), repository_schemes.end(), scheme) > 0;
  if (is_repository) return {RequirementKind::repository, url};
  if (path.ends_with(wheel_ending))
    return {scheme == "file" ? RequirementKind::wheel_file : RequirementKind::wheel_url, url};
  return {scheme == "file" && !is_archive(path) ? RequirementKind::folder : RequirementKind::sources, url};
}

// The URL in "own[extra] @ URL", or nullopt.
std::optional<std::string> url_after_name(std::string_view line) {
  std::size_t at = line.find_first_not_of(name_letters);
  if (at == 0 || at == line.npos) return std::nullopt;
  at = line.find_first_not_of(' ', at);
  if (at != line.npos && line[at] == '[') at = line.find(']', at);
  if (at != line.npos && line[at] == ']') at = line.find_first_not_of(' ', at + 1);
  if (at == line.npos || line[at] != '@') return std::nullopt;
  return std::string(trim(line.substr(at + 1)));
}

std::string without_extras(std::string_view path) {
  if (path.ends_with(']') && path.find('[') != path.npos) path = path.substr(0, path.rfind('['));
  return std::string(trim(path));
}

// The lines of a file as pip reads them: "\" at the end continues a line, "#" after a blank begins a comment.
struct Line {
  std::size_t number;  // number of its first physical line
  std::string text;
};
std::vector<Line> lines_of(const std::string& whole) {
  std::vector<Line> out;
  std::size_t number = 0;
  bool goes_on = false;
  for (std::string line : split(whole.starts_with("\xef\xbb\xbf") ? whole.substr(3) : whole, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const bool is_comment = trim(line).starts_with('#');
    const bool is_first = !goes_on;
    goes_on = line.ends_with('\\') && !is_comment;
    while (goes_on && line.ends_with('\\')) line.pop_back();
    if (is_comment) line.insert(0, " ");
    if (is_first) {
      out.push_back({number, line});
    } else {
      out.back().text += line;
    }
  }
  for (Line& line : out) {
    for (std::size_t at = line.text.find('#'); at != line.text.npos; at = line.text.find('#', at + 1)) {
      const bool begins = at == 0 || line.text[at - 1] == ' ' || line.text[at - 1] == '\t';
      if (begins) line.text.resize(at);
    }
    std::replace(line.text.begin(), line.text.end(), '\t', ' ');
    line.text = trim(line.text);
  }
  std::erase_if(out, [](const Line& line) { return line.text.empty(); });
  return out;
}

// Splits text into words as a shell does.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  char quote = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && c == ' ') {
      inside = false;
      continue;
    }
    if (!inside) out.emplace_back();
    inside = true;
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      out.back() += text[++i];
    } else {
      out.back() += c;
    }
  }
  return out;
}

enum class Effect { is_kept, has_no_effect, reads, constrains, is_editable, finds, builds };

// An option of a file of requirements, and its effect in mlk.
struct Option {
  const char* name;
  char letter;  // 0: no short form
  bool has_value;
  Effect effect;
};
constexpr std::array options_of_pip{
    Option{"--requirement", 'r', true, Effect::reads},
    Option{"--constraint", 'c', true, Effect::constrains},
    Option{"--editable", 'e', true, Effect::is_editable},
    Option{"--find-links", 'f', true, Effect::finds},
    Option{"--index-url", 'i', true, Effect::is_kept},
    Option{"--pypi-url", 0, true, Effect::is_kept},
    Option{"--extra-index-url", 0, true, Effect::is_kept},
    Option{"--no-index", 0, false, Effect::is_kept},
    Option{"--trusted-host", 0, true, Effect::is_kept},
    Option{"--pre", 0, false, Effect::is_kept},
    Option{"--prefer-binary", 0, false, Effect::is_kept},
    Option{"--require-hashes", 0, false, Effect::is_kept},
    Option{"--use-feature", 0, true, Effect::is_kept},
    Option{"--only-binary", 0, true, Effect::has_no_effect},  // all packages come as wheels anyway
    Option{"--hash", 0, true, Effect::is_kept},               // the digest of one requirement
    Option{"--no-binary", 0, true, Effect::builds},
    Option{"--global-option", 0, true, Effect::builds},
    Option{"--install-option", 0, true, Effect::builds},
    Option{"--config-settings", 0, true, Effect::builds},
    Option{"--config-setting", 0, true, Effect::builds},
    Option{"-C", 'C', true, Effect::builds},
};

struct Given {
  Option option;
  std::string value;
};

class RequirementReader {
 public:
  RequirementReader(fs::path folder, const std::function<std::string(const fs::path&)>& read,
                    const std::function<std::string(const std::string&)>& variable)
      : folder_(std::move(folder)), read_(read), variable_(variable) {}

  void read(const fs::path& file, bool constrains, int depth) {
    if (depth > most_nested)
      throw Error(ExitCode::usage, fmt::format("code.python: {} is one of more than {} files that name each "
                                               "other",
                                               shown_path(file), most_nested));
    file_ = file;
    const std::string text = read_(file);
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
      throw Error(ExitCode::usage,
                  fmt::format("code.python: {} is in UTF-16, and must be in UTF-8", shown_path(file)),
                  "in PowerShell: python -m pip freeze | Out-File -Encoding utf8 requirements.txt");
    for (const Line& line : lines_of(text)) {
      file_ = file;
      line_ = line;
      one(file, constrains, depth);
    }
  }
  Requirements take() { return std::move(out_); }

 private:
  static std::string shown_path(const fs::path& path) { return printable(path.filename().string()); }

  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    constexpr std::size_t longest = 200;
    throw Error(ExitCode::usage,
                fmt::format("code.python: {}:{}: '{}' {}", shown_path(file_), line_.number,
                            printable(cut(without_logins(line_.text, "***@"), longest)), what),
                hint);
  }

  // Replaces each ${NAME} by the value of the variable, as pip does. Does not change ${NAME} if the name has
  // characters other than A-Z, 0-9 and _, or if the variable has no value.
  std::string expanded(const std::string& text) const {
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = text.find("${"); at != text.npos; at = text.find("${", from)) {
      const std::size_t end = text.find('}', at);
      if (end == text.npos) break;
      const std::string name = text.substr(at + 2, end - at - 2);
      const bool is_name =
          !name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == name.npos;
      const std::string value = is_name ? variable_(name) : "";
      out += text.substr(from, at - from) + (value.empty() ? text.substr(at, end + 1 - at) : value);
      from = end + 1;
    }
    return out + text.substr(from);
  }

  std::vector<Given> options_in(std::string_view text) const {
    std::vector<Given> out;
    const std::vector<std::string> words = words_of(text);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      const std::size_t equals = word.starts_with("--") ? word.find('=') : word.npos;
      const std::string name = word.substr(0, equals);
      const auto* const found =
          std::find_if(options_of_pip.begin(), options_of_pip.end(), [&](const Option& option) {
            return word.starts_with("--") ? name == option.name
                                          : word.size() > 1 && word[0] == '-' && word[1] == option.letter;
          });
      if (found == options_of_pip.end())
        refuse(fmt::format("has the option {}, which mlk does not know", printable(name)), "leave it out");
      Given given{*found, equals == word.npos ? "" : word.substr(equals + 1)};
      if (!word.starts_with("--")) given.value = word.substr(2);
      if (found->has_value && given.value.empty() && equals == word.npos) {
        if (++i == words.size()) refuse("ends without a value", "write it behind the option");
        given.value = words[i];
      }
      out.push_back(std::move(given));
    }
    return out;
  }

  void one(const fs::path& file, bool constrains, int depth) {
    // The requirement ends before the first word that begins with "-". The options begin with this word.
    std::size_t begin = line_.text.starts_with('-') ? 0 : line_.text.find(" -");
    const std::string requirement(trim(line_.text.substr(0, begin)));
    const std::vector<Given> given =
        begin == line_.text.npos ? std::vector<Given>() : options_in(line_.text.substr(begin));
    std::string& goal = constrains ? out_.constraints : out_.wanted;
    std::string kept;
    for (const Given& one_of : given) kept += effect(one_of, requirement, file, depth);
    if (requirement.empty()) {
      const std::string own_line = kept.empty() ? "" : kept.substr(1) + "\n";
      out_.options += own_line;
      goal += own_line;
      return;
    }
    goal += safe(requirement) + kept + "\n";
  }

  // Applies the option. Returns the option in the form for pip, with a blank in front; empty if mlk does not
  // pass the option on.
  std::string effect(const Given& given, const std::string& requirement, const fs::path& file, int depth) {
    const std::string name = given.option.name;
    const Line line = line_;
    switch (given.option.effect) {
      case Effect::is_kept:
        return " " + name + (given.option.has_value ? "=" + shell_word(given.value) : "");
      case Effect::has_no_effect:
        return "";
      case Effect::is_editable:
        refuse_source(RequirementKind::editable);
      case Effect::builds:
        refuse("would build a package, and so execute it, on this machine; only wheels are taken",
               "leave the option out, or take an image that has the package");
      case Effect::finds: {
        const std::string place = expanded(given.value), scheme = scheme_of(place);
        if (scheme == "file") out_.places.emplace_back(path_of_url(place));
        if (!scheme.empty()) return " " + name + "=" + shell_word(given.value);
        std::error_code error;
        const fs::path beside = file.parent_path() / place;
        const fs::path found = (fs::exists(beside, error) ? beside : folder_ / place).lexically_normal();
        out_.places.push_back(found);
        return " " + name + "=" + shell_word(found.string());
      }
      case Effect::reads:
      case Effect::constrains: {
        if (!requirement.empty()) refuse("names another file beside a package", "write two lines");
        const std::string place = expanded(given.value);
        const std::string scheme = scheme_of(place);
        if (!scheme.empty())
          refuse("is not on this machine", "save the file in the folder of the code, and name it there");
        read((file.parent_path() / place).lexically_normal(), given.option.effect == Effect::constrains,
             depth + 1);
        file_ = file;
        line_ = line;
        return "";
      }
    }
    return "";
  }

  [[noreturn]] void refuse_source(RequirementKind kind) const {
    const std::string would =
        " would be built, and so executed, on this machine, and its content may change under the same path";
    const std::string wheel =
        "make a wheel of it and name that, as ./dist/own-1.0-py3-none-any.whl: python3 -m pip wheel "
        "--no-deps -w dist SOURCE";
    if (kind == RequirementKind::editable)
      refuse("is a folder, which" + would,
             "leave the project itself out, since it travels as code: uv export --no-emit-project, with "
             "env: {PYTHONPATH: src}; or " +
                 wheel);
    if (kind == RequirementKind::folder) refuse("is a folder, which" + would, wheel);
    if (kind == RequirementKind::repository) refuse("is a repository, which" + would, wheel);
    refuse("is no wheel: it would be built, and so executed, on this machine", wheel);
  }

  // Refuses a requirement for which pip would build a package. Returns the requirement with absolute paths,
  // because pip runs in another folder.
  std::string safe(const std::string& requirement) {
    const NamedSource source = classify_requirement(expanded(requirement));
    switch (source.kind) {
      case RequirementKind::package:
        return requirement;
      case RequirementKind::wheel_url:
        out_.urls.push_back(source.place);
        return requirement;
      case RequirementKind::wheel_file: {
        const bool is_url = !scheme_of(source.place).empty();
        const std::string path = is_url ? source.place.substr(source.place.find(':') + 1) : source.place;
        const bool is_absolute = path.starts_with('/');
        const std::string absolute = is_absolute ? path : (folder_ / path).lexically_normal().string();
        const std::string place = is_url && !is_absolute ? "file://" + absolute
                                  : is_url               ? source.place
                                                         : absolute;
        out_.places.emplace_back(is_url ? path_of_url(place) : place);
        if (is_absolute) return requirement;
        std::string out = expanded(requirement);
        return out.replace(out.find(source.place), source.place.size(), place);
      }
      default:
        refuse_source(source.kind);
    }
  }

  const fs::path folder_;
  const std::function<std::string(const fs::path&)>& read_;
  const std::function<std::string(const std::string&)>& variable_;
  fs::path file_{};
  Line line_{0, ""};
  Requirements out_{};
};

}  // namespace

std::string without_logins(std::string text, const std::string& instead) {
  constexpr std::string_view mark = "://";
  for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at)) {
    at += mark.size();
    const std::size_t host_end = std::min(text.find_first_of("/?# ", at), text.size());
    const std::size_t login_end = text.rfind('@', host_end);
    if (login_end != text.npos && login_end >= at && login_end < host_end)
      text.replace(at, login_end + 1 - at, instead);
  }
  return text;
}

NamedSource classify_requirement(std::string_view line) {
  line = trim(line);
  if (line.starts_with("-e") || line.starts_with("--editable")) return {RequirementKind::editable, ""};
  const bool is_url = !scheme_of(line).empty();
  const std::optional<std::string> named = is_url ? std::nullopt : url_after_name(line);
  if (named || is_url) {
    // URLs may have semicolons. So the semicolon of a marker behind a URL has a blank before or after it.
    const std::string url = named ? *named : std::string(line);
    return classify_url(std::string(trim(url.substr(0, std::min(url.find(" ;"), url.find("; "))))));
  }
  const std::string path = without_extras(trim(line.substr(0, line.find(';'))));
  if (path.ends_with(wheel_ending)) return {RequirementKind::wheel_file, path};
  if (is_archive(path)) return {RequirementKind::sources, path};
  if (path.find('/') != path.npos || path.starts_with('.')) return {RequirementKind::folder, path};
  return {RequirementKind::package, ""};
}

std::string own_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

Requirements read_requirements(const fs::path& file, const std::function<std::string(const fs::path&)>& read,
                               const std::function<std::string(const std::string&)>& variable) {
  RequirementReader reader(file.parent_path(), read, variable);
  reader.read(file, false, 0);
  return reader.take();
}

}  // namespace mlk::image
