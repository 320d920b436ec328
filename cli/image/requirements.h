// Reads files of requirements as pip does, and refuses lines that are not safe for the pip of this machine. A
// line is safe only if pip can install a wheel for it. If a line names a folder, a repository or an archive
// of sources, pip would build it on this machine and so execute its code. Also, mlk could identify the
// content only by the path, and the content may change under the same path. Pure, except own_variable().
#pragma once

#include <cstddef>
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

// The kind of a requirement. `place`: the path or URL in the line, or "". classify_requirement() expects a
// line that has no comment and no options.
struct NamedSource {
  RequirementKind kind = RequirementKind::package;
  std::string place{};
};
NamedSource classify_requirement(std::string_view line);

// The text, with `instead` in place of "user:password@" in each URL.
std::string without_logins(std::string text, const std::string& instead);

// All requirements of a file, and of the files that this file includes by -r and -c.
struct Requirements {
  std::string wanted;               // the text of a file for pip, with absolute paths
  std::string constraints;          // the text of a file for pip's option -c; empty: no constraints
  std::string options;              // the lines that have only options, such as --index-url
  std::vector<std::string> urls{};  // of wheels, as the user wrote them, with logins
  // The wheel files on this machine that are requirements, and the folders and HTML files of --find-links.
  // Some of them may be missing, or lie outside of the folder of the code.
  std::vector<std::filesystem::path> places{};
};

inline constexpr std::size_t longest_requirements = 4 << 20;  // of one file

// The value of a variable of this process, for read_requirements(); empty if the variable is not set.
std::string own_variable(const std::string& name);

// `read` returns the text of a file. `variable` returns the value of ${NAME}. Throws Error{usage}, with file
// and line, for a line that is not safe, an option that mlk does not know, and files that include each other
// more than 16 levels deep.
Requirements read_requirements(const std::filesystem::path& file,
                               const std::function<std::string(const std::filesystem::path&)>& read,
                               const std::function<std::string(const std::string&)>& variable);

}  // namespace mlk::image
