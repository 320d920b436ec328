// The labels and annotations of mlk's objects, and what they mean. The templates use the same names, and a
// test compares the names. The owner of a run or of a sweep is a ConfigMap. All other objects of the run or
// sweep belong to this ConfigMap.
#pragma once

// Labels, by which objects are selected.
namespace mlk::labels {

inline constexpr char managed_by[] = "app.kubernetes.io/managed-by";  // "mlk"
inline constexpr char run[] = "mlk.dev/run";
inline constexpr char name[] = "mlk.dev/name";    // of the experiment
inline constexpr char hash[] = "mlk.dev/hash";    // of the experiment and its files
inline constexpr char mode[] = "mlk.dev/mode";    // single, ps, allreduce, sweep
inline constexpr char role[] = "mlk.dev/role";    // of Jobs and their pods
inline constexpr char sweep[] = "mlk.dev/sweep";  // of a sweep's objects, and of the runs that are its trials
inline constexpr char shared[] = "mlk.dev/shared";  // of an object that is owned by all runs that use it

inline constexpr char driver[] = "driver";  // the role of the Job that drives a detached sweep

}  // namespace mlk::labels

namespace mlk::annotations {

// Annotations of the owner of a run.
inline constexpr char roles[] = "mlk.dev/roles";    // {"worker": 5, ...}: the roles that have a Job
inline constexpr char steps[] = "mlk.dev/steps";    // how many steps the run is to make
inline constexpr char tags[] = "mlk.dev/tags";      // a JSON list of words
inline constexpr char note[] = "mlk.dev/note";      // a remark for people
inline constexpr char submit[] = "mlk.dev/submit";  // which call of submit made the owner
inline constexpr char shell[] = "mlk.dev/shell";    // embedded cluster: variables of the submitting shell
inline constexpr char checkpoints[] = "mlk.dev/checkpoints";  // the folder, if it is that of an earlier run
inline constexpr char submitter[] = "mlk.dev/submitter";      // who submitted it (facts/submitter.h)
inline constexpr char submitted[] = "mlk.dev/submitted";      // when the owner was sent, in ns since 1970
inline constexpr char created[] = "mlk.dev/created";          // set when all objects exist: the deciding Jobs
inline constexpr char gone[] = "mlk.dev/gone";        // the Jobs of `created` that two lists have lacked
inline constexpr char stopped[] = "mlk.dev/stopped";  // when the run was stopped, RFC 3339
inline constexpr char phase[] = "mlk.dev/phase";      // the phase in the record, if there is a record
inline constexpr char summary[] = "mlk.dev/summary";  // written with `phase`: the data for mlk ls, as JSON

// Further annotations of the owner of a trial.
inline constexpr char trial[] = "mlk.dev/trial";                  // the trial's number in its sweep
inline constexpr char stopped_early[] = "mlk.dev/stopped-early";  // why the sweep has ended it for good
inline constexpr char cannot_start[] = "mlk.dev/cannot-start";    // why it failed without having started
inline constexpr char until[] = "mlk.dev/until";    // the step to which it trains before the sweep judges it
inline constexpr char paused[] = "mlk.dev/paused";  // the step at which it pauses until `until` is larger

// Further annotations of the owner of a sweep.
inline constexpr char draining[] = "mlk.dev/draining";  // the time since which no more trials are started

// Annotations of Jobs.
inline constexpr char trials[] = "mlk.dev/trials";  // of a Job of a sweep: the trial's number for each index
inline constexpr char decides[] = "mlk.dev/decides";  // "true": its end is the end of the run
// "true" on the Job that decides: mlk's own runtime trains, and a rank that ends with 0 shows that the whole
// run is trained.
inline constexpr char trains[] = "mlk.dev/trains";
// "true": mlk has suspended the Job, and has not resumed it since. If such a Job is not suspended, another
// program (Kueue, kubectl) has resumed it. mlk changes this annotation and spec.suspend in one request, so
// a stop or a resume by mlk never looks like a resume by another program. Times cannot show who has resumed a
// Job: the clocks of the user's machine and of the cluster differ, and the Job controller may miss a short
// suspension.
inline constexpr char suspended[] = "mlk.dev/suspended";

// Annotations of other objects.
inline constexpr char owner[] = "mlk.dev/owner";    // of a cluster-scoped object: the uid of its owner
inline constexpr char digest[] = "mlk.dev/digest";  // of a shared object: sha256 of its content

}  // namespace mlk::annotations
