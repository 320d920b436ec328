#include "cli/local/node/localise.h"

#include <algorithm>
#include <string_view>

#include "cli/local/node/pod_values.h"
#include "cli/util/path_list.h"
#include "cli/util/text.h"

namespace mlk::local {

using nlohmann::json;

namespace {

constexpr char packages_folder[] = "/mlk/python";  // where mlk mounts Python packages

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

bool is_path_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' || c == '/' ||
         c == '+' || c == '@';
}

std::size_t digits_at(const std::string& text, std::size_t begin) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
  return end - begin;
}

// A name with a number, such as "worker-3", is a pod of an Indexed Job. Any other word before the name of a
// service stays unchanged.
bool is_pod_host(const std::string& text) {
  const auto dash = text.rfind('-');
  return dash != text.npos && dash > 0 && dash + 1 < text.size() &&
         dash + 1 + digits_at(text, dash + 1) == text.size();
}

class Localiser {
 public:
  Localiser(const json& pod, const PodContext& around)
      : pod_(pod),
        around_(around),
        metadata_(pod.at("metadata")),
        spec_(pod.at("spec")),
        container_(spec_.at("containers").at(0)),
        name_space_(metadata_.value("namespace", "default")) {}

  Process run() {
    const std::string host = spec_.value("hostname", metadata_.at("name").get<std::string>());
    process_.address = around_.address_of(host);
    read_environment();
    mount_volumes();
    for (const auto& [name, value] : around_.inherited) process_.env.emplace_back(name, value);
    process_.env.emplace_back("HOSTNAME", host);
    for (const std::string& name : order_) {
      set(name, secret_.contains(name) ? env_.at(name) : place(name, env_.at(name)));
    }
    find_packages();
    for (const char* list : {"command", "args"}) {
      for (const json& word : container_.value(list, json::array())) {
        process_.argv.push_back(place(expand_variables(word.get<std::string>(), env_)));
      }
    }
    if (container_.value("command", json::array()).empty()) {
      throw WaitingReason(
          "CreateContainerError",
          "no command: the local cluster starts no images, so the container has to say what to run");
    }
    const std::string folder = container_.value("workingDir", "");
    process_.working_folder = folder.empty() ? around_.pod_folder.string() : replace_paths(folder, mounts_);
    return std::move(process_);
  }

 private:
  [[noreturn]] static void refuse(const std::string& why) {
    throw WaitingReason("CreateContainerConfigError", why);
  }

  std::string place(const std::string& text) const {
    return replace_paths(
        replace_peers(text, name_space_, around_.services, around_.address_of, around_.port_of), mounts_);
  }

  // The value of a variable, with names and paths replaced. If a port has its own variable X_PORT beside the
  // variable of the host, such as X_ADDR or X_URI, the host decides which port X_PORT gets.
  std::string place(const std::string& variable, const std::string& value) const {
    constexpr std::string_view port = "_PORT";
    const bool is_port = variable.ends_with(port) && !value.empty() && digits_at(value, 0) == value.size();
    if (!is_port) return place(value);
    const std::string prefix = variable.substr(0, variable.size() - port.size() + 1);
    for (auto host = env_.lower_bound(prefix); host != env_.end() && host->first.starts_with(prefix);
         ++host) {
      if (host->first == variable || secret_.contains(host->first)) continue;
      const std::string both = place(host->second + ":" + value);
      const std::string of_host = both.substr(both.rfind(':') + 1);
      if (of_host != value) return of_host;
    }
    return place(value);
  }

  void set(const std::string& name, const std::string& value) {
    for (auto& [existing, old] : process_.env) {
      if (existing == name) {
        old = value;
        return;
      }
    }
    process_.env.emplace_back(name, value);
  }

  std::string inherited(const std::string& name) const {
    for (const auto& [existing, value] : around_.inherited) {
      if (existing == name) return value;
    }
    return "";
  }

  // This machine takes the place of the image, so the machine's PYTHONPATH comes last. In PATH, the folder of
  // the packages comes first.
  void find_packages() {
    const auto packages = mounts_.find(packages_folder);
    if (packages == mounts_.end()) return;
    for (auto& [name, value] : process_.env) {
      if (name == "PYTHONPATH" && value != inherited(name)) value = path_first(value, inherited(name));
      if (name == "PATH") value = path_first(packages->second + "/bin", value);
    }
  }

