// Checks how mlk finds logins in the files of Docker, Podman and similar tools, and by helpers.
#include "cli/registry/logins.h"

#include <utility>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "tests/unit/registry/played_program.h"

TEST_SUITE_BEGIN("registry/logins");

namespace {

namespace fs = std::filesystem;
using mlk::base64_encode;
using mlk::image::parse_reference;
using mlk::registry::find_login;
using mlk::registry::Login;
using Names = std::vector<std::string>;

std::string auths(const std::string& key, const std::string& user_and_password) {
  return R"({"auths":{")" + key + R"(":{"auth":")" + base64_encode(user_and_password) + R"("}}})";
}

// The found login as "user:password" or "token TOKEN", or "none".
std::string shown(const std::optional<Login>& login) {
  if (!login) return "none";
  return login->identity_token.empty() ? login->user + ":" + login->password
                                       : "token " + login->identity_token;
}

std::string found_in(const Names& texts, const std::string& image) {
  const TemporaryFolder folder;
  std::vector<fs::path> files{folder.path() / "gone"};
  for (const std::string& text : texts) files.push_back(folder.write(std::to_string(files.size()), text));
  return shown(find_login(files, parse_reference(image), {}));
}

mlk::Error login_error(const std::string& text, const std::string& image = "r.example/x") {
  try {
    return {mlk::ExitCode::ok, found_in({text}, image)};
  } catch (const mlk::Error& error) {
    return error;
  }
}

// The error for a registry whose helper is a program with this script. If there is no error: the login.
mlk::Error helper_error(const std::string& script, const std::string& name = "played") {
  const PlayedPrograms programs;
  programs.add("docker-credential-" + name, script);
  return login_error(R"({"credsStore":")" + name + "\"}");
}

}  // namespace

TEST_CASE("find_login() finds a login by the name of its registry, also in old spellings of the name") {
  for (const char* key : {"r.example", "https://r.example", "http://r.example/", "https://r.example/v2/",
                          "https://r.example/v1/", "r.example/v2", "r.example/"})
    CHECK_MESSAGE(found_in({auths(key, "me:secret")}, "r.example/team/x") == "me:secret", std::string(key));
  for (const char* key : {"https://index.docker.io/v1/", "https://index.docker.io/v1", "index.docker.io",
                          "docker.io", "registry-1.docker.io"})
    CHECK_MESSAGE(found_in({auths(key, "me:secret")}, "python") == "me:secret", std::string(key));
  CHECK(found_in({auths("r.example:5000", "me:secret")}, "r.example:5000/x") == "me:secret");
}

TEST_CASE("find_login() does not return the login of another registry or of another port") {
  for (const char* key :
       {"r.example:443", "example", "r.example.org", "s.r.example", "docker.io", "R.EXAMPLE"})
    CHECK_MESSAGE(found_in({auths(key, "me:secret")}, "r.example/x") == "none", std::string(key));
  CHECK(found_in({auths("r.example", "me:secret")}, "r.example:5000/x") == "none");
}

TEST_CASE("the login with the longest matching path has priority: repository, then team, then registry") {
  CHECK(mlk::registry::login_keys(parse_reference("r.example/a/b:1")) ==
        Names{"r.example/a/b", "r.example/a", "r.example"});
  CHECK(mlk::registry::login_keys(parse_reference("python")) ==
        Names{"docker.io/library/python", "docker.io/library", "docker.io"});
  const std::string text = R"({"auths":{"r.example":{"username":"one","password":"1"},
      "r.example/a":{"username":"two","password":"2"},"r.example/a/b":{"username":"three","password":"3"}}})";
  CHECK(found_in({text}, "r.example/a/b") == "three:3");
  CHECK(found_in({text}, "r.example/a/bc") == "two:2");
  CHECK(found_in({text}, "r.example/ab") == "one:1");
}

TEST_CASE("the login of the repository team/v2 is not a login for the whole registry") {
  CHECK(found_in({auths("r.example/team/v2", "me:secret")}, "r.example/team/v2") == "me:secret");
  CHECK(found_in({auths("r.example/team/v2", "me:secret")}, "r.example/team/other") == "none");
}

