#include "cli/kube/access.h"

#include <charconv>
#include <deque>
#include <future>

#include "cli/kube/list.h"
#include "cli/util/json_path.h"

namespace mlk::kube {
namespace {

const Resource access_reviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                              "SelfSubjectAccessReview"};
const Resource self_reviews{"authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview"};

constexpr std::size_t most_at_once = 8;  // few, because without HTTP/2 each request has its own connection

// A review is a question to the server in the form of an object. The server answers it but does not store it.
Request review_request(const Resource& resource, json spec) {
  json body = {{"apiVersion", api_version_of(resource)}, {"kind", resource.kind}};
  if (!spec.is_null()) body["spec"] = std::move(spec);
  return {.method = "POST", .path = path_of(resource, ""), .body = body.dump()};
}

Request access_request(const std::string& name_space, const AccessQuestion& question) {
  json attributes = {{"verb", question.verb},
                     {"group", question.resource.group},
                     {"version", question.resource.version},
                     {"resource", question.resource.plural}};
  if (question.resource.namespaced && !name_space.empty()) attributes["namespace"] = name_space;
  if (!question.subresource.empty()) attributes["subresource"] = question.subresource;
  return review_request(access_reviews, {{"resourceAttributes", std::move(attributes)}});
}

// Returns 30 for "30+", the form in which some providers write a version. Returns -1 if the text does not
// begin with a number.
int leading_number(const std::string& text) {
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Identity identity_in(const json& review) {
  Identity identity;
  identity.name = text_of(review, {"status", "userInfo", "username"});
  const json& groups = at_path(review, {"status", "userInfo", "groups"});
  if (groups.is_array()) {
    for (const json& group : groups) {
      if (group.is_string()) identity.groups.push_back(group.get<std::string>());
    }
  }
  return identity;
}

}  // namespace

std::vector<bool> may_all(Client& client, const std::string& name_space,
                          const std::vector<AccessQuestion>& questions, const std::string& as) {
  std::deque<std::future<Answer>> answers;
  std::vector<bool> allowed;
  const auto take = [&] {
    const json review = parse_answer(answers.front().get().value(), "access review", &client.config());
    answers.pop_front();
    allowed.push_back(at_path(review, {"status", "allowed"}) == true);
  };
  for (const AccessQuestion& question : questions) {
    if (answers.size() == most_at_once) take();
    Request request = access_request(name_space, question);
    if (!as.empty()) request.headers = {{"Impersonate-User", as}};
    answers.push_back(client.ask(request));
  }
  while (!answers.empty()) take();
  return allowed;
}

Identity whoami(Client& client) { return ask_whoami(client).get(); }

std::future<Identity> ask_whoami(Client& client) {
  return std::async(std::launch::deferred,
                    [answer = client.ask(review_request(self_reviews, nullptr)), &client]() mutable {
                      return identity_in(parse_answer(answer.get().value(), "who am I", &client.config()));
                    });
}

ServerVersion server_version(Client& client) {
  const json answer = parse_answer(client.send({.path = "/version"}), "version", &client.config());
  ServerVersion version;
  version.major = leading_number(text_of(answer, {"major"}));
  version.minor = leading_number(text_of(answer, {"minor"}));
  version.text = text_of(answer, {"gitVersion"});
  if (version.major < 0 || version.minor < 0) {
    throw ApiError(200, "Unreadable", "the server at " + client.config().server + " does not say its version",
                   "is it a Kubernetes API server?");
  }
  return version;
}

void require_version(const ServerVersion& version, int major, int minor) {
  if (version.major > major || (version.major == major && version.minor >= minor)) return;
  const auto text = [](int a, int b) { return std::to_string(a) + "." + std::to_string(b); };
  throw Error(ExitCode::cluster,
              "cluster runs Kubernetes " + text(version.major, version.minor) + "; mlk needs " +
                  text(major, minor) + " or newer",
              "choose another cluster with --context, or ask its operators for an upgrade");
}

}  // namespace mlk::kube
