#include "cli/kube/list.h"

#include <algorithm>

#include "cli/kube/failure.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"

namespace mlk::kube {
namespace {

constexpr int largest_page = 500, smallest_page = 10;  // objects
constexpr std::size_t large_page = 8u << 20;           // bytes; a larger page is followed by a shorter one

// Limits for all pages together, because a server, or a proxy in front of it, may send pages without an end.
constexpr std::size_t most_items = 200'000;
constexpr std::size_t most_bytes = 512u << 20;
constexpr int most_pages = 1000;  // limited too, because a page may be empty

void complete(json& item, const Resource& resource) {
  repair(item);
  if (!item.contains("kind")) item["kind"] = resource.kind;
  if (!item.contains("apiVersion")) item["apiVersion"] = api_version_of(resource);
}

// The index after the closing bracket of the list whose content begins at `at`; npos if the text ends before
// this bracket.
std::size_t end_of_list(std::string_view text, std::size_t at) {
  bool in_string = false;
  for (int depth = 1; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']' && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

// Asks for fewer objects after a large page, and for more after a small page.
int next_limit(int limit, std::size_t bytes) {
  if (bytes > large_page) return std::max(limit / 2, smallest_page);
  return bytes < large_page / 4 ? std::min(limit * 2, largest_page) : limit;
}

}  // namespace

std::string without_managed_fields(std::string_view text) {
  // These patterns cannot be found inside a JSON string, where each quote has a backslash before it.
  constexpr std::string_view begin = R"(,"managedFields":[)", entry = R"({"manager":)";
  std::string out;
  out.reserve(text.size());
  std::size_t kept = 0;
  for (std::size_t found = text.find(begin); found != std::string_view::npos;
       found = text.find(begin, found)) {
    const std::size_t inside = found + begin.size();
    const std::size_t end = text.substr(inside).starts_with(entry) ? end_of_list(text, inside) : inside;
    if (end == std::string_view::npos) break;
    if (end > inside) {
      out.append(text, kept, found - kept);
      kept = end;
    }
    found = end;
  }
  return out.append(text, kept, text.size() - kept);
}

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
  if (options.from_cache && !watch) request.query.emplace_back("resourceVersion", "0");
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
  int limit = options.first_page;
  std::size_t bytes = 0;
  for (int page = 1;; ++page) {
    Request request = first;
    if (paged) request.query.emplace_back("limit", std::to_string(limit));
    if (!next.empty()) request.query.emplace_back("continue", next);
    const Response response = send(request);
    if (response.status == 410 && !next.empty()) {  // the server no longer has the snapshot of the pages
      result = ListResult();
      next.clear();
      paged = false;
      bytes = 0;
      continue;
    }
    bytes += response.body.size();
    limit = next_limit(limit, response.body.size());
    json answer = parse_answer(response, what, config);
    const auto items = answer.find("items");
    if (items != answer.end() && items->is_array()) {
      for (json& item : *items) {
        if (!item.is_object()) continue;
        complete(item, resource);
        if (options.transform) options.transform(item);
        result.items.push_back(std::move(item));
      }
    }
    result.resource_version = text_of(answer, {"metadata", "resourceVersion"});
    next = text_of(answer, {"metadata", "continue"});
    const bool enough = options.enough > 0 && result.items.size() >= options.enough;
    if (next.empty() || !paged || enough) return result;
    if (page == most_pages || result.items.size() > most_items || bytes > most_bytes) {
      throw ApiError(response.status, "TooLarge",
                     what + ": the list does not end: " + std::to_string(result.items.size()) +
                         " objects in " + std::to_string(page) + " pages",
                     config == nullptr ? "" : "is " + config->server + " a Kubernetes API server?");
    }
  }
}

json parse_answer(const Response& response, const std::string& what, const Config* config) {
  if (response.status >= 300) throw status_error(response.status, response.body, what, config);
  const auto unreadable = [&](const std::string& why) {
    return ApiError(response.status, "Unreadable", (what.empty() ? "" : what + ": ") + why,
                    config == nullptr ? "" : "is " + config->server + " a Kubernetes API server?");
  };
  json answer;
  try {
    answer = parse_json(without_managed_fields(response.body), "the server's answer");
  } catch (const Error& error) {
    throw unreadable(error.what());
  }
  if (!answer.is_object()) throw unreadable("the server's answer is not a JSON object");
  return answer;
}

}  // namespace mlk::kube
