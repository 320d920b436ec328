// Images on their way to a registry: what is sent, in which order, and what is not when something fails.
#include "cli/registry/push.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/registry/played_image.h"

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

}  // namespace

TEST_CASE("layers of a base in another registry stream through, and the manifest comes last") {
  PlayedRegistry from, to;
  const Built built(from);
  PushProgress progress;
  const Pushed pushed = built.push_to(to, progress);
  CHECK(built.is_whole_in(to));
  CHECK(to.manifests["team/x"]["new"] == built.composed.manifest);
  CHECK(to.asked.back() == "PUT /v2/team/x/manifests/new");
  CHECK(pushed.digest == built.composed.digest);
  CHECK(pushed.layers_sent == 4);  // two of the base are the same
  CHECK(pushed.layers_there + pushed.layers_mounted == 0);
  CHECK(progress.blobs_left == 0);
  CHECK(progress.sent == pushed.bytes_sent);
  CHECK(progress.all == pushed.bytes_sent);
  CHECK(to.count("POST /v2/team/x/blobs/uploads/?mount") == 0);
}

TEST_CASE("what is there is not sent again") {
  PlayedRegistry from, to;
  const Built built(from);
  (void)built.push_to(to);
  const int posts = to.count("POST ");
  Pushed pushed = built.push_to(to);  // the same tag: one question tells
  CHECK(pushed.digest == built.composed.digest);
  CHECK(pushed.layers_there == 5);
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

TEST_CASE("an image without a tag is stored under its digest") {
  PlayedRegistry to;
  const Built built;
  PushProgress progress;
  (void)built.push_to(to, progress, "");
  CHECK(to.asked.back() == "PUT /v2/team/x/manifests/" + built.composed.digest);
}

TEST_CASE("within a registry layers are mounted, and sent where it does not do that") {
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

TEST_CASE("a base in the same repository is there") {
  PlayedRegistry played;
  const Built built(played, "team/x");
  const Pushed pushed = built.push_to(played);
  CHECK(pushed.layers_there == 2);
  CHECK(pushed.layers_sent == 2);
}

TEST_CASE("no tag names an image of which a part is missing") {
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

TEST_CASE("a layer whose file has changed is not sent as the one that it was") {
  PlayedRegistry to;
  const Built built;
  for (const std::string& now : {std::string("short"), std::string(built.composed.own[0].blob.size, 'x')}) {
    built.folder.write("layer-code", now);
    CHECK_THROWS_AS((void)built.push_to(to), mlk::Error);
    CHECK_FALSE(to.blobs["team/x"].contains(built.composed.own[0].blob.digest));
    CHECK(to.manifests["team/x"].empty());
  }
}

TEST_CASE("a user who stops ends the upload") {
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
