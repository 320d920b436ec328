// Tokens: texts for headers, files that other programs renew, and the expiry of logins.
#include "cli/kube/login/token.h"

#include <filesystem>

#include <doctest/doctest.h>

#include "cli/kube/login/entry_fields.h"
#include "cli/kube/login/login.h"
#include "cli/util/hash.h"
#include "tests/unit/kube/certificates.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("kube/login/token");

using namespace mlk::kube;
using std::chrono::seconds;

namespace {

const Token::Time token_begin = Token::Time{} + seconds(1000);

std::string jwt_of(const std::string& claims) { return "e30." + mlk::base64_encode(claims) + ".c2ln"; }

// The expiry of a token with these claims; "none" if it has no expiry.
std::string jwt_end(const std::string& claims) {
  const auto end = token_end(jwt_of(claims));
  return end ? mlk::format_time(*end) : "none";
}

}  // namespace

TEST_CASE("fits_in_header() is true for every text without control characters") {
  for (const char* good : {"", "abc", "a b", "~", "\xc3\xa4"}) CHECK_MESSAGE(fits_in_header(good), good);
  for (const char* bad : {"\x1f", "a\nb", "a\r", "\t", "\x7f"}) CHECK_FALSE(fits_in_header(bad));
  CHECK_FALSE(fits_in_header(std::string_view("a\0b", 3)));
}

TEST_CASE("a token file is read at the start, then every minute, and ten seconds after a failed read") {
  const TemporaryFolder folder;
  const std::string file = folder.write("token", " one\n").string();
  Token token("given", file);
  CHECK(token.current(token_begin) == "one");
  folder.write("token", "two");
  CHECK(token.current(token_begin + seconds(59)) == "one");
  CHECK(token.current(token_begin + seconds(60)) == "two");
  std::filesystem::remove(file);
  CHECK(token.current(token_begin + seconds(120)) == "two");
  folder.write("token", "three");
  CHECK(token.current(token_begin + seconds(129)) == "two");
  CHECK(token.current(token_begin + seconds(130)) == "three");
}

TEST_CASE("a token file that is empty or does not fit in a header leaves the last token in use") {
  const TemporaryFolder folder;
  for (const char* text : {"", " \n", "a\nX: y"}) {
    Token token("given", folder.write("token", text).string());
    CHECK(token.current(token_begin) == "given");
  }
}

TEST_CASE("renew() reads the token file at once, and returns true if the token has changed") {
  const TemporaryFolder folder;
  Token token("given", folder.write("token", "one").string());
  CHECK(token.current(token_begin) == "one");
  CHECK_FALSE(token.renew("one", token_begin + seconds(1)));
  folder.write("token", "two");
  CHECK(token.renew("one", token_begin + seconds(2)));
  CHECK(token.current(token_begin + seconds(2)) == "two");
  folder.write("token", "three");
  CHECK(token.renew("one", token_begin + seconds(3)));  // the current token is newer already
  CHECK(token.current(token_begin + seconds(3)) == "two");
  Token fixed("given", "");
  CHECK_FALSE(fixed.renew("other", token_begin));
  CHECK(fixed.current(token_begin) == "given");
}

TEST_CASE("a JSON Web Token expires at its `exp` if this is a valid time") {
  CHECK(jwt_end(R"({"exp": 4070908800})") == "2099-01-01T00:00:00Z");
  CHECK(jwt_end(R"({"exp": 4070908800.9})") == "2099-01-01T00:00:00Z");
  CHECK(jwt_end(R"({"exp": 0})") == "1970-01-01T00:00:00Z");
  for (const char* none : {R"({"exp": -1})", R"({"exp": "4070908800"})", R"({"exp": 1e15})",
                           R"({"exp": null})", R"({"iat": 1})", "[]", "7", "x", ""})
    CHECK_MESSAGE(jwt_end(none) == "none", none);
  for (const char* none :
       {"", "abc", "e30.e30", "e30.eyJleHAiOjQwNzA5MDg4MDB9", "a.eyJleHAiOjF9.b.c", "a.???.b"})
    CHECK_MESSAGE(!token_end(none), none);
  CHECK(token_end("a.eyJleHAiOjF9.b"));
  // The base64 of tokens has "-" and "_" instead of "+" and "/".
  std::string claims = "{\"a\": \"xxxo\xc3\xa4xxx>>>\", \"exp\": 60}", payload = mlk::base64_encode(claims);
  REQUIRE(payload.find('+') != std::string::npos);
  REQUIRE(payload.find('/') != std::string::npos);  // with any other digit the text is no UTF-8
  for (char& c : payload) c = c == '+' ? '-' : c == '/' ? '_' : c;
  payload.erase(payload.find_last_not_of('=') + 1);
  REQUIRE(token_end("a." + payload + ".b"));
  CHECK(mlk::format_time(*token_end("a." + payload + ".b")) == "1970-01-01T00:01:00Z");
}

TEST_CASE("certificate_end() returns the expiry of a certificate, and nothing for any other text") {
  const Certificate made = make_certificate({"me", "DNS:me"});
  CHECK(certificate_end(made.pem()).has_value());
  CHECK_FALSE(certificate_end("no certificate").has_value());
  CHECK_FALSE(certificate_end("").has_value());
}

TEST_CASE(
    "end_of() returns the expiry that the issuer gave, or else the earlier expiry of token and certificate") {
  const std::string early = jwt_of(R"({"exp": 60})"), late = jwt_of(R"({"exp": 7258118400})");
  const std::string certificate = make_certificate({"me", "DNS:me"}).pem();
  const auto of_certificate = certificate_end(certificate);
  const mlk::Time issued = *mlk::parse_time("2050-01-01T00:00:00Z");
  CHECK(end_of({early, certificate, "", issued}) == issued);
  CHECK(end_of({early, "", ""}) == token_end(early));
  CHECK(end_of({"opaque", certificate, ""}) == of_certificate);
  CHECK(end_of({early, certificate, ""}) == token_end(early));
  CHECK(end_of({late, certificate, ""}) == of_certificate);
  CHECK_FALSE(end_of({"opaque", "", ""}).has_value());
}

TEST_CASE("the text of an expiry says how much time is left or has passed") {
  const mlk::Time now = *mlk::parse_time("2026-11-26T12:00:00Z");
  CHECK(text_of_end(now + seconds(3600), now) == "until 2026-11-26T13:00:00Z (1h left)");
  CHECK(text_of_end(now, now) == "until 2026-11-26T12:00:00Z (0s left)");
  CHECK(text_of_end(now - seconds(1), now) == "expired 2026-11-26T11:59:59Z (1s ago)");
}

TEST_CASE("the description of a login has its own text for each way to log in") {
  const auto way = [](Login login, const std::string& certificate = "") {
    Config config;
    config.login = login;
    config.client_certificate_pem = certificate;
    return login_of(config).way;
  };
  CHECK(way(Login::none) == "none");
  CHECK(way(Login::token) == "token");
  CHECK(way(Login::token_file) == "token file");
  CHECK(way(Login::service_account) == "service account");
  CHECK(way(Login::oidc) == "oidc");
  CHECK(way(Login::basic) == "basic");
  CHECK(way(Login::exec) == "exec plugin");
  CHECK(way(Login::none, "C") == "client certificate");
  CHECK(way(Login::token_file, "C") == "client certificate and token file");
  Config config;
  config.login = Login::exec;
  CHECK(login_of(config).plugin.empty());
  config.exec.emplace();
  config.exec->command = "aws";
  CHECK(login_of(config).plugin == "aws");
  CHECK_FALSE(login_of(config).expires.has_value());
}
