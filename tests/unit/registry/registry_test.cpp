// Checks which servers get the login of a registry, and which answers mlk refuses.
#include "cli/registry/registry.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/registry/played_answers.h"

TEST_SUITE_BEGIN("registry/registry");

namespace {

namespace fs = std::filesystem;
using mlk::image::Descriptor;
using mlk::registry::Access;
using mlk::registry::Registry;

std::string head_of(const httplib::Headers& headers, const std::string& name) {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

}  // namespace

TEST_CASE(
    "after a challenge, mlk gets a token with the login, and later a new token if the old one is refused") {
  PlayedRegistry played;
  TokenGuard guard{played.url};
  played.before = std::ref(guard);
  played.manifests[repository]["1"] = manifest_text;
  const LoggedIn user(played);
  Registry registry(user.access, played.reference());
  CHECK(registry.find_manifest(repository, "1"));
  CHECK(registry.find_manifest(repository, "1"));
  CHECK(guard.given == 1);
  CHECK(played.count("GET /token?service=played&scope=repository%3Ateam%2Fx%3Apull") == 1);
  guard.good = "another";
  CHECK(registry.find_manifest(repository, "1"));
  CHECK(guard.given == 2);
  const std::string basic = "Basic " + mlk::base64_encode("me:secret");
  CHECK(guard.logins == std::vector<std::string>{basic, basic});
}

TEST_CASE("an upload continues with a new token if the old token expires in the middle") {
  PlayedRegistry played;
  TokenGuard guard{played.url};
  bool ended = false;
  played.before = [&](const Request& request, Response& response) {
    if (request.method == "PATCH" && !ended) {
      ended = true;
      guard.good = "another";
    }
    return guard(request, response);
  };
  const std::string bytes = std::string(17 << 20, 'x');
  const std::string digest = "sha256:" + mlk::sha256_hex(bytes);
  Registry registry({}, played.reference());
  std::uint64_t sent = 0;
  registry.upload(
      repository, {"", digest, bytes.size()}, [&](const auto& take) { take(bytes); },
      [&](std::uint64_t count) { sent += count; });
  CHECK(played.blobs[repository].contains(digest));
  CHECK(ended);
  CHECK(sent >= bytes.size());
}

TEST_CASE("mlk uses a token if a registry sends a challenge for tokens and a challenge for passwords") {
  for (const bool bearer_first : {true, false}) {
    PlayedRegistry played;
    played.manifests[repository]["1"] = manifest_text;
    std::vector<std::string> sent;
    played.before = [&](const Request& request, Response& response) {
      if (request.path == "/token") return answered_with(response, 200, R"({"token":"good"})");
      sent.push_back(request.get_header_value("Authorization"));
      if (sent.back() == "Bearer good") return false;
      const std::string bearer = "Bearer realm=\"" + played.url + "/token\",service=\"played\"",
                        basic = "Basic realm=\"x\"";
      response.set_header("WWW-Authenticate", bearer_first ? bearer : basic);
      response.set_header("WWW-Authenticate", bearer_first ? basic : bearer);
      return answered_with(response, 401);
    };
    const LoggedIn user(played);
    Registry registry(user.access, played.reference());
    CHECK(registry.find_manifest(repository, "1"));
    CHECK(sent.back() == "Bearer good");
    CHECK(std::none_of(sent.begin(), sent.end(),
                       [](const std::string& each) { return each.starts_with("Basic"); }));
  }
}

TEST_CASE("the error for a refused login has a hint and does not show the login") {
  PlayedRegistry played;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    response.set_header("WWW-Authenticate", "Basic realm=\"x\"");
    return answered_with(response, 401, R"({"errors":[{"code":"UNAUTHORIZED"}]})");
  };
  const LoggedIn user(played);
  Registry registry(user.access, played.reference());
  const mlk::Error error = registry_error([&] { (void)registry.tags(repository, 5); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()).find("does not let you use repository") != std::string::npos);
  CHECK(error.hint().starts_with("log in: docker login " + played.name));
  const std::string all = error.what() + error.hint();
  CHECK(all.find("secret") == all.npos);
  CHECK(all.find(mlk::base64_encode("me:secret")) == all.npos);
  CHECK(played.count("GET /v2/team/x/tags/list") == 2);  // without the login, and with the login
}

