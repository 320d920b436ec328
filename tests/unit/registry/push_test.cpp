// Checks the requests of a push and their order, and the content of the registry after a failure.
#include "cli/registry/push.h"

#include <algorithm>
#include <atomic>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/registry/played_image.h"

TEST_SUITE_BEGIN("registry/push");

namespace {

using mlk::image::Composed;
using mlk::registry::FoundImage;
using mlk::registry::Pushed;
using mlk::registry::PushProgress;
using mlk::registry::Registry;

struct Built {
  TemporaryFolder folder{};
  std::optional<FoundImage> base{};
  Composed composed{};

  Built() { composed = mlk::image::compose(std::nullopt, {own_layer(folder, "alone")}, {}); }
  explicit Built(PlayedRegistry& from, const std::string& repository = "base/y") {
    add_image(from, repository, "1", {"lower", "upper", "lower"});
    base = mlk::registry::find_image({}, from.reference(repository), std::nullopt);
    composed = mlk::image::compose(base->image,
                                   {own_layer(folder, "packages", "python"), own_layer(folder, "code")}, {});
  }
  Pushed push_to(PlayedRegistry& played, PushProgress& progress, const std::string& tag = "new") const {
    Registry registry({}, played.reference());
    return mlk::registry::push(registry, played.reference("team/x", tag), composed, base, progress);
  }
  Pushed push_to(PlayedRegistry& played) const {
    PushProgress progress;
    return push_to(played, progress);
  }
  bool is_whole_in(PlayedRegistry& played) const {
    auto& blobs = played.blobs["team/x"];
    bool out = blobs.contains(composed.configuration_blob.digest);
    for (const auto& layer : composed.of_base) out = out && blobs.contains(layer.digest);
    for (const auto& layer : composed.own) out = out && blobs.contains(layer.blob.digest);
    return out;
  }
};

// A layer of exactly these bytes. No registry reads the content of a layer.
mlk::image::Layer raw_layer(const TemporaryFolder& folder, const std::string& name,
                            const std::string& bytes) {
  const std::string digest = "sha256:" + mlk::sha256_hex(bytes);
  return {{.media_type = mlk::image::oci_types.layer, .digest = digest, .size = bytes.size()},
          digest,
          folder.write(name, bytes)};
}

int asked_whole(PlayedRegistry& played, const std::string& request) {
  const std::lock_guard lock(played.mutex);
  return static_cast<int>(std::count(played.asked.begin(), played.asked.end(), request));
}

constexpr char mounts[] = "POST /v2/team/x/blobs/uploads/?mount=";

}  // namespace

TEST_CASE("push() streams the layers of a base from another registry, and sends the manifest last") {
  PlayedRegistry from, to;
  const Built built(from);
  PushProgress progress;
  const Pushed pushed = built.push_to(to, progress);
  CHECK(built.is_whole_in(to));
  CHECK(to.manifests["team/x"]["new"] == built.composed.manifest);
  CHECK(to.asked.back() == "PUT /v2/team/x/manifests/new");
  CHECK(pushed.digest == built.composed.digest);
  CHECK(pushed.layers_sent == 4);  // two layers of the base are the same
  CHECK(pushed.layers_there + pushed.layers_mounted == 0);
  std::uint64_t all = 10 + built.composed.configuration_blob.size;  // "lower" and "upper"
  for (const auto& layer : built.composed.own) all += layer.blob.size;
  CHECK(pushed.bytes_sent == all);
  CHECK(progress.blobs_left == 0);
  CHECK(progress.sent == pushed.bytes_sent);
  CHECK(progress.all == pushed.bytes_sent);
  CHECK(to.count("POST /v2/team/x/blobs/uploads/?mount") == 0);
}

TEST_CASE("push() sends no blob and no image that the registry already has") {
  PlayedRegistry from, to;
  const Built built(from);
  (void)built.push_to(to);
  const int posts = to.count("POST ");
  Pushed pushed = built.push_to(to);  // the same tag: one request suffices
  CHECK(pushed.digest == built.composed.digest);
  CHECK(pushed.layers_there == 5);
  CHECK(to.count("PUT /v2/team/x/manifests/") == 1);
  PushProgress progress;
  pushed = built.push_to(to, progress, "another");
  CHECK(pushed.layers_there == 4);
  CHECK(pushed.bytes_sent == 0);
  CHECK(progress.all == 0);
  CHECK(to.count("POST ") == posts);
  CHECK(to.manifests["team/x"]["another"] == built.composed.manifest);
  const Built other;
  CHECK(other.push_to(to).layers_sent == 1);
  CHECK(to.manifests["team/x"]["new"] == other.composed.manifest);
}

