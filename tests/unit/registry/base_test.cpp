// Checks how mlk finds base images by name, platform and mirror.
#include "cli/registry/base.h"

#include <atomic>

#include <doctest/doctest.h>

#include "cli/image/tar.h"
#include "cli/util/error.h"
#include "tests/unit/image/gzip_text.h"
#include "tests/unit/registry/played_image.h"

TEST_SUITE_BEGIN("registry/base");

namespace {

using mlk::image::Platform;
using mlk::registry::find_image;
using mlk::registry::FoundImage;
using nlohmann::json;

json index_entry(const std::string& digest, const std::string& architecture) {
  return {{"mediaType", mlk::image::oci_types.manifest},
          {"digest", digest},
          {"size", 5},
          {"platform",
           {{"os", architecture == "unknown" ? "unknown" : "linux"}, {"architecture", architecture}}}};
}

void add_index(PlayedRegistry& played, const std::string& tag, const json& entries) {
  played.manifests["team/x"][tag] =
      json{{"schemaVersion", 2}, {"mediaType", mlk::image::oci_types.index}, {"manifests", entries}}.dump();
}

mlk::Error base_error(const PlayedRegistry& played, const std::string& tag,
                      const std::optional<Platform>& platform = std::nullopt) {
  try {
    (void)find_image({}, played.reference("team/x", tag), platform);
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

}  // namespace

TEST_CASE("find_image() finds an image by its tag, and returns the manifest's digest and the layers' size") {
  PlayedRegistry played;
  const std::string digest = add_image(played, "team/x", "1", {"one", "three"});
  const FoundImage found = find_image({}, played.reference(), std::nullopt);
  CHECK(found.reference.digest == digest);
  CHECK(found.reference.tag == "1");
  CHECK(found.size == 8);
  CHECK(found.image.manifest.layers.size() == 2);
  CHECK(found.image.configuration.platform.text() == "linux/amd64");
  CHECK(played.count("GET /v2/team/x/blobs/") == 1);  // the configuration, and no layer
}

TEST_CASE("find_image() chooses the wanted platform from an index, or else the platform of this machine") {
  PlayedRegistry played;
  const std::string own = mlk::registry::own_platform().architecture;
  const std::string here = add_image(played, "team/x", "", {"here"}, own),
                    there = add_image(played, "team/x", "", {"there"}, "riscv64");
  add_index(played, "many", {index_entry(there, "riscv64"), index_entry(here, own)});
  CHECK(find_image({}, played.reference("team/x", "many"), std::nullopt).reference.digest == here);
  CHECK(
      find_image({}, played.reference("team/x", "many"), Platform{"linux", "riscv64", ""}).reference.digest ==
      there);
  CHECK(base_error(played, "many", Platform{"linux", "s390x", ""}).code() == mlk::ExitCode::not_found);
}

TEST_CASE(
    "find_image() takes the only platform of an index if no platform is wanted, and ignores signatures") {
  PlayedRegistry played;
  const std::string there = add_image(played, "team/x", "", {"there"}, "riscv64");
  add_index(played, "one", {index_entry(there, "riscv64"), index_entry(there, "unknown")});
  CHECK(find_image({}, played.reference("team/x", "one"), std::nullopt).reference.digest == there);
  CHECK(base_error(played, "one", Platform{"linux", "amd64", ""}).code() == mlk::ExitCode::not_found);
}

TEST_CASE("if an image is for another platform, the error names both platforms, without control characters") {
  PlayedRegistry played;
  add_image(played, "team/x", "1", {"one"}, "\x1b[2J");
  const mlk::Error error = base_error(played, "1", Platform{"linux", "arm64", ""});
  CHECK(error.code() == mlk::ExitCode::not_found);
  CHECK(std::string(error.what()).ends_with("is for linux/?[2J, not for linux/arm64"));
}

TEST_CASE("the error for a missing image has a hint about logins") {
  PlayedRegistry played;
  const mlk::Error error = base_error(played, "1");
  CHECK(error.code() == mlk::ExitCode::not_found);
  CHECK(std::string(error.what()) ==
        "registry " + played.name + " has no image " + played.name + "/team/x:1");
  CHECK(error.hint() == "a private image needs a login: docker login " + played.name);
}

TEST_CASE("find_image() refuses an index whose manifest is missing, or that is nested more than three deep") {
  PlayedRegistry played;
  const std::string own = mlk::registry::own_platform().architecture;
  add_index(played, "gone", json::array({index_entry("sha256:" + std::string(64, 'a'), own)}));
  CHECK(base_error(played, "gone").code() == mlk::ExitCode::failure);
  const std::string image = add_image(played, "team/x", "", {"here"}, own);
  std::string inner = image;
  for (int depth = 1; depth <= 5; ++depth) {
    CAPTURE(depth);
    const std::string tag = "index-" + std::to_string(depth);
    json to_inner = index_entry(inner, own);
    if (depth == 2) to_inner.erase("platform");  // the inner index has the platform
    add_index(played, tag, json::array({to_inner}));
    inner = "sha256:" + mlk::sha256_hex(played.manifests["team/x"][tag]);
    played.manifests["team/x"][inner] = played.manifests["team/x"][tag];
    if (depth <= 3) {
      CHECK(find_image({}, played.reference("team/x", tag), std::nullopt).reference.digest == image);
    } else {
      CHECK(std::string(base_error(played, tag).what()).ends_with("more than 3 indexes name each other"));
    }
  }
}

TEST_CASE("find_image() asks the mirror first, and the registry if the mirror fails or lacks the image") {
  PlayedRegistry played, mirror;
  const std::string digest = add_image(played, "team/x", "1", {"one"});
  std::vector<std::string> notes;
  mlk::registry::Access access;
  access.mirrors[played.name] = mirror.name;
  access.note = [&](const std::string& note) { notes.push_back(note); };
  CHECK(find_image(access, played.reference(), std::nullopt).registry->name() == played.name);
  mirror.before = [](const httplib::Request&, httplib::Response& response) {
    response.status = 403;
    return true;
  };
  CHECK(find_image(access, played.reference(), std::nullopt).registry->name() == played.name);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("mirror " + mirror.name + " is passed over: registry "));
  mirror.before = nullptr;
  add_image(mirror, "team/x", "1", {"one"});
  played.asked.clear();
  const FoundImage found = find_image(access, played.reference(), std::nullopt);
  CHECK(found.registry->name() == mirror.name);
  CHECK(found.reference.registry == played.name);
  CHECK(found.reference.digest == digest);
  CHECK(played.asked.empty());
}

TEST_CASE("libc_of() reads the layers in order until a file shows the C library") {
  PlayedRegistry played;
  const auto layer_of = [](const std::string& path) {
    std::string tar;
    mlk::image::append_to_tar(tar, {.path = path}, "x");
    tar += mlk::image::tar_end();
    return mlk::test::gzip(tar);
  };
  const auto libc_in = [&](const std::vector<std::string>& layers) {
    add_image(played, "team/x", "1", layers);
    return libc_of(find_image({}, played.reference(), std::nullopt));
  };
  const std::string alpine = layer_of("etc/alpine-release"), debian = layer_of("etc/debian_version"),
                    other = layer_of("app/main.py");
  CHECK(libc_in({alpine, debian}) == mlk::image::Libc::musl);
  CHECK(libc_in({other, debian, alpine}) == mlk::image::Libc::glibc);
  CHECK_FALSE(libc_in({other, "no layer"}));
  const int before = played.count("GET /v2/team/x/blobs/");
  (void)libc_in({alpine, debian, other});
  CHECK(played.count("GET /v2/team/x/blobs/") == before + 2);  // the configuration and one layer
}

TEST_CASE("own_platform() names the processor of this machine as Docker does") {
  const Platform own = mlk::registry::own_platform();
  CHECK(own.os == "linux");
  CHECK(own.variant.empty());
#if defined(__x86_64__)
  CHECK(own.architecture == "amd64");
#elif defined(__aarch64__)
  CHECK(own.architecture == "arm64");
#endif
}

TEST_CASE("find_image() refuses an image without an index if the image is for another platform") {
  PlayedRegistry played;
  const std::string digest = add_image(played, "team/x", "1", {"one"}, "riscv64");
  CHECK(find_image({}, played.reference(), std::nullopt).reference.digest == digest);
  CHECK(find_image({}, played.reference(), Platform{"linux", "riscv64", ""}).reference.digest == digest);
  CHECK(base_error(played, "1", Platform{"linux", "amd64", ""}).code() == mlk::ExitCode::not_found);
}

TEST_CASE("find_image() calls `know_layers` before it reads the configuration") {
  PlayedRegistry played;
  const std::string digest = add_image(played, "team/x", "1", {"one", "three"});
  int told = 0;
  (void)find_image({}, played.reference(), std::nullopt, [&](const FoundImage& image) {
    ++told;
    CHECK(image.image.manifest.layers.size() == 2);
    CHECK(image.size == 8);
    CHECK(image.reference.digest == digest);
    CHECK(image.registry->name() == played.name);
    CHECK(played.count("GET /v2/team/x/blobs/") == 0);
  });
  CHECK(told == 1);
}

TEST_CASE("if the manifest of an index is missing, the error names the image and the fault") {
  PlayedRegistry played;
  add_index(played, "gone",
            json::array(
                {index_entry("sha256:" + std::string(64, 'a'), mlk::registry::own_platform().architecture)}));
  CHECK(std::string(base_error(played, "gone").what()) ==
        "image " + played.name + "/team/x:gone: its index names a manifest that is not there");
}

TEST_CASE("find_image() does not ask the registry if the user interrupts a request to the mirror") {
  PlayedRegistry played, mirror;
  add_image(played, "team/x", "1", {"one"});
  std::atomic<bool> go_on = true;
  mirror.before = [&](const httplib::Request&, httplib::Response&) {
    go_on = false;
    return false;
  };
  mlk::registry::Access access;
  access.mirrors[played.name] = mirror.name;
  access.go_on = [&] { return go_on.load(); };
  try {
    (void)find_image(access, played.reference(), std::nullopt);
    FAIL("it went on");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::interrupted);
  }
  CHECK(played.asked.empty());
}