TEST_CASE("find_manifest() refuses a manifest with another digest than requested, or of more than 4 MiB") {
  PlayedRegistry played;
  const std::string digest = "sha256:" + mlk::sha256_hex(manifest_text);
  played.manifests[repository][digest] = "{}";
  Registry registry({}, played.reference());
  CHECK(registry_error([&] { (void)registry.find_manifest(repository, digest); }).code() ==
        mlk::ExitCode::failure);
  played.manifests[repository][digest] = manifest_text;
  CHECK(registry.find_manifest(repository, digest)->digest == digest);
  CHECK_FALSE(registry.find_manifest(repository, "gone"));
  CHECK(registry.find_digest(repository, digest) == digest);
  CHECK_FALSE(registry.find_digest(repository, "gone"));
  const std::string long_text(mlk::image::longest_manifest + 1, ' ');
  played.manifests[repository]["long"] = long_text;
  const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "long"); });
  CHECK(error.code() == mlk::ExitCode::failure);
  CHECK(std::string(error.what()).find("is too large: more than 4.0 MiB") != std::string::npos);
}

TEST_CASE("put_manifest() throws if the registry answers with another digest") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  registry.put_manifest(repository, "1", mlk::image::oci_types.manifest, manifest_text);
  CHECK(played.manifests[repository]["1"] == manifest_text);
  played.before = [&](const Request&, Response& response) {
    response.set_header("Docker-Content-Digest", "sha256:" + mlk::sha256_hex("other"));
    return answered_with(response, 201);
  };
  CHECK(registry_error([&] { registry.put_manifest(repository, "1", "", manifest_text); }).code() ==
        mlk::ExitCode::failure);
}

TEST_CASE("remove_manifest() deletes an image by its digest, and throws if the registry forbids this") {
  PlayedRegistry played;
  const std::string digest = "sha256:" + mlk::sha256_hex(manifest_text);
  played.manifests[repository][digest] = manifest_text;
  Registry registry({}, played.reference());
  CHECK(registry.remove_manifest(repository, digest));
  CHECK_FALSE(registry.remove_manifest(repository, digest));
  played.before = [&](const Request&, Response& response) { return answered_with(response, 405); };
  CHECK(std::string(registry_error([&] { (void)registry.remove_manifest(repository, digest); }).what()) ==
        "registry " + played.name + " does not let anyone delete images");
}

TEST_CASE("tags() follows links to further pages, but no links to other servers") {
  PlayedRegistry played, other;
  std::string link = "</v2/team/x/tags/list?n=500&last=b>; rel=\"next\"";
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    const bool first = request.get_param_value("last").empty();
    if (first) response.set_header("Link", link);
    return answered_with(response, 200, first ? R"({"tags":["a",5,"b"]})" : R"({"tags":["c"]})");
  };
  Registry registry({}, played.reference());
  using Tags = std::vector<std::string>;
  CHECK(registry.tags(repository, 100) == Tags{"a", "b", "c"});
  CHECK(registry.tags(repository, 2) == Tags{"a", "b"});
  CHECK(registry.tags(repository, 1) == Tags{"a"});
  link = "<" + played.url + "/v2/team/x/tags/list?n=500&last=b>; rel=\"next\"";
  CHECK(registry.tags(repository, 100) == Tags{"a", "b", "c"});
  for (const std::string& odd : std::vector<std::string>{
           "<" + other.url + "/v2/team/x/tags/list?last=b>; rel=\"next\"", std::string("<>"),
           std::string("><"), std::string("x"), std::string("<file:///etc/passwd>")}) {
    link = odd;
    CHECK_MESSAGE((registry.tags(repository, 100) == Tags{"a", "b"}), odd);
  }
  CHECK(other.count("") == 0);
}

TEST_CASE("tags() ends if a list of tags links to itself, is empty or is malformed") {
  PlayedRegistry played;
  std::string body = R"({"tags":["a"]})";
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    response.set_header("Link", "<" + request.target + ">; rel=\"next\"");
    return answered_with(response, 200, body);
  };
  Registry registry({}, played.reference());
  CHECK(registry.tags(repository, 7) == std::vector<std::string>{"a"});
  body = R"({"tags":["a", "\u001b[31m", "a/b", "", "a", "b"]})";
  CHECK(registry.tags(repository, 7) == std::vector<std::string>{"a", "b"});
  for (const std::string& odd : std::vector<std::string>{R"({"tags":null})", R"({"tags":[]})",
                                                         R"({"tags":{"a":"b"}})", "[]", "garbage", " "}) {
    body = odd;
    CHECK_MESSAGE(registry.tags(repository, 7).empty(), body);
  }
  played.before = nullptr;
  CHECK(registry_error([&] { (void)registry.tags("gone", 7); }).code() == mlk::ExitCode::not_found);
}

