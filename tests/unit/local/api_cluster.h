// An API without sockets, and requests and objects that tests send to it.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/local/api/api.h"
#include "cli/local/state/seed.h"
#include "tests/unit/local/samples.h"

namespace mlk::local::samples {

inline const std::string maps = "/api/v1/namespaces/default/configmaps";
inline const std::string jobs = "/apis/batch/v1/namespaces/default/jobs";
inline const std::string pods = "/api/v1/namespaces/default/pods";

struct Cluster {
  Folder folder{parent_of_small_files()};
  Store store{folder.path() / "objects"};
  PodLogs logs{folder.path() / "pods"};
  Api api{store, logs, [] { return noon; }};

  Cluster() { seed(store, noon); }

  Answer send(const std::string& method, const std::string& target, const json& body = nullptr,
              const std::string& type = "application/json", const std::string& accept = "application/json") {
    Request request;
    request.method = method;
    request.path = target.substr(0, target.find('?'));
    if (const auto mark = target.find('?'); mark != target.npos) {
      std::string rest = target.substr(mark + 1);
      while (!rest.empty()) {
        const auto end = std::min(rest.find('&'), rest.size());
        const auto equals = rest.find('=');
        request.query[rest.substr(0, equals)] = rest.substr(equals + 1, end - equals - 1);
        rest.erase(0, end + 1);
      }
    }
    if (!body.is_null()) request.body = body.is_string() ? body.get<std::string>() : body.dump();
    request.content_type = type;
    request.accept = accept;
    return api.handle(request);
  }
  json ask(const std::string& method, const std::string& target, const json& body = nullptr,
           const std::string& type = "application/json") {
    return json::parse(send(method, target, body, type).body);
  }
  int code(const std::string& method, const std::string& target, const json& body = nullptr,
           const std::string& type = "application/json") {
    return send(method, target, body, type).status;
  }

  // All lines of a stream; a watch ends at its timeout.
  std::vector<json> stream(const std::string& target) {
    const Answer answer = send("GET", target);
    REQUIRE(answer.stream);
    std::string text;
    answer.stream({[&](std::string_view part) {
                     text += part;
                     return true;
                   },
                   [] { return true; }});
    std::vector<json> lines;
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
      lines.push_back(json::parse(text.substr(begin, end - begin)));
    }
    return lines;
  }
};

// A pod "p", as a client sends it.
inline json pod_without_job() {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", "p"}}},
          {"spec",
           {{"restartPolicy", "Never"},
            {"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"true"}}}}}}}};
}

inline json map_named(const std::string& name, const json& more = json::object()) {
  json object = {
      {"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", name}}}, {"data", {{"k", "v"}}}};
  object.merge_patch(more);
  return object;
}

inline json job_named(const std::string& name, const json& spec = json::object(),
                      const json& container = json::object()) {
  json object = {{"apiVersion", "batch/v1"},
                 {"kind", "Job"},
                 {"metadata", {{"name", name}}},
                 {"spec",
                  {{"completionMode", "Indexed"},
                   {"completions", 2},
                   {"parallelism", 2},
                   {"template",
                    {{"spec",
                      {{"restartPolicy", "Never"},
                       {"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"true"}}}}}}}}}}}};
  object["spec"]["template"]["spec"]["containers"][0].merge_patch(container);
  object["spec"].merge_patch(spec);
  return object;
}

inline std::vector<std::string> names(const json& list) {
  std::vector<std::string> result;
  for (const json& item : list.at("items")) result.push_back(item.at("metadata").at("name"));
  return result;
}

}  // namespace mlk::local::samples
