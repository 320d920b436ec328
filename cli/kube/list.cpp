#include "cli/kube/list.h"

#include "cli/kube/failure.h"

namespace mlk::kube {
namespace {

constexpr int page_size = 500;

void complete(json& item, const Resource& resource) {
  if (!item.contains("kind")) item["kind"] = resource.kind;
  if (!item.contains("apiVersion")) item["apiVersion"] = api_version_of(resource);
}

}  // namespace

std::string describe(const Resource& resource, const std::string& name_space, const std::string& name) {
  std::string text = resource.plural;
  if (!name.empty()) text += "/" + name;
  if (!name_space.empty()) text += " in namespace " + name_space;
  return text;
}

Request list_request(const Resource& resource, const std::string& name_space, const ListOptions& options,
                     bool watch) {
  Request request;
  request.path = path_of(resource, name_space);
  if (!options.label_selector.empty()) request.query.emplace_back("labelSelector", options.label_selector);
  if (!options.field_selector.empty()) request.query.emplace_back("fieldSelector", options.field_selector);
  if (options.metadata_only) {
    request.accept = std::string("application/json;as=PartialObjectMetadata") + (watch ? "" : "List") +
                     ";g=meta.k8s.io;v=v1,application/json";
  }
  if (watch) {
    request.query.emplace_back("watch", "1");
    request.query.emplace_back("allowWatchBookmarks", "true");
  }
  return request;
}

ListResult list_pages(const std::function<Response(const Request&)>& send, const Resource& resource,
                      const std::string& name_space, const ListOptions& options, const Config* config) {
  const Request first = list_request(resource, name_space, options, false);
  const std::string what = describe(resource, name_space);
  ListResult result;
  std::string next;
  bool paged = true;
  while (true) {
    Request request = first;
    if (paged) request.query.emplace_back("limit", std::to_string(page_size));
    if (!next.empty()) request.query.emplace_back("continue", next);
    const Response response = send(request);
    if (response.status == 410 &&
        !next.empty()) {  // the snapshot that the pages are of has been compacted away
      result = ListResult();
      next.clear();
      paged = false;
      continue;
    }
    json answer = parse_answer(response, what, config);
    const auto items = answer.find("items");
    if (items != answer.end() && items->is_array()) {
      for (json& item : *items) {
        if (!item.is_object()) continue;
        complete(item, resource);
        result.items.push_back(std::move(item));
      }
    }
    result.resource_version = text_at(answer, json::json_pointer("/metadata/resourceVersion"));
    next = text_at(answer, json::json_pointer("/metadata/continue"));
    if (next.empty() || !paged) return result;
  }
}

json parse_answer(const Response& response, const std::string& what, const Config* config) {
  if (response.status >= 300) throw status_error(response.status, response.body, what, config);
  json answer = json::parse(response.body, nullptr, false);
  if (answer.is_discarded() || !answer.is_object()) {
    throw ApiError(response.status, "Unreadable",
                   (what.empty() ? "" : what + ": ") + "the server's answer is not JSON",
                   config == nullptr ? "" : "is " + config->server + " a Kubernetes API server?");
  }
  return answer;
}

}  // namespace mlk::kube