TEST_CASE("find_login() takes the first file with a login, and skips files without one") {
  CHECK(found_in({"", "{}", R"({"auths":{"r.example":{}}})", auths("r.example", "me:secret"),
                  auths("r.example", "other:x")},
                 "r.example/x") == "me:secret");
}

TEST_CASE("a password may have colons, and an identity token replaces the password") {
  const Login login =
      mlk::registry::parse_login_file(auths("r.example", "me:a:b:"), "x").logins.at("r.example");
  CHECK(login.user == "me");
  CHECK(login.password == "a:b:");
  CHECK(found_in({auths("r.example", std::string("me:secret\0\0", 11))}, "r.example/x") == "me:secret");
  CHECK(found_in({R"({"auths":{"r.example":{"auth":")" + base64_encode("00000000:") +
                  R"(","identitytoken":"abc"}}})"},
                 "r.example/x") == "token abc");
  CHECK(found_in({R"({"auths":{"r.example":{"identitytoken":"abc"}}})"}, "r.example/x") == "token abc");
}

TEST_CASE("the error for a malformed file of logins has the file's name and no part of its text") {
  const std::string secret = base64_encode("me:secret");
  for (const std::string& bad :
       Names{R"({"auths":{"r.example":{"auth":")" + secret + R"("}})", "secret", "[\"secret\"]",
             std::string(R"({"auths":{"r.example":"secret"}})"),
             std::string(R"({"auths":{"r.example":{"auth":"!secret!"}}})"),
             R"({"auths":{"r.example":{"auth":")" + base64_encode("secret") + R"("}}})",
             std::string(500, '[')}) {
    const mlk::Error error = login_error(bad);
    CHECK(error.code() == mlk::ExitCode::failure);
    const std::string all = error.what() + error.hint();
    CHECK_MESSAGE(all.find("secret") == all.npos, all);
    CHECK_MESSAGE(all.find(secret) == all.npos, all);
    CHECK_MESSAGE(all.find("mlk-test-") != all.npos, all);
  }
  for (const char* odd : {R"({"auths":[]})", R"({"auths":null,"credHelpers":5,"credsStore":7})",
                          R"({"auths":{"r.example":{"auth":5,"username":[]}}})"})
    CHECK(std::string(login_error(odd).what()) == "none");
}

TEST_CASE("login_files() lists the file of Docker first, and then the files of Podman and similar tools") {
  const auto files = [](const std::map<std::string, std::string>& variables) {
    Names out;
    for (const fs::path& file : mlk::registry::login_files([&](const std::string& name) {
           const auto found = variables.find(name);
           return found == variables.end() ? "" : found->second;
         }))
      out.push_back(file.string());
    return out;
  };
  CHECK(files({{"HOME", "/h"}}) == Names{"/h/.docker/config.json", "/h/.config/containers/auth.json"});
  CHECK(files({{"HOME", "/h"},
               {"DOCKER_CONFIG", "/d"},
               {"REGISTRY_AUTH_FILE", "/r/a"},
               {"XDG_RUNTIME_DIR", "/x"},
               {"XDG_CONFIG_HOME", "/c"}}) ==
        Names{"/d/config.json", "/r/a", "/x/containers/auth.json", "/c/containers/auth.json"});
  CHECK(files({}).empty());
  CHECK(files({{"DOCKER_CONFIG", "/d"}}) == Names{"/d/config.json"});
  CHECK(files({{"XDG_CONFIG_HOME", "/c"}}) == Names{"/c/containers/auth.json"});
}

