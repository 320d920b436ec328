// The state of a run, computed only from its objects. Pure: the same objects and time give the same answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/facts/absence.h"
#include "cli/run/facts/phase.h"
#include "cli/run/facts/run_objects.h"
#include "cli/run/facts/submitter.h"
#include "cli/run/state/checkpoints.h"
#include "cli/run/state/volume_folder.h"
#include "cli/util/error.h"
#include "cli/util/time.h"

namespace mlk {

struct RankStatus {
  std::string role;
  int rank = 0;
  std::string pod, node;
  std::string state;      // "Running", "Pending", "Succeeded", "Failed", "Missing", "Stopped"
  int restarts = 0;       // how many pods of this rank failed or were lost before the present pod
  std::string reason;     // why the rank is not running, or the problem of another container; may be empty
  std::string meanwhile;  // shown instead of the reason while the program has ended but its pod has not
  std::optional<Time> since;
};

struct Failure {
  std::string role;
  int rank = 0;
  int exit_code = 0;      // -1 if unknown
  int signal = 0;         // the signal that ended the program; 0: none
  std::string container;  // the container to blame, if it is not the program's
  std::string reason;     // "exit code 3", "killed by signal 9 (SIGKILL)", "out of memory", "evicted: ..."
  std::string message;    // the last lines or the result message: printable, without lines of launchers
  std::string said;       // the program's error in `message`, in one line; not recorded
  bool disruption = false;
  int attempt = 1, attempts = 1;  // "try 1 of 4"
  std::optional<Time> at, next;   // next: when the Job controller starts the rank again, if it does
};

struct RunStatus {
  std::string run, name, mode;
  Phase phase = Phase::incomplete;
  std::string why;                  // one line; empty if there is nothing to explain
  bool cannot_start = false;        // the run cannot start, however long mlk waits (invalid image name, pods
                                    // that admission refuses)
  Absence absence = Absence::none;  // whether the deciding Job is missing, or other Jobs are not made yet
  int pods_left = 0;                // pods that have not ended, although their Job is gone (pods_left.h)
  int pods_ending = 0;              // those of `pods_left` whose deletion was requested
  std::optional<Time> created, started, ended;
  std::vector<RankStatus> ranks;
  std::optional<Failure> first_failure;  // the cause of the failure, not a later end with exit code 137
  std::optional<Failure> last_failure;
  int restarts = 0;
  long steps = 0;                 // the total number of steps of the run; 0 if unknown
  nlohmann::json result;          // the result of the reporting rank (CONTRACT.md), or null
  std::optional<Time> result_at;  // the latest possible time of its report; absent if unknown
  std::string last_checkpoint;
  std::optional<CheckpointPlace> checkpoint;  // where the checkpoint is stored
  std::optional<VolumeFolder> outputs;        // where the files of `outputs:` are

  // The experiment as it was submitted.
  nlohmann::json experiment;  // with all defaults; null if the owner was read as metadata only
  Submitter submitter;
  std::vector<std::string> tags;
  std::string note;
  std::string commit;  // the commit of its code, as commit_of() returns it
};

RunStatus observe(const RunObjects& objects, Time now);

// Whether the run is over: its phase is final, or its Job is gone.
bool is_over(const RunStatus& status);

// 0, 5 or 7 for an ended run, 8 for a stopped run, 6 for a run that cannot start. 1 for any other run, for
// example a run whose Job is gone.
ExitCode exit_code(const RunStatus& status);

// The final record, which mlk stores in the owner's ConfigMap and from_record() reads.
nlohmann::json to_record(const RunStatus& status);
// Everything that `status -o json` prints.
nlohmann::json to_json(const RunStatus& status);

}  // namespace mlk
