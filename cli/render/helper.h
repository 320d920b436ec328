// A program of mlk that the pods of some frameworks have beside the user's program. A ConfigMap holds the
// program, and the digest of the program is a part of its name.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

inline constexpr char mpi_helper[] = "mlk-mpi";         // the source of this program is in pod/mpi/
inline constexpr char helper_mount[] = "/etc/mlk/bin";  // mount path of the ConfigMap

// The bytes of mlk-mpi for the same processor as mlk itself. cmake/embed_helper.cmake embeds these bytes.
// Empty if the machine that built mlk had no musl.
std::string_view embedded_mpi_helper();

// The name of the ConfigMap, "mlk-mpi-<16 digits of the digest>". Runs of the same mlk share the ConfigMap.
// Throws Error{cannot_start} if mlk was built without the program.
std::string helper_map_name(const std::string& helper);

// The values of ${helper...} in the ConfigMap's template: file, name, digest, and the program in base64.
nlohmann::json helper_scope(const std::string& helper);

}  // namespace mlk
