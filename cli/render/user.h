// Which user the pods of a run have: the key `user:`, and what is known of the image and of the namespace.
// Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/experiment/experiment.h"

namespace mlk {

inline constexpr char user_auto[] = "auto";  // the values of `user:` that are no number
inline constexpr char user_image[] = "image";

// As whom an image runs its programs, as its configuration says.
struct ImageUser {
  std::string user;  // "", "app", "1000:100"
  std::string home;  // HOME of its environment; empty: it names none
};

// What only the caller can know; rendering asks nobody.
struct UserFacts {
  bool on_machine = false;           // --local: pods are processes of the user's own
  bool is_assigned = false;          // the namespace gives each pod its number, as OpenShift does
  std::optional<ImageUser> image{};  // nullopt: nobody has said
};

// The annotation of such a namespace.
inline constexpr char assigned_user_annotation[] = "openshift.io/sa.scc.uid-range";

// What the pods of a run are given; what is null or empty is left to the image, or to the namespace.
struct PodUser {
  nlohmann::json number, group, files_group;  // runAsUser, runAsGroup, fsGroup
  bool must_not_be_root = true;
  std::string home;    // a folder of the pod's own, where it may write
  std::string name;    // USER and LOGNAME: a number without an entry in the image's passwd has none
  std::string source;  // for the record: "file", "image", "namespace", "default"; empty: there was no choice
  bool is_guess = false;  // mlk's own number, of which nobody knows whether it suits the image
};

PodUser choose_user(const Experiment& experiment, const UserFacts& facts);

// The number of a user in an image's configuration, if it is one that may be asked for; never root's.
std::optional<long long> number_of_user(const std::string& user);

// One sentence for people about a number that is a guess; empty: it is none. `unknown`: why nobody has said
// anything of the image, may be empty.
std::string note_on_user(const Experiment& experiment, const UserFacts& facts, const std::string& unknown);

// Between processes of mlk.
nlohmann::json to_json(const UserFacts& facts);
UserFacts parse_user_facts(const nlohmann::json& value);

}  // namespace mlk
