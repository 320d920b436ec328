#include "cli/run/facts/denied.h"

#include <cctype>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/last_words.h"
#include "cli/util/json_path.h"

namespace mlk {
namespace {

using nlohmann::json;

constexpr char node_of_local[] = "local";  // the one node of the embedded cluster

bool says(const std::string& line, std::string_view words) { return line.find(words) != line.npos; }

bool is_named(const json& value, const std::string& name) { return text_of(value, {"name"}) == name; }

// Whether this character before a path belongs to the path. For example, "/data" in "/mnt/data" is only a
// part of a path.
bool goes_on_in_path(char before) {
  return std::isalnum(static_cast<unsigned char>(before)) != 0 ||
         static_cast<unsigned char>(before) >= 0x80 ||
         std::string_view("/._-~").find(before) != std::string_view::npos;
}

// Whether `line` names the folder or a file in it.
bool names_path(const std::string& line, const std::string& folder) {
  for (std::size_t at = line.find(folder); at != line.npos; at = line.find(folder, at + 1)) {
    const std::size_t end = at + folder.size();
    if (!(at > 0 && goes_on_in_path(line[at - 1])) &&
        (end == line.size() || line.find_first_of("/'\": ", end) == end))
      return true;
  }
  return false;
}

// Of the mounts in the program's container, the one that holds the file named in `line`; null if the file is
// in no mount.
json mount_of(const std::string& line, const json& pod) {
  json found;
  for (const json& container : at_path(pod, {"containers"})) {
    if (!is_named(container, "main")) continue;
    for (const json& mount : at_path(container, {"volumeMounts"})) {
      const std::string path = text_of(mount, {"mountPath"});
      if (path.size() > text_of(found, {"mountPath"}).size() && names_path(line, path)) found = mount;
    }
  }
  return found;
}

std::string what_lies_there(const json& mount, const json& pod) {
  for (const json& volume : at_path(pod, {"volumes"})) {
    if (!is_named(volume, text_of(mount, {"name"}))) continue;
    if (volume.contains("persistentVolumeClaim"))
      return "claim " + text_of(volume, {"persistentVolumeClaim", "claimName"});
    if (volume.contains("hostPath")) return text_of(volume, {"hostPath", "path"}) + " of the node";
    if (volume.contains("nfs"))
      return text_of(volume, {"nfs", "server"}) + ":" + text_of(volume, {"nfs", "path"});
  }
  return "a volume";
}

}  // namespace

std::string advice_on_denied(const std::string& said, const json& pod) {
  const std::string line = last_line(said);
  if (line.starts_with("mlk: ")) return "";  // mlk's own message already gives the advice
  const bool denied = says(line, "ermission denied") || says(line, "EACCES");
  const bool read_only = says(line, "ead-only file system") || says(line, "EROFS");
  const bool absent = says(line, "o such file or directory") || says(line, "ENOENT");
  if (!denied && !read_only && !absent) return "";
  const json mount = mount_of(line, pod);
  const std::string path = text_of(mount, {"mountPath"});
  if (absent)
    return text_of(pod, {"nodeName"}) == node_of_local && !mount.is_null()
               ? fmt::format(
                     " (with --local {} is another folder, and the program's files do not have its path: "
                     "pass the path in `run:` or `env:`)",
                     path)
               : "";
  if (read_only)
    return at_path(mount, {"readOnly"}) == true
               ? fmt::format(" ({} is mounted to be read: `read_only: false` lets it write)", path)
               : "";
  const json& number = at_path(pod, {"securityContext", "runAsUser"});
  const std::string who = number.is_number() ? fmt::format("uid {}", number.dump()) : "the image's user";
  if (mount.is_null())
    return fmt::format(
        " (the program ran as {}, a user without this right in the image; `user:` names another)", who);
  return fmt::format(
      " (the program ran as {}, and {} is {}: let this user write there, or name another with `user:`)", who,
      path, what_lies_there(mount, pod));
}

}  // namespace mlk
