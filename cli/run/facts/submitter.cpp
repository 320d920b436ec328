#include "cli/run/facts/submitter.h"

#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"

namespace mlk {
namespace {

using nlohmann::json;

bool differ(const std::string& a, const std::string& b) { return !a.empty() && !b.empty() && a != b; }
bool agree(const std::string& a, const std::string& b) { return !a.empty() && a == b; }

bool is_service_account(const Submitter& submitter) {
  return submitter.user.starts_with("system:serviceaccount:");
}

bool is_same(const Submitter& a, const Submitter& b) {
  return !differ(a.user, b.user) && !differ(a.name, b.name) &&
         (agree(a.user, b.user) || agree(a.name, b.name));
}

}  // namespace

Submitter submitter_of(const json& owner) {
  const json value = json_or_null(kube::annotation_of(owner, annotations::submitter));
  return {.user = text_of(value, {"user"}), .name = text_of(value, {"name"})};
}

json to_json(const Submitter& submitter) {
  if (!submitter.is_known()) return nullptr;
  return {{"user", submitter.user}, {"name", submitter.name}};
}

std::string annotation_text(const Submitter& submitter) {
  return submitter.is_known() ? json_text(to_json(submitter)) : "";
}

bool is_mine(const Submitter& submitter, const Me& me) {
  return is_same(submitter, me.self) || agree(submitter.user, me.also) || agree(submitter.name, me.also);
}

bool is_of_another(const Submitter& submitter, const Me& me) {
  if (!submitter.is_known() || !me.self.is_known()) return false;
  return !is_service_account(submitter) && !is_service_account(me.self) && !is_mine(submitter, me);
}

std::string called(const Submitter& submitter, const Me& me) {
  const bool by_user = !submitter.user.empty() && (submitter.user != me.self.user || submitter.name.empty());
  return by_user ? submitter.user : submitter.name;
}

std::vector<std::string> short_names(const std::vector<Submitter>& submitters) {
  std::map<std::string, std::set<std::string>> names_of_users;
  for (const Submitter& each : submitters) {
    if (each.is_known()) names_of_users[each.user].insert(each.name);
  }
  bool one_name_each = true;
  for (const auto& [user, names] : names_of_users) one_name_each = one_name_each && names.size() == 1;
  std::vector<std::string> out;
  for (const Submitter& each : submitters) {
    if (each.user.empty() || (names_of_users.size() == 1 && !each.name.empty())) {
      out.push_back(each.name);
    } else {
      out.push_back(one_name_each || each.name.empty() ? each.user : each.user + "/" + each.name);
    }
  }
  return out;
}

}  // namespace mlk
