// Blobs of a registry: read in spite of losses, written in parts, and never taken for what they are not.

#include <atomic>

#include <doctest/doctest.h>

#include "cli/registry/registry.h"
#include "cli/util/error.h"
#include "tests/unit/registry/played_registry.h"

namespace {

using BlobRequest = PlayedRegistry::Request;
using BlobResponse = PlayedRegistry::Response;
using mlk::image::Descriptor;
using mlk::registry::Registry;

const std::string blob_repository = "team/x";
constexpr std::size_t part = 16 << 20;  // of an upload

Descriptor described(const std::string& bytes) {
  return {"", "sha256:" + mlk::sha256_hex(bytes), bytes.size()};
}

std::string read_all(Registry& registry, const Descriptor& blob, std::uint64_t offset = 0) {
  std::string out;
  registry.read_blob(blob_repository, blob, offset, [&](std::string_view more) {
    out += more;
    return true;
  });
  return out;
}

mlk::Error blob_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

void upload(Registry& registry, const std::string& bytes) {
  registry.upload(
      blob_repository, described(bytes),
      [&](std::uint64_t offset, const auto& take) { take(std::string_view(bytes).substr(offset)); }, {});
}

bool ends_with_status(BlobResponse& response, int status) {
  response.status = status;
  return true;
}

// Waits for next to nothing.
mlk::registry::Access hasty_access() {
  mlk::registry::Access out;
  out.haste = 10'000;
  return out;
}

// Sends this many bytes of a blob, and cuts the connection before the others.
bool send_some(PlayedRegistry& played, const std::string& bytes, std::size_t count,
               const BlobRequest& request, BlobResponse& response) {
  const std::size_t from = played.take_range(request);
  response.status = from > 0 ? 206 : 200;
  response.set_content_provider(
      bytes.size() - from, "application/octet-stream",
      [&bytes, from, count](std::size_t offset, std::size_t, httplib::DataSink& sink) {
        if (offset > 0) return false;
        sink.write(bytes.data() + from, count);
        return true;
      });
  return true;
}

// Sends the half of a blob, and cuts the connection.
bool send_half(PlayedRegistry& played, const std::string& bytes, const BlobRequest& request,
               BlobResponse& response) {
  const std::size_t from = played.take_range(request);
  response.status = from > 0 ? 206 : 200;
  const std::size_t rest = bytes.size() - from;
  response.set_content_provider(
      rest, "application/octet-stream",
      [&bytes, from, rest](std::size_t offset, std::size_t, httplib::DataSink& sink) {
        if (offset >= rest / 2) return false;
        sink.write(bytes.data() + from + offset, rest / 2 - offset);
        return true;
      });
  return true;
}

// 17 MiB without a pattern that would hide a part in the wrong place.
std::string large_blob() {
  std::string out = mlk::random_bytes(1 << 20);
  for (int i = 0; i < 4; ++i) out += out;
  return out + "and the end";
}

}  // namespace

TEST_CASE("a blob that is cut goes on where it was, and its digest is that of the whole") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(1'000'000);
  played.add_blob(blob_repository, bytes);
  int cuts = 0;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.path == "/v2/" || ++cuts > 3) return false;
    return send_half(played, bytes, request, response);
  };
  Registry registry({}, played.reference());
  CHECK(read_all(registry, described(bytes)) == bytes);
  CHECK(cuts == 4);
  CHECK(played.heads.back().find("Range")->second == "bytes=875000-");
}

TEST_CASE("a registry that gives a few bytes over each connection is given up") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(1000);
  played.add_blob(blob_repository, bytes);
  int connections = 0;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.path == "/v2/" || ++connections > 8) return false;
    return send_some(played, bytes, 2, request, response);
  };
  Registry registry(hasty_access(), played.reference());
  const mlk::Error error = blob_error([&] { (void)read_all(registry, described(bytes)); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(connections == 5);
}

TEST_CASE("a registry that does not know ranges sends the whole again, of which the rest is taken") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(1'000'000);
  played.add_blob(blob_repository, bytes);
  played.knows_ranges = false;
  bool cut = false;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.path == "/v2/" || cut) return false;
    cut = true;
    return send_half(played, bytes, request, response);
  };
  Registry registry({}, played.reference());
  CHECK(read_all(registry, described(bytes)) == bytes);
  CHECK(read_all(registry, described(bytes), 999'990) == bytes.substr(999'990));
  played.knows_ranges = true;
  CHECK(read_all(registry, described(bytes), 999'990) == bytes.substr(999'990));
  CHECK(read_all(registry, described(bytes), bytes.size()).empty());
}

