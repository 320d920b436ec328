// Checks that mlk uploads blobs in parts, and in spite of lost connections.
#include <map>

#include <doctest/doctest.h>

#include "cli/registry/registry.h"
#include "tests/unit/registry/played_answers.h"

TEST_SUITE_BEGIN("registry/uploads");

namespace {

using mlk::image::Descriptor;
using mlk::registry::Registry;

constexpr std::size_t part = 16 << 20;  // of an upload

}  // namespace

TEST_CASE("upload() sends a small blob in one piece, and a large blob in parts") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  for (const std::string& bytes :
       {std::string("small"), std::string(), large_blob(), std::string(part, 'x')}) {
    upload(registry, bytes);
    CHECK(played.blobs[repository][described(bytes).digest] == bytes);
  }
  CHECK(played.count("PATCH ") == 3);
  CHECK(played.count("PUT ") == 4);
  CHECK(played.count("PUT /v2/team/x/blobs/uploads/3?state=b&digest=sha256%3A") == 1);
}

TEST_CASE("upload() begins again if the registry forgets the upload, but fails after the fifth time") {
  PlayedRegistry played;
  const std::string bytes = large_blob();
  int forgotten = 0, most = 1;
  played.before = [&](const Request& request, Response&) {
    const bool second = request.get_header_value("Content-Range").starts_with(std::to_string(part) + "-");
    if (second && forgotten < most) {
      ++forgotten;
      played.sessions.clear();
    }
    return false;
  };
  Registry registry(hasty(), played.reference());
  upload(registry, bytes);
  CHECK(played.blobs[repository][described(bytes).digest] == bytes);
  CHECK(played.count("POST ") == 2);
  most = 1000;
  forgotten = 0;
  const std::string other = bytes + "!";
  const mlk::Error error = registry_error([&] { upload(registry, other); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()) == "registry " + played.name + ": an upload to " + played.name +
                                         "/team/x: it has forgotten it again and again");
  CHECK(forgotten == 5);
}

TEST_CASE("upload() sends again only those bytes of a part that the registry has not stored") {
  PlayedRegistry played;
  const std::string bytes = large_blob();
  std::size_t stored = 0;
  bool failed = false;
  played.before = [&](const Request& request, Response& response) {
    if (request.method != "PATCH" || failed) return false;
    failed = true;
    played.sessions.begin()->second = request.body.substr(0, stored);
    return answered_with(response, stored == 0 ? 416 : 500);
  };
  Registry registry({}, played.reference());
  for (const std::size_t count : {std::size_t{0}, std::size_t{5'000'000}, part}) {
    played.asked.clear();
    played.blobs.clear();
    played.sessions.clear();
    stored = count;
    failed = false;
    upload(registry, bytes);
    CHECK(played.blobs[repository][described(bytes).digest] == bytes);
    CHECK(played.count("POST ") == 1);
    CHECK(played.count("PATCH ") == (count == part ? 2 : 3));
  }
}

TEST_CASE("an upload survives many failed PATCH requests if more bytes are stored in between") {
  const std::string bytes = large_blob();
  // 0: two losses before each part. 1 MiB: a loss after each MiB.
  for (const std::size_t step : {std::size_t{0}, std::size_t{1} << 20}) {
    PlayedRegistry played;
    std::map<std::string, int> tries;  // by range
    played.before = [&](const Request& request, Response& response) {
      if (request.method != "PATCH") return false;
      if (step == 0)
        return ++tries[request.get_header_value("Content-Range")] < 3 && answered_with(response, 500);
      if (request.body.size() <= step) return false;
      played.sessions.begin()->second += request.body.substr(0, step);
      return answered_with(response, 500);
    };
    Registry registry(hasty(), played.reference());
    upload(registry, bytes);
    CHECK(played.blobs[repository][described(bytes).digest] == bytes);
    CHECK(played.count("POST ") == 1);
  }
}

TEST_CASE("upload() sends the blob again after a failed final PUT if the registry lacks the blob") {
  PlayedRegistry played;
  bool stored = true, failed = false;
  played.before = [&](const Request& request, Response& response) {
    if (request.method != "PUT" || failed) return false;
    failed = true;
    if (stored) played.blobs[repository][request.get_param_value("digest")] = request.body;
    return answered_with(response, 502);
  };
  Registry registry({}, played.reference());
  upload(registry, "content");
  CHECK(played.count("POST ") == 1);
  stored = failed = false;
  upload(registry, "other content");
  CHECK(played.count("POST ") == 3);
  CHECK(played.blobs[repository].size() == 2);
}

