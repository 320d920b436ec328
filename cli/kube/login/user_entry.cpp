#include "cli/kube/login/user_entry.h"

#include <nlohmann/json.hpp>

#include "cli/http/url.h"
#include "cli/kube/login/entry_fields.h"
#include "cli/util/files.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

void read_impersonation(const KubeconfigEntry& user, const std::string& here, Config& config) {
  const auto groups = user.lists.find("as-groups");
  const auto extra = user.maps.find("as-user-extra");
  if (!user.has("as")) {
    if (user.has("as-uid") || groups != user.lists.end() || extra != user.maps.end()) {
      throw entry_error(here + " has as-uid, as-groups or as-user-extra, but no \"as\"");
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
          headers.emplace_back("Impersonate-Extra-" + http::percent_encode(key), value.get<std::string>());
      }
    }
  }
  for (const auto& [name, value] : headers) check_header_value(value, here + ": " + name);
}

// Reads the token, which is written in the entry or in the file that the entry names.
void read_token(const KubeconfigEntry& user, const std::string& here, Config& config) {
  config.token = std::string(trim(user.get("token")));
  if (!config.token.empty()) config.login = Login::token;
  if (user.has("tokenFile")) {
    config.login = Login::token_file;
    const fs::path file = user.get("tokenFile");
    config.token_file = (file.is_absolute() ? file : user.file.parent_path() / file).string();
    if (config.token.empty()) {
      try {
        config.token = std::string(trim(read_file(config.token_file, credential_file_limit)));
      } catch (const Error& error) {
        throw entry_error(here + ": tokenFile: " + error.what());
      }
      if (config.token.empty()) throw entry_error(here + ": tokenFile: " + config.token_file + " is empty");
    }
  }
  check_header_value(config.token, here + ": the token");
}

void read_password(const KubeconfigEntry& user, const std::string& here, Config& config) {
  const bool has_password = user.has("username") || user.has("password");
  if (has_password && (user.has("token") || (user.has("tokenFile") && user.has("username")))) {
    throw entry_error(here +
                      " has more than one way to authenticate: a token and a password; only one is allowed");
  }
  if (!user.has("username")) return;  // client-go sends nothing without a user name
  config.username = user.get("username");
  config.password = user.get("password");
  config.login = Login::basic;
}

// Reads auth-provider. Kubernetes clients once had several providers; only oidc remains, so any other name is
// refused.
void read_provider(const json& provider, const std::string& here, Config& config) {
  const std::string name = text_of(provider, {"name"});
  if (name != "oidc") {
    const std::string hint =
        name == "gcp"         ? "log in by the plugin gke-gcloud-auth-plugin: gcloud container "
                                "clusters get-credentials CLUSTER writes its entry"
        : name == "azure"     ? "log in by the plugin kubelogin: kubelogin convert-kubeconfig "
                                "writes its entry"
        : name == "openstack" ? "log in by the plugin client-keystone-auth, as an exec entry"
                              : "log in by a credential plugin, as an exec entry, or by a token";
    throw entry_error(here + ": there is no auth-provider \"" + printable(name) + "\" any more", hint);
  }
  for (const char* field : {"idp-issuer-url", "client-id"}) {
    if (text_of(provider, {"config", field}).empty()) {
      throw entry_error(here + ": auth-provider oidc has no " + std::string(field));
    }
  }
  if (config.login != Login::none) return;
  config.login = Login::oidc;
  config.token = std::string(trim(text_of(provider, {"config", "id-token"})));
  check_header_value(config.token, here + ": the id-token");
}

}  // namespace

void read_user(const std::string& name, const KubeconfigEntry& user, Config& config) {
  const std::string what = "user \"" + name + "\"", here = user.file.string() + ": " + what;
  config.user_source = user.file.string();
  config.client_certificate_pem = file_or_data(user, "client-certificate", what);
  config.client_key_pem = file_or_data(user, "client-key", what);
  if (config.client_certificate_pem.empty() != config.client_key_pem.empty()) {
    throw entry_error(
        here + " has a client " +
        (config.client_key_pem.empty() ? "certificate, but no key" : "key, but no certificate"));
  }
  read_token(user, here, config);
  read_password(user, here, config);
  read_impersonation(user, here, config);
  const auto exec = user.maps.find("exec"), provider = user.maps.find("auth-provider");
  if (exec != user.maps.end() && provider != user.maps.end()) {
    throw entry_error(here + " has both exec and auth-provider");
  }
  if (provider != user.maps.end()) read_provider(provider->second, here, config);
  if (exec == user.maps.end()) return;
  ExecPlugin plugin = read_exec_plugin(exec->second, user, here);
  if (config.login != Login::none || !config.client_certificate_pem.empty()) return;
  config.login = Login::exec;
  config.exec = std::move(plugin);
}

}  // namespace mlk::kube