TEST_CASE("mlk trusts the certificate of a registry if its authority is in the folder for this registry") {
  const Certificate authority = make_authority("own");
  PlayedRegistry played(make_certificate({"registry", "IP:127.0.0.1", &authority}));
  played.manifests[repository]["1"] = manifest_text;
  const TemporaryFolder folder;
  Access access;
  access.authorities = {folder.path() / "gone", folder.path()};
  {
    Registry registry(access, played.reference());
    const mlk::Error error = registry_error([&] { (void)registry.find_manifest(repository, "1"); });
    CHECK(error.code() == mlk::ExitCode::cluster);
    CHECK(std::string(error.what()).find("its certificate is not trusted") != std::string::npos);
    CHECK(error.hint().find("certs.d/" + played.name + "/ca.crt") != std::string::npos);
  }
  folder.write(played.name + "/other.key", "no certificate");
  folder.write(played.name + "/ca.crt", authority.pem());
  Registry registry(access, played.reference());
  CHECK(registry.find_manifest(repository, "1"));
  Access careless;
  careless.insecure = true;
  Registry unchecked(careless, played.reference());
  CHECK(unchecked.find_manifest(repository, "1"));
}

TEST_CASE("mlk trusts a registry's authority after redirects and for tokens, but not for another registry") {
  const Certificate authority = make_authority("own");
  PlayedRegistry played(make_certificate({"registry", "IP:127.0.0.1", &authority}));
  PlayedRegistry storage(make_certificate({"storage", "IP:127.0.0.1", &authority}));
  storage.manifests[repository]["1"] = manifest_text;
  TokenGuard guard{storage.url};  // a token server with another name than the registry's
  storage.before = [&](const Request& request, Response& response) {
    return request.path == "/token" && guard(request, response);
  };
  played.before = [&](const Request& request, Response& response) {
    if (guard(request, response)) return true;
    if (request.path == "/v2/") return false;
    response.set_header("Location", storage.url + request.target);
    return answered_with(response, 307);
  };
  const TemporaryFolder folder;
  folder.write(played.name + "/ca.crt", authority.pem());
  Access access;
  access.authorities = {folder.path()};
  CHECK(Registry(access, played.reference()).find_manifest(repository, "1"));
  CHECK(guard.given == 1);
  const mlk::Error error =
      registry_error([&] { (void)Registry(access, storage.reference()).find_manifest(repository, "1"); });
  CHECK(std::string(error.what()).find("its certificate is not trusted") != std::string::npos);
}

TEST_CASE("usual_access() gets the mirrors and the places of logins and certificates from the environment") {
  const auto access_with = [](const std::string& mirrors) {
    return mlk::registry::usual_access([&](const std::string& name) -> std::string {
      return name == "HOME" ? "/h" : name == "MLK_REGISTRY_MIRRORS" ? mirrors : "";
    });
  };
  const Access access = access_with("docker.io=mirror.example:5000,ghcr.io=localhost");
  const std::map<std::string, std::string> mirrors{{"docker.io", "mirror.example:5000"},
                                                   {"ghcr.io", "localhost"}};
  CHECK(access.mirrors == mirrors);
  CHECK(access.authorities.size() == 4);
  CHECK(access.authorities[0] == "/h/.config/containers/certs.d");
  CHECK(access.login_files.size() == 2);
  CHECK(access_with("index.docker.io=m.example").mirrors.contains("docker.io"));
  for (const std::string& bad : std::vector<std::string>{
           "docker.io", "=", "docker.io=", "=m.example", "docker.io=m.example,", "a=b=c",
           "docker.io=https://m.example", "docker.io=m.example/cache", "team/x=m.example", "docker.io=m",
           "docker.io=m.example:99999", "docker.io=me:secret@m.example", "me:secret@m.example"}) {
    const mlk::Error error = registry_error([&] { (void)access_with(bad); });
    CHECK_MESSAGE(error.code() == mlk::ExitCode::usage, bad);
    CHECK_MESSAGE(std::string(error.what()).find("secret") == std::string::npos, error.what());
  }
}

