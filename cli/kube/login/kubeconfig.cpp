#include "cli/kube/login/kubeconfig.h"

#include <algorithm>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "cli/http/url.h"
#include "cli/kube/login/entry_fields.h"
#include "cli/kube/login/kubeconfig_file.h"
#include "cli/kube/login/user_entry.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

namespace fs = std::filesystem;

std::string names_of(const std::map<std::string, KubeconfigEntry>& entries) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries) names.push_back(name);
  return join(names, ", ");
}

// Returns the URL of the server without query, fragment and trailing slash.
std::string parse_server(const std::string& given, bool has_tls, const std::string& what) {
  std::string text = given;
  if (text.find("://") == std::string::npos) text = (has_tls ? "https://" : "http://") + text;
  const auto scheme_end = text.begin() + static_cast<std::ptrdiff_t>(text.find("://"));
  std::transform(text.begin(), scheme_end, text.begin(), [](unsigned char c) { return std::tolower(c); });
  text = text.substr(0, text.find_first_of("?#"));
  while (text.ends_with('/') && !text.ends_with("://")) text.pop_back();
  const bool blanks =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c <= 0x20 || c == 0x7f; });
  const std::optional<http::UrlParts> url = blanks ? std::nullopt : http::parts_of(text);
  if (!url) throw entry_error(what + ": server \"" + printable(given) + "\" is not a URL");
  if (url->scheme != "https" && url->scheme != "http")
    throw entry_error(what + ": server is neither https:// nor http://");
  if (url->has_login) throw entry_error(what + ": server holds a user name or password");
  return text;
}

void read_cluster(const std::string& name, const KubeconfigEntry& cluster, Config& config) {
  const std::string what = "cluster \"" + name + "\"", here = cluster.file.string() + ": " + what;
  if (!cluster.has("server")) throw entry_error(here + " has no server");
  config.ca_pem = file_or_data(cluster, "certificate-authority", what);
  config.insecure = boolean_field(cluster, "insecure-skip-tls-verify", what);
  if (config.insecure && !config.ca_pem.empty()) {
    throw entry_error(here + " has both insecure-skip-tls-verify and a certificate authority");
  }
  config.server = cluster.get("server");
  config.tls_server_name = cluster.get("tls-server-name");
  config.compression = !boolean_field(cluster, "disable-compression", what);
  config.proxy_url = cluster.get("proxy-url");
  const std::string scheme = config.proxy_url.substr(0, config.proxy_url.find("://"));
  if (!config.proxy_url.empty() && scheme != "http" && scheme != "https" && scheme != "socks5") {
    throw entry_error(here + ": proxy-url is none of http://, https:// and socks5://");
  }
}

// Requires https. Plain http is allowed only to this machine and without credentials, which are never sent
// unencrypted.
void check_server(const std::string& what, Config& config) {
  const bool has_tls = !config.ca_pem.empty() || !config.client_certificate_pem.empty() || config.insecure;
  config.server = parse_server(config.server, has_tls, what);
  if (config.server.starts_with("https:")) return;
  // The host must be written in its normal form, because libcurl also reads 0x7f.1 as 127.0.0.1.
  const http::UrlParts url = http::parts_of(config.server).value();
  const bool as_written = config.server.starts_with("http://" + url.authority);
  if (!as_written || !http::is_loopback(url.host)) {
    throw entry_error(what + ": server " + config.server + " is plain http",
                      "use https://; http:// is for this machine alone");
  }
  if (config.login != Login::none || !config.client_certificate_pem.empty()) {
    throw entry_error(what + ": user \"" + config.user + "\" has credentials, but server " + config.server +
                          " is plain http",
                      "use https://, or a user without credentials");
  }
}

// The extension for credential plugins in the cluster's entry, as JSON; empty if there is none.
std::string plugin_extension(const KubeconfigEntry& cluster) {
  const auto extensions = cluster.maps.find("extensions");
  if (extensions == cluster.maps.end() || !extensions->second.is_array()) return "";
  for (const auto& item : extensions->second) {
    if (!item.is_object() || !item.contains("name") || !item.contains("extension")) continue;
    if (item.at("name") == "client.authentication.k8s.io/exec") return item.at("extension").dump();
  }
  return "";
}

std::vector<fs::path> files_to_read(const ConfigFlags& flags, const ConfigPlaces& places) {
  if (!flags.kubeconfig.empty()) return {flags.kubeconfig};
  std::vector<fs::path> files;
  for (const std::string& part : split(places.kubeconfig_variable, ':')) {
    if (!part.empty() && std::find(files.begin(), files.end(), part) == files.end()) files.emplace_back(part);
  }
  if (files.empty() && !places.home.empty()) files.push_back(fs::path(places.home) / ".kube" / "config");
  return files;
}

struct Loaded {
  Kubeconfig config;
  std::vector<std::string> read, missing;
};