TEST_CASE(
    "find_image() uses no mirror of another registry, and skips a failing mirror even if `note` is empty") {
  PlayedRegistry played, mirror;
  const std::string digest = add_image(played, "team/x", "1", {"one"});
  mirror.before = [](const httplib::Request&, httplib::Response& response) {
    response.status = 403;
    return true;
  };
  mlk::registry::Access access;
  access.mirrors["other.example"] = mirror.name;
  CHECK(find_image(access, played.reference(), std::nullopt).reference.digest == digest);
  CHECK(mirror.asked.empty());
  access.mirrors[played.name] = mirror.name;
  CHECK(find_image(access, played.reference(), std::nullopt).reference.digest == digest);
  CHECK_FALSE(mirror.asked.empty());
}

TEST_CASE("find_image() uses the digest if a reference has a digest and a tag") {
  PlayedRegistry played;
  const std::string first = add_image(played, "team/x", "1", {"one"});
  add_image(played, "team/x", "1", {"two"});
  mlk::image::Reference reference = played.reference();
  reference.digest = first;
  CHECK(find_image({}, reference, std::nullopt).reference.digest == first);
  CHECK(find_image({}, played.reference(), std::nullopt).reference.digest != first);
}

TEST_CASE("find_image() does not read a configuration of more than 16 MiB") {
  PlayedRegistry played;
  add_image(played, "team/x", "1", {"one"});
  const auto said_with = [&](std::size_t size) {
    json manifest = json::parse(played.manifests["team/x"]["1"]);
    manifest["config"]["size"] = size;
    played.manifests["team/x"]["1"] = manifest.dump();
    return std::string(base_error(played, "1").what());
  };
  CHECK(said_with((16 << 20) + 1).ends_with(" of team/x is too large"));
  CHECK(played.count("GET /v2/team/x/blobs/") == 0);
  CHECK(said_with(16 << 20).ends_with(" has fewer bytes than its manifest says"));
}