  void mount_volumes() {
    std::map<std::string, std::string> folders;
    std::set<std::string> of_files;  // volumes with given contents, in which nothing is created
    for (const json& volume : spec_.value("volumes", json::array())) {
      const std::string name = volume.at("name").get<std::string>();
      folders[name] = folder_of(volume);
      if (volume.contains("configMap") || volume.contains("secret")) of_files.insert(name);
    }
    for (const json& mount : container_.value("volumeMounts", json::array())) {
      const std::string name = mount.at("name").get<std::string>();
      std::string folder = folders.at(name);
      const std::string below =
          expand_variables(mount.value("subPath", mount.value("subPathExpr", "")), env_);
      if (below.find("..") != below.npos) refuse("invalid subPath: \"" + below + "\"");
      if (!below.empty()) {
        folder += "/" + below;
        if (!of_files.contains(name)) process_.folders.push_back(folder);
      }
      std::string path = mount.at("mountPath").get<std::string>();
      while (path.size() > 1 && path.back() == '/') path.pop_back();
      mounts_[path] = folder;
    }
    process_.termination_message = around_.pod_folder / "termination-log";
    mounts_[container_.value("terminationMessagePath", "/dev/termination-log")] =
        process_.termination_message;
  }

  std::string folder_of(const json& volume) {
    const std::string name = volume.at("name").get<std::string>();
    const std::filesystem::path own = around_.pod_folder / "volumes" / name;
    if (volume.contains("configMap") || volume.contains("secret")) {
      write_data(volume, own);
      return own;
    }
    if (volume.contains("persistentVolumeClaim")) {
      const std::string claim = volume.at("persistentVolumeClaim").at("claimName").get<std::string>();
      if (const auto given = around_.volumes.find(claim); given != around_.volumes.end())
        return given->second;
      const std::filesystem::path folder = around_.claims / name_space_ / claim;
      process_.folders.push_back(folder);
      return folder;
    }
    if (const auto given = around_.volumes.find(name); given != around_.volumes.end()) return given->second;
    if (volume.contains("hostPath")) return volume.at("hostPath").at("path").get<std::string>();
    if (volume.size() > 1 && !volume.contains("emptyDir")) {
      std::string type;
      for (const auto& [key, value] : volume.items()) {
        if (key != "name") type = key;
      }
      refuse("the local cluster has no volumes of type " + type + ": give a folder for it with --volume " +
             name + "=DIR");
    }
    process_.folders.push_back(own);
    return own;
  }

  void write_data(const json& volume, const std::filesystem::path& folder) {
    const bool secret = volume.contains("secret");
    const json& source = volume.at(secret ? "secret" : "configMap");
    const std::string name = source.value(secret ? "secretName" : "name", "");
    process_.folders.push_back(folder);
    const json* object = around_.find(secret ? "secrets" : "configmaps", name);
    if (object == nullptr) {
      if (source.value("optional", false)) return;
      throw WaitingReason("ContainerCreating",
                          std::string("MountVolume.SetUp failed for volume \"") + volume.value("name", "") +
                              "\" : " + (secret ? "secret" : "configmap") + " \"" + name + "\" not found");
    }
    // Only the owner reads the state folder, so a mode keeps only the bits of the owner.
    const auto mode_of = [](long mode) { return static_cast<unsigned>(mode & 0700) | 0400u; };
    const long common = source.value("defaultMode", 0644L);
    const std::map<std::string, std::string> data = data_of(*object);
    if (!source.contains("items")) {
      for (const auto& [key, value] : data) process_.files.push_back({folder / key, value, mode_of(common)});
      return;
    }
    for (const json& item : source.at("items")) {
      const std::string key = item.value("key", ""), path = item.value("path", "");
      const auto found = data.find(key);
      if (found == data.end()) {
        if (source.value("optional", false)) continue;
        throw WaitingReason("ContainerCreating", "references non-existent config key: " + key);
      }
      if (path.empty() || path.front() == '/' || path.find("..") != path.npos)
        refuse("invalid path of an item: \"" + path + "\"");
      process_.files.push_back({folder / path, found->second, mode_of(item.value("mode", common))});
    }
  }

  void add(const std::string& name, const std::string& value, bool secret) {
    if (!env_.contains(name)) order_.push_back(name);
    env_[name] = value;
    if (secret) {
      secret_.insert(name);
    } else {
      secret_.erase(name);
    }
  }

  void read_environment() {
    for (const json& source : container_.value("envFrom", json::array())) {
      const bool secret = source.contains("secretRef");
      const json& reference = source.at(secret ? "secretRef" : "configMapRef");
      const json* object = require(secret, reference);
      if (object == nullptr) continue;
      for (const auto& [key, value] : data_of(*object)) add(source.value("prefix", "") + key, value, secret);
    }
    for (const json& variable : container_.value("env", json::array())) {
      const std::string name = variable.at("name").get<std::string>();
      if (!variable.contains("valueFrom")) {
        add(name, expand_variables(variable.value("value", ""), env_), false);
        continue;
      }
      const json& from = variable.at("valueFrom");
      if (from.contains("fieldRef")) {
        const std::string path = from.at("fieldRef").value("fieldPath", "");
        const auto value = pod_field(pod_, path, process_.address);
        if (!value) refuse("unsupported fieldPath: " + path);
        add(name, *value, false);
      } else if (from.contains("resourceFieldRef")) {
        const auto value = resource_field(container_, from.at("resourceFieldRef"));
        if (!value) refuse("unsupported resourceFieldRef in " + name);
        add(name, *value, false);
      } else if (from.contains("configMapKeyRef") || from.contains("secretKeyRef")) {
        add_key(name, from);
      } else {
        refuse("unsupported source of the environment variable " + name);
      }
    }
  }