TEST_CASE("the helper of one registry has priority over the common helper, and gets the registry's name") {
  const PlayedPrograms programs;
  programs.add("docker-credential-own",
               R"(read name; echo "{\"Username\":\"own\",\"Secret\":\"$1 $name\"}")");
  programs.add("docker-credential-all",
               R"(read name; echo "{\"Username\":\"all\",\"Secret\":\"$1 $name\"}")");
  const std::string text = R"({"credsStore":"all","credHelpers":{"r.example":"own","none.example":""}})";
  CHECK(found_in({text}, "r.example/x") == "own:get r.example");
  CHECK(found_in({text}, "s.example:5000/x") == "all:get s.example:5000");
  CHECK(found_in({text}, "python") == "all:get https://index.docker.io/v1/");
  CHECK(found_in({text}, "none.example/x") == "none");
}

TEST_CASE(
    "if a helper has no login, find_login() tries the logins in the file itself, and then the next files") {
  const PlayedPrograms programs;
  programs.add("docker-credential-played", "echo credentials not found in native keychain; exit 1");
  const std::string with_store =
      R"({"credsStore":"played","auths":{"r.example":{"auth":")" + base64_encode("me:secret") + R"("}}})";
  CHECK(found_in({with_store}, "r.example/x") == "me:secret");
  CHECK(found_in({with_store, auths("s.example", "you:secret")}, "s.example/x") == "you:secret");
  programs.add("docker-credential-played", R"(echo '{"ServerURL":"","Username":"","Secret":""}')");
  CHECK(found_in({with_store}, "r.example/x") == "me:secret");
}

TEST_CASE("parse_helper_answer() reads an identity token if the user is <token>") {
  CHECK(shown(mlk::registry::parse_helper_answer(R"({"Username":"<token>","Secret":"abc"})", "h")) ==
        "token abc");
  CHECK(shown(mlk::registry::parse_helper_answer(R"({"Username":"me","Secret":"abc"})", "h")) == "me:abc");
  CHECK(shown(mlk::registry::parse_helper_answer("{}", "h")) == "none");
}

TEST_CASE(
    "if a helper is missing, find_login() tries the logins in the file itself, and then the next files") {
  const std::string store = R"({"credsStore":"no-such-helper"})";
  const std::string own = R"({"credHelpers":{"r.example":"no-such-helper"},"auths":{"r.example":{"auth":")" +
                          base64_encode("me:secret") + R"("}}})";
  CHECK(found_in({store}, "r.example/x") == "none");
  CHECK(found_in({store, auths("r.example", "you:secret")}, "r.example/x") == "you:secret");
  CHECK(found_in({own}, "r.example/x") == "me:secret");
  const TemporaryFolder folder;
  const fs::path file = folder.write("config.json", store),
                 other = folder.write("auth.json", R"({"credsStore":"neither"})");
  std::string missing;
  CHECK_FALSE(find_login({file, other}, parse_reference("r.example/x"), {}, &missing));
  CHECK(missing ==
        "there is no program docker-credential-no-such-helper, which " + file.string() + " names for logins");
}

TEST_CASE(
    "if a helper cannot run, find_login() tries the logins in the file itself, and then the next files") {
  const PlayedPrograms programs;
  programs.add_file("docker-credential-other.exe", "of another system");
  const std::string store = R"({"credsStore":"other.exe"})";
  CHECK(found_in({store}, "r.example/x") == "none");
  CHECK(found_in({store, auths("r.example", "you:secret")}, "r.example/x") == "you:secret");
  CHECK(found_in({R"({"credsStore":"other.exe","auths":{"r.example":{"auth":")" + base64_encode("me:secret") +
                  R"("}}})"},
                 "r.example/x") == "me:secret");
  const TemporaryFolder folder;
  const fs::path file = folder.write("config.json", store);
  std::string missing;
  CHECK_FALSE(find_login({file}, parse_reference("r.example/x"), {}, &missing));
  CHECK(missing == "program docker-credential-other.exe, which " + file.string() +
                       " names for logins, cannot be executed on this machine");
}

TEST_CASE("if a helper fails or prints garbage, the error names the helper and hides the output") {
  mlk::Error error{mlk::ExitCode::ok, ""};
  for (const char* script : {"echo secret; exit 3", "echo secret >&2; exit 3"}) {
    error = helper_error(script);
    CHECK(std::string(error.what()) == "docker-credential-played failed for r.example, with exit code 3");
    CHECK(error.hint() == "see what it says: echo r.example | docker-credential-played get");
  }
  for (const char* script : {"echo secret", "echo '[\"secret\"]'", "echo '{\"Secret\":\"secret\"'", "true"}) {
    error = helper_error(script);
    CHECK(error.code() == mlk::ExitCode::failure);
    CHECK(std::string(error.what()) == "docker-credential-played printed no object of JSON");
  }
}