TEST_CASE("upload() fails after five attempts if the final PUT fails each time") {
  PlayedRegistry played;
  played.before = [&](const Request& request, Response& response) {
    return request.method == "PUT" && answered_with(response, 500);
  };
  for (const std::string& bytes : {std::string("small"), large_blob()}) {
    played.asked.clear();
    Registry registry(hasty(), played.reference());
    CHECK(registry_error([&] { upload(registry, bytes); }).code() == mlk::ExitCode::cluster);
    CHECK(played.count("PUT ") == 5);
    CHECK(played.count("POST ") == 5);
  }
}

TEST_CASE("upload() quotes a registry that refuses the upload, and does not follow a bad Location") {
  PlayedRegistry played;
  std::string location;
  int status = 403;
  played.before = [&](const Request& request, Response& response) {
    if (request.method != "POST") return false;
    response.set_content(R"({"errors":[{"code":"DENIED","message":"read only"}]})", "application/json");
    if (!location.empty()) response.set_header("Location", location);
    return answered_with(response, status);
  };
  Registry registry({}, played.reference());
  const auto said = [&] { return std::string(registry_error([&] { upload(registry, "content"); }).what()); };
  CHECK(said() == "registry " + played.name + " does not let you make an upload to " + played.name +
                      "/team/x: DENIED: read only");
  status = 202;
  CHECK(said().ends_with("it names no place for it"));
  for (const char* bad : {"ftp://x/y", "http://169.254.169.254/x", "uploads/1"}) {
    location = bad;
    CHECK(said().ends_with("and mlk does not go there"));
  }
}

TEST_CASE("upload() fails, and stores no blob, if the source gives other bytes than the descriptor says") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  for (const std::string& bytes : {std::string("short"), std::string("much too long")}) {
    CHECK(registry_error([&] {
            registry.upload(repository, described("content"), [&](const auto& take) { take(bytes); }, {});
          }).code() == mlk::ExitCode::failure);
  }
  CHECK(registry_error([&] {
          registry.upload(repository, described("content"), [&](const auto& take) { take("CONTENT"); }, {});
        }).code() == mlk::ExitCode::cluster);
  CHECK(played.count("PUT ") == 1);
  CHECK(played.blobs[repository].empty());
}

