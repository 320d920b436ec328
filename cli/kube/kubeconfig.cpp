#include "cli/kube/kubeconfig.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/kube/kubeconfig_file.h"
#include "cli/kube/resource.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t file_limit = 1u << 20;

Error usage(const std::string& what, const std::string& hint = "") {
  return Error(ExitCode::usage, what, hint);
}

std::string names_of(const std::map<std::string, KubeconfigEntry>& entries) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries) names.push_back(name);
  return join(names, ", ");
}

// What a YAML 1.1 reader, which client-go uses, takes for a boolean.
bool boolean(const KubeconfigEntry& entry, const std::string& field, const std::string& what) {
  std::string value = entry.get(field);
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  if (value.empty() || value == "false" || value == "no" || value == "off" || value == "n") return false;
  if (value == "true" || value == "yes" || value == "on" || value == "y") return true;
  throw usage(entry.file.string() + ": " + what + ": " + field + " is neither true nor false");
}

// `field` names a file relative to the one that defines the entry, `field`-data holds base64; both at once
// are an error.
std::string file_or_data(const KubeconfigEntry& entry, const std::string& field, const std::string& what) {
  const std::string file = entry.get(field), data = entry.get(field + "-data");
  const std::string here = entry.file.string() + ": " + what;
  if (!file.empty() && !data.empty()) throw usage(here + " has both " + field + " and " + field + "-data");
  if (!data.empty()) {
    try {
      return base64_decode(data);
    } catch (const std::invalid_argument&) {
      throw usage(here + ": " + field + "-data is not base64");
    }
  }
  if (file.empty()) return "";
  const fs::path path = fs::path(file).is_absolute() ? fs::path(file) : entry.file.parent_path() / file;
  try {
    return read_file(path, file_limit);
  } catch (const Error& error) {
    throw usage(here + ": " + field + ": " + error.what());
  }
}