TEST_CASE("push() stores an image under its digest if the target has no tag") {
  PlayedRegistry to;
  const Built built;
  PushProgress progress;
  (void)built.push_to(to, progress, "");
  CHECK(to.asked.back() == "PUT /v2/team/x/manifests/" + built.composed.digest);
}

TEST_CASE("push() mounts layers from the same registry, or sends these layers if the mount is refused") {
  PlayedRegistry played;
  const Built built(played);
  const Pushed pushed = built.push_to(played);
  CHECK(pushed.layers_mounted == 2);
  CHECK(pushed.layers_sent == 2);
  CHECK(built.is_whole_in(played));
  PlayedRegistry stubborn;
  const Built again(stubborn);
  stubborn.before = [](const httplib::Request& request, httplib::Response& response) {
    response.status = 405;
    return request.has_param("mount");
  };
  CHECK(again.push_to(stubborn).layers_sent == 4);
  CHECK(again.is_whole_in(stubborn));
}

TEST_CASE("push() sends no layers of a base that is in the same repository") {
  PlayedRegistry played;
  const Built built(played, "team/x");
  const Pushed pushed = built.push_to(played);
  CHECK(pushed.layers_there == 2);
  CHECK(pushed.layers_sent == 2);
}

TEST_CASE("push() sends no manifest if a part of the image is refused, damaged or missing") {
  PlayedRegistry from, to;
  const Built built(from);
  const auto fails = [&] {
    CHECK_THROWS_AS((void)built.push_to(to), mlk::Error);
    CHECK(to.count("PUT /v2/team/x/manifests") == 0);
    CHECK(to.manifests["team/x"].empty());
  };
  to.before = [&](const httplib::Request& request, httplib::Response& response) {
    response.status = 403;
    return request.method == "PUT" && request.get_param_value("digest") == built.composed.of_base[1].digest;
  };
  fails();
  to.before = nullptr;
  from.blobs["base/y"][built.composed.of_base[1].digest] = "UPPER";  // the same size
  to.blobs.clear();
  fails();
  from.blobs["base/y"][built.composed.of_base[1].digest] = "upper";
  to.blobs.clear();
  std::filesystem::remove(built.composed.own[0].file);
  fails();
}

TEST_CASE("push() throws and stores no layer under the old digest if the file of a layer has changed") {
  PlayedRegistry to;
  const Built built;
  for (const std::string& now : {std::string("short"), std::string(built.composed.own[0].blob.size, 'x')}) {
    built.folder.write("layer-code", now);
    CHECK_THROWS_AS((void)built.push_to(to), mlk::Error);
    CHECK_FALSE(to.blobs["team/x"].contains(built.composed.own[0].blob.digest));
    CHECK(to.manifests["team/x"].empty());
  }
}

TEST_CASE("push() throws and sends no manifest if the user interrupts mlk") {
  PlayedRegistry to;
  const Built built;
  std::atomic<bool> go_on = true;
  to.before = [&](const httplib::Request& request, httplib::Response&) {
    if (request.method == "POST") go_on = false;
    return false;
  };
  mlk::registry::Access access;
  access.go_on = [&] { return go_on.load(); };
  Registry registry(access, to.reference());
  PushProgress progress;
  try {
    (void)mlk::registry::push(registry, to.reference("team/x", "new"), built.composed, {}, progress);
    FAIL("it went on");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::interrupted);
  }
  CHECK(to.manifests["team/x"].empty());
}

TEST_CASE("push() deletes a layer that was damaged in the cache, and does not send this layer") {
  PlayedRegistry to;
  const Built built;
  const mlk::image::Layer& layer = built.composed.own[0];
  std::string damaged(layer.blob.size, 'x');
  built.folder.write("layer-code", damaged);
  try {
    (void)built.push_to(to);
    FAIL("it was sent");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::failure);
    CHECK(std::string(error.what()) == layer.file.string() + " was damaged, and is deleted");
    CHECK(error.hint() == "type the command again: it is made anew");
  }
  CHECK_FALSE(std::filesystem::exists(layer.file));
  // The configuration may be sent in parallel.
  std::vector<std::string> sent;
  for (const auto& [digest, bytes] : to.blobs["team/x"]) sent.push_back(digest);
  CHECK(std::find(sent.begin(), sent.end(), layer.blob.digest) == sent.end());
  CHECK(to.count("POST ") <= 1);
}

TEST_CASE("push() does not read the file of a layer that the registry has") {
  PlayedRegistry to;
  const Built built;
  (void)built.push_to(to);
  built.folder.write("layer-code", "damaged");
  PushProgress progress;
  CHECK(built.push_to(to, progress, "another").layers_there == 1);
  CHECK(std::filesystem::exists(built.composed.own[0].file));
}