TEST_CASE("the name of a helper must not be a path, and is printed without control characters") {
  for (const char* name : {"../evil", "/bin/sh", "a/b"}) {
    const mlk::Error error = login_error(std::string(R"({"credsStore":")") + name + "\"}");
    CHECK(std::string(error.what()) ==
          std::string("docker-credential-") + name + " is not the name of a helper for logins");
  }
  const mlk::Error error = login_error(R"({"credsStore":"a\u001b[2J"})");
  CHECK((error.what() + error.hint()).find('\x1b') == std::string::npos);
}

TEST_CASE("find_login() stops waiting for a helper and throws if the user interrupts mlk") {
  const PlayedPrograms programs;
  programs.add("docker-credential-played", "sleep 600");
  const TemporaryFolder folder;
  try {
    (void)find_login({folder.write("config.json", R"({"credsStore":"played"})")},
                     parse_reference("r.example/x"), [] { return false; });
    FAIL("it waited");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::interrupted);
  }
}

TEST_CASE("a file of logins with only blanks and line ends is valid, and has no login") {
  for (const std::string& nothing : Names{"", "\n", "\r\n", " ", "\t\n \n"}) {
    CHECK_MESSAGE(std::string(login_error(nothing).what()) == "none", nothing);
    CHECK(found_in({nothing, auths("r.example", "me:secret")}, "r.example/x") == "me:secret");
  }
  CHECK(login_error("\n.\n").code() == mlk::ExitCode::failure);
}

