// Where the pods of a run have the volumes with its files, and the names of these volumes in the pods.
#pragma once

namespace mlk {

inline constexpr char checkpoint_mount[] = "/mlk/checkpoints", checkpoint_volume[] = "mlk-checkpoints";
// Of a volume for outputs alone; outputs may also share the volume of the checkpoints.
inline constexpr char outputs_mount[] = "/mlk/outputs", outputs_volume[] = "mlk-outputs";

}  // namespace mlk