TEST_CASE("push() sends small layers without a HEAD request if the repository lacks the base") {
  PlayedRegistry from, to;
  Built built(from);
  const std::string bytes = mlk::random_bytes((1 << 20) + 1);
  const auto small = raw_layer(built.folder, "small", bytes.substr(1)),
             large = raw_layer(built.folder, "large", bytes);
  built.composed = mlk::image::compose(built.base->image, {{small, "python"}, {large, "code"}}, {});
  const auto asked_for = [&](const std::string& digest) {
    return asked_whole(to, "HEAD /v2/team/x/blobs/" + digest);
  };
  const std::string configuration = built.composed.configuration_blob.digest;
  CHECK(built.push_to(to).layers_sent == 4);
  CHECK(built.is_whole_in(to));
  CHECK(asked_for(small.blob.digest) == 0);
  CHECK(asked_for(configuration) == 0);
  CHECK(asked_for(large.blob.digest) == 1);
  CHECK(asked_for(built.composed.of_base[0].digest) == 2);  // once to see whether the base is missing
  CHECK(asked_for(built.composed.of_base[1].digest) == 1);
  // If the registry has the base, it may have the other blobs too.
  to.asked.clear();
  PushProgress progress;
  CHECK(built.push_to(to, progress, "another").layers_there == 4);
  CHECK(asked_for(small.blob.digest) == 1);
  CHECK(asked_for(configuration) == 1);
  CHECK(asked_for(large.blob.digest) == 1);
}

TEST_CASE("if a base is missing, push() sends HEAD for its upper layers only after a refused mount") {
  PlayedRegistry played;
  const Built built(played);
  played.asked.clear();
  CHECK(built.push_to(played).layers_mounted == 2);
  CHECK(played.count(mounts) == 2);
  CHECK(played.count("HEAD /v2/team/x/blobs/") == 1);  // to see whether the base is missing
  PlayedRegistry stubborn;
  const Built again(stubborn);
  stubborn.add_blob("team/x", "upper");  // but not the first layer
  stubborn.before = [](const httplib::Request& request, httplib::Response& response) {
    response.status = 405;
    return request.has_param("mount");
  };
  const Pushed pushed = again.push_to(stubborn);
  CHECK(pushed.layers_there == 1);
  CHECK(pushed.layers_sent == 3);
  CHECK(pushed.layers_mounted == 0);
  CHECK(stubborn.count(mounts) == 2);
}

TEST_CASE("push() mounts only missing layers if the repository has the first layer of the base") {
  PlayedRegistry played;
  const Built built(played);
  played.add_blob("team/x", "lower");
  const Pushed pushed = built.push_to(played);
  CHECK(pushed.layers_there == 1);
  CHECK(pushed.layers_mounted == 1);
  CHECK(pushed.layers_sent == 2);
  CHECK(played.count(mounts) == 1);
}

TEST_CASE("push() does not mount a layer from the target repository itself") {
  PlayedRegistry played;
  const Built built(played, "team/x");
  played.blobs["team/x"].erase(built.composed.of_base[0].digest);
  CHECK_THROWS_AS((void)built.push_to(played), mlk::Error);
  CHECK(played.count(mounts) == 0);
}

TEST_CASE("if target and base are in one registry, mlk finds out only once whether the registry speaks TLS") {
  PlayedRegistry played, other;
  const Built built(played);
  const auto greetings = [](PlayedRegistry& of) { return asked_whole(of, "GET /v2/"); };
  CHECK(greetings(played) == 1);
  (void)built.push_to(played);
  CHECK(greetings(played) == 1);
  (void)built.push_to(other);
  CHECK(greetings(other) == 1);
  Registry registry({}, played.reference());
  CHECK_FALSE(mlk::registry::BaseMount(registry, played.reference(), *built.base).base_was_missing());
  CHECK(greetings(played) == 1);
}

TEST_CASE("BaseMount mounts the layers of a base before the push, and push() does not try this again") {
  for (const bool refuses : {false, true}) {
    CAPTURE(refuses);
    PlayedRegistry played;
    const Built built(played);
    played.before = [&](const httplib::Request& request, httplib::Response& response) {
      response.status = 405;
      return refuses && request.has_param("mount");
    };
    played.asked.clear();
    Registry registry({}, played.reference());
    const mlk::registry::BaseMount mount(registry, played.reference(), *built.base);
    CHECK(mount.base_was_missing());
    for (const auto& layer : built.composed.of_base) CHECK(mount.has_mounted(layer.digest) != refuses);
    CHECK_FALSE(mount.has_mounted(built.composed.own[0].blob.digest));
    CHECK(played.count(mounts) == 2);
    PushProgress progress;
    const Pushed pushed = mlk::registry::push(registry, played.reference("team/x", "new"), built.composed,
                                              built.base, progress, &mount);
    CHECK(pushed.layers_mounted == (refuses ? 0 : 2));
    CHECK(pushed.layers_sent == (refuses ? 4 : 2));
    CHECK(built.is_whole_in(played));
    CHECK(played.count(mounts) == 2);
    CHECK(played.count("HEAD /v2/team/x/manifests/") == 0);  // without its base the image cannot be there
  }
}

