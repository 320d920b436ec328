// When a credential is used, dropped and requested again. These tests use no process and no clock.
#include "cli/kube/login/credentials.h"

#include <doctest/doctest.h>

#include "cli/util/hash.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("kube/login/credentials");

using namespace mlk::kube;
using std::chrono::seconds;

namespace {

const Credentials::SteadyTime begin_time{};
const mlk::Time at_noon = *mlk::parse_time("2026-11-22T12:00:00Z");

Config with_plugin() {
  Config config;
  config.login = Login::exec;
  config.exec.emplace();
  return config;
}

Credential token_until(const std::string& text, std::optional<mlk::Time> expires = {}) {
  return {text, "", "", expires};
}

Config with_oidc(const std::string& claims) {
  Config config;
  config.login = Login::oidc;
  config.token = "e30." + mlk::base64_encode(claims) + ".c2ln";
  return config;
}

}  // namespace

TEST_CASE("a plugin is called once, and its credential is used until it expires") {
  Credentials credentials(with_plugin());
  CHECK(credentials.next(begin_time, at_noon).send == nullptr);
  CHECK_FALSE(credentials.next(begin_time, at_noon).error.has_value());
  credentials.renew(token_until("a", at_noon + seconds(5)), begin_time, at_noon);
  const CredentialPtr first = credentials.next(begin_time, at_noon).send;
  REQUIRE(first != nullptr);
  CHECK(first->token == "a");
  CHECK(credentials.next(begin_time, at_noon + seconds(5)).send == first);
  CHECK(credentials.next(begin_time, at_noon + seconds(6)).send == nullptr);
}

TEST_CASE("a plugin's credential is used for a while even if it has already expired") {
  Credentials credentials(with_plugin());
  credentials.renew(token_until("a", at_noon - seconds(60)), begin_time, at_noon);
  CHECK(credentials.next(begin_time, at_noon).send != nullptr);
  CHECK(credentials.next(begin_time + seconds(9), at_noon + seconds(9)).send != nullptr);
  CHECK(credentials.next(begin_time + seconds(10), at_noon + seconds(10)).send == nullptr);
}

TEST_CASE("a credential without an expiry never expires") {
  Credentials credentials(with_plugin());
  credentials.renew(token_until("a"), begin_time, at_noon);
  CHECK(credentials.next(begin_time, at_noon + seconds(1'000'000)).send->token == "a");
}

TEST_CASE("mlk calls the plugin once if the server refuses many requests with one credential") {
  Credentials credentials(with_plugin());
  credentials.renew(token_until("a"), begin_time, at_noon);
  const CredentialPtr first = credentials.next(begin_time, at_noon).send;
  CHECK(credentials.refused(first, begin_time));
  CHECK(credentials.next(begin_time, at_noon).send == nullptr);
  CHECK(credentials.refused(first, begin_time));  // the new credential has not arrived yet
  credentials.renew(token_until("b"), begin_time, at_noon);
  CHECK(credentials.refused(first, begin_time));  // the new credential has arrived
  CHECK(credentials.next(begin_time, at_noon).send->token == "b");
}

TEST_CASE("a server that refuses every credential does not cause a plugin call for each request") {
  Credentials credentials(with_plugin());
  credentials.renew(token_until("a"), begin_time, at_noon);
  CHECK(credentials.refused(credentials.next(begin_time, at_noon).send, begin_time));
  credentials.renew(token_until("b"), begin_time, at_noon);
  const CredentialPtr second = credentials.next(begin_time, at_noon).send;
  CHECK_FALSE(credentials.refused(second, begin_time + seconds(1)));
  CHECK(credentials.next(begin_time, at_noon).send == second);
  CHECK(credentials.refused(second, begin_time + seconds(11)));
  credentials.renew(token_until("c"), begin_time, at_noon);
  const CredentialPtr third = credentials.next(begin_time, at_noon).send;
  credentials.accepted(third);
  CHECK(credentials.refused(third, begin_time + seconds(12)));  // the server had accepted this credential
}

