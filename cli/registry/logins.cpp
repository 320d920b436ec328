#include "cli/registry/logins.h"

#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/process.h"
#include "cli/util/text.h"

namespace mlk::registry {

using nlohmann::json;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_file = 4 << 20;
constexpr JsonBounds bounds{.depth = 20, .values = 100'000};
constexpr char hub_key[] = "https://index.docker.io/v1/";

// The key without scheme and version: "https://host/v1/" becomes "host". The path of a repository stays.
std::string bare_key(std::string key) {
  for (const char* scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) key.erase(0, std::string_view(scheme).size());
  }
  while (key.ends_with('/')) key.pop_back();
  const std::size_t slash = key.find('/');
  if (const std::string path = slash == key.npos ? "" : key.substr(slash); path == "/v1" || path == "/v2")
    key.resize(slash);
  if (key == "index.docker.io" || key == "registry-1.docker.io") return image::docker_hub;
  return key;
}

Login login_of(const json& entry, const std::string& name) {
  Login out{text_of(entry, {"username"}), text_of(entry, {"password"}), text_of(entry, {"identitytoken"})};
  const std::string encoded = text_of(entry, {"auth"});
  if (encoded.empty()) return out;
  std::string decoded;
  try {
    decoded = base64_decode(encoded);
  } catch (const std::invalid_argument&) {
    throw Error(ExitCode::failure, name + ": a login in it is not base64", "log in again, by docker login");
  }
  while (decoded.ends_with('\0')) decoded.pop_back();
  const std::size_t colon = decoded.find(':');
  if (colon == decoded.npos)
    throw Error(ExitCode::failure, name + ": a login in it has no password", "log in again, by docker login");
  out.user = decoded.substr(0, colon);
  out.password = decoded.substr(colon + 1);
  return out;
}

bool is_empty(const Login& login) {
  return login.user.empty() && login.password.empty() && login.identity_token.empty();
}

std::string program_of(const std::string& helper) { return "docker-credential-" + helper; }

// The answer of a helper for a registry.
struct HelperAnswer {
  std::optional<Login> login{};
  bool is_missing = false;  // the program does not exist
  bool is_foreign = false;  // this machine cannot execute the program
};

HelperAnswer ask_helper(const std::string& name, const std::string& registry,
                        const std::function<bool()>& go_on) {
  const std::string program = program_of(name);
  const std::string shown = printable(program);
  if (name.empty() || name.find('/') != name.npos)
    throw Error(ExitCode::failure, shown + " is not the name of a helper for logins");
  Command command;
  command.argv = {program, "get"};
  command.input = registry == image::docker_hub ? hub_key : registry;
  command.output_limit = 1 << 20;
  command.go_on = [&](const ProcessResult&) { return !go_on || go_on(); };
  ProcessResult result;
  try {
    result = run_process(command);
  } catch (const CannotExecute&) {
    // The file of logins may come from another machine or from Windows, so a helper that is missing or cannot
    // be executed is no error.
    return {.is_foreign = true};
  } catch (const Error& error) {
    if (error.code() == ExitCode::not_found) return {.is_missing = true};
    throw;
  }
  if (result.given_up) throw Error(ExitCode::interrupted, "interrupted");
  if (result.ok()) return {.login = parse_helper_answer(result.output, shown)};
  // By the protocol of helpers, this text means that the helper has no login.
  if ((result.output + result.error).find("credentials not found") != std::string::npos) return {};
  throw Error(
      ExitCode::failure,
      result.timed_out
          ? fmt::format("{} did not answer within 30 s", shown)
          : fmt::format("{} failed for {}, with exit code {}", shown, printable(registry), result.exit_code),
      fmt::format("see what it says: echo {} | {} get", shell_word(command.input), shell_word(program)));
}

}  // namespace

LoginFile parse_login_file(std::string_view text, const std::string& name) {
  LoginFile out;
  if (trim(text).empty()) return out;
  const json whole = parse_json(text, name, bounds);
  if (!whole.is_object()) throw Error(ExitCode::failure, name + " is no object of JSON");
  if (const auto auths = whole.find("auths"); auths != whole.end() && auths->is_object()) {
    for (const auto& [key, entry] : auths->items()) {
      if (!entry.is_object()) throw Error(ExitCode::failure, name + ": a login in it is no object");
      if (const Login login = login_of(entry, name); !is_empty(login)) out.logins[bare_key(key)] = login;
    }
  }
  if (const auto helpers = whole.find("credHelpers"); helpers != whole.end() && helpers->is_object()) {
    for (const auto& [key, program] : helpers->items()) {
      if (program.is_string()) out.helpers[bare_key(key)] = program.get<std::string>();
    }
  }
  out.store = text_of(whole, {"credsStore"});
  return out;
}

std::vector<std::string> login_keys(const image::Reference& reference) {
  std::vector<std::string> out;
  for (std::string key = reference.name();; key.resize(key.rfind('/'))) {
    out.push_back(key);
    if (key.find('/') == key.npos) return out;
  }
}

std::optional<Login> parse_helper_answer(std::string_view output, const std::string& helper) {
  const json answer = json_or_null(output, bounds);
  if (!answer.is_object()) throw Error(ExitCode::failure, helper + " printed no object of JSON");
  const std::string user = text_of(answer, {"Username"}), secret = text_of(answer, {"Secret"});
  if (user.empty() && secret.empty()) return std::nullopt;
  if (user == "<token>") return Login{"", "", secret};
  return Login{user, secret, ""};
}

std::vector<fs::path> login_files(const std::function<std::string(const std::string&)>& env) {
  std::vector<fs::path> out;
  const auto add = [&](const std::string& folder, const char* file) {
    if (!folder.empty()) out.push_back(fs::path(folder) / file);
  };
  const std::string home = env("HOME"), own_config = env("XDG_CONFIG_HOME");
  const std::string docker = env("DOCKER_CONFIG");
  add(docker.empty() && !home.empty() ? home + "/.docker" : docker, "config.json");
  if (const std::string named = env("REGISTRY_AUTH_FILE"); !named.empty()) out.emplace_back(named);
  add(env("XDG_RUNTIME_DIR"), "containers/auth.json");
  add(own_config.empty() && !home.empty() ? home + "/.config" : own_config, "containers/auth.json");
  return out;
}

std::optional<Login> find_login(const std::vector<fs::path>& files, const image::Reference& reference,
                                const std::function<bool()>& go_on, std::string* missing) {
  const std::vector<std::string> keys = login_keys(reference);
  for (const fs::path& path : files) {
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    const LoginFile file = parse_login_file(read_file(path, longest_file), printable(path.string()));
    const auto helper = file.helpers.find(reference.registry);
    const std::string& program = helper == file.helpers.end() ? file.store : helper->second;
    if (!program.empty()) {
      HelperAnswer answer = ask_helper(program, reference.registry, go_on);
      if (answer.login) return std::move(answer.login);
      if ((answer.is_missing || answer.is_foreign) && missing != nullptr && missing->empty()) {
        const std::string what =
            fmt::format("program {}, which {} names for logins", program_of(program), path.string());
        *missing = answer.is_missing ? "there is no " + what : what + ", cannot be executed on this machine";
      }
    }
    for (const std::string& key : keys) {
      if (const auto found = file.logins.find(key); found != file.logins.end()) return found->second;
    }
  }
  return std::nullopt;
}

}  // namespace mlk::registry
