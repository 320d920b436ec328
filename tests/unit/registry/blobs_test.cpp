// Checks that mlk reads blobs of a registry in spite of lost connections, mounts blobs, and verifies digests.
#include <atomic>

#include <doctest/doctest.h>

#include "cli/registry/registry.h"
#include "tests/unit/registry/played_answers.h"

TEST_SUITE_BEGIN("registry/blobs");

namespace {

using mlk::image::Descriptor;
using mlk::registry::Registry;

std::string read_all(Registry& registry, const Descriptor& blob) {
  std::string out;
  registry.read_blob(repository, blob, [&](std::string_view more) {
    out += more;
    return true;
  });
  return out;
}

// Sends this many bytes of a blob, and then cuts the connection.
bool send_some(PlayedRegistry& played, const std::string& bytes, std::size_t count, const Request& request,
               Response& response) {
  const std::size_t from = played.take_range(request);
  response.status = from > 0 ? 206 : 200;
  response.set_content_provider(
      bytes.size() - from, "application/octet-stream",
      [bytes, from, count](std::size_t offset, std::size_t, httplib::DataSink& sink) {
        if (offset > 0) return false;
        sink.write(bytes.data() + from, count);
        return true;
      });
  return true;
}

// Sends half of the requested bytes of a blob, and then cuts the connection.
bool send_half(PlayedRegistry& played, const std::string& bytes, const Request& request, Response& response) {
  const std::size_t from = played.take_range(request);
  response.status = from > 0 ? 206 : 200;
  const std::size_t rest = bytes.size() - from;
  response.set_content_provider(
      rest, "application/octet-stream",
      [bytes, from, rest](std::size_t offset, std::size_t, httplib::DataSink& sink) {
        if (offset >= rest / 2) return false;
        sink.write(bytes.data() + from + offset, rest / 2 - offset);
        return true;
      });
  return true;
}

}  // namespace

TEST_CASE("read_blob() continues after a lost connection, and checks the digest of the whole blob") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(1'000'000);
  played.add_blob(repository, bytes);
  int cuts = 0;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/" || ++cuts > 3) return false;
    return send_half(played, bytes, request, response);
  };
  Registry registry({}, played.reference());
  CHECK(read_all(registry, described(bytes)) == bytes);
  CHECK(cuts == 4);
  CHECK(played.heads.back().find("Range")->second == "bytes=875000-");
}

TEST_CASE("read_blob() gives up after five connections that give only a few bytes each") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(1000);
  played.add_blob(repository, bytes);
  int connections = 0;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/" || ++connections > 8) return false;
    return send_some(played, bytes, 2, request, response);
  };
  Registry registry(hasty(), played.reference());
  const mlk::Error error = registry_error([&] { (void)read_all(registry, described(bytes)); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(connections == 5);
}

TEST_CASE("read_blob() skips the known bytes if a registry ignores ranges and sends the whole blob again") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(1'000'000);
  played.add_blob(repository, bytes);
  played.knows_ranges = false;
  bool cut = false;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/" || cut) return false;
    cut = true;
    return send_half(played, bytes, request, response);
  };
  Registry registry({}, played.reference());
  CHECK(read_all(registry, described(bytes)) == bytes);
}

TEST_CASE("read_blob() refuses a blob with other content, more bytes or fewer bytes than expected") {
  PlayedRegistry played;
  const Descriptor blob = described("content");
  Registry registry({}, played.reference());
  const auto refused = [&](const std::string& bytes) {
    played.blobs[repository][blob.digest] = bytes;
    const mlk::Error error = registry_error([&] { (void)read_all(registry, blob); });
    CHECK(error.code() == mlk::ExitCode::failure);
    return std::string(error.what()).substr(std::string(error.what()).find(played.name) + played.name.size());
  };
  CHECK(refused("CONTENT") == "/team/x has other content than its digest says");
  CHECK(refused("content and more") == "/team/x has more bytes than its manifest says");
  CHECK(refused("cont") == "/team/x has fewer bytes than its manifest says");
  CHECK(refused("") == "/team/x has fewer bytes than its manifest says");
  played.knows_ranges = false;
  CHECK(refused("cont") == "/team/x has fewer bytes than its manifest says");
}

