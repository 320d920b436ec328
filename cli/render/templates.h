// The set of templates in force: those compiled in, with the user's own files over them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mlk {

inline constexpr char built_in_source[] = "built-in";

struct Template {
  std::string text;
  std::string source;  // built_in_source or the file's path
};

class Templates {
 public:
  Templates();                                       // the built-in ones
  void add(const std::string& path, Template file);  // path below templates/, e.g. "jobs/ps.yaml"

  const Template* find(const std::string& path) const;
  std::vector<std::string> job_types() const;  // "allreduce", "ps", "single", and the user's
  const std::map<std::string, Template>& all() const { return files_; }

 private:
  std::map<std::string, Template> files_;
};

}  // namespace mlk