TEST_CASE("a blob with other content, more or fewer bytes than was said is refused") {
  PlayedRegistry played;
  const Descriptor blob = described("content");
  Registry registry({}, played.reference());
  const auto refused = [&](const std::string& bytes) {
    played.blobs[blob_repository][blob.digest] = bytes;
    const mlk::Error error = blob_error([&] { (void)read_all(registry, blob); });
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

TEST_CASE("a blob that is not there, or too large for memory, is told") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  CHECK(blob_error([&] { (void)read_all(registry, described("gone")); }).code() == mlk::ExitCode::not_found);
  CHECK(blob_error([&] { (void)registry.blob(blob_repository, described("large"), 4); }).code() ==
        mlk::ExitCode::failure);
  played.add_blob(blob_repository, "large");
  CHECK(registry.blob(blob_repository, described("large"), 5) == "large");
  CHECK(registry.has_blob(blob_repository, described("large").digest));
  CHECK_FALSE(registry.has_blob(blob_repository, described("gone").digest));
}

TEST_CASE("a taker that has enough ends the reading, and what it throws comes out") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(4 << 20);
  played.add_blob(blob_repository, bytes);
  Registry registry({}, played.reference());
  std::size_t have = 0;
  registry.read_blob(blob_repository, described(bytes), 0,
                     [&](std::string_view more) { return (have += more.size()) < 10; });
  CHECK(have < bytes.size());
  CHECK_THROWS_AS(
      registry.read_blob(blob_repository, described(bytes), 0, [](std::string_view) -> bool { throw 5; }),
      int);
  CHECK(read_all(registry, described(bytes)) == bytes);
}

TEST_CASE("a redirect leads to another server without the login, and to none that is wrong") {
  PlayedRegistry played, storage;
  const std::string bytes = "content";
  storage.add_blob("stored", bytes);
  std::string to = storage.url + "/v2/stored/blobs/" + described(bytes).digest + "?signature=a%2Fb";
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.path == "/v2/") return false;
    if (request.get_header_value("Authorization").empty()) {
      response.set_header("WWW-Authenticate", "Basic realm=\"x\"");
      return ends_with_status(response, 401);
    }
    response.set_header("Location", to);
    return ends_with_status(response, 307);
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
    const mlk::Error error = blob_error([&] { (void)read_all(registry, described(bytes)); });
    CHECK_MESSAGE(error.code() == mlk::ExitCode::cluster, bad);
    CHECK_MESSAGE(std::string(error.what()).find("and mlk does not go there") != std::string::npos,
                  error.what());
  }
  CHECK(registry.has_blob(blob_repository, described(bytes).digest));  // that it leads somewhere says enough
}

TEST_CASE("redirects in a circle end, and one to the registry itself has its login") {
  PlayedRegistry played;
  const std::string bytes = "content";
  played.add_blob(blob_repository, bytes);
  bool in_circle = false;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.path == "/v2/") return false;
    if (request.get_header_value("Authorization").empty()) {
      response.set_header("WWW-Authenticate", "Basic realm=\"x\"");
      return ends_with_status(response, 401);
    }
    if (request.has_param("moved") && !in_circle) return false;
    response.set_header("Location", request.path + "?moved=1");
    return ends_with_status(response, 302);
  };
  const LoggedIn user(played);
  Registry registry(user.access, played.reference());
  CHECK(read_all(registry, described(bytes)) == bytes);
  in_circle = true;
  CHECK(std::string(blob_error([&] { (void)read_all(registry, described(bytes)); }).what())
            .find("to more and more places") != std::string::npos);
}

