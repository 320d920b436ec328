#include "cli/kube/login/exec_plugin.h"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/kube/login/entry_fields.h"
#include "cli/kube/login/kubeconfig.h"
#include "cli/kube/login/kubeconfig_file.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

using json = nlohmann::json;

const std::string exec_group = "client.authentication.k8s.io/";
constexpr std::size_t shortest_secret = 4;  // a shorter text may be an ordinary word, so it is not hidden
constexpr std::size_t longest_words = 600;

json field_list(const json& map, const char* key, const std::string& here) {
  const auto found = map.find(key);
  if (found == map.end() || found->is_null()) return json::array();
  if (!found->is_array()) throw entry_error(here + ": exec: " + key + " is not a list");
  return *found;
}

void check_version(const std::string& version, const std::string& here) {
  if (version.empty()) {
    throw entry_error(here + ": exec has no apiVersion", "set it to " + exec_group + "v1 or " + exec_group +
                                                             "v1beta1, as the plugin's documentation says");
  }
  if (version == exec_group + "v1" || version == exec_group + "v1beta1") return;
  const std::string hint = "let a newer version of the plugin write the entry again, with " + exec_group +
                           "v1beta1 or " + exec_group + "v1";
  if (version == exec_group + "v1alpha1") {
    throw entry_error(here + ": exec: apiVersion " + version + " is no longer in use", hint);
  }
  throw entry_error(here + ": exec: unknown apiVersion \"" + printable(version) + "\"", hint);
}

InteractiveMode interactive_mode(const std::string& text, const std::string& version,
                                 const std::string& here) {
  if (text == "Never") return InteractiveMode::never;
  if (text == "IfAvailable") return InteractiveMode::if_available;
  if (text == "Always") return InteractiveMode::always;
  const char* hint = "set interactiveMode to Never, IfAvailable or Always";
  if (!text.empty()) {
    throw entry_error(here + ": exec: unknown interactiveMode \"" + printable(text) + "\"", hint);
  }
  if (version == exec_group + "v1") {
    throw entry_error(here + ": exec has no interactiveMode, which " + version + " requires", hint);
  }
  return InteractiveMode::if_available;
}

std::vector<std::pair<std::string, std::string>> plugin_env(const json& exec, const std::string& here) {
  std::map<std::string, std::string> values;  // the last value of a name wins
  for (const json& item : field_list(exec, "env", here)) {
    const std::string name = item.is_object() ? field_text(item, "name") : "";
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos) {
      throw entry_error(here + ": exec: a variable in env has no proper name");
    }
    const std::string value = field_text(item, "value");
    if (value.find('\0') != std::string::npos) {
      throw entry_error(here + ": exec: the variable " + printable(name) + " holds a zero byte");
    }
    values[name] = value;
  }
  return {values.begin(), values.end()};
}

std::string plugin_name(const ExecPlugin& plugin) {
  return "credential plugin \"" + printable(plugin.command) + "\"";
}

Error plugin_error(const ExecPlugin& plugin, const std::string& what, const std::string& hint = "") {
  return Error(ExitCode::cluster, plugin_name(plugin) + " " + what, hint);
}

// Collects all texts of a value in the plugin's answer, because mlk must not show them.
void collect_texts(const json& value, std::set<std::string>& texts) {
  if (value.is_string()) texts.insert(value.get<std::string>());
  if (value.is_structured()) {
    for (const json& item : value) collect_texts(item, texts);
  }
}

std::set<std::string> secrets_of(const ExecPlugin& plugin, const std::string& output) {
  std::set<std::string> secrets;
  for (const auto& [name, value] : plugin.env) secrets.insert(value);
  const json answer = json_or_null(output);
  if (answer.is_object() && answer.contains("status")) {
    collect_texts(answer.at("status"), secrets);
  } else {
    secrets.insert(std::string(trim(output)));
  }
  // Each line of a text with several lines, such as a key, is a secret too.
  for (const std::string& secret : std::set<std::string>(secrets)) {
    for (const std::string& line : split(secret, '\n')) secrets.insert(std::string(trim(line)));
  }
  std::erase_if(secrets, [](const std::string& secret) { return secret.size() < shortest_secret; });
  return secrets;
}

std::string answer_text(const json& status, const char* key, const ExecPlugin& plugin) {
  const auto found = status.find(key);
  if (found == status.end() || found->is_null()) return "";
  if (!found->is_string())
    throw plugin_error(plugin, std::string("answers with a ") + key + " that is no text");
  return found->get<std::string>();
}

}  // namespace

ExecPlugin read_exec_plugin(const json& exec, const KubeconfigEntry& user, const std::string& here) {
  ExecPlugin plugin;
  plugin.command = field_text(exec, "command");
  if (plugin.command.empty()) throw entry_error(here + ": exec names no command");
  plugin.api_version = field_text(exec, "apiVersion");
  check_version(plugin.api_version, here);
  plugin.mode = interactive_mode(field_text(exec, "interactiveMode"), plugin.api_version, here);
  for (const json& item : field_list(exec, "args", here)) {
    plugin.args.push_back(text_or_json(item));
  }
  const bool zero = std::any_of(plugin.args.begin(), plugin.args.end(),
                                [](const std::string& text) { return text.find('\0') != std::string::npos; });
  if (zero || plugin.command.find('\0') != std::string::npos) {
    throw entry_error(here + ": exec holds a zero byte");
  }
  plugin.env = plugin_env(exec, here);
  plugin.install_hint = field_text(exec, "installHint");
  plugin.provide_cluster_info = field_text(exec, "provideClusterInfo") == "true";
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = (user.file.parent_path() / plugin.command).lexically_normal().string();
  }
  return plugin;
}