TEST_CASE("BaseMount does not mount a base that the repository has or that is in another registry") {
  PlayedRegistry played, other;
  const Built here(played, "team/x"), elsewhere(other);
  {
    Registry registry({}, played.reference());
    const mlk::registry::BaseMount mount(registry, played.reference(), *here.base);
    CHECK_FALSE(mount.base_was_missing());
    CHECK_FALSE(mount.has_mounted(here.composed.of_base[0].digest));
    PushProgress progress;
    const Pushed pushed = mlk::registry::push(registry, played.reference("team/x", "new"), here.composed,
                                              here.base, progress, &mount);
    CHECK(pushed.layers_there == 2);
    CHECK(played.count("HEAD /v2/team/x/manifests/new") == 1);
  }
  PlayedRegistry empty;
  Registry registry({}, empty.reference());
  const mlk::registry::BaseMount mount(registry, empty.reference(), *elsewhere.base);
  CHECK(mount.base_was_missing());
  CHECK_FALSE(mount.has_mounted(elsewhere.composed.of_base[0].digest));
  CHECK(empty.count("POST ") == 0);
  PushProgress progress;
  CHECK(mlk::registry::push(registry, empty.reference("team/x", "new"), elsewhere.composed, elsewhere.base,
                            progress, &mount)
            .layers_sent == 4);
  CHECK(played.count(mounts) == 0);
}

TEST_CASE("base_was_missing() is false for a base without layers") {
  PlayedRegistry from, to;
  const Built built(from);
  FoundImage bare = *built.base;
  bare.image.manifest.layers.clear();
  Registry registry({}, to.reference());
  const mlk::registry::BaseMount mount(registry, to.reference(), bare);
  CHECK_FALSE(mount.base_was_missing());
  CHECK(to.count("HEAD ") == 0);
}

TEST_CASE("base_was_missing() and has_mounted() throw if the registry refuses the request for the base") {
  PlayedRegistry from, to;
  const Built built(from);
  to.before = [](const httplib::Request& request, httplib::Response& response) {
    response.status = 403;
    return request.path != "/v2/";
  };
  Registry registry({}, to.reference());
  const mlk::registry::BaseMount mount(registry, to.reference(), *built.base);
  CHECK_THROWS_AS((void)mount.base_was_missing(), mlk::Error);
  CHECK_THROWS_AS((void)mount.has_mounted("x"), mlk::Error);
}

TEST_CASE("push() sends HEAD for the manifest only if the target has a tag") {
  PlayedRegistry to;
  const Built built;
  PushProgress progress;
  (void)built.push_to(to, progress, "");
  CHECK(to.count("HEAD /v2/team/x/manifests/") == 0);
  (void)built.push_to(to, progress, "new");
  CHECK(to.count("HEAD /v2/team/x/manifests/new") == 1);
  CHECK(to.count("PUT /v2/team/x/manifests/new") == 1);
}

TEST_CASE("push() uploads a large layer from its file, even if the registry stores only a piece of a part") {
  PlayedRegistry to;
  Built built;
  std::string bytes = mlk::random_bytes(1 << 20);
  for (int i = 0; i < 4; ++i) bytes += bytes;
  bytes += "the end";
  built.composed = mlk::image::compose(std::nullopt, {{raw_layer(built.folder, "large", bytes), "code"}}, {});
  (void)built.push_to(to);
  CHECK(to.blobs["team/x"][built.composed.own[0].blob.digest] == bytes);

  // The registry stores only a piece of the first part. mlk sends the rest of this part from there.
  const std::string other = bytes.substr(3) + "another end";
  built.composed = mlk::image::compose(std::nullopt, {{raw_layer(built.folder, "other", other), "code"}}, {});
  to.asked.clear();
  bool failed = false;
  to.before = [&](const httplib::Request& request, httplib::Response& response) {
    if (request.method != "PATCH" || failed) return false;
    failed = true;
    to.sessions.begin()->second = request.body.substr(0, 5'000'000);
    response.status = 500;
    return true;
  };
  (void)built.push_to(to);
  CHECK(failed);
  CHECK(to.blobs["team/x"][built.composed.own[0].blob.digest] == other);
  CHECK(to.count("PATCH ") == 3);  // a wrongly assembled layer would begin again
}