TEST_CASE("manifests of a registry that only leads to others are read there") {
  PlayedRegistry played, behind;
  behind.manifests["own/x"]["1"] = "{}";
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.path == "/v2/") return false;
    response.set_header("Location", behind.url + "/v2/own/x/manifests/1");
    return ends_with_status(response, 307);
  };
  Registry registry({}, played.reference());
  CHECK(registry.find_manifest(blob_repository, "1")->bytes == "{}");
  CHECK(registry.find_digest(blob_repository, "1") == "sha256:" + mlk::sha256_hex("{}"));
}

TEST_CASE("a small blob goes up at once, and a large one in parts") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  for (const std::string& bytes :
       {std::string("small"), std::string(), large_blob(), std::string(part, 'x')}) {
    upload(registry, bytes);
    CHECK(played.blobs[blob_repository][described(bytes).digest] == bytes);
  }
  CHECK(played.count("PATCH ") == 3);
  CHECK(played.count("PUT ") == 4);
  CHECK(played.count("PUT /v2/team/x/blobs/uploads/3?state=b&digest=sha256%3A") == 1);
}

TEST_CASE("an upload that the registry forgets begins anew, and does not for ever") {
  PlayedRegistry played;
  const std::string bytes = large_blob();
  int forgotten = 0, most = 1;
  played.before = [&](const BlobRequest& request, BlobResponse&) {
    const bool second = request.get_header_value("Content-Range").starts_with(std::to_string(part) + "-");
    if (second && forgotten < most) {
      ++forgotten;
      played.sessions.clear();
    }
    return false;
  };
  Registry registry(hasty_access(), played.reference());
  upload(registry, bytes);
  CHECK(played.blobs[blob_repository][described(bytes).digest] == bytes);
  CHECK(played.count("POST ") == 2);
  most = 1000;
  forgotten = 0;
  const std::string other = bytes + "!";
  const mlk::Error error = blob_error([&] { upload(registry, other); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()) == "registry " + played.name + ": an upload to " + played.name +
                                         "/team/x: it has forgotten it again and again");
  CHECK(forgotten == 5);
}

TEST_CASE("what the registry stored of a part before it failed is not sent again") {
  PlayedRegistry played;
  const std::string bytes = large_blob();
  std::size_t stored = 0;
  bool failed = false;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.method != "PATCH" || failed) return false;
    failed = true;
    played.sessions.begin()->second = request.body.substr(0, stored);
    return ends_with_status(response, stored == 0 ? 416 : 500);
  };
  Registry registry({}, played.reference());
  for (const std::size_t count : {std::size_t{0}, std::size_t{5'000'000}, part}) {
    played.asked.clear();
    played.blobs.clear();
    played.sessions.clear();
    stored = count;
    failed = false;
    upload(registry, bytes);
    CHECK(played.blobs[blob_repository][described(bytes).digest] == bytes);
    CHECK(played.count("POST ") == 1);
    CHECK(played.count("PATCH ") == (count == part ? 2 : 3));
  }
}

TEST_CASE("an end whose answer was lost is found in the registry, and one that came to nothing begins anew") {
  PlayedRegistry played;
  bool stored = true, failed = false;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.method != "PUT" || failed) return false;
    failed = true;
    if (stored) played.blobs[blob_repository][request.get_param_value("digest")] = request.body;
    return ends_with_status(response, 502);
  };
  Registry registry({}, played.reference());
  upload(registry, "content");
  CHECK(played.count("POST ") == 1);
  stored = failed = false;
  upload(registry, "other content");
  CHECK(played.count("POST ") == 3);
  CHECK(played.blobs[blob_repository].size() == 2);
}

TEST_CASE("an upload that ends in failure each time is given up") {
  PlayedRegistry played;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    return request.method == "PUT" && ends_with_status(response, 500);
  };
  for (const std::string& bytes : {std::string("small"), large_blob()}) {
    played.asked.clear();
    Registry registry(hasty_access(), played.reference());
    CHECK(blob_error([&] { upload(registry, bytes); }).code() == mlk::ExitCode::cluster);
    CHECK(played.count("PUT ") == 5);
    CHECK(played.count("POST ") == 5);
  }
}