TEST_CASE("find_login() refuses a file of more than 4 MiB, twenty levels or 100,000 values") {
  const auto accepted = [](const std::string& text) { return login_error(text).code() == mlk::ExitCode::ok; };
  std::string padded = auths("r.example", "me:secret");
  padded.resize(4 << 20, ' ');
  CHECK(found_in({padded}, "r.example/x") == "me:secret");
  CHECK_FALSE(accepted(padded + " "));
  const auto nested = [](std::size_t levels) {
    return R"({"x":)" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  CHECK(accepted(nested(19)));
  CHECK_FALSE(accepted(nested(20)));
  const auto values = [](int count) {
    std::string out = R"({"x":[0)";
    for (int i = 1; i < count; ++i) out += ",0";
    return out + "]}";
  };
  CHECK(accepted(values(99'998)));
  CHECK_FALSE(accepted(values(99'999)));
}

TEST_CASE(
    "find_login() respects every path in a key except /v1 and /v2, and ignores keys with a wrong scheme") {
  CHECK(found_in({auths("r.example//", "me:secret")}, "r.example/x") == "me:secret");
  for (const char* key : {"r.example/v3", "https://r.example/v1/x", "r.example/v", "ftp://r.example",
                          "https:/r.example", "http:r.example"})
    CHECK_MESSAGE(found_in({auths(key, "me:secret")}, "r.example/x") == "none", std::string(key));
  CHECK(found_in({auths("https://r.example/v3/", "me:secret")}, "r.example/v3/x") == "me:secret");
}

TEST_CASE(
    "a login may lack members, and `auth`, which is encoded, has priority over `username` and `password`") {
  const std::vector<std::pair<std::string, std::string>> rows{
      {R"({"username":"me"})", "me:"},
      {R"({"password":"secret"})", ":secret"},
      {R"({"username":"me","password":"secret","auth":""})", "me:secret"},
      {R"({"username":"other","password":"x","auth":")" + base64_encode("me:secret") + R"("})", "me:secret"},
      {R"({"auth":")" + base64_encode("me:") + R"("})", "me:"},
      {R"({"auth":")" + base64_encode(":secret") + R"("})", ":secret"},
      {R"({"auth":")" + base64_encode(":") + R"("})", "none"},
      {R"({"username":"","password":"","identitytoken":""})", "none"}};
  for (const auto& [entry, login] : rows)
    CHECK_MESSAGE(found_in({R"({"auths":{"r.example":)" + entry + "}}"}, "r.example/x") == login, entry);
}

TEST_CASE("if a login is broken, the error names the fault and has a hint to log in again") {
  const std::vector<std::pair<std::string, std::string>> rows{
      {R"({"auth":"!"})", ": a login in it is not base64"},
      {R"({"auth":")" + base64_encode("me") + R"("})", ": a login in it has no password"}};
  for (const auto& [entry, words] : rows) {
    const mlk::Error error = login_error(R"({"auths":{"other.example":)" + entry + "}}");
    CHECK(std::string(error.what()).ends_with(words));
    CHECK(error.hint() == "log in again, by docker login");
  }
  CHECK(std::string(login_error(R"({"auths":{"other.example":[]}})").what())
            .ends_with(": a login in it is no object"));
  CHECK(std::string(login_error("[]").what()).ends_with(" is no object of JSON"));
}

TEST_CASE("a helper is found by an old spelling of its registry, and has priority over logins in the file") {
  const PlayedPrograms programs;
  programs.add("docker-credential-own", R"(echo '{"Username":"own","Secret":"x"}')");
  CHECK(found_in({R"({"credHelpers":{"https://r.example/v1/":"own"}})"}, "r.example/x") == "own:x");
  CHECK(found_in({R"({"credHelpers":{"https://index.docker.io/v1/":"own"}})"}, "python") == "own:x");
  const std::string entry = R"("auths":{"r.example":{"username":"me","password":"secret"}})";
  CHECK(found_in({R"({"credsStore":"own",)" + entry + "}"}, "r.example/x") == "own:x");
  CHECK(found_in({R"({"credHelpers":{"s.example":"own"},)" + entry + "}"}, "r.example/x") == "me:secret");
  CHECK(found_in({R"({"credHelpers":{"r.example":5},)" + entry + "}"}, "r.example/x") == "me:secret");
}

TEST_CASE("find_login() returns a helper's login if `go_on` returns true") {
  const PlayedPrograms programs;
  programs.add("docker-credential-played", R"(echo '{"Username":"me","Secret":"x"}')");
  const TemporaryFolder folder;
  CHECK(shown(find_login({folder.write("config.json", R"({"credsStore":"played"})")},
                         parse_reference("r.example/x"), [] { return true; })) == "me:x");
}

TEST_CASE("a helper may report on its standard error that it has no login") {
  const PlayedPrograms programs;
  programs.add("docker-credential-played", "echo credentials not found in native keychain >&2; exit 1");
  CHECK(found_in({R"({"credsStore":"played"})", auths("r.example", "me:secret")}, "r.example/x") ==
        "me:secret");
}

TEST_CASE("find_login() refuses more than 1 MiB of a helper's output") {
  const std::string answer = R"({"Username":"me","Secret":"x"})";
  const auto padded_to = [&](std::size_t size) {
    return helper_error("printf '%s' '" + answer + "'; head -c " + std::to_string(size - answer.size()) +
                        " /dev/zero | tr '\\0' ' '");
  };
  CHECK(std::string(padded_to(1 << 20).what()) == "me:x");
  CHECK(padded_to((1 << 20) + 1).code() == mlk::ExitCode::failure);
}

TEST_CASE("a helper may return a user without a secret, or a secret without a user") {
  using mlk::registry::parse_helper_answer;
  CHECK(shown(parse_helper_answer(R"({"Username":"me"})", "h")) == "me:");
  CHECK(shown(parse_helper_answer(R"({"Secret":"abc"})", "h")) == ":abc");
  CHECK(shown(parse_helper_answer(R"({"Username":"token","Secret":"abc"})", "h")) == "token:abc");
  CHECK(shown(parse_helper_answer(R"({"Username":5,"Secret":[]})", "h")) == "none");
}

TEST_CASE("the hint for a failed helper of Docker Hub has the URL that mlk passed to the helper") {
  const PlayedPrograms programs;
  programs.add("docker-credential-played", "exit 2");
  const mlk::Error error = login_error(R"({"credsStore":"played"})", "python");
  CHECK(std::string(error.what()) == "docker-credential-played failed for docker.io, with exit code 2");
  CHECK(error.hint() == "see what it says: echo https://index.docker.io/v1/ | docker-credential-played get");
}

TEST_CASE("find_login() throws if a folder is in the place of a file of logins") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS((void)find_login({folder.path()}, parse_reference("r.example/x"), {}), mlk::Error);
}
