// Checks the authorization of requests: the requests to token servers, and which token servers mlk uses.
#include "cli/registry/tokens.h"

#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/hash.h"

TEST_SUITE_BEGIN("registry/tokens");

namespace {

using mlk::http::Call;
using mlk::http::Failure;
using mlk::http::Reply;
using mlk::registry::Login;
using mlk::registry::parse_token;
using mlk::registry::Tokens;
using std::chrono::seconds;

constexpr char registry_url[] = "https://r.example";
constexpr char bearer[] = R"(Bearer realm="https://auth.example/token",service="r example")";

struct Asked {
  std::string method, url, authorization, body, type{};
};

// A token server that the test plays. The server gives the tokens "t1", "t2", ... with `lifetime`. If `reply`
// is set, the server answers with its result instead.
struct TokenServer {
  std::vector<Asked> asked{};
  int lifetime = 300;
  std::function<Reply()> reply{};

  Reply answer(const Call& call) {
    Asked one{call.method, call.url, "", std::string(call.body)};
    for (const auto& [name, value] : call.headers)
      (name == "Authorization" ? one.authorization : one.type) = value;
    asked.push_back(one);
    if (reply) return reply();
    Reply out;
    out.status = 200;
    out.body = R"({"token":"t)" + std::to_string(asked.size()) + R"(","expires_in":)" +
               std::to_string(lifetime) + "}";
    return out;
  }
  Tokens tokens(std::optional<Login> login = std::nullopt, const std::string& url = registry_url) {
    return {url, [login] { return login; }, [this](const Call& call) { return answer(call); }};
  }
};

Reply with_status(int status, const std::string& body = "") {
  Reply out;
  out.status = status;
  out.body = body;
  return out;
}

mlk::Error token_error(TokenServer& server, const std::string& challenge = bearer,
                       const std::optional<Login>& login = Login{"me", "secret", ""}) {
  Tokens tokens = server.tokens(login);
  try {
    REQUIRE(tokens.renew("s", challenge, ""));
    return {mlk::ExitCode::ok, tokens.authorization("s")};
  } catch (const mlk::Error& error) {
    return error;
  }
}

}  // namespace

TEST_CASE(
    "mlk sends no credential before a challenge, and sends the password or a token after the challenge") {
  TokenServer server;
  Tokens plain = server.tokens(Login{"me", "a:b", ""});
  CHECK(plain.authorization("s").empty());
  CHECK(plain.renew("s", "Basic realm=\"x\"", ""));
  const std::string basic = "Basic " + mlk::base64_encode("me:a:b");
  CHECK(plain.authorization("s") == basic);
  CHECK_FALSE(plain.renew("s", "Basic realm=\"x\"", basic));  // the password was refused
  CHECK(server.asked.empty());
  Tokens with_token = server.tokens(Login{"me", "a:b", ""});
  CHECK(with_token.renew("repository:a/b:pull", bearer, ""));
  CHECK(with_token.authorization("repository:a/b:pull") == "Bearer t1");
  REQUIRE(server.asked.size() == 1);
  CHECK(server.asked[0].method == "GET");
  CHECK(server.asked[0].url ==
        "https://auth.example/token?service=r%20example&scope=repository%3Aa%2Fb%3Apull");
  CHECK(server.asked[0].authorization == basic);
}

TEST_CASE("each scope has a token of its own, which mlk uses until the token expires or is refused") {
  TokenServer server;
  Tokens tokens = server.tokens();
  CHECK(tokens.renew("a", bearer, ""));
  CHECK(tokens.authorization("a") == "Bearer t1");
  CHECK(tokens.authorization("a") == "Bearer t1");
  CHECK(tokens.authorization("b c") == "Bearer t2");
  CHECK(server.asked[1].url.ends_with("&scope=b&scope=c"));
  CHECK(server.asked[0].authorization.empty());
  // renew() removes a refused token, but not a token that another thread has renewed meanwhile.
  CHECK(tokens.renew("a", bearer, "Bearer t1"));
  CHECK(tokens.authorization("a") == "Bearer t3");
  CHECK(tokens.renew("a", bearer, "Bearer t1"));
  CHECK(tokens.authorization("a") == "Bearer t3");
  server.lifetime = 0;
  CHECK(tokens.authorization("d") == "Bearer t4");
  CHECK(tokens.authorization("d") == "Bearer t5");
}

TEST_CASE("mlk sends an identity token only in the body of a POST, not in a URL") {
  TokenServer server;
  Tokens tokens = server.tokens(Login{"", "", "id/1 &="});
  CHECK(tokens.renew("s", bearer, ""));
  CHECK(tokens.authorization("s") == "Bearer t1");
  CHECK(server.asked[0].method == "POST");
  CHECK(server.asked[0].url == "https://auth.example/token");
  CHECK(server.asked[0].authorization.empty());
  CHECK(server.asked[0].type == "application/x-www-form-urlencoded");
  CHECK(server.asked[0].body ==
        "grant_type=refresh_token&client_id=mlk&refresh_token=id%2F1%20%26%3D&service=r%20example&scope=s");
  Tokens plain = server.tokens(Login{"", "", "id"});
  CHECK_FALSE(plain.renew("s", "Basic realm=\"x\"", ""));
}

