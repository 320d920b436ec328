// Checks which refused requests mlk retries, how often, and with which messages.
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include <doctest/doctest.h>

#include "cli/registry/registry.h"
#include "tests/unit/registry/played_answers.h"

TEST_SUITE_BEGIN("registry/refusals");

namespace {

namespace fs = std::filesystem;
using mlk::registry::Access;
using mlk::registry::Registry;

// Answers this many requests with this status; after that the registry answers as usual.
struct Refusing {
  int status, times;
  std::string retry_after{};
  int asked = 0;

  bool operator()(const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    if (++asked > times) return false;
    if (!retry_after.empty()) response.set_header("Retry-After", retry_after);
    return answered_with(response, status);
  }
};

// While this object exists, requests to other machines use these proxies.
class Proxies {
 public:
  Proxies(const std::string& of_https, const std::string& of_http) {
    set("HTTPS_PROXY", of_https);
    set("HTTP_PROXY", of_http);
    for (const char* name : {"NO_PROXY", "no_proxy", "https_proxy", "http_proxy", "REQUEST_METHOD"})
      set(name, "");
  }
  ~Proxies() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  Proxies(const Proxies&) = delete;
  Proxies& operator=(const Proxies&) = delete;

 private:
  void set(const std::string& name, const std::string& value) {
    const char* now = std::getenv(name.c_str());
    before_[name] = now == nullptr ? std::nullopt : std::optional<std::string>(now);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace

TEST_CASE("mlk sends a request to a registry at most six times, with growing waits") {
  for (const int times : {5, 6}) {
    PlayedRegistry played;
    played.manifests[repository]["1"] = manifest_text;
    Refusing refusing{503, times};
    played.before = std::ref(refusing);
    std::vector<std::string> notes;
    Access access = hasty();
    access.note = [&](const std::string& note) { notes.push_back(note); };
    Registry registry(access, played.reference());
    const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "1"); });
    CHECK(refusing.asked == 6);
    CHECK(error.code() == (times == 5 ? mlk::ExitCode::ok : mlk::ExitCode::cluster));
    // The waits are 0.5, 1, 2, 4 and 8 s. Only the wait of 8 s is long enough for a message.
    CHECK(notes == std::vector<std::string>{"registry " + played.name +
                                            " answered with status 503; trying again in 8 s"});
  }
}

TEST_CASE("a request is sent only once if `is_patient` is false") {
  PlayedRegistry played;
  Refusing refusing{503, 100};
  played.before = std::ref(refusing);
  Access access = hasty();
  access.is_patient = false;
  Registry registry(access, played.reference());
  CHECK(registry_error([&] { (void)registry.find_manifest(repository, "1"); }).code() ==
        mlk::ExitCode::cluster);
  CHECK(refusing.asked == 1);
}

TEST_CASE("mlk waits as long as Retry-After says, but fails at once if this is over 60 s") {
  struct Row {
    const char* asked;
    const char* told;  // nullptr: mlk does not wait; "": mlk waits without a message
  };
  for (const Row& row : std::vector<Row>{{"0", ""},
                                         {"4", ""},
                                         {"5", "5 s"},
                                         {"60", "60 s"},
                                         {"61", nullptr},
                                         {"99999", nullptr},
                                         {"1767225600", ""},  // a time, not a duration
                                         {"-60", ""},
                                         {"60s", ""}}) {
    CAPTURE(row.asked);
    PlayedRegistry played;
    played.manifests[repository]["1"] = manifest_text;
    Refusing refusing{429, 1, row.asked};
    played.before = std::ref(refusing);
    std::string noted;
    Access access = hasty();
    access.note = [&](const std::string& note) { noted += note; };
    Registry registry(access, played.reference());
    const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "1"); });
    CHECK(error.code() == (row.told == nullptr ? mlk::ExitCode::cluster : mlk::ExitCode::ok));
    CHECK(refusing.asked == (row.told == nullptr ? 1 : 2));
    const std::string told = row.told == nullptr ? "" : row.told;
    CHECK(noted == (told.empty()
                        ? ""
                        : "registry " + played.name + " answered with status 429; trying again in " + told));
  }
}