void check_header_value(const std::string& value, const std::string& what) {
  if (std::any_of(value.begin(), value.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    throw usage(what + " holds control characters");
  }
}

struct ServerUrl {
  std::string scheme, host;  // of http://user@host:port/path
  std::string text;          // without query, fragment and trailing slash
};

ServerUrl parse_server(const std::string& given, bool has_tls, const std::string& what) {
  ServerUrl url;
  std::string text = given;
  const std::size_t scheme_end = text.find("://");
  if (scheme_end == std::string::npos) {
    text = (has_tls ? "https://" : "http://") + text;
  }
  url.scheme = text.substr(0, text.find("://"));
  std::transform(url.scheme.begin(), url.scheme.end(), url.scheme.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  text = url.scheme + text.substr(text.find("://"));
  text = text.substr(0, text.find_first_of("?#"));
  while (text.ends_with('/')) text.pop_back();
  const std::size_t start = url.scheme.size() + 3;
  std::string authority = text.size() > start ? text.substr(start, text.find('/', start) - start) : "";
  if (url.scheme != "https" && url.scheme != "http")
    throw usage(what + ": server is neither https:// nor http://");
  if (authority.find('@') != std::string::npos) throw usage(what + ": server holds a user name or password");
  if (authority.starts_with('[')) {
    url.host = authority.substr(1, authority.find(']') - 1);
  } else {
    url.host = authority.substr(0, authority.rfind(':'));
  }
  const bool blanks =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c <= 0x20 || c == 0x7f; });
  if (url.host.empty() || blanks) throw usage(what + ": server \"" + printable(given) + "\" is not a URL");
  url.text = text;
  return url;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void read_cluster(const std::string& name, const KubeconfigEntry& cluster, Config& config) {
  const std::string what = "cluster \"" + name + "\"", here = cluster.file.string() + ": " + what;
  if (!cluster.has("server")) throw usage(here + " has no server");
  config.ca_pem = file_or_data(cluster, "certificate-authority", what);
  config.insecure = boolean(cluster, "insecure-skip-tls-verify", what);
  if (config.insecure && !config.ca_pem.empty()) {
    throw usage(here + " has both insecure-skip-tls-verify and a certificate authority");
  }
  config.server = cluster.get("server");
  config.tls_server_name = cluster.get("tls-server-name");
  config.compression = !boolean(cluster, "disable-compression", what);
  config.proxy_url = cluster.get("proxy-url");
  const std::string scheme = config.proxy_url.substr(0, config.proxy_url.find("://"));
  if (!config.proxy_url.empty() && scheme != "http" && scheme != "https" && scheme != "socks5") {
    throw usage(here + ": proxy-url is none of http://, https:// and socks5://");
  }
}

void read_impersonation(const KubeconfigEntry& user, const std::string& here, Config& config) {
  const auto groups = user.lists.find("as-groups");
  const auto extra = user.maps.find("as-user-extra");
  if (!user.has("as")) {
    if (user.has("as-uid") || groups != user.lists.end() || extra != user.maps.end()) {
      throw usage(here + " has as-uid, as-groups or as-user-extra, but no \"as\"");
    }
    return;
  }
  auto& headers = config.impersonation;
  headers.emplace_back("Impersonate-User", user.get("as"));
  if (user.has("as-uid")) headers.emplace_back("Impersonate-Uid", user.get("as-uid"));
  if (groups != user.lists.end()) {
    for (const std::string& group : groups->second) headers.emplace_back("Impersonate-Group", group);
  }
  if (extra != user.maps.end()) {
    for (const auto& [key, values] : extra->second.items()) {
      for (const auto& value : values) {
        if (value.is_string())
          headers.emplace_back("Impersonate-Extra-" + percent_encode(key), value.get<std::string>());
      }
    }
  }
  for (const auto& [name, value] : headers) check_header_value(value, here + ": " + name);
}

// Programs and providers that make credentials are only asked for when the entry has none of its own.
void refuse_unsupported(const KubeconfigEntry& user, const std::string& here, const Config& config) {
  const bool has_exec = user.maps.contains("exec"), has_provider = user.maps.contains("auth-provider");
  if (has_exec && has_provider) throw usage(here + " has both exec and auth-provider");
  if (!config.token.empty() || !config.token_file.empty() || !config.username.empty() ||
      !config.client_certificate_pem.empty()) {
    return;
  }
  const char* hint =
      "use an entry with a token or a client certificate, for example from `kubectl create token`";
  if (has_exec) {
    const auto& exec = user.maps.at("exec");
    const auto command = exec.find("command");
    const std::string program =
        command != exec.end() && command->is_string() ? command->get<std::string>() : "";
    if (program.empty()) throw usage(here + ": exec names no command");
    throw usage(here + " takes its credentials from the program \"" + printable(program) +
                    "\" (exec), which mlk does not support yet",
                hint);
  }
  if (has_provider) {
    const auto& provider = user.maps.at("auth-provider");
    const auto name = provider.find("name");
    const std::string text = name != provider.end() && name->is_string() ? name->get<std::string>() : "";
    throw usage(here + " takes its credentials from the auth-provider \"" + printable(text) +
                    "\", which mlk does not support yet",
                hint);
  }
}

void read_user(const std::string& name, const KubeconfigEntry& user, Config& config) {
  const std::string what = "user \"" + name + "\"", here = user.file.string() + ": " + what;
  config.user_source = user.file.string();
  config.client_certificate_pem = file_or_data(user, "client-certificate", what);
  config.client_key_pem = file_or_data(user, "client-key", what);
  if (config.client_certificate_pem.empty() != config.client_key_pem.empty()) {
    throw usage(here + " has a client " +
                (config.client_key_pem.empty() ? "certificate, but no key" : "key, but no certificate"));
  }
  config.token = std::string(trim(user.get("token")));
  config.username = user.get("username");
  config.password = user.get("password");
  if (!config.token.empty() && !config.username.empty()) {
    throw usage(here + " has more than one way to authenticate: a token and a password; only one is allowed");
  }
  if (user.has("tokenFile")) {
    const fs::path file = user.get("tokenFile");
    config.token_file = (file.is_absolute() ? file : user.file.parent_path() / file).string();
    if (config.token.empty()) {
      try {
        config.token = std::string(trim(read_file(config.token_file, file_limit)));
      } catch (const Error& error) {
        throw usage(here + ": tokenFile: " + error.what());
      }
      if (config.token.empty()) throw usage(here + ": tokenFile: " + config.token_file + " is empty");
    }
  }
  check_header_value(config.token, here + ": the token");
  read_impersonation(user, here, config);
  refuse_unsupported(user, here, config);
}

// A URL of https or of this machine; credentials never travel in the clear.
void settle_server(const std::string& what, Config& config) {
  const bool has_tls = !config.ca_pem.empty() || !config.client_certificate_pem.empty() || config.insecure;
  const ServerUrl url = parse_server(config.server, has_tls, what);
  config.server = url.text;
  if (url.scheme == "https") return;
  if (!is_loopback(url.host)) {
    throw usage(what + ": server " + url.text + " is plain http",
                "use https://; http:// is for this machine alone");
  }
  if (!config.token.empty() || !config.username.empty() || !config.client_certificate_pem.empty()) {
    throw usage(
        what + ": user \"" + config.user + "\" has credentials, but server " + url.text + " is plain http",
        "use https://, or a user without credentials");
  }
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
      files.push_back(parse_kubeconfig(read_file(file, file_limit), file));
      loaded.read.push_back(file.string());
    } catch (const Error& error) {
      if (error.code() == ExitCode::usage) throw;
      if (error.code() != ExitCode::not_found || !flags.kubeconfig.empty()) {
        throw usage("kubeconfig " + file.string() + ": " + error.what());
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
  const bool is_v6 = places.service_host.find(':') != std::string::npos;
  Config config;
  config.server = "https://" + (is_v6 ? "[" + places.service_host + "]" : places.service_host) + ":" +
                  places.service_port;
  config.ca_pem = read_file(places.service_account / "ca.crt", file_limit);
  config.token_file = token_file.string();
  config.token = std::string(trim(read_file(token_file, file_limit)));
  if (config.token.empty()) throw usage(config.token_file + " is empty");
  check_header_value(config.token, config.token_file);
  config.name_space = flags.name_space.empty() ? places.pod_namespace : flags.name_space;
  if (config.name_space.empty()) {
    try {
      config.name_space = std::string(trim(read_file(places.service_account / "namespace", file_limit)));
    } catch (const Error&) {
      config.name_space = "";  // then the default below
    }
  }
  if (config.name_space.empty()) config.name_space = "default";
  config.source = config.user_source = "in-cluster service account";
  config.user = "service account";
  settle_server(config.source, config);
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
  throw usage(here + " names the " + kind + " \"" + name + "\", which does not exist",
              entries.empty() ? "" : std::string("there are: ") + names_of(entries));
}

}  // namespace

ConfigPlaces places_of_process() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  ConfigPlaces places;
  places.kubeconfig_variable = variable("KUBECONFIG");
  places.home = variable("HOME");
  places.service_host = variable("KUBERNETES_SERVICE_HOST");
  places.service_port = variable("KUBERNETES_SERVICE_PORT");
  places.pod_namespace = variable("POD_NAMESPACE");
  return places;
}