Loaded read_files(const ConfigFlags& flags, const ConfigPlaces& places) {
  Loaded loaded;
  std::vector<Kubeconfig> files;
  for (const fs::path& path : files_to_read(flags, places)) {
    const fs::path file = fs::absolute(path);
    try {
      files.push_back(parse_kubeconfig(read_file(file, credential_file_limit), file));
      loaded.read.push_back(file.string());
    } catch (const Error& error) {
      if (error.code() == ExitCode::usage) throw;
      if (error.code() != ExitCode::not_found || !flags.kubeconfig.empty()) {
        throw Error(error.code(), "kubeconfig " + file.string() + ": " + error.what());
      }
      loaded.missing.push_back(file.string());
    }
  }
  loaded.config = merge_kubeconfigs(files);
  return loaded;
}

std::optional<Config> in_cluster(const ConfigFlags& flags, const ConfigPlaces& places) {
  const fs::path token_file = places.service_account / "token";
  std::error_code ignored;
  if (places.service_host.empty() || places.service_port.empty() ||
      !fs::is_regular_file(token_file, ignored)) {
    return std::nullopt;
  }
  Config config;
  config.server = "https://" + http::in_url(places.service_host) + ":" + places.service_port;
  config.ca_pem = read_file(places.service_account / "ca.crt", credential_file_limit);
  config.login = Login::service_account;
  config.token_file = token_file.string();
  config.token = std::string(trim(read_file(token_file, credential_file_limit)));
  if (config.token.empty()) throw entry_error(config.token_file + " is empty");
  check_header_value(config.token, config.token_file);
  config.name_space = flags.name_space.empty() ? places.pod_namespace : flags.name_space;
  if (config.name_space.empty()) {
    try {
      config.name_space =
          std::string(trim(read_file(places.service_account / "namespace", credential_file_limit)));
    } catch (const Error&) {
      config.name_space = "";  // the default below applies
    }
  }
  if (config.name_space.empty()) config.name_space = "default";
  config.source = config.user_source = "in-cluster service account";
  config.user = "service account";
  check_server(config.source, config);
  return config;
}

[[noreturn]] void throw_unconfigured(const Loaded& loaded) {
  const char* hint = "pass --kubeconfig FILE, or --local for the embedded cluster";
  if (!loaded.config.contexts.empty()) {
    throw Error(ExitCode::cluster, join(loaded.read, ", ") + ": no current-context is set",
                "pass --context with one of: " + names_of(loaded.config.contexts));
  }
  const std::string files = join(loaded.read.empty() ? loaded.missing : loaded.read, ", ");
  if (files.empty())
    throw Error(ExitCode::cluster, "no kubeconfig: neither KUBECONFIG nor HOME is set", hint);
  throw Error(
      ExitCode::cluster,
      loaded.read.empty() ? "no kubeconfig: " + files + " not found" : "no contexts in kubeconfig " + files,
      hint);
}

const KubeconfigEntry& entry_for(const std::map<std::string, KubeconfigEntry>& entries,
                                 const std::string& name, const std::string& here, const char* kind) {
  const auto found = entries.find(name);
  if (found != entries.end()) return found->second;
  throw entry_error(here + " names the " + kind + " \"" + name + "\", which does not exist",
                    entries.empty() ? "" : std::string("there are: ") + names_of(entries));
}

}  // namespace

ConfigPlaces places_of_process() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  return {.kubeconfig_variable = variable("KUBECONFIG"),
          .home = variable("HOME"),
          .service_host = variable("KUBERNETES_SERVICE_HOST"),
          .service_port = variable("KUBERNETES_SERVICE_PORT"),
          .pod_namespace = variable("POD_NAMESPACE")};
}

Config load_config(const ConfigFlags& flags, const ConfigPlaces& places) {
  const Loaded loaded = read_files(flags, places);
  const Kubeconfig& files = loaded.config;
  const std::string context_name = flags.context.empty() ? files.current_context : flags.context;
  if (context_name.empty()) {
    if (auto config = in_cluster(flags, places)) return *config;
    throw_unconfigured(loaded);
  }
  const auto context = files.contexts.find(context_name);
  if (context == files.contexts.end()) {
    const std::string where = loaded.read.empty() ? join(loaded.missing, ", ") : join(loaded.read, ", ");
    throw entry_error("context \"" + printable(context_name) + "\" does not exist in " + where,
                      files.contexts.empty() ? "" : "there are: " + names_of(files.contexts));
  }
  const KubeconfigEntry& entry = context->second;
  const std::string here = entry.file.string() + ": context \"" + context_name + "\"";
  if (!entry.has("cluster")) throw entry_error(here + " names no cluster");
  Config config;
  config.source = entry.file.string();
  config.context = context_name;
  config.user = entry.get("user");
  config.name_space = !flags.name_space.empty() ? flags.name_space : entry.get("namespace");
  if (config.name_space.empty()) config.name_space = "default";
  if (!is_label(config.name_space)) {
    throw entry_error(here + ": \"" + printable(config.name_space) + "\" is not the name of a namespace");
  }
  const KubeconfigEntry& cluster = entry_for(files.clusters, entry.get("cluster"), here, "cluster");
  read_cluster(entry.get("cluster"), cluster, config);
  if (!config.user.empty()) read_user(config.user, entry_for(files.users, config.user, here, "user"), config);
  if (config.exec) config.exec->cluster_extension = plugin_extension(cluster);
  check_server(cluster.file.string() + ": cluster \"" + entry.get("cluster") + "\"", config);
  return config;
}

}  // namespace mlk::kube
