// Chooses the user of the pods of a run, by the key `user:` and the known facts about the image and the
// namespace. Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/experiment/experiment.h"

namespace mlk {

inline constexpr char user_auto[] = "auto";  // values of `user:` that are not numbers
inline constexpr char user_image[] = "image";

// The user that the configuration of an image gives to its programs.
struct ImageUser {
  std::string user;  // "", "app", "1000:100"
  std::string home;  // HOME in the environment of the image; empty: not set
};

// Facts that the caller has found out, because rendering itself sends no requests.
struct UserFacts {
  bool on_machine = false;           // --local: pods are processes of the user who runs mlk
  bool is_assigned = false;          // the namespace determines the user numbers of its pods, as in OpenShift
  std::optional<ImageUser> image{};  // nullopt: unknown
};

// The annotation by which a namespace determines the user numbers of its pods.
inline constexpr char assigned_user_annotation[] = "openshift.io/sa.scc.uid-range";

// The user settings of the pods. If a field is null or empty, the image or the namespace decides its value.
struct PodUser {
  nlohmann::json number, group, files_group;  // runAsUser, runAsGroup, fsGroup
  bool must_not_be_root = true;
  std::string home;    // a folder of the pod, where the program may write
  std::string name;    // for USER and LOGNAME, since the image's passwd may have no name for the number
  std::string source;  // for the record: "file", "image", "namespace", "default"; empty: no choice was made
  bool is_guess = false;  // the number is mlk's default, which may not suit the image
};

PodUser choose_user(const Experiment& experiment, const UserFacts& facts);

// Returns the number in the user of an image's configuration: 1000 for "1000:100". nullopt if the user is a
// name, is root, or is over the limit of Kubernetes.
std::optional<long long> number_of_user(const std::string& user);

// Returns one sentence for people if the number is a guess; otherwise an empty text. `unknown`: the reason
// why the image's user is unknown; may be empty.
std::string note_on_user(const Experiment& experiment, const UserFacts& facts, const std::string& unknown);

// The facts as JSON, which one process of mlk passes to another.
nlohmann::json to_json(const UserFacts& facts);
UserFacts parse_user_facts(const nlohmann::json& value);

}  // namespace mlk