TEST_CASE(
    "an id-token is sent until ten seconds before its expiry, and after this time next() returns an error") {
  Credentials credentials(with_oidc(R"({"exp": 1795348800})"));  // the expiry is at_noon
  CHECK(credentials.next(begin_time, at_noon - seconds(11)).send != nullptr);
  const auto late = credentials.next(begin_time, at_noon - seconds(10));
  CHECK(late.send == nullptr);
  REQUIRE(late.error.has_value());
  CHECK(late.error->what() ==
        std::string("the id-token of auth-provider oidc has expired at 2026-11-22T12:00:00Z"));
  CHECK(late.error->hint().find("any kubectl command renews it") != std::string::npos);
  CHECK(Credentials(with_oidc("{}")).next(begin_time, at_noon).error.has_value());
  Config none = with_oidc("{}");
  none.token.clear();
  CHECK(Credentials(none).next(begin_time, at_noon).error->what() ==
        std::string("the id-token of auth-provider oidc is missing"));
}

TEST_CASE("the token file is read again every minute, and the client certificate stays the same") {
  const TemporaryFolder folder;
  Config config;
  config.token = "old";
  config.token_file = folder.write("token", "old").string();
  config.client_certificate_pem = "C";
  Credentials credentials(config);
  CHECK(credentials.next(begin_time + seconds(100), at_noon).send->token == "old");
  folder.write("token", "new");
  CHECK(credentials.next(begin_time + seconds(159), at_noon).send->token == "old");
  const CredentialPtr renewed = credentials.next(begin_time + seconds(160), at_noon).send;
  CHECK(renewed->token == "new");
  CHECK(renewed->certificate_pem == "C");
}

TEST_CASE("a request with a fixed token is not sent again after a refusal") {
  Config config;
  config.token = "t";
  Credentials credentials(config);
  CHECK_FALSE(credentials.refused(credentials.next(begin_time, at_noon).send, begin_time));
}

TEST_CASE(
    "a second refusal leads to a new credential only if it comes at least ten seconds after the first") {
  const auto refused_after = [](std::chrono::milliseconds later) {
    Credentials credentials(with_plugin());
    credentials.renew(token_until("a"), begin_time, at_noon);
    CHECK(credentials.refused(credentials.next(begin_time, at_noon).send, begin_time));
    credentials.renew(token_until("b"), begin_time, at_noon);
    return credentials.refused(credentials.next(begin_time, at_noon).send, begin_time + later);
  };
  CHECK_FALSE(refused_after(std::chrono::milliseconds(9'999)));
  CHECK(refused_after(seconds(10)));
}

TEST_CASE("the pause between plugin calls continues if the server accepts an older credential") {
  Credentials credentials(with_plugin());
  credentials.renew(token_until("a"), begin_time, at_noon);
  const CredentialPtr first = credentials.next(begin_time, at_noon).send;
  CHECK(credentials.refused(first, begin_time));
  credentials.renew(token_until("b"), begin_time, at_noon);
  credentials.accepted(first);
  CHECK_FALSE(credentials.refused(credentials.next(begin_time, at_noon).send, begin_time + seconds(1)));
}

TEST_CASE("an expired credential from a plugin is used for ten seconds, and is then replaced") {
  Credentials credentials(with_plugin());
  credentials.renew(token_until("a", at_noon), begin_time, at_noon);
  CHECK(credentials.next(begin_time + seconds(9), at_noon + seconds(9)).send != nullptr);
  CHECK(credentials.next(begin_time + seconds(10), at_noon + seconds(10)).send == nullptr);
  credentials.renew(token_until("b", at_noon + seconds(100)), begin_time + seconds(10),
                    at_noon + seconds(10));
  CHECK(credentials.next(begin_time + seconds(60), at_noon + seconds(60)).send != nullptr);
}

TEST_CASE("the error for an id-token without an expiry says that the expiry is missing") {
  CHECK(Credentials(with_oidc("{}")).next(begin_time, at_noon).error->what() ==
        std::string("the id-token of auth-provider oidc is no JSON Web Token with an end"));
  CHECK(Credentials(with_oidc("{}")).next(begin_time, at_noon).error->code() == mlk::ExitCode::cluster);
}

TEST_CASE("a fixed token is sent with its client certificate") {
  Config config;
  config.token = "t";
  config.client_certificate_pem = "C";
  config.client_key_pem = "K";
  Credentials credentials(config);
  const CredentialPtr sent = credentials.next(begin_time, at_noon).send;
  CHECK(sent->token == "t");
  CHECK(sent->certificate_pem == "C");
  CHECK(sent->key_pem == "K");
  CHECK(credentials.next(begin_time + seconds(1000), at_noon).send == sent);
}