TEST_CASE("mlk repeats a request after a temporary failure of the token server") {
  const std::vector<int> failures{503, 429, 408, 500, 504};
  for (const std::size_t count : {std::size_t{2}, failures.size(), failures.size() + 1}) {
    CAPTURE(count);
    PlayedRegistry played;
    played.manifests[repository]["1"] = manifest_text;
    TokenGuard guard{played.url};
    std::size_t failed = 0;
    played.before = [&](const Request& request, Response& response) {
      if (request.path != "/token" || failed == count) return guard(request, response);
      return answered_with(response, failures[failed++ % failures.size()]);
    };
    std::vector<std::string> notes;
    Access access = hasty();
    access.note = [&](const std::string& note) { notes.push_back(note); };
    Registry registry(access, played.reference());
    const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "1"); });
    const bool works = count <= failures.size();
    CHECK(std::string(error.what()) ==
          (works ? "accepted" : "the token server " + played.name + " answered with status 503"));
    CHECK(played.count("GET /token") == static_cast<int>(works ? count + 1 : count));
    CHECK(played.count("GET /v2/team/x/manifests/1") == (works ? 2 : 1));
    const std::string note =
        "registry " + played.name + " has a token server that answered with status 504; trying again in 8 s";
    CHECK(notes == std::vector<std::string>(count < failures.size() ? 0 : 1, note));
  }
}

TEST_CASE(
    "mlk asks a token server only once if it gets 403, 404 or a long Retry-After, or `is_patient` is false") {
  struct Row {
    int status;
    bool is_patient;
    const char* asked;
  };
  for (const Row& row : {Row{503, false, ""}, Row{429, true, "61"}, Row{404, true, ""}, Row{403, true, ""}}) {
    CAPTURE(row.status);
    PlayedRegistry played;
    TokenGuard guard{played.url};
    played.before = [&](const Request& request, Response& response) {
      if (request.path != "/token") return guard(request, response);
      if (*row.asked != '\0') response.set_header("Retry-After", row.asked);
      return answered_with(response, row.status);
    };
    Access access = hasty();
    access.is_patient = row.is_patient;
    Registry registry(access, played.reference());
    const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "1"); });
    CHECK(std::string(error.what()).starts_with("the token server " + played.name + " "));
    CHECK(played.count("GET /token") == 1);
  }
}

TEST_CASE("mlk requests a manifest exactly three times if a registry refuses every token") {
  PlayedRegistry played;
  TokenGuard guard{played.url};
  played.before = [&](const Request& request, Response& response) {
    const bool answered = guard(request, response);
    guard.good = "another";
    return answered;
  };
  played.manifests[repository]["1"] = manifest_text;
  Registry registry({}, played.reference());
  CHECK(registry_error([&] { (void)registry.find_manifest(repository, "1"); }).code() ==
        mlk::ExitCode::cluster);
  CHECK(guard.given == 2);
  CHECK(played.count("GET /v2/team/x/manifests/1") == 3);
}

TEST_CASE("if a registry refuses a request, the error names the request, and depends on the status") {
  struct Row {
    int status;
    mlk::ExitCode code;
    std::string words;
  };
  PlayedRegistry played;
  int status = 0;
  played.before = [&](const Request& request, Response& response) {
    return request.path != "/v2/" && answered_with(response, status);
  };
  Access access = hasty();
  access.is_patient = false;
  Registry registry(access, played.reference());
  const std::string digest = "sha256:" + std::string(64, 'a');
  struct Act {
    std::function<void()> act;
    std::string verb, what;
  };
  const std::vector<Act> acts{
      {[&] { (void)registry.find_manifest(repository, "1"); }, "use", "image " + played.name + "/team/x:1"},
      {[&] { (void)registry.find_digest(repository, "1"); }, "use", "image " + played.name + "/team/x"},
      {[&] { registry.put_manifest(repository, "1", "x", "{}"); }, "send",
       "the manifest of " + played.name + "/team/x"},
      {[&] { (void)registry.remove_manifest(repository, digest); }, "delete",
       "image " + played.name + "/team/x@" + digest},
      {[&] { (void)registry.has_blob(repository, digest); }, "use", "repository " + played.name + "/team/x"},
      {[&] { (void)registry.tags(repository, 5); }, "use", "repository " + played.name + "/team/x"}};
  for (const auto& [act, verb, what] : acts) {
    for (const Row& row : std::vector<Row>{{400, mlk::ExitCode::cluster, "answered with status 400 for"},
                                           {401, mlk::ExitCode::cluster, "does not let you " + verb},
                                           {403, mlk::ExitCode::cluster, "does not let you " + verb},
                                           {500, mlk::ExitCode::cluster, "answered with status 500 for"}}) {
      status = row.status;
      const mlk::Error error = registry_error(act);
      CHECK(error.code() == row.code);
      CHECK(std::string(error.what()) == "registry " + played.name + " " + row.words + " " + what);
      CHECK(error.hint() ==
            (status == 401 || status == 403
                 ? "log in: docker login " + played.name + " (podman login and skopeo login do as well)"
                 : ""));
    }
  }
  status = 404;
  const mlk::Error gone = registry_error(acts[5].act);
  CHECK(gone.code() == mlk::ExitCode::not_found);
  CHECK(std::string(gone.what()) ==
        "registry " + played.name + " has no repository " + played.name + "/team/x");
  const mlk::Error not_taken = registry_error(acts[2].act);
  CHECK(not_taken.code() == mlk::ExitCode::not_found);
  CHECK(std::string(not_taken.what()) ==
        "registry " + played.name + " does not take the manifest of " + played.name + "/team/x");
  status = 405;
  const mlk::Error forbidden = registry_error(acts[3].act);
  CHECK(forbidden.code() == mlk::ExitCode::cluster);
  CHECK(forbidden.hint() == "delete them by the registry's own rules of retention");
}

