// The set of templates in use: the built-in templates and the user's files. A file of the user replaces the
// built-in template with the same path.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cli/experiment/load.h"

namespace mlk {

inline constexpr char built_in_source[] = "built-in";

struct Template {
  std::string text;
  std::string source;  // built_in_source or the file's path
};

class Templates {
 public:
  Templates();                                       // has the built-in templates
  void add(const std::string& path, Template file);  // path below templates/, e.g. "jobs/ps.yaml"

  const Template* find(const std::string& path) const;
  // The names of the job types ("allreduce", "ps", "single" and those of the user) and of the frameworks.
  TemplateNames names() const;
  const std::map<std::string, Template>& all() const { return files_; }

  // Returns the result of `parse` for the template at `path`. Calls `parse` only once for each path until the
  // next add(), because a sweep renders its templates thousands of times. May be called from any thread.
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
