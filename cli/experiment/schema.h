// What may stand in an experiment file: one table. Validation, defaults, "did you mean" and the check of
// mlk-experiment(5) are made from it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mlk {

enum class Type {
  text,         // any text; numbers and booleans are taken as they are written
  choice,       // `detail`: "a|b|c"
  dns_label,    // [a-z]([-a-z0-9]*[a-z0-9])?, `detail`: longest
  object_name,  // name of a Kubernetes object: a DNS subdomain
  path,         // absolute, as the pods see it; made lexically normal
  folder,       // relative to the experiment file
  whole,        // `detail`: "lowest..highest"
  number,       // `detail`: "lowest..highest"; "(0..1)": not these two themselves
  boolean,
  duration,  // 90s, 15m, 1h30m; `detail`: the longest, "" when any will do; before it "0s.." when none will
  cpu,       // 2, 0.5, 250m
  memory,    // 512Mi, 4Gi
  command,   // text for sh -c, or a list of words
  consistency,
  retry_rules,   // list of `preemption`, `any`, exit codes and ranges of them
  environment,   // map of variables to text or {secret: name/key}
  texts,         // list of text
  object_names,  // list of names of Kubernetes objects
  wholes,        // list of whole numbers, `detail`: "lowest..highest|longest", the latter of the list
  text_map,      // map to text
  free_map,      // a map that is Kubernetes' to judge, a job type's, or the sweep's
  any,           // any value, judged by whoever uses it
  section,       // map; `detail`: the section
  sections,      // list of maps; `detail`: the section
  section_map,   // map of names to maps; `detail`: the section
  later,         // known, but not supported yet; `detail`: what to say
};

struct Key {
  std::string_view name;
  Type type;
  std::string_view detail;
  std::string_view fallback;  // the default as YAML; "" if there is none, `required` if it must be given
  std::string_view doc;       // one line
};

inline constexpr std::string_view required = "<required>";

struct Section {
  std::string_view name;  // "experiment" is the file itself
  std::span<const Key> keys;
};

std::span<const Section> schema();
const Section& schema_section(std::string_view name);  // throws std::out_of_range

// Every key with a value of its own, as --set takes it: "train.optimizer.lr"; of a list its first entry,
// "data.0.mount".
std::vector<std::string> settable_keys();

}  // namespace mlk