TEST_CASE("an upload is refused with the registry's words, and is not led to wrong places") {
  PlayedRegistry played;
  std::string location;
  int status = 403;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.method != "POST") return false;
    response.set_content(R"({"errors":[{"code":"DENIED","message":"read only"}]})", "application/json");
    if (!location.empty()) response.set_header("Location", location);
    return ends_with_status(response, status);
  };
  Registry registry({}, played.reference());
  const auto said = [&] { return std::string(blob_error([&] { upload(registry, "content"); }).what()); };
  CHECK(said() == "registry " + played.name + " does not let you use an upload to " + played.name +
                      "/team/x: DENIED: read only");
  status = 202;
  CHECK(said().ends_with("it names no place for it"));
  for (const char* bad : {"ftp://x/y", "http://169.254.169.254/x", "uploads/1"}) {
    location = bad;
    CHECK(said().ends_with("and mlk does not go there"));
  }
}

TEST_CASE("a source that has other bytes than were said is told before the upload ends") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  for (const std::string& bytes : {std::string("short"), std::string("much too long")}) {
    CHECK(blob_error([&] {
            registry.upload(blob_repository, described("content"),
                            [&](std::uint64_t, const auto& take) { take(bytes); }, {});
          }).code() == mlk::ExitCode::failure);
  }
  CHECK(blob_error([&] {
          registry.upload(blob_repository, described("content"),
                          [&](std::uint64_t, const auto& take) { take("CONTENT"); }, {});
        }).code() == mlk::ExitCode::cluster);
  CHECK(played.count("PUT ") == 1);
  CHECK(played.blobs[blob_repository].empty());
}

TEST_CASE("a blob of another repository is mounted, or the registry says that it does not do that") {
  PlayedRegistry played;
  const std::string digest = played.add_blob("base/y", "content");
  Registry registry({}, played.reference());
  CHECK(registry.mount_blob(blob_repository, digest, "base/y"));
  CHECK(played.count("POST /v2/team/x/blobs/uploads/?mount=sha256%3A") == 1);
  CHECK(played.blobs[blob_repository].contains(digest));
  CHECK_FALSE(registry.mount_blob(blob_repository, digest, "base/z"));
  for (const int status : {200, 202, 400, 401, 403, 404, 405}) {
    played.before = [&](const BlobRequest&, BlobResponse& response) {
      return ends_with_status(response, status);
    };
    CHECK_FALSE(registry.mount_blob(blob_repository, digest, "base/y"));
  }
  // A token server that gives no token for the other repository.
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.path == "/token") return ends_with_status(response, 403);
    response.set_header("WWW-Authenticate", "Bearer realm=\"" + played.url + "/token\"");
    return ends_with_status(response, 401);
  };
  CHECK_FALSE(registry.mount_blob(blob_repository, digest, "base/y"));
}

TEST_CASE("a blob that comes in pieces is read for as long as each piece is more than 64 KiB") {
  for (const std::size_t piece : {std::size_t{64 << 10}, std::size_t{(64 << 10) + 1}}) {
    CAPTURE(piece);
    PlayedRegistry played;
    const std::string bytes = mlk::random_bytes(piece * 8);
    int connections = 0;
    played.before = [&](const BlobRequest& request, BlobResponse& response) {
      if (request.path == "/v2/") return false;
      ++connections;
      return send_some(played, bytes, piece, request, response);
    };
    Registry registry(hasty_access(), played.reference());
    if (piece > 64 << 10) {
      CHECK(read_all(registry, described(bytes)) == bytes);
      CHECK(connections == 8);
    } else {
      CHECK(blob_error([&] { (void)read_all(registry, described(bytes)); }).code() == mlk::ExitCode::cluster);
      CHECK(connections == 5);
    }
  }
}

TEST_CASE("a refusal in the middle of a blob is told at once") {
  PlayedRegistry played;
  const std::string bytes = mlk::random_bytes(100'000);
  int connections = 0;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.path == "/v2/") return false;
    return ++connections == 1 ? send_half(played, bytes, request, response) : ends_with_status(response, 403);
  };
  Registry registry(hasty_access(), played.reference());
  const mlk::Error error = blob_error([&] { (void)read_all(registry, described(bytes)); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()) == "registry " + played.name + " does not let you use blob " +
                                         described(bytes).digest + " of " + played.name + "/team/x");
  CHECK(connections == 2);
}