TEST_CASE("reading a blob fails if the blob is missing or larger than the caller allows") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  CHECK(registry_error([&] { (void)read_all(registry, described("gone")); }).code() ==
        mlk::ExitCode::not_found);
  CHECK(registry_error([&] { (void)registry.blob(repository, described("large"), 4); }).code() ==
        mlk::ExitCode::failure);
  played.add_blob(repository, "large");
  CHECK(registry.blob(repository, described("large"), 5) == "large");
  CHECK(registry.has_blob(repository, described("large").digest));
  CHECK_FALSE(registry.has_blob(repository, described("gone").digest));
}

TEST_CASE("read_blob() ends if `take` returns false, and passes on the exceptions of `take`") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(4 << 20);
  played.add_blob(repository, bytes);
  Registry registry({}, played.reference());
  std::size_t have = 0;
  registry.read_blob(repository, described(bytes),
                     [&](std::string_view more) { return (have += more.size()) < 10; });
  CHECK(have < bytes.size());
  CHECK_THROWS_AS(registry.read_blob(repository, described(bytes), [](std::string_view) -> bool { throw 5; }),
                  int);
  CHECK(read_all(registry, described(bytes)) == bytes);
}

TEST_CASE("read_blob() sends no login to the target of a redirect, and does not go to a forbidden server") {
  PlayedRegistry played, storage;
  const std::string bytes = "content";
  storage.add_blob("stored", bytes);
  std::string to = storage.url + "/v2/stored/blobs/" + described(bytes).digest + "?signature=a%2Fb";
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    if (request.get_header_value("Authorization").empty()) {
      response.set_header("WWW-Authenticate", "Basic realm=\"x\"");
      return answered_with(response, 401);
    }
    response.set_header("Location", to);
    return answered_with(response, 307);
  };
  const LoggedIn user(played);
  Registry registry(user.access, played.reference());
  CHECK(read_all(registry, described(bytes)) == bytes);
  REQUIRE(storage.heads.size() == 1);
  CHECK(storage.heads[0].count("Authorization") == 0);
  CHECK(storage.asked[0].ends_with("?signature=a%2Fb"));
  for (const std::string& bad :
       std::vector<std::string>{"", "x", "file:///etc/passwd", "http://169.254.169.254/x"}) {
    to = bad;
    const mlk::Error error = registry_error([&] { (void)read_all(registry, described(bytes)); });
    CHECK_MESSAGE(error.code() == mlk::ExitCode::cluster, bad);
    CHECK_MESSAGE(std::string(error.what()).find("and mlk does not go there") != std::string::npos,
                  error.what());
  }
  CHECK(registry.has_blob(repository, described(bytes).digest));  // a redirect means that the blob exists
}

TEST_CASE(
    "read_blob() keeps the login in redirects within the registry, and gives up if they form a circle") {
  PlayedRegistry played;
  const std::string bytes = "content";
  played.add_blob(repository, bytes);
  bool in_circle = false;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    if (request.get_header_value("Authorization").empty()) {
      response.set_header("WWW-Authenticate", "Basic realm=\"x\"");
      return answered_with(response, 401);
    }
    if (request.has_param("moved") && !in_circle) return false;
    response.set_header("Location", request.path + "?moved=1");
    return answered_with(response, 302);
  };
  const LoggedIn user(played);
  Registry registry(user.access, played.reference());
  CHECK(read_all(registry, described(bytes)) == bytes);
  in_circle = true;
  CHECK(std::string(registry_error([&] { (void)read_all(registry, described(bytes)); }).what())
            .find("to more and more places") != std::string::npos);
}

