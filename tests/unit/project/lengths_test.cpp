// Checks the lengths of functions. The sources must have the layout of clang-format.

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/project/rooms.h"

TEST_SUITE_BEGIN("project/lengths");

namespace {

constexpr std::size_t longest_body = 60;  // lines between the braces

struct Body {
  std::string head;  // the declaration as one line
  std::size_t lines = 0;
};

// The line without its indentation and without a comment at its end.
std::string code_of(const std::string& line) {
  const std::string code = line.substr(0, line.find(" //"));
  const std::size_t first = code.find_first_not_of(' ');
  return first == std::string::npos ? "" : code.substr(first, code.find_last_not_of(' ') + 1 - first);
}

// Whether bodies_of() searches for functions between the braces that this declaration opens.
bool is_scope(const std::string& declaration) {
  static const std::regex scope(
      R"(^(template <.*> )?(inline )?(namespace|class|struct|union|enum|extern "C")\b[^()]*\{$)");
  return std::regex_search(declaration, scope);
}

// The bodies of all functions in namespaces and classes. A body ends at the first closing brace with the
// indentation of its declaration.
std::vector<Body> bodies_of(const std::vector<std::string>& lines) {
  std::vector<Body> bodies;
  std::string declaration;
  std::size_t indent = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string text = code_of(lines[i]);
    if (text.empty() || text.starts_with("//") || text.starts_with('#')) continue;
    if (declaration.empty()) indent = lines[i].find_first_not_of(' ');
    declaration += (declaration.empty() ? "" : " ") + text;
    if (text.ends_with('{') && !is_scope(declaration)) {
      const std::string end = std::string(indent, ' ') + "}";
      std::size_t last = i + 1;
      while (last < lines.size() && !lines[last].starts_with(end)) ++last;
      if (declaration.find('(') != std::string::npos) bodies.push_back({declaration, last - i - 1});
      i = last;
      declaration.clear();
    } else if (text.ends_with(';') || text.ends_with('{') || text.ends_with('}') || text.ends_with(':')) {
      declaration.clear();
    }
  }
  return bodies;
}

std::vector<std::string> lines_of(std::istream&& in) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The number of lines of the longest body in each file that had too long a body when this test was written.
// These numbers may only become smaller.
const std::map<std::string, std::size_t> known_long = {};

}  // namespace

TEST_CASE("bodies_of() finds the functions of a file and counts their lines") {
  const std::vector<Body> bodies = bodies_of(lines_of(std::istringstream(R"(
namespace a {
struct S : T {
 public:
  S(int one,
    int two)
      : one_(one) {
    if (two) {
      three();
    }
  }
  int x = 0;
};
const int table[] = {
    1,
};
template <class T>
struct Pair* make(T value) {  // as it was
  return f([] {
    return 1;
  });
}
}  // namespace a
)")));
  REQUIRE(bodies.size() == 2);
  CHECK(bodies[0].head == "S(int one, int two) : one_(one) {");
  CHECK(bodies[0].lines == 3);
  CHECK(bodies[1].head == "template <class T> struct Pair* make(T value) {");
  CHECK(bodies[1].lines == 3);
}

TEST_CASE("functions have at most 60 lines between their braces") {
  std::size_t seen = 0;
  std::map<std::string, std::size_t> too_long;  // by file
  for (const mlk::test::SourceFile& source :
       mlk::test::sources_below(mlk::test::roots_of_long_lived_code())) {
    const std::string path = source.path.string();
    for (const Body& body : bodies_of(source.lines)) {
      ++seen;
      if (body.lines <= longest_body) continue;
      too_long[path] = std::max(too_long[path], body.lines);
      const auto known = known_long.find(path);
      const bool allowed = known != known_long.end() && body.lines <= known->second;
      CHECK_MESSAGE(allowed, path, ": ", body.lines, " lines: ", body.head);
    }
  }
  CHECK(seen > 1000);
  for (const auto& [path, lines] : known_long) CHECK_MESSAGE(too_long[path] == lines, path, " has improved");
}