TEST_CASE("a blob of no bytes is not asked for, and the whole of one is compared with its digest") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  CHECK(read_all(registry, described("")).empty());
  CHECK(played.count("GET /v2/team/x/blobs/") == 0);
  Descriptor wrong = described("");
  wrong.digest = described("x").digest;
  CHECK(blob_error([&] { (void)read_all(registry, wrong); }).code() == mlk::ExitCode::failure);
}

TEST_CASE("each part of an upload says where it lies") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  const std::string bytes = large_blob();
  upload(registry, bytes);
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < played.asked.size(); ++i) {
    const auto find = [&](const char* name) {
      const auto found = played.heads[i].find(name);
      return found == played.heads[i].end() ? std::string() : found->second;
    };
    const bool has_bytes = played.asked[i].starts_with("PATCH ") || played.asked[i].starts_with("PUT ");
    if (has_bytes) CHECK(find("Content-Type") == "application/octet-stream");
    if (played.asked[i].starts_with("PATCH ")) ranges.push_back(find("Content-Range"));
  }
  CHECK(ranges == std::vector<std::string>{"0-16777215", "16777216-" + std::to_string(bytes.size() - 1)});
}

TEST_CASE("an upload stays where it is when the registry names no other place") {
  PlayedRegistry played;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.method != "PATCH") return false;
    played.sessions.begin()->second += request.body;
    return ends_with_status(response, 202);
  };
  Registry registry({}, played.reference());
  const std::string bytes = large_blob();
  upload(registry, bytes);
  CHECK(played.blobs[blob_repository][described(bytes).digest] == bytes);
  CHECK(played.count("PUT /v2/team/x/blobs/uploads/1?state=a&digest=") == 1);
}

TEST_CASE("an upload is refused at once where nothing was lost") {
  for (const char* method : {"PATCH", "PUT"}) {
    for (const int status : {400, 403, 413}) {
      PlayedRegistry played;
      played.before = [&](const BlobRequest& request, BlobResponse& response) {
        return request.method == method && ends_with_status(response, status);
      };
      Registry registry(hasty_access(), played.reference());
      CHECK(blob_error([&] { upload(registry, large_blob()); }).code() == mlk::ExitCode::cluster);
      CHECK(played.count(method + std::string(" ")) == 1);
      CHECK(played.count("POST ") == 1);
    }
  }
}

TEST_CASE("an end that is refused after a loss, or of an upload that is forgotten, begins anew") {
  for (const bool is_lost : {true, false}) {
    PlayedRegistry played;
    bool lost = !is_lost, refused = false;
    played.before = [&](const BlobRequest& request, BlobResponse& response) {
      if (request.method == "PATCH" && !lost) {
        lost = true;
        return ends_with_status(response, 500);
      }
      if (request.method != "PUT" || refused) return false;
      refused = true;
      return ends_with_status(response, is_lost ? 400 : 404);
    };
    Registry registry(hasty_access(), played.reference());
    const std::string bytes = large_blob();
    upload(registry, bytes);
    CHECK(played.blobs[blob_repository][described(bytes).digest] == bytes);
    CHECK(played.count("POST ") == 2);
    CHECK(played.count("PUT ") == 2);
  }
}

TEST_CASE("a loss of an upload that was begun anew does not excuse what comes later") {
  PlayedRegistry played;
  int patches = 0;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.method == "PATCH" && ++patches == 1) {
      played.sessions.clear();  // lost, and forgotten
      return ends_with_status(response, 500);
    }
    return request.method == "PUT" && ends_with_status(response, 400);
  };
  Registry registry(hasty_access(), played.reference());
  CHECK(blob_error([&] { upload(registry, large_blob()); }).code() == mlk::ExitCode::cluster);
  CHECK(played.count("POST ") == 2);
  CHECK(played.count("PUT ") == 1);
}

