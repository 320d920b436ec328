// Mistakes in text: their place, their description, and how they are shown.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mlk {

// A text written by people: a file, a template, or the value of a flag.
struct Source {
  std::string name;  // the name in messages: the path, "--set", "-e"
  std::string text;
};

// Lines and columns are counted from 0. A column is a number of bytes.
struct Place {
  std::shared_ptr<const Source> source;
  std::size_t line = 0;
  std::size_t column = 0;
};

// Collects mistakes, so that one error reports all of them.
class Problems {
 public:
  void add(const Place& place, std::string what);
  bool empty() const { return found_.empty(); }
  std::size_t size() const { return found_.size(); }

  // Throws Error{usage} if there are mistakes. The error has the first 20 mistakes in the order of the text,
  // and the number of the others. Each mistake is "name:line:column: what", then the line and a caret. A line
  // that may hold a secret is not shown.
  void throw_if_any(const std::string& hint = "") const;

 private:
  struct Problem {
    Place place;
    std::string what;
  };
  std::vector<Problem> found_;
};

// Whether the text looks like a key, a token, or an address with a password. These must not be written in
// plain text.
bool looks_like_secret(std::string_view value);
// Whether a variable of this name usually holds a secret: HF_TOKEN, db_password, AWS_SECRET_ACCESS_KEY.
bool names_secret(std::string_view variable);

}  // namespace mlk