TEST_CASE("find_manifest() and find_digest() follow a redirect of the registry") {
  PlayedRegistry played, behind;
  behind.manifests["own/x"]["1"] = "{}";
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    response.set_header("Location", behind.url + "/v2/own/x/manifests/1");
    return answered_with(response, 307);
  };
  Registry registry({}, played.reference());
  CHECK(registry.find_manifest(repository, "1")->bytes == "{}");
  CHECK(registry.find_digest(repository, "1") == "sha256:" + mlk::sha256_hex("{}"));
}

TEST_CASE("mount_blob() mounts a blob of another repository, or returns false if the mount is refused") {
  PlayedRegistry played;
  const std::string digest = played.add_blob("base/y", "content");
  Registry registry({}, played.reference());
  CHECK(registry.mount_blob(repository, digest, "base/y"));
  CHECK(played.count("POST /v2/team/x/blobs/uploads/?mount=sha256%3A") == 1);
  CHECK(played.blobs[repository].contains(digest));
  CHECK_FALSE(registry.mount_blob(repository, digest, "base/z"));
  for (const int status : {200, 202, 400, 401, 403, 404, 405}) {
    played.before = [&](const Request&, Response& response) { return answered_with(response, status); };
    CHECK_FALSE(registry.mount_blob(repository, digest, "base/y"));
  }
  // The token server gives no token for the other repository.
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/token") return answered_with(response, 403);
    response.set_header("WWW-Authenticate", "Bearer realm=\"" + played.url + "/token\"");
    return answered_with(response, 401);
  };
  CHECK_FALSE(registry.mount_blob(repository, digest, "base/y"));
}

TEST_CASE("read_blob() survives many lost connections if each connection gives more than 64 KiB") {
  for (const std::size_t piece : {std::size_t{64 << 10}, std::size_t{(64 << 10) + 1}}) {
    CAPTURE(piece);
    PlayedRegistry played;
    const std::string bytes = mlk::random_bytes(piece * 8);
    int connections = 0;
    played.before = [&](const Request& request, Response& response) {
      if (request.path == "/v2/") return false;
      ++connections;
      return send_some(played, bytes, piece, request, response);
    };
    Registry registry(hasty(), played.reference());
    if (piece > 64 << 10) {
      CHECK(read_all(registry, described(bytes)) == bytes);
      CHECK(connections == 8);
    } else {
      CHECK(registry_error([&] { (void)read_all(registry, described(bytes)); }).code() ==
            mlk::ExitCode::cluster);
      CHECK(connections == 5);
    }
  }
}

TEST_CASE("read_blob() throws at once if the registry refuses a request in the middle of a blob") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(100'000);
  int connections = 0;
  played.before = [&](const Request& request, Response& response) {
    if (request.path == "/v2/") return false;
    return ++connections == 1 ? send_half(played, bytes, request, response) : answered_with(response, 403);
  };
  Registry registry(hasty(), played.reference());
  const mlk::Error error = registry_error([&] { (void)read_all(registry, described(bytes)); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()) == "registry " + played.name + " does not let you use blob " +
                                         described(bytes).digest + " of " + played.name + "/team/x");
  CHECK(connections == 2);
}

TEST_CASE("read_blob() checks the digest of an empty blob without a request") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  CHECK(read_all(registry, described("")).empty());
  CHECK(played.count("GET /v2/team/x/blobs/") == 0);
  Descriptor wrong = described("");
  wrong.digest = described("x").digest;
  CHECK(registry_error([&] { (void)read_all(registry, wrong); }).code() == mlk::ExitCode::failure);
}

TEST_CASE("mount_blob() throws if the user interrupts mlk") {
  PlayedRegistry played;
  std::atomic<bool> go_on = true;
  played.before = [&](const Request& request, Response&) {
    if (request.method == "POST") go_on = false;
    return false;
  };
  mlk::registry::Access access;
  access.go_on = [&] { return go_on.load(); };
  Registry registry(access, played.reference());
  const std::string digest = played.add_blob("base/y", "content");
  CHECK(registry_error([&] { (void)registry.mount_blob(repository, digest, "base/y"); }).code() ==
        mlk::ExitCode::interrupted);
}