TEST_CASE("a registry that asks for patience gets the end of an upload again, and no second upload") {
  PlayedRegistry played;
  int asked = 0;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    return request.method == "PUT" && ++asked <= 2 && ends_with_status(response, 429);
  };
  Registry registry(hasty_access(), played.reference());
  upload(registry, "content");
  CHECK(played.count("POST ") == 1);
  CHECK(played.count("PUT ") == 3);
  CHECK(played.count("HEAD ") == 0);
}

TEST_CASE("what a registry says of how far an upload has come is believed only where it can be true") {
  struct Row {
    const char* range;
    int begun, patches;  // uploads, and parts that were sent
  };
  // The first part fails, and nothing of it is stored.
  for (const Row& row : std::vector<Row>{{"", 1, 3},
                                         {"0", 1, 3},
                                         {"0-0", 1, 3},
                                         {"0-16777216", 2, 3},  // more than was sent
                                         {"0-18446744073709551614", 2, 3}}) {
    CAPTURE(row.range);
    PlayedRegistry played;
    bool failed = false;
    played.before = [&](const BlobRequest& request, BlobResponse& response) {
      if (request.method == "PATCH" && !failed) {
        failed = true;
        return ends_with_status(response, 500);
      }
      if (request.method != "GET" || request.path == "/v2/") return false;
      if (*row.range != '\0') response.set_header("Range", row.range);
      return ends_with_status(response, 204);
    };
    Registry registry(hasty_access(), played.reference());
    const std::string bytes = large_blob();
    upload(registry, bytes);
    CHECK(played.blobs[blob_repository][described(bytes).digest] == bytes);
    CHECK(played.count("POST ") == row.begun);
    CHECK(played.count("PATCH ") == row.patches);
  }
}

TEST_CASE("a registry that has stored less than it had said before begins anew") {
  PlayedRegistry played;
  int patches = 0;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.method == "PATCH" && ++patches == 2) return ends_with_status(response, 500);
    if (request.method != "GET" || request.path == "/v2/") return false;
    response.set_header("Range", "0-16777214");  // the first part without its last byte
    return ends_with_status(response, 204);
  };
  Registry registry(hasty_access(), played.reference());
  const std::string bytes = large_blob();
  upload(registry, bytes);
  CHECK(played.blobs[blob_repository][described(bytes).digest] == bytes);
  CHECK(played.count("POST ") == 2);
}

TEST_CASE("a registry that says that it has stored other bytes is not believed to have these") {
  PlayedRegistry played;
  std::string said;
  played.before = [&](const BlobRequest& request, BlobResponse& response) {
    if (request.method != "PUT") return false;
    response.set_header("Docker-Content-Digest", said);
    return ends_with_status(response, 201);
  };
  Registry registry({}, played.reference());
  for (const std::string& good : {described("content").digest, std::string("sha512:x")}) {
    said = good;
    upload(registry, "content");
  }
  said = described("other").digest;
  const mlk::Error error = blob_error([&] { upload(registry, "content"); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()).ends_with("it has stored other bytes than were sent"));
}

TEST_CASE("a source that is short says how many bytes it has") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  const Descriptor blob = described("content");
  CHECK(std::string(blob_error([&] {
                      registry.upload(blob_repository, blob,
                                      [](std::uint64_t, const auto& take) { take("short"); }, {});
                    }).what()) == "an upload to " + played.name + "/team/x: blob " + blob.digest +
                                      " has 5 of the 7 bytes that it should have");
}

TEST_CASE("a user who stops ends a mount, and is not taken for a registry that does none") {
  PlayedRegistry played;
  std::atomic<bool> go_on = true;
  played.before = [&](const BlobRequest& request, BlobResponse&) {
    if (request.method == "POST") go_on = false;
    return false;
  };
  mlk::registry::Access access;
  access.go_on = [&] { return go_on.load(); };
  Registry registry(access, played.reference());
  const std::string digest = played.add_blob("base/y", "content");
  CHECK(blob_error([&] { (void)registry.mount_blob(blob_repository, digest, "base/y"); }).code() ==
        mlk::ExitCode::interrupted);
}
