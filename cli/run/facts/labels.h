// The labels and annotations of mlk's objects. The templates use the same names; a test compares them.
#pragma once

namespace mlk::labels {

inline constexpr char run[] = "mlk.dev/run";
inline constexpr char name[] = "mlk.dev/name";
inline constexpr char sweep[] = "mlk.dev/sweep";  // of a sweep's objects, and of the runs that are its trials
inline constexpr char trials[] =
    "mlk.dev/trials";                             // annotation of a Job of a sweep: the trials of its indexes
inline constexpr char trial[] = "mlk.dev/trial";  // annotation of a run: its number in its sweep
inline constexpr char role[] = "mlk.dev/role";
inline constexpr char driver[] = "driver";  // role of the Job that drives a detached sweep
inline constexpr char hash[] = "mlk.dev/hash";
inline constexpr char mode[] = "mlk.dev/mode";
inline constexpr char stopped[] = "mlk.dev/stopped";  // annotation of the owner: when, RFC 3339
inline constexpr char stopped_early[] =
    "mlk.dev/stopped-early";  // annotation of the owner of a trial: why the sweep has ended it for good
inline constexpr char cannot_start[] =
    "mlk.dev/cannot-start";  // annotation of the owner of a trial: why it has failed without having started
inline constexpr char draining[] =
    "mlk.dev/draining";  // annotation of the owner of a sweep: since when no more trials are started
inline constexpr char until[] =
    "mlk.dev/until";  // annotation of the owner of a trial: how far it may train before it is judged
inline constexpr char paused[] = "mlk.dev/paused";  // annotation of the owner of a trial: where it was
                                                    // paused; it goes on when `until` is further
inline constexpr char phase[] = "mlk.dev/phase";    // annotation of the owner: final phase, once recorded
inline constexpr char summary[] =
    "mlk.dev/summary";  // annotation of the owner: one JSON object, what `ls` shows of an ended run
inline constexpr char roles[] =
    "mlk.dev/roles";  // annotation of the owner: {"worker": 5, ...}, the roles that have a Job
inline constexpr char steps[] =
    "mlk.dev/steps";                            // annotation of the owner: how many steps the run is to make
inline constexpr char tags[] = "mlk.dev/tags";  // annotation of the owner: a JSON list of words
inline constexpr char note[] = "mlk.dev/note";  // annotation of the owner: a remark for people
inline constexpr char submit[] = "mlk.dev/submit";  // annotation of the owner: which call of submit made it
inline constexpr char submitted[] =
    "mlk.dev/submitted";  // annotation of the owner: when it was sent, in nanoseconds since 1970
inline constexpr char created[] =
    "mlk.dev/created";  // annotation of the owner, once all objects were made: the Jobs that decide its end
inline constexpr char gone[] =
    "mlk.dev/gone";  // annotation of the owner: those of them that two lists have lacked
inline constexpr char owner[] =
    "mlk.dev/owner";  // annotation of an object of the whole cluster: the uid of the owner of its run
inline constexpr char decides[] =
    "mlk.dev/decides";  // annotation of a Job, "true": its end is the end of the run
inline constexpr char trains[] =
    "mlk.dev/trains";  // annotation of the deciding Job, "true": mlk's own runtime trains, and a rank that
                       // ends with 0 says that the whole run is trained
inline constexpr char shared[] = "mlk.dev/shared";  // of an object that all runs own which use it
inline constexpr char digest[] = "mlk.dev/digest";  // annotation of a shared object: sha256 of its content
inline constexpr char managed_by[] = "app.kubernetes.io/managed-by";  // "mlk"

}  // namespace mlk::labels