Config load_config(const ConfigFlags& flags) { return load_config(flags, places_of_process()); }

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
    throw usage("context \"" + printable(context_name) + "\" does not exist in " + where,
                files.contexts.empty() ? "" : "there are: " + names_of(files.contexts));
  }
  const KubeconfigEntry& entry = context->second;
  const std::string here = entry.file.string() + ": context \"" + context_name + "\"";
  if (!entry.has("cluster")) throw usage(here + " names no cluster");
  Config config;
  config.source = entry.file.string();
  config.context = context_name;
  config.user = entry.get("user");
  config.name_space = !flags.name_space.empty() ? flags.name_space : entry.get("namespace");
  if (config.name_space.empty()) config.name_space = "default";
  if (!is_label(config.name_space)) {
    throw usage(here + ": \"" + printable(config.name_space) + "\" is not the name of a namespace");
  }
  const KubeconfigEntry& cluster = entry_for(files.clusters, entry.get("cluster"), here, "cluster");
  read_cluster(entry.get("cluster"), cluster, config);
  if (!config.user.empty()) read_user(config.user, entry_for(files.users, config.user, here, "user"), config);
  settle_server(cluster.file.string() + ": cluster \"" + entry.get("cluster") + "\"", config);
  return config;
}

}  // namespace mlk::kube
