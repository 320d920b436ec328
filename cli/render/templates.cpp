#include "cli/render/templates.h"

#include "cli/render/embedded.h"
#include "cli/yaml/yaml.h"

namespace mlk {

namespace {

constexpr std::string_view extension = ".yaml";

}  // namespace

Templates::Templates() {
  for (const EmbeddedFile& file : embedded_templates()) {
    files_[std::string(file.path)] = {std::string(file.text), built_in_source};
  }
}

void Templates::add(const std::string& path, Template file) {
  files_[path] = std::move(file);
  trees_ = std::make_shared<Trees>();
}

std::shared_ptr<const YamlNode> Templates::tree(const std::string& path,
                                                const std::function<YamlNode()>& parse) const {
  const std::lock_guard lock(trees_->mutex);
  std::shared_ptr<const YamlNode>& tree = trees_->by_path[path];
  if (!tree) tree = std::make_shared<const YamlNode>(parse());
  return tree;
}

const Template* Templates::find(const std::string& path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? nullptr : &found->second;
}

TemplateNames Templates::names() const {
  const auto in_folder = [this](std::string_view folder) {
    std::vector<std::string> names;
    for (const auto& [path, file] : files_) {
      if (path.starts_with(folder) && path.ends_with(extension))
        names.push_back(path.substr(folder.size(), path.size() - folder.size() - extension.size()));
    }
    return names;
  };
  return {.job_types = in_folder("jobs/"), .frameworks = in_folder("frameworks/")};
}

}  // namespace mlk
