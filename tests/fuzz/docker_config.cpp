// Files of logins, and the output of helpers. No error message repeats text that may be a secret.
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "cli/registry/logins.h"
#include "cli/util/error.h"
#include "tests/fuzz/demand.h"

using mlk::fuzz::demand;
using mlk::registry::Login;

namespace {

// Each error has one of these messages. Only the digits of a message may come from the input.
void demand_no_secret(const mlk::Error& error) {
  static const std::set<std::string> known{
      "FILE is not JSON: byte ",
      "FILE: nested deeper than  levels",
      "FILE: more than  values",
      "FILE is no object of JSON",
      "FILE: a login in it is no object",
      "FILE: a login in it is not base; log in again, by docker login",
      "FILE: a login in it has no password; log in again, by docker login",
      "HELPER printed no object of JSON"};
  std::string said = error.what() + (error.hint().empty() ? "" : "; " + error.hint());
  std::erase_if(said, [](char c) { return c >= '0' && c <= '9'; });
  demand(known.contains(said));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const mlk::registry::LoginFile file = mlk::registry::parse_login_file(text, "FILE");
    for (const auto& [key, login] : file.logins) {
      demand(!login.user.empty() || !login.password.empty() || !login.identity_token.empty());
      demand(key != "index.docker.io" && key != "registry-1.docker.io");
    }
  } catch (const mlk::Error& error) {
    demand_no_secret(error);
  }
  try {
    if (const std::optional<Login> login = mlk::registry::parse_helper_answer(text, "HELPER"))
      demand(login->user != "<token>" && (login->identity_token.empty() || login->password.empty()));
  } catch (const mlk::Error& error) {
    demand_no_secret(error);
  }
  return 0;
}