TEST_CASE("the error for an unreachable registry has the reason") {
  std::string name;
  {
    name = PlayedRegistry().name;
  }  // a port where nothing listens anymore
  Access access = hasty();
  access.is_patient = false;
  Registry registry(access, {.registry = name, .repository = repository, .tag = "1"});
  const mlk::Error error = registry_error([&] { (void)registry.tags(repository, 5); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()) ==
        "registry " + name + " cannot be reached for repository " + name + "/team/x: nothing listens there");
  CHECK(error.hint().empty());
}

TEST_CASE("a request follows five redirects and fails at the sixth redirect") {
  PlayedRegistry played;
  played.manifests[repository]["1"] = manifest_text;
  int hops = 0, left = 0;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/" || left == 0) return false;
    --left;
    ++hops;
    response.set_header("Location", request.path);
    return answered_with(response, 307);
  };
  Registry registry({}, played.reference());
  left = 5;
  CHECK(registry.find_manifest(repository, "1"));
  left = 6;
  hops = 0;
  CHECK(registry_error([&] { (void)registry.find_manifest(repository, "1"); }).code() ==
        mlk::ExitCode::cluster);
  CHECK(hops == 6);
}

TEST_CASE("mlk sends no login to another server to which a registry redirects an upload") {
  for (const bool asks : {false, true}) {
    PlayedRegistry played, other;
    other.sessions["9"] = "";
    other.before = [&](const Request&, Response& response) {
      if (asks) response.set_header("WWW-Authenticate", "Basic realm=\"x\"");
      return asks && answered_with(response, 401);
    };
    played.before = [&](const Request& request, Response& response) {
      if (request.path == "/v2/") return false;
      if (request.get_header_value("Authorization").empty()) {
        response.set_header("WWW-Authenticate", "Basic realm=\"x\"");
        return answered_with(response, 401);
      }
      if (request.method != "POST") return false;
      response.set_header("Location", other.url + "/v2/team/x/blobs/uploads/9");
      return answered_with(response, 202);
    };
    const LoggedIn user(played);
    Registry registry(user.access, played.reference());
    const std::string digest = "sha256:" + mlk::sha256_hex("content");
    const mlk::Error error = registry_error(
        [&] { registry.upload(repository, {"", digest, 7}, [](const auto& take) { take("content"); }, {}); });
    CHECK(error.code() == (asks ? mlk::ExitCode::cluster : mlk::ExitCode::ok));
    CHECK(other.blobs[repository].contains(digest) != asks);
    REQUIRE(other.heads.size() == 1);
    CHECK(other.heads[0].count("Authorization") == 0);
    CHECK(other.asked[0] == "PUT /v2/team/x/blobs/uploads/9?digest=" + std::string("sha256%3A") +
                                digest.substr(7));  // mlk adds a query to the URL
  }
}

