// Files of requirements, as pip reads them, and which of their lines are safe to give to the pip of this
// machine: those that name wheels. A folder, a repository or an archive of sources would be built, and so
// executed, here; and nothing of it but its path would say what it holds. Pure.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mlk::image {

// What pip would install for a requirement.
enum class RequirementKind {
  package,     // six==1.16.0: a wheel of the index, which has a digest
  wheel_file,  // ./dist/own-1.0-py3-none-any.whl
  wheel_url,   // own @ https://host/own-1.0-py3-none-any.whl
  folder,      // ./own, or file:///home/me/own
  editable,    // -e .
  repository,  // git+https://host/own.git
  sources,     // https://host/own-1.0.tar.gz
};

// Of a line without its comment and its options. `place` is the path or URL in it, if it has one.
struct NamedSource {
  RequirementKind kind = RequirementKind::package;
  std::string place{};
};
NamedSource classify_requirement(std::string_view line);

// Text with URLs, and `instead` in place of "user:password@" in them.
std::string without_logins(std::string text, const std::string& instead);

// All that a file names, itself and by -r and -c.
struct Requirements {
  std::string wanted;               // a file for pip, in which paths are absolute
  std::string constraints;          // the same of -c; empty: there are none
  std::string options;              // of `wanted`, a line each: indexes and where else wheels are found
  std::vector<std::string> urls{};  // of wheels, as they are written: the report of pip has no logins
};

// `read` gives the text of a file. Throws Error{usage}, with file and line: for what is not safe, an option
// that mlk does not know, files that name each other more than 16 deep. `variable`: the value of ${NAME}.
Requirements read_requirements(const std::filesystem::path& file,
                               const std::function<std::string(const std::filesystem::path&)>& read,
                               const std::function<std::string(const std::string&)>& variable);

}  // namespace mlk::image