TEST_CASE("mlk requests a token only for the scope that the request needs") {
  CHECK(mlk::registry::pull_scope("a/b") == "repository:a/b:pull");
  CHECK(mlk::registry::push_scope("a/b") == "repository:a/b:pull,push");
  PlayedRegistry played;
  TokenGuard guard{played.url};
  played.before = std::ref(guard);
  const std::string digest = "sha256:" + mlk::sha256_hex(manifest_text);
  const auto scopes_of = [&](const std::function<void(Registry&)>& act) {
    played.asked.clear();
    Registry registry({}, played.reference());
    act(registry);
    std::vector<std::string> out;
    for (const std::string& asked : played.asked) {
      if (const std::size_t at = asked.find("scope="); at != asked.npos) out.push_back(asked.substr(at + 6));
    }
    return out;
  };
  using Scopes = std::vector<std::string>;
  const std::string start = "repository%3Ateam%2Fx%3Apull";
  CHECK(scopes_of([&](Registry& registry) { registry.put_manifest(repository, "1", "x", manifest_text); }) ==
        Scopes{start + "%2Cpush"});
  CHECK(scopes_of([&](Registry& registry) { (void)registry.find_manifest(repository, "1"); }) ==
        Scopes{start});
  CHECK(scopes_of([&](Registry& registry) { (void)registry.find_digest(repository, "1"); }) == Scopes{start});
  CHECK(scopes_of([&](Registry& registry) { (void)registry.has_blob(repository, digest); }) ==
        Scopes{start + "%2Cpush"});
  CHECK(scopes_of([&](Registry& registry) { (void)registry.remove_manifest(repository, digest); }) ==
        Scopes{start + "%2Cpush%2Cdelete"});
  CHECK(scopes_of([&](Registry& registry) { (void)registry.mount_blob(repository, digest, "base/y"); }) ==
        Scopes{start + "%2Cpush&scope=repository%3Abase%2Fy%3Apull"});
}

TEST_CASE("requests for manifests accept all types of manifests, and put_manifest() sends the given type") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  registry.put_manifest(repository, "1", mlk::image::docker_types.manifest, manifest_text);
  CHECK(head_of(played.heads.back(), "Content-Type") == mlk::image::docker_types.manifest);
  const auto asks_for_all = [&] {
    const std::string accepted = head_of(played.heads.back(), "Accept");
    for (const char* type : {mlk::image::oci_types.index, mlk::image::oci_types.manifest,
                             mlk::image::docker_types.index, mlk::image::docker_types.manifest})
      CHECK_MESSAGE(accepted.find(type) != accepted.npos, type);
  };
  CHECK(registry.find_manifest(repository, "1")->type == mlk::image::oci_types.manifest);  // from the header
  asks_for_all();
  CHECK(registry.find_digest(repository, "1"));
  asks_for_all();
}

TEST_CASE("mlk checks the header Docker-Content-Digest of a manifest if it has a digest of sha256") {
  PlayedRegistry played;
  std::string said;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    if (!said.empty()) response.set_header("Docker-Content-Digest", said);
    return answered_with(response, request.method == "PUT" ? 201 : 200,
                         request.method == "PUT" ? "" : manifest_text);
  };
  Registry registry({}, played.reference());
  for (const char* none : {"", "sha512:abc", "x"}) {
    said = none;
    CHECK(registry.find_manifest(repository, "1"));
    CHECK_FALSE(registry.find_digest(repository, "1"));
    registry.put_manifest(repository, "1", "x", manifest_text);
  }
  said = "sha256:" + mlk::sha256_hex("other");
  CHECK(std::string(registry_error([&] { (void)registry.find_manifest(repository, "1"); }).what()) ==
        "registry " + played.name + " gave a manifest of " + played.name +
            "/team/x:1 that does not match its digest");
  CHECK(std::string(registry_error([&] { (void)registry.find_manifest(repository, said); }).what())
            .find("/team/x@sha256:") != std::string::npos);
  CHECK(std::string(registry_error([&] {
                      registry.put_manifest(repository, "1", "x", manifest_text);
                    }).what()) == "registry " + played.name + " has stored the manifest of " + "team/x" +
                                      " under another digest than it has");
}

