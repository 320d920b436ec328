#include "cli/local/api/selector.h"

#include <algorithm>
#include <map>
#include <set>

#include "cli/local/state/status.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::local {
namespace {

// Splits the text at all commas that are not inside parentheses.
std::vector<std::string> split_terms(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

bool is_key(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '/';
  });
}

[[noreturn]] void refuse(std::string_view text) {
  throw bad_request("unable to parse requirement: \"" + std::string(text) + "\"");
}

std::vector<std::string> values_in_parentheses(std::string_view text, std::string_view whole) {
  text = trim(text);
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') refuse(whole);
  std::vector<std::string> values;
  for (const std::string& value : split(text.substr(1, text.size() - 2), ','))
    values.emplace_back(trim(value));
  return values;
}

// Returns the path of a field in objects of this kind. `label`: the name of the field in a field selector.
std::string path_of(const Kind& kind, const std::string& label) {
  static const std::map<std::string, std::set<std::string>> others = {
      {"pods",
       {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName"}},
      {"events",
       {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type"}},
      {"jobs", {"status.successful"}},
      {"services", {"spec.clusterIP", "spec.type"}},
      {"secrets", {"type"}},
      {"namespaces", {"status.phase"}},
      {"nodes", {"spec.unschedulable"}}};
  if (label == "metadata.name" || (label == "metadata.namespace" && kind.namespaced)) return label;
  const auto own = others.find(kind.plural);
  if (own == others.end())
    throw bad_request("\"" + label +
                      "\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
  if (own->second.contains(label)) {
    if (label == "source") return "source.component";
    return label == "status.successful" ? "status.succeeded" : label;
  }
  if (kind.kind == "Job") throw bad_request("field label \"" + label + "\" not supported for Job");
  throw bad_request("field label not supported: " + label);
}

}  // namespace

LabelSelector::LabelSelector(std::string_view text) {
  for (const std::string& part : split_terms(text)) {
    const std::string_view term = trim(part);
    const auto word = [&](std::size_t from, std::size_t to) {
      return std::string(trim(term.substr(from, to - from)));
    };
    if (const auto at = term.find("!="); at != term.npos) {
      terms_.push_back({word(0, at), Operator::not_in, {word(at + 2, term.size())}});
    } else if (const auto equals = term.find('='); equals != term.npos) {
      const std::size_t width = term.substr(equals).starts_with("==") ? 2 : 1;
      terms_.push_back({word(0, equals), Operator::in, {word(equals + width, term.size())}});
    } else if (const auto open = term.find('('); open != term.npos) {
      const std::vector<std::string> words = split(trim(term.substr(0, open)), ' ');
      if (words.size() != 2 || (words[1] != "in" && words[1] != "notin")) refuse(term);
      terms_.push_back({words[0], words[1] == "in" ? Operator::in : Operator::not_in,
                        values_in_parentheses(term.substr(open), term)});
    } else if (term.starts_with("!")) {
      terms_.push_back({word(1, term.size()), Operator::missing, {}});
    } else {
      terms_.push_back({std::string(term), Operator::exists, {}});
    }
    if (!is_key(terms_.back().key)) refuse(term);
    for (const std::string& value : terms_.back().values) {
      if (!value.empty() && (!is_key(value) || value.find('/') != value.npos)) refuse(term);
    }
  }
}

bool LabelSelector::matches(const json& object) const {
  const json& labels = at_path(object, {"metadata", "labels"});
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    const json& value = at_path(labels, {term.key.c_str()});
    if (!value.is_string()) return term.op == Operator::not_in || term.op == Operator::missing;
    const auto& values = term.values;
    const bool is_listed = std::ranges::find(values, value.get_ref<const std::string&>()) != values.end();
    return term.op == Operator::exists || (term.op == Operator::in && is_listed) ||
           (term.op == Operator::not_in && !is_listed);
  });
}

FieldSelector::FieldSelector(std::string_view text, const Kind& kind) {
  for (const std::string& part : split_terms(text)) {
    const std::string_view term = trim(part);
    const auto at = term.find('=');
    if (at == term.npos || at == 0)
      throw bad_request("invalid selector: '" + std::string(text) + "'; can't understand '" +
                        std::string(term) + "'");
    const bool differs = term[at - 1] == '!';
    const std::size_t width = term.substr(at).starts_with("==") ? 2 : 1;
    std::string path = path_of(kind, std::string(trim(term.substr(0, differs ? at - 1 : at))));
    std::ranges::replace(path, '.', '/');
    terms_.push_back({json::json_pointer("/" + path), !differs, std::string(trim(term.substr(at + width)))});
  }
}

bool FieldSelector::matches(const json& object) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    const std::string text = object.contains(term.path) ? text_or_json(object.at(term.path)) : "";
    return (text == term.value) == term.equal;
  });
}

}  // namespace mlk::local
