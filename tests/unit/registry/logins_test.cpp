// Logins: the files of Docker and of the containers tools, and the helpers that they name.
#include "cli/registry/logins.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "tests/unit/registry/played_program.h"

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

// "user:password" or "token TOKEN" of what is found; "none".
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

// What a helper of this script gives for a registry.
mlk::Error helper_error(const std::string& script, const std::string& name = "played") {
  const PlayedPrograms programs;
  programs.add("docker-credential-" + name, script);
  return login_error(R"({"credsStore":")" + name + "\"}");
}

}  // namespace

TEST_CASE("a login is found by its registry, in the old spellings too") {
  for (const char* key : {"r.example", "https://r.example", "http://r.example/", "https://r.example/v2/",
                          "https://r.example/v1/", "r.example/v2", "r.example/"})
    CHECK_MESSAGE(found_in({auths(key, "me:secret")}, "r.example/team/x") == "me:secret", std::string(key));
  for (const char* key : {"https://index.docker.io/v1/", "https://index.docker.io/v1", "index.docker.io",
                          "docker.io", "registry-1.docker.io"})
    CHECK_MESSAGE(found_in({auths(key, "me:secret")}, "python") == "me:secret", std::string(key));
  CHECK(found_in({auths("r.example:5000", "me:secret")}, "r.example:5000/x") == "me:secret");
}

TEST_CASE("the login of another registry or port is not taken") {
  for (const char* key :
       {"r.example:443", "example", "r.example.org", "s.r.example", "docker.io", "R.EXAMPLE"})
    CHECK_MESSAGE(found_in({auths(key, "me:secret")}, "r.example/x") == "none", std::string(key));
  CHECK(found_in({auths("r.example", "me:secret")}, "r.example:5000/x") == "none");
}

TEST_CASE("a login of a repository counts more than that of its team, and that more than the registry's") {
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

TEST_CASE("a repository that is named like a version of the protocol keeps its login for itself") {
  CHECK(found_in({auths("r.example/team/v2", "me:secret")}, "r.example/team/v2") == "me:secret");
  CHECK(found_in({auths("r.example/team/v2", "me:secret")}, "r.example/team/other") == "none");
}

TEST_CASE("the first file that has a login counts, and one without is passed over") {
  CHECK(found_in({"", "{}", R"({"auths":{"r.example":{}}})", auths("r.example", "me:secret"),
                  auths("r.example", "other:x")},
                 "r.example/x") == "me:secret");
}

TEST_CASE("a password may have colons, and an identity token counts in place of it") {
  CHECK(found_in({auths("r.example", "me:a:b:")}, "r.example/x") == "me:a:b:");
  CHECK(found_in({auths("r.example", std::string("me:secret\0\0", 11))}, "r.example/x") == "me:secret");
  CHECK(found_in({R"({"auths":{"r.example":{"auth":")" + base64_encode("00000000:") +
                  R"(","identitytoken":"abc"}}})"},
                 "r.example/x") == "token abc");
  CHECK(found_in({R"({"auths":{"r.example":{"identitytoken":"abc"}}})"}, "r.example/x") == "token abc");
}

TEST_CASE("a broken file is told by name, and nothing of it is repeated") {
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

TEST_CASE("files are asked in the order of Docker, Podman and Skopeo") {
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
}

TEST_CASE("a helper of the registry counts more than the store, and gets the registry's name") {
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

TEST_CASE("where a helper has no login, the file and those after it may have one") {
  const PlayedPrograms programs;
  programs.add("docker-credential-played", "echo credentials not found in native keychain; exit 1");
  const std::string with_store =
      R"({"credsStore":"played","auths":{"r.example":{"auth":")" + base64_encode("me:secret") + R"("}}})";
  CHECK(found_in({with_store}, "r.example/x") == "me:secret");
  CHECK(found_in({with_store, auths("s.example", "you:secret")}, "s.example/x") == "you:secret");
  programs.add("docker-credential-played", R"(echo '{"ServerURL":"","Username":"","Secret":""}')");
  CHECK(found_in({with_store}, "r.example/x") == "me:secret");
}

TEST_CASE("the user <token> of a helper means an identity token") {
  CHECK(shown(mlk::registry::parse_helper_answer(R"({"Username":"<token>","Secret":"abc"})", "h")) ==
        "token abc");
  CHECK(shown(mlk::registry::parse_helper_answer(R"({"Username":"me","Secret":"abc"})", "h")) == "me:abc");
  CHECK(shown(mlk::registry::parse_helper_answer("{}", "h")) == "none");
}

TEST_CASE("a helper that is not installed has no login, and the file and those after it may have one") {
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

TEST_CASE("a helper that fails or prints garbage is told by name, and its words are not") {
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

TEST_CASE("the name of a helper is no path, and steers no terminal") {
  for (const char* name : {"../evil", "/bin/sh", "a/b"}) {
    const mlk::Error error = login_error(std::string(R"({"credsStore":")") + name + "\"}");
    CHECK(std::string(error.what()) ==
          std::string("docker-credential-") + name + " is not the name of a helper for logins");
  }
  const mlk::Error error = login_error(R"({"credsStore":"a\u001b[2J"})");
  CHECK((error.what() + error.hint()).find('\x1b') == std::string::npos);
}

TEST_CASE("a user who stops does not wait for a helper") {
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
