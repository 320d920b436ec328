// A program of mlk that the pods of some frameworks have beside the user's program. A ConfigMap, named by its
// digest, holds it.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

inline constexpr char mpi_helper[] = "mlk-mpi";         // its source is in mpi/
inline constexpr char helper_mount[] = "/etc/mlk/bin";  // mount path of the ConfigMap

// The program, for the same processor as mlk itself; cmake/embed_helper.cmake compiles it in. Empty: the
// machine that built mlk had no musl.
std::string_view embedded_mpi_helper();

// The name of the ConfigMap, "mlk-mpi-<16 digits of the digest>". Runs of the same mlk share the ConfigMap.
// Throws Error{cannot_start} if mlk was built without the program.
std::string helper_map_name(const std::string& helper);

// The values of ${helper...} in its template: file, name, digest, and the program, which is base64.
nlohmann::json helper_scope(const std::string& helper);

}  // namespace mlk