TEST_CASE("mlk reports a missing login helper, and continues without a login") {
  PlayedRegistry played;
  TokenGuard guard{played.url};
  played.before = std::ref(guard);
  played.manifests[repository]["1"] = manifest_text;
  const TemporaryFolder folder;
  const fs::path file = folder.write("config.json", R"({"credsStore":"no-such-helper"})");
  std::vector<std::string> notes;
  Access access;
  access.login_files = {file};
  access.note = [&](const std::string& note) { notes.push_back(note); };
  CHECK(Registry(access, played.reference()).find_manifest(repository, "1"));
  CHECK(guard.logins.back().empty());
  CHECK(notes ==
        std::vector<std::string>{"there is no program docker-credential-no-such-helper, which " +
                                 file.string() + " names for logins: going on without a login for " +
                                 played.name + "; podman login and skopeo login need no such program"});
  access.note = nullptr;
  CHECK(Registry(access, played.reference()).find_manifest(repository, "1"));
  const fs::path other = folder.write(
      "auth.json", R"({"auths":{")" + played.name + R"(":{"username":"me","password":"secret"}}})");
  access.login_files = {file, other};
  access.note = [&](const std::string& note) { notes.push_back(note); };
  CHECK(Registry(access, played.reference()).find_manifest(repository, "1"));
  CHECK(guard.logins.back() == "Basic " + mlk::base64_encode("me:secret"));
  CHECK(notes.size() == 1);
}

TEST_CASE("mlk uses a remote registry without TLS if `insecure` is set, and otherwise refuses the registry") {
  // The answer to the TLS handshake through a tunnel: plain HTTP, or the end of the connection.
  const std::string opened = "HTTP/1.1 200 OK\r\n\r\n", end = opened,
                    garbage = opened + "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}";
  for (const std::string& instead_of_tls : {garbage, end}) {
    CAPTURE(instead_of_tls);
    const RawServer tunnel([&](int, const std::string&) { return instead_of_tls; });
    PlayedRegistry plain;
    plain.before = [](const Request&, Response& response) {
      return answered_with(response, 200, manifest_text);
    };
    const Proxies proxies(tunnel.config().server, plain.url);
    const mlk::image::Reference reference{.registry = "r.example", .repository = repository, .tag = "1"};
    Access access = hasty();
    access.is_patient = false;
    Registry strict(access, reference);
    const mlk::Error error = registry_error([&] { (void)strict.find_manifest(repository, "1"); });
    CHECK(error.code() == mlk::ExitCode::cluster);
    CHECK(std::string(error.what())
              .starts_with("registry r.example cannot be reached for image r.example/team/x:1: "));
    CHECK(error.hint() == "if it speaks http without TLS, and you trust the network: --insecure");
    CHECK(plain.asked.empty());
    access.insecure = true;
    Registry careless(access, reference);
    const auto found = careless.find_manifest(repository, "1");
    REQUIRE(found);
    CHECK(found->bytes == manifest_text);
    CHECK(plain.asked.size() == 1);
  }
}

TEST_CASE("the error for an unreachable proxy shows the name of the variable that sets the proxy") {
  std::string nowhere;
  {
    nowhere = PlayedRegistry().url;
  }
  const Proxies proxies(nowhere, "");
  Access access = hasty();
  access.is_patient = false;
  Registry registry(access, {.registry = "r.example", .repository = repository, .tag = "1"});
  const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "1"); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()).ends_with(" of HTTPS_PROXY refuses connections"));
  CHECK(error.hint() == "check HTTPS_PROXY and NO_PROXY");
}

TEST_CASE("the error for a certificate that has another name has no hint about authorities") {
  const Certificate authority = make_authority("own");
  PlayedRegistry played(make_certificate({"registry", "IP:127.0.0.2", &authority}));
  const TemporaryFolder folder;
  folder.write(played.name + "/ca.crt", authority.pem());
  Access access;
  access.authorities = {folder.path()};
  Registry registry(access, played.reference());
  const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "1"); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()).ends_with(": its certificate is for another name"));
  CHECK(error.hint().empty());
}

TEST_CASE("if the files of the authorities are not in PEM, the error names these files") {
  const Certificate authority = make_authority("own");
  PlayedRegistry played(make_certificate({"registry", "IP:127.0.0.1", &authority}));
  const TemporaryFolder folder;
  folder.write(played.name + "/ca.crt", "no certificate");
  Access access;
  access.authorities = {folder.path()};
  Registry registry(access, played.reference());
  const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "1"); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()).find(": the certificates of its authorities cannot be used: ") !=
        std::string::npos);
  CHECK(error.hint() == "the files certs.d/" + played.name + "/*.crt must be in PEM");
}