TEST_CASE("each PATCH of an upload has the Content-Range of its part") {
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

TEST_CASE("an upload continues at the same URL if the registry names no other URL") {
  PlayedRegistry played;
  played.before = [&](const Request& request, Response& response) {
    if (request.method != "PATCH") return false;
    played.sessions.begin()->second += request.body;
    return answered_with(response, 202);
  };
  Registry registry({}, played.reference());
  const std::string bytes = large_blob();
  upload(registry, bytes);
  CHECK(played.blobs[repository][described(bytes).digest] == bytes);
  CHECK(played.count("PUT /v2/team/x/blobs/uploads/1?state=a&digest=") == 1);
}

TEST_CASE("an upload fails at once if its first failed request is a refused PATCH or PUT") {
  for (const char* method : {"PATCH", "PUT"}) {
    for (const int status : {400, 403, 413}) {
      PlayedRegistry played;
      played.before = [&](const Request& request, Response& response) {
        return request.method == method && answered_with(response, status);
      };
      Registry registry(hasty(), played.reference());
      CHECK(registry_error([&] { upload(registry, large_blob()); }).code() == mlk::ExitCode::cluster);
      CHECK(played.count(method + std::string(" ")) == 1);
      CHECK(played.count("POST ") == 1);
    }
  }
}

TEST_CASE("an upload begins again if the final PUT gets 404, or gets 400 after a failed PATCH") {
  for (const bool is_lost : {true, false}) {
    PlayedRegistry played;
    bool lost = !is_lost, refused = false;
    played.before = [&](const Request& request, Response& response) {
      if (request.method == "PATCH" && !lost) {
        lost = true;
        return answered_with(response, 500);
      }
      if (request.method != "PUT" || refused) return false;
      refused = true;
      return answered_with(response, is_lost ? 400 : 404);
    };
    Registry registry(hasty(), played.reference());
    const std::string bytes = large_blob();
    upload(registry, bytes);
    CHECK(played.blobs[repository][described(bytes).digest] == bytes);
    CHECK(played.count("POST ") == 2);
    CHECK(played.count("PUT ") == 2);
  }
}

TEST_CASE("upload() fails if the final PUT gets 400, but no PATCH has failed since the upload began again") {
  PlayedRegistry played;
  int patches = 0;
  played.before = [&](const Request& request, Response& response) {
    if (request.method == "PATCH" && ++patches == 1) {
      played.sessions.clear();  // the part is lost, and the upload is forgotten
      return answered_with(response, 500);
    }
    return request.method == "PUT" && answered_with(response, 400);
  };
  Registry registry(hasty(), played.reference());
  CHECK(registry_error([&] { upload(registry, large_blob()); }).code() == mlk::ExitCode::cluster);
  CHECK(played.count("POST ") == 2);
  CHECK(played.count("PUT ") == 1);
}

TEST_CASE("upload() repeats the final PUT after 429, and begins no second upload") {
  PlayedRegistry played;
  int asked = 0;
  played.before = [&](const Request& request, Response& response) {
    return request.method == "PUT" && ++asked <= 2 && answered_with(response, 429);
  };
  Registry registry(hasty(), played.reference());
  upload(registry, "content");
  CHECK(played.count("POST ") == 1);
  CHECK(played.count("PUT ") == 3);
  CHECK(played.count("HEAD ") == 0);
}

TEST_CASE("an upload begins again if the registry reports more stored bytes than mlk has sent") {
  struct Row {
    const char* range;
    int begun, patches;  // numbers of uploads, and of parts
  };
  // The first part fails, and the registry stores no byte of it.
  for (const Row& row : std::vector<Row>{{"", 1, 3},
                                         {"0", 1, 3},
                                         {"0-0", 1, 3},
                                         {"0-16777216", 2, 3},  // more than was sent
                                         {"0-18446744073709551614", 2, 3}}) {
    CAPTURE(row.range);
    PlayedRegistry played;
    bool failed = false;
    played.before = [&](const Request& request, Response& response) {
      if (request.method == "PATCH" && !failed) {
        failed = true;
        return answered_with(response, 500);
      }
      if (request.method != "GET" || request.path == "/v2/") return false;
      if (*row.range != '\0') response.set_header("Range", row.range);
      return answered_with(response, 204);
    };
    Registry registry(hasty(), played.reference());
    const std::string bytes = large_blob();
    upload(registry, bytes);
    CHECK(played.blobs[repository][described(bytes).digest] == bytes);
    CHECK(played.count("POST ") == row.begun);
    CHECK(played.count("PATCH ") == row.patches);
  }
}

TEST_CASE("an upload begins again if the registry has stored fewer bytes than it reported before") {
  PlayedRegistry played;
  int patches = 0;
  played.before = [&](const Request& request, Response& response) {
    if (request.method == "PATCH" && ++patches == 2) return answered_with(response, 500);
    if (request.method != "GET" || request.path == "/v2/") return false;
    response.set_header("Range", "0-16777214");  // the first part without its last byte
    return answered_with(response, 204);
  };
  Registry registry(hasty(), played.reference());
  const std::string bytes = large_blob();
  upload(registry, bytes);
  CHECK(played.blobs[repository][described(bytes).digest] == bytes);
  CHECK(played.count("POST ") == 2);
}

TEST_CASE("an upload fails if the registry reports another digest of the stored bytes") {
  PlayedRegistry played;
  std::string said;
  played.before = [&](const Request& request, Response& response) {
    if (request.method != "PUT") return false;
    response.set_header("Docker-Content-Digest", said);
    return answered_with(response, 201);
  };
  Registry registry({}, played.reference());
  for (const std::string& good : {described("content").digest, std::string("sha512:x")}) {
    said = good;
    upload(registry, "content");
  }
  said = described("other").digest;
  const mlk::Error error = registry_error([&] { upload(registry, "content"); });
  CHECK(error.code() == mlk::ExitCode::cluster);
  CHECK(std::string(error.what()).ends_with("it has stored other bytes than were sent"));
}

TEST_CASE("if a source has too few bytes, the error says how many it has and should have") {
  PlayedRegistry played;
  Registry registry({}, played.reference());
  const Descriptor blob = described("content");
  CHECK(std::string(registry_error([&] {
                      registry.upload(repository, blob, [](const auto& take) { take("short"); }, {});
                    }).what()) == "an upload to " + played.name + "/team/x: blob " + blob.digest +
                                      " has 5 of the 7 bytes that it should have");
}
