// The table of all keys of an experiment file. Validation, defaults, "did you mean" and the check of
// mlk-experiment(5) are derived from this table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mlk {

enum class Type {
  text,         // text that is not empty; numbers and booleans are kept as written
  choice,       // `detail`: "a|b|c"
  dns_label,    // [a-z]([-a-z0-9]*[a-z0-9])?, `detail`: the most characters
  object_name,  // name of a Kubernetes object: a DNS subdomain
  path,         // absolute path in the pods, normalised; also a relative one if `detail` is "or relative"
  folder,       // relative to the experiment file
  whole,        // `detail`: "lowest..highest"
  number,       // `detail`: "lowest..highest"; "(0..1)" excludes both ends
  boolean,
  duration,  // 90s, 15m, 1h30m; `detail`: the longest duration, such as "1h"; "0s..1h" also allows zero;
             // "" sets no limit
  cpu,       // 2, 0.5, 250m
  memory,    // 512Mi, 4Gi
  command,   // text for sh -c, or a list of words
  consistency,
  pod_user,      // auto, image or a number
  retry_rules,   // list of `preemption`, `any`, exit codes and ranges of exit codes
  arguments,     // map of arguments of the program to values
  environment,   // map of variables to text or {secret: name/key}
  texts,         // list of text; `detail` "or one": one text stands for a list of it
  object_names,  // list of names of Kubernetes objects
  wholes,        // list of whole numbers; `detail`: "lowest..highest|most entries"
  text_map,      // map of names to text
  free_map,      // a map that Kubernetes, a job type or the sweep checks
  any,           // any value; the code that uses the value checks it
  section,       // map; `detail`: the section
  path_section,  // like section; a text or a list in place of the map is the value of the key `path`
  sections,      // list of maps; `detail`: the section
  section_map,   // map of names to maps; `detail`: the section
  later,         // known, but not supported yet; `detail`: the message
};

struct Key {
  std::string_view name;
  Type type;
  std::string_view detail;
  std::string_view fallback;  // the default as YAML; "" if there is none, `required` if the key must be given
  std::string_view doc;       // one line
};

inline constexpr std::string_view required = "<required>";

struct Section {
  std::string_view name;  // "experiment" is the file itself
  std::span<const Key> keys;
};

std::span<const Section> schema();
const Section& schema_section(std::string_view name);  // throws std::out_of_range

// The paths of all keys except sections and maps with free content, in the form of --set:
// "train.optimizer.lr". For a list, there are only the paths of the first entry: "data.0.mount".
std::vector<std::string> settable_keys();

}  // namespace mlk