bool is_interactive(const ExecPlugin& plugin, bool stdin_is_terminal) {
  if (plugin.mode == InteractiveMode::always && !stdin_is_terminal) {
    throw plugin_error(plugin, "needs a terminal to ask questions, and standard input is none",
                       "run the command in a terminal, or set interactiveMode to IfAvailable where the "
                       "plugin can do without");
  }
  return plugin.mode != InteractiveMode::never && stdin_is_terminal;
}

std::string exec_info(const ExecPlugin& plugin, const Config& config, bool interactive) {
  json spec = {{"interactive", interactive}};
  if (plugin.provide_cluster_info) {
    json cluster = {{"server", config.server}};
    if (!config.tls_server_name.empty()) cluster["tls-server-name"] = config.tls_server_name;
    if (config.insecure) cluster["insecure-skip-tls-verify"] = true;
    if (!config.ca_pem.empty()) cluster["certificate-authority-data"] = base64_encode(config.ca_pem);
    if (!config.proxy_url.empty()) cluster["proxy-url"] = config.proxy_url;
    if (!config.compression) cluster["disable-compression"] = true;
    if (!plugin.cluster_extension.empty()) cluster["config"] = json_or_null(plugin.cluster_extension);
    spec["cluster"] = std::move(cluster);
  }
  return json{{"kind", "ExecCredential"}, {"apiVersion", plugin.api_version}, {"spec", std::move(spec)}}
      .dump();
}

Credential parse_exec_credential(std::string_view output, const ExecPlugin& plugin) {
  const json answer = json_or_null(output);
  if (!answer.is_object()) {
    throw plugin_error(
        plugin, trim(output).empty() ? "answers with nothing" : "answers with something that is not JSON",
        "it has to print an object of the kind ExecCredential");
  }
  if (field_text(answer, "kind") != "ExecCredential")
    throw plugin_error(plugin, "answers with another kind than ExecCredential");
  if (const std::string version = field_text(answer, "apiVersion"); version != plugin.api_version) {
    throw plugin_error(plugin,
                       "answers with apiVersion \"" + printable(cut(version, 100)) +
                           "\", but the kubeconfig asks for " + plugin.api_version,
                       "write the version that the plugin speaks into the kubeconfig");
  }
  const auto status = answer.find("status");
  if (status == answer.end() || !status->is_object()) throw plugin_error(plugin, "answers without a status");
  Credential credential;
  credential.token = answer_text(*status, "token", plugin);
  credential.certificate_pem = answer_text(*status, "clientCertificateData", plugin);
  credential.key_pem = answer_text(*status, "clientKeyData", plugin);
  if (credential.certificate_pem.empty() != credential.key_pem.empty()) {
    throw plugin_error(
        plugin, std::string("answers with a client ") +
                    (credential.key_pem.empty() ? "certificate, but no key" : "key, but no certificate"));
  }
  if (credential.token.empty() && credential.certificate_pem.empty()) {
    throw plugin_error(plugin, "answers with neither a token nor a client certificate");
  }
  if (!fits_in_header(credential.token))
    throw plugin_error(plugin, "answers with a token that holds control characters");
  if (const std::string expires = answer_text(*status, "expirationTimestamp", plugin); !expires.empty()) {
    credential.expires = parse_time(expires);
    if (!credential.expires)
      throw plugin_error(plugin, "answers with an expirationTimestamp that is no time");
  }
  return credential;
}

std::string without_secrets(const std::string& text, const ExecPlugin& plugin, const std::string& output) {
  std::string clean = text;
  const std::set<std::string> secrets = secrets_of(plugin, output);
  std::vector<std::string> longest_first(secrets.begin(), secrets.end());
  std::sort(longest_first.begin(), longest_first.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (const std::string& secret : longest_first) {
    for (std::size_t at = clean.find(secret); at != std::string::npos; at = clean.find(secret, at)) {
      clean.replace(at, secret.size(), "***");
      at += 3;
    }
  }
  return printable(clean);
}

Error exec_failure(const ExecPlugin& plugin, const ProcessResult& result, std::chrono::seconds patience) {
  if (result.given_up) return Error(ExitCode::interrupted, plugin_name(plugin) + " was interrupted");
  std::string words;
  for (const std::string& line : split(without_secrets(result.error, plugin, result.output), '\n')) {
    if (!trim(line).empty()) words += (words.empty() ? "" : "; ") + std::string(trim(line));
  }
  if (words.size() > longest_words) words = "..." + std::string(cut_front(words, longest_words));
  if (!words.empty()) words = ": " + words;
  const std::string hint =
      "run \"" + printable(plugin.command) +
      "\" by hand, or log in again as its documentation says; `mlk context` names the entry";
  if (result.timed_out) {
    return plugin_error(plugin, "did not end within " + std::to_string(patience.count()) + " s" + words,
                        hint);
  }
  if (result.signal != 0) {
    return plugin_error(plugin, "was ended by signal " + std::to_string(result.signal) + words, hint);
  }
  return plugin_error(plugin, "failed with exit code " + std::to_string(result.exit_code) + words, hint);
}

Error exec_missing(const ExecPlugin& plugin, const std::string& why) {
  std::string hint = std::string(trim(printable(cut(plugin.install_hint, 2000))));
  if (hint.empty()) hint = "install it, or put its folder into PATH";
  return plugin_error(plugin, "cannot be run: " + printable(why), hint);
}

}  // namespace mlk::kube