TEST_CASE("put_manifest() sends a manifest at most six times if another push disturbs the request") {
  PlayedRegistry played;
  int disturbed = 0, most = 5;
  std::string code = "DIGEST_INVALID";
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/" || disturbed == most) return false;
    ++disturbed;
    return answered_with(response, 400, R"({"errors":[{"code":")" + code + "\"}]}");
  };
  Registry registry(hasty(), played.reference());
  registry.put_manifest(repository, "1", "x", manifest_text);
  CHECK(played.count("PUT ") == 6);
  CHECK(played.manifests[repository]["1"] == manifest_text);
  const auto refused_after = [&](int count, const std::string& words) {
    played.asked.clear();
    const mlk::Error error =
        registry_error([&] { registry.put_manifest(repository, "1", "x", manifest_text); });
    CHECK(error.code() == mlk::ExitCode::cluster);
    CHECK(std::string(error.what()) == "registry " + played.name +
                                           " answered with status 400 for the manifest of " + played.name +
                                           "/team/x: " + words);
    CHECK(played.count("PUT ") == count);
  };
  most = 1000;
  refused_after(6, "DIGEST_INVALID");
  code = "MANIFEST_INVALID";
  refused_after(1, "MANIFEST_INVALID");
}

TEST_CASE("tags() requests pages of five hundred tags, and refuses a page of more than 16 MiB") {
  PlayedRegistry played;
  std::string body = R"({"tags":["a"]})";
  body.resize(16 << 20, ' ');
  played.before = [&](const Request& request, Response& response) {
    return request.path != "/v2/" && answered_with(response, 200, body);
  };
  Registry registry({}, played.reference());
  CHECK(registry.tags(repository, 7) == std::vector<std::string>{"a"});
  CHECK(played.asked.back() == "GET /v2/team/x/tags/list?n=500");
  body += " ";
  const mlk::Error error = registry_error([&] { (void)registry.tags(repository, 7); });
  CHECK(error.code() == mlk::ExitCode::failure);
  CHECK(std::string(error.what()).find("repository " + played.name + "/team/x is too large: ") !=
        std::string::npos);
  played.asked.clear();
  CHECK(registry.tags(repository, 0).empty());
  CHECK(played.asked.empty());
}

TEST_CASE("Registry() throws if a file of certificates has more than 1 MiB") {
  const TemporaryFolder folder;
  Access access;
  access.authorities = {folder.path()};
  const mlk::image::Reference reference{.registry = "r.example", .repository = repository, .tag = "1"};
  const auto accepted_with = [&](std::size_t size) {
    folder.write("r.example/ca.crt", std::string(size, '#'));
    return registry_error([&] { const Registry registry(access, reference); }).code() == mlk::ExitCode::ok;
  };
  CHECK(accepted_with(1 << 20));
  CHECK_FALSE(accepted_with((1 << 20) + 1));
}

TEST_CASE("usual_access() lists the user's folders of authorities first, and then the system's folders") {
  const auto folders_with = [](const std::string& home, const std::string& own) {
    return mlk::registry::usual_access([&](const std::string& name) {
             return name == "HOME" ? home : name == "XDG_CONFIG_HOME" ? own : std::string();
           })
        .authorities;
  };
  using Folders = std::vector<fs::path>;
  const Folders of_all{"/etc/containers/certs.d", "/etc/docker/certs.d"};
  const auto and_all = [&](Folders first) {
    first.insert(first.end(), of_all.begin(), of_all.end());
    return first;
  };
  CHECK(folders_with("", "") == of_all);
  CHECK(folders_with("/h", "") == and_all({"/h/.config/containers/certs.d", "/h/.docker/certs.d"}));
  CHECK(folders_with("/h", "/c") == and_all({"/c/containers/certs.d", "/h/.docker/certs.d"}));
  CHECK(folders_with("", "/c") == and_all({"/c/containers/certs.d"}));
}

TEST_CASE("the error for an invalid entry of MLK_REGISTRY_MIRRORS hides an entry that may contain a login") {
  const auto refused = [](const std::string& mirrors) {
    return registry_error([&] {
      (void)mlk::registry::usual_access(
          [&](const std::string& name) { return name == "MLK_REGISTRY_MIRRORS" ? mirrors : std::string(); });
    });
  };
  CHECK(std::string(refused("docker.io").what()) ==
        "MLK_REGISTRY_MIRRORS: 'docker.io' is not a registry and its mirror");
  CHECK(std::string(refused("ghcr.io=m.example/a").what()) ==
        "MLK_REGISTRY_MIRRORS: 'ghcr.io=m.example/a' is not a registry and its mirror");
  CHECK(std::string(refused("me@m.example").what()) ==
        "MLK_REGISTRY_MIRRORS: '...' is not a registry and its mirror");
  CHECK(refused("docker.io").hint() == "for example: MLK_REGISTRY_MIRRORS=docker.io=mirror.example:5000");
}
