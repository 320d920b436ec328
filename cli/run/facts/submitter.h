// Who submitted a run or sweep, and whether this is the user of the command. Pure.
//
// A bare name means the user's own newest run, and commands that change the run of another user ask first.
// This protects colleagues in one namespace from mistakes. It is no protection from ill will: what a user may
// do is decided by the cluster alone.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

struct Submitter {
  std::string user;  // the name under which the cluster knows the user; empty if unknown
  std::string name;  // the user's name on the machine of the submit, whatever machine it was

  bool is_known() const { return !user.empty() || !name.empty(); }
};

// The user of this command.
struct Me {
  Submitter self;
  std::string also;  // --mine-as: the runs of this user are mine, too
};

// Reads the annotation of the owner of a run or sweep. The result is unknown if mlk did not record it.
Submitter submitter_of(const nlohmann::json& owner);
// The text of that annotation; empty if the submitter is unknown.
std::string annotation_text(const Submitter& submitter);
// {"user": ..., "name": ...}, or null if the submitter is unknown.
nlohmann::json to_json(const Submitter& submitter);

// Whether I submitted it. Colleagues often share one login of a cluster, and many users have the name root on
// some machine. So two submitters are the same if neither their users nor their names differ.
bool is_mine(const Submitter& submitter, const Me& me);

// Whether another user submitted it, who should be asked before a command changes it. False for unknown
// submitters, and if one of the two is a service account: several programs and users share it.
bool is_of_another(const Submitter& submitter, const Me& me);

// The word that tells the submitter from me: the user on the cluster, or the name if this user is mine, too.
std::string called(const Submitter& submitter, const Me& me);

// The shortest words that tell these submitters from each other, in the same order: their names if all have
// the same user on the cluster, their users if each has one name, else USER/NAME. Empty for unknown ones.
std::vector<std::string> short_names(const std::vector<Submitter>& submitters);

}  // namespace mlk
