// The set of templates in use: the compiled-in templates, where the user's files replace those of the same
// path.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/experiment/load.h"

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
  // The names of the job types ("allreduce", "ps", "single" and those of the user) and of the frameworks.
  TemplateNames names() const;
  const std::map<std::string, Template>& all() const { return files_; }

  // Returns the result of `parse` for a file. Computes it only once, because a sweep renders its templates
  // thousands of times. May be called from any thread.
  std::shared_ptr<const YamlNode> tree(const std::string& path, const std::function<YamlNode()>& parse) const;

 private:
  struct Trees {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const YamlNode>> by_path;
  };

  std::map<std::string, Template> files_;
  std::shared_ptr<Trees> trees_ = std::make_shared<Trees>();
};

}  // namespace mlk
