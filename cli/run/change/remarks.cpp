#include "cli/run/change/remarks.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk {
namespace {

using nlohmann::json;

constexpr std::size_t longest_note = 16384;  // bytes; all annotations of an object may have 256 KiB
constexpr int most_attempts = 10;

// "team=" for the tag team=vision; empty for a tag without a value.
std::string key_of(const std::string& tag) {
  const std::size_t equals = tag.find('=');
  return equals == std::string::npos ? "" : tag.substr(0, equals + 1);
}

void remove_tag(std::vector<std::string>& tags, const std::string& word) {
  std::erase_if(tags, [&](const std::string& tag) { return tag == word || key_of(tag) == word + "="; });
}

void add_tag(std::vector<std::string>& tags, const std::string& word) {
  if (std::find(tags.begin(), tags.end(), word) != tags.end()) return;
  if (const std::string key = key_of(word); !key.empty())
    std::erase_if(tags, [&](const std::string& tag) { return key_of(tag) == key; });
  tags.push_back(word);
}

json annotation_patch(const json& owner, const char* annotation, json value) {
  return {{"metadata",
           {{"resourceVersion", text_of(owner, {"metadata", "resourceVersion"})},
            {"annotations", {{annotation, std::move(value)}}}}}};
}

}  // namespace

std::vector<std::string> changed_tags(std::vector<std::string> tags,
                                      const std::vector<std::string>& changes) {
  for (const std::string& change : changes) {
    const bool removes = !change.starts_with('+') && change.ends_with('-');
    const std::string word =
        removes ? change.substr(0, change.size() - 1) : change.substr(change.starts_with('+') ? 1 : 0);
    if (word.empty() || word.starts_with('=') || !is_utf8(word))
      throw Error(ExitCode::usage, "'" + printable(change) + "' is no change of a tag",
                  "+WORD adds the tag WORD, and -WORD removes it");
    removes ? remove_tag(tags, word) : add_tag(tags, word);
  }
  return tags;
}

std::vector<std::string> change_tags(kube::Client& client, const std::string& run,
                                     const std::vector<std::string>& changes) {
  const std::string& name_space = client.config().name_space;
  for (int attempt = 1;; ++attempt) {
    const json owner = client.get(kube::resources::config_maps, name_space, run);
    std::vector<std::string> tags = changed_tags(tags_of(owner), changes);
    if (tags == tags_of(owner)) return tags;
    try {
      client.patch(kube::resources::config_maps, name_space, run,
                   annotation_patch(owner, annotations::tags, tags.empty() ? json() : json(json_text(tags))));
      return tags;
    } catch (const kube::ApiError& error) {
      if (error.status() != 409 || attempt == most_attempts) throw;  // 409: another has changed the owner
    }
  }
}

void set_note(kube::Client& client, const std::string& run, const std::string& text) {
  if (text.size() > longest_note || !is_utf8(text))
    throw Error(ExitCode::usage, "a note is text of at most 16384 bytes");
  client.patch(kube::resources::config_maps, client.config().name_space, run,
               {{"metadata", {{"annotations", {{annotations::note, text.empty() ? json() : json(text)}}}}}});
}

}  // namespace mlk