  const json* require(bool secret, const json& reference) const {
    const std::string name = reference.value("name", "");
    const json* object = around_.find(secret ? "secrets" : "configmaps", name);
    if (object == nullptr && !reference.value("optional", false))
      refuse((secret ? "secret \"" : "configmap \"") + name + "\" not found");
    return object;
  }

  void add_key(const std::string& name, const json& from) {
    const bool secret = from.contains("secretKeyRef");
    const json& reference = from.at(secret ? "secretKeyRef" : "configMapKeyRef");
    const json* object = require(secret, reference);
    if (object == nullptr) return;
    const std::map<std::string, std::string> data = data_of(*object);
    const std::string key = reference.value("key", "");
    const auto found = data.find(key);
    if (found != data.end()) {
      add(name, found->second, secret);
    } else if (!reference.value("optional", false)) {
      refuse("couldn't find key " + key + " in " + (secret ? "Secret " : "ConfigMap ") + name_space_ + "/" +
             reference.value("name", ""));
    }
  }

  const json& pod_;
  const PodContext& around_;
  const json& metadata_;
  const json& spec_;
  const json& container_;
  const std::string name_space_;
  std::map<std::string, std::string> mounts_;
  std::map<std::string, std::string> env_;  // as the pod sees it, before names and paths are replaced
  std::vector<std::string> order_;
  std::set<std::string> secret_;  // variables with values of Secrets, which are never rewritten
  Process process_;
};

}  // namespace

std::string expand_variables(const std::string& text, const std::map<std::string, std::string>& env) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) {
      result += text[i];
    } else if (text[i + 1] == '$') {
      result += '$';
      ++i;
    } else if (const auto close = text.find(')', i); text[i + 1] == '(' && close != text.npos) {
      const std::string name = text.substr(i + 2, close - i - 2);
      const auto found = env.find(name);
      result += found != env.end() ? found->second : text.substr(i, close - i + 1);
      i = close;
    } else {
      result += '$';
    }
  }
  return result;
}

std::string replace_peers(const std::string& text, const std::string& name_space,
                          const std::set<std::string>& services,
                          const std::function<std::string(const std::string&)>& address_of,
                          const PortOf& port_of) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && is_host_character(text[end])) ++end;
    if (end == i) {
      result += text[i++];
      continue;
    }
    const std::string word = text.substr(i, end - i);
    i = end;
    std::vector<std::string> parts = split(word, '.');
    const auto ends_with = [&](std::vector<std::string> suffix) {
      return parts.size() == 2 + suffix.size() && std::equal(suffix.begin(), suffix.end(), parts.begin() + 2);
    };
    const bool qualified = ends_with({}) || ends_with({name_space}) || ends_with({name_space, "svc"}) ||
                           ends_with({name_space, "svc", "cluster", "local"});
    if (qualified && services.contains(parts[1]) && is_pod_host(parts[0])) {
      result += address_of(parts[0]);
      const std::size_t digits = i < text.size() && text[i] == ':' ? digits_at(text, i + 1) : 0;
      if (port_of && digits > 0 && digits <= 5) {
        const int port = std::stoi(text.substr(i + 1, digits));
        result += ":" + std::to_string(port_of(parts[1], parts[0], port));
        i += 1 + digits;
      }
    } else {
      result += word;
    }
  }
  return result;
}

std::string replace_paths(const std::string& text, const std::map<std::string, std::string>& mounts) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    // A path begins at a "/" that continues no other path. The "/" after "file://" begins a path, too.
    const bool begins = text[i] == '/' && (i == 0 || !is_path_character(text[i - 1]) ||
                                           (i >= 3 && text.compare(i - 3, 3, "://") == 0));
    const std::pair<const std::string, std::string>* longest = nullptr;
    for (const auto& mount : mounts) {
      if (!begins || text.compare(i, mount.first.size(), mount.first) != 0) continue;
      const std::size_t end = i + mount.first.size();
      const bool whole = end == text.size() || text[end] == '/' || !is_path_character(text[end]);
      if (whole && (longest == nullptr || mount.first.size() > longest->first.size())) longest = &mount;
    }
    if (longest == nullptr) {
      result += text[i++];
      continue;
    }
    result += longest->second;
    i += longest->first.size();
  }
  return result;
}

Process localise(const json& pod, const PodContext& around) { return Localiser(pod, around).run(); }

}  // namespace mlk::local
