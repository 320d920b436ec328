#include "cli/render/user.h"

#include <charconv>

#include <fmt/format.h>

#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {

using nlohmann::json;

namespace {

constexpr int runtime_user = 65532;         // "nonroot" of the bundled runtime's image
constexpr int usual_user = 1000;            // number of the first user of most systems
constexpr int shared_group = runtime_user;  // group of files in volumes, for `train:` and for `run:`
constexpr char pod_home[] = "/mlk/home";
constexpr char user_name[] = "mlk";

// Whether a program that is not root can use this home.
bool is_own_home(const std::string& home) {
  return !home.empty() && home != "/" && home != "/root" && !home.starts_with("/root/");
}

}  // namespace

std::optional<long long> number_of_user(const std::string& user) {
  constexpr long long largest = 2147483647;  // limit of Kubernetes
  const std::string_view digits = std::string_view(user).substr(0, user.find(':'));
  long long number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number >= 1 && number <= largest ? std::optional(number) : std::nullopt;
}

PodUser choose_user(const Experiment& experiment, const UserFacts& facts) {
  const bool trains = experiment.has_train;
  const json said = experiment.effective.value("user", json(user_auto));
  PodUser out;
  if (facts.on_machine) {
    if (trains) out.number = out.group = out.files_group = runtime_user;
    return out;
  }
  if (!facts.is_assigned) out.files_group = shared_group;
  if (said == user_image) {
    out.must_not_be_root = false;
    out.source = "file";
    return out;
  }
  const long long of_image = facts.image ? number_of_user(facts.image->user).value_or(0) : 0;  // 0: none
  if (said.is_number()) {
    out.number = said;
    out.must_not_be_root = said != 0;
    out.source = "file";
  } else if (facts.is_assigned) {
    out.source = "namespace";
  } else if (trains) {
    out.number = out.group = runtime_user;
  } else if (of_image != 0) {
    out.number = of_image;
    out.source = "image";
  } else {
    out.number = usual_user;
    out.source = "default";
    out.is_guess = true;
  }
  if (trains || !out.must_not_be_root) return out;
  const bool is_images_own = of_image != 0 && out.number == of_image;
  if (!is_images_own || !is_own_home(facts.image->home)) out.home = pod_home;
  out.name = user_name;
  return out;
}

std::string note_on_user(const Experiment& experiment, const UserFacts& facts, const std::string& unknown) {
  if (!choose_user(experiment, facts).is_guess) return "";
  const std::string whole = facts.image ? facts.image->user : "", user = whole.substr(0, whole.find(':'));
  std::string why;
  if (!facts.image) {
    why = fmt::format("mlk does not know the user of image {}{}", experiment.image,
                      unknown.empty() ? "" : fmt::format(" ({})", unknown));
  } else if (user.empty()) {
    why = fmt::format("image {} names no user", experiment.image);
  } else if (user == "root" || user.find_first_not_of('0') == user.npos) {
    why = fmt::format("image {} runs its programs as root", experiment.image);
  } else {
    why = fmt::format("image {} names its user {} without a number", experiment.image, user);
  }
  return printable(fmt::format("{}: the program runs as {}; `user:` names another number", why, usual_user));
}

json to_json(const UserFacts& facts) {
  json out = {{"on_machine", facts.on_machine}, {"is_assigned", facts.is_assigned}};
  if (facts.image) out["image"] = {{"user", facts.image->user}, {"home", facts.image->home}};
  return out;
}

UserFacts parse_user_facts(const json& value) {
  UserFacts out;
  if (!value.is_object()) return out;
  const auto is_set = [&](const char* key) { return value.value(key, json()) == true; };
  out.on_machine = is_set("on_machine");
  out.is_assigned = is_set("is_assigned");
  const json& image = at_path(value, {"image"});
  if (image.is_object()) out.image = ImageUser{text_of(image, {"user"}), text_of(image, {"home"})};
  return out;
}

}  // namespace mlk