TEST_CASE("mlk appends the scope to the query that the URL of a realm has") {
  TokenServer server;
  Tokens tokens = server.tokens();
  CHECK(tokens.renew("s", R"(Bearer realm="https://auth.example/token?x=1")", ""));
  (void)tokens.authorization("s");
  CHECK(server.asked[0].url == "https://auth.example/token?x=1&scope=s");
}

TEST_CASE("Tokens calls `login` only once, even if `login` finds no login") {
  int asked = 0;
  TokenServer server;
  Tokens tokens(
      registry_url,
      [&]() -> std::optional<Login> {
        ++asked;
        return std::nullopt;
      },
      [&](const Call& call) { return server.answer(call); });
  CHECK_FALSE(tokens.renew("s", "Basic realm=\"x\"", ""));
  CHECK_FALSE(tokens.renew("s", "", ""));
  CHECK(tokens.renew("s", bearer, ""));
  CHECK(asked == 1);
}

TEST_CASE(
    "a remote registry cannot send mlk to a token server whose URL is invalid, lacks TLS, or names this "
    "machine") {
  for (const std::string& realm : std::vector<std::string>{
           "http://auth.example/token", "https://localhost/token", "https://127.0.0.1/token",
           "https://[::1]/token", "https://169.254.169.254/latest", "file:///etc/passwd", "/token", "",
           "https://me:x@auth.example/token", "ftp://auth.example/x", "https://auth.example/ x"}) {
    TokenServer server;
    const mlk::Error error = token_error(server, "Bearer realm=\"" + realm + "\"");
    CHECK_MESSAGE(error.code() == mlk::ExitCode::cluster, realm);
    CHECK_MESSAGE(std::string(error.what()).starts_with("registry r.example sends mlk for a token to "),
                  realm);
    CHECK_MESSAGE(server.asked.empty(), realm);
  }
  CHECK(mlk::registry::wrong_with_realm("http://127.0.0.1:1/token", "http://localhost:5000").empty());
}

TEST_CASE("if a request to a token server fails, the error names the server and hides the login") {
  TokenServer server;
  const auto refused = [&](const Reply& reply,
                           const std::optional<Login>& login = Login{"me", "secret", ""}) {
    server.reply = [&] { return reply; };
    const mlk::Error error = token_error(server, bearer, login);
    const std::string all = error.what() + error.hint();
    CHECK(all.find("secret") == all.npos);
    CHECK(all.find(mlk::base64_encode("me:secret")) == all.npos);
    return error;
  };
  CHECK(std::string(refused(with_status(401)).what()) ==
        "the token server auth.example refuses the login for r.example");
  CHECK(std::string(refused(with_status(403), std::nullopt).what()) ==
        "the token server auth.example gives no token without a login");
  CHECK(refused(with_status(401)).hint() == "log in: docker login r.example");
  CHECK(std::string(refused(with_status(500, "secret")).what()) ==
        "the token server auth.example answered with status 500");
  CHECK(std::string(refused(with_status(302)).what()) ==
        "the token server auth.example answered with status 302");
  CHECK(refused(with_status(200, "secret")).code() == mlk::ExitCode::failure);
  Reply lost;
  lost.failure.kind = Failure::Kind::refused;
  CHECK(std::string(refused(lost).what()) ==
        "the token server auth.example cannot be reached: nothing listens there");
  lost.failure.kind = Failure::Kind::closed;
  CHECK(refused(lost).code() == mlk::ExitCode::interrupted);
}

TEST_CASE(
    "parse_token() reads `token` or `access_token`, limits the lifetime, and refuses malformed tokens") {
  CHECK(parse_token(R"({"token":"a"})", "x").text == "a");
  CHECK(parse_token(R"({"access_token":"b"})", "x").text == "b");
  CHECK(parse_token(R"({"token":"a"})", "x").lifetime == seconds(60));
  CHECK(parse_token(R"({"token":"a","expires_in":900})", "x").lifetime == seconds(900));
  CHECK(parse_token(R"({"token":"a","expires_in":18446744073709551615})", "x").lifetime == seconds(86'400));
  for (const char* odd : {"-5", "\"900\"", "1.5", "null", "[]"})
    CHECK(parse_token(std::string(R"({"token":"a","expires_in":)") + odd + "}", "x").lifetime == seconds(60));
  for (const std::string& bad :
       std::vector<std::string>{"", "secret", "[]", "{}", R"({"token":""})", R"({"token":5})",
                                R"({"token":"a b"})", R"({"token":"secret\r\nHost: x"})",
                                R"({"token":"\u00e9"})", R"({"token":")" + std::string(70'000, 'a') + "\"}"})
    CHECK_THROWS_WITH_AS((void)parse_token(bad, "the server"), "the server gave no token", mlk::Error);
}

TEST_CASE("mlk uses a token until ten seconds before its end, or for half of a short lifetime") {
  const std::vector<std::pair<int, int>> rows{{0, 0},   {1, 0},   {2, 1},   {10, 5},   {19, 9},
                                              {20, 10}, {21, 11}, {60, 50}, {300, 290}};
  for (const auto& [lifetime, used] : rows)
    CHECK(mlk::registry::time_of_use(seconds(lifetime)).count() == used);
}

TEST_CASE("parse_token() refuses a token of more than 64 KiB, and limits the lifetime to a day") {
  const auto with_size = [](std::size_t size) { return R"({"token":")" + std::string(size, 'a') + "\"}"; };
  CHECK(parse_token(with_size(64 << 10), "x").text.size() == 64 << 10);
  CHECK_THROWS_AS((void)parse_token(with_size((64 << 10) + 1), "x"), mlk::Error);
  for (const int life : {0, 1, 86'399, 86'400})
    CHECK(parse_token(R"({"token":"a","expires_in":)" + std::to_string(life) + "}", "x").lifetime ==
          seconds(life));
  CHECK(parse_token(R"({"token":"a","expires_in":86401})", "x").lifetime == seconds(86'400));
}

TEST_CASE("parse_token() prefers `token` to `access_token`, and ignores a member that is no text") {
  CHECK(parse_token(R"({"access_token":"b","token":"a"})", "x").text == "a");
  CHECK(parse_token(R"({"access_token":"b","token":5})", "x").text == "b");
  CHECK(parse_token(R"({"access_token":5,"token":"a"})", "x").text == "a");
  CHECK(parse_token(R"({"token":"!~"})", "x").text == "!~");
  for (const char* bad : {R"({"token":"a\u007f"})", R"({"token":" a"})", R"({"token":"a\t"})"})
    CHECK_THROWS_AS((void)parse_token(bad, "x"), mlk::Error);
  const auto nested = [](std::size_t levels) {
    return R"({"token":"a","x":)" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  CHECK(parse_token(nested(19), "x").text == "a");
  CHECK_THROWS_AS((void)parse_token(nested(20), "x"), mlk::Error);
}

TEST_CASE("wrong_with_realm() returns the reason why mlk must not use a token server") {
  struct Row {
    const char *realm, *registry, *wrong;
  };
  for (const Row& row : std::vector<Row>{
           {"https://auth.example/token", "https://r.example", ""},
           {"http://auth.example/token", "http://r.example", ""},
           {"http://auth.example/token", "https://r.example", "a place that is not encrypted"},
           {"https://me@auth.example/token", "https://r.example", "an address that is not a valid URL"},
           {"ftp://auth.example/token", "https://r.example", "an address that is not a valid URL"},
           {"auth.example/token", "https://r.example", "an address that is not a valid URL"},
           {"https://localhost/token", "https://r.example", "an address of this machine"},
           {"https://169.254.1.1/token", "https://r.example", "an address of this machine's link"}})
    CHECK_MESSAGE(mlk::registry::wrong_with_realm(row.realm, row.registry) == row.wrong, row.realm);
  TokenServer server;
  CHECK(
      std::string(token_error(server, R"(Bearer realm="http://auth.example/t")").what()) ==
      "registry r.example sends mlk for a token to a place that is not encrypted, and mlk does not go there");
}

TEST_CASE("authorization() changes if a registry changes its challenge") {
  TokenServer server;
  Tokens tokens = server.tokens(Login{"me", "secret", ""});
  const std::string basic = "Basic " + mlk::base64_encode("me:secret");
  REQUIRE(tokens.renew("s", bearer, ""));
  CHECK(tokens.authorization("s") == "Bearer t1");
  CHECK_FALSE(tokens.renew("s", "Negotiate", "Bearer t1"));  // unsupported, so the token stays
  CHECK(tokens.authorization("s") == "Bearer t1");
  CHECK(tokens.renew("s", "Basic realm=\"x\"", "Bearer t1"));
  CHECK(tokens.authorization("s") == basic);
  CHECK(tokens.renew("s", bearer, basic));
  CHECK(tokens.authorization("s") == "Bearer t1");
  CHECK(server.asked.size() == 1);
}

TEST_CASE("authorization() is empty after a basic challenge if there is no login") {
  TokenServer server;
  Tokens tokens = server.tokens();
  CHECK_FALSE(tokens.renew("s", "Basic realm=\"x\"", ""));
  CHECK(tokens.authorization("s").empty());
}
