// A program of mlk's own that runs of a framework have in their pods, beside the user's: a ConfigMap holds
// it, named by its digest.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

inline constexpr char mpi_helper[] = "mlk-mpi";         // of mpi/
inline constexpr char helper_mount[] = "/etc/mlk/bin";  // of the ConfigMap

// The program, compiled in by cmake/embed_helper.cmake, for the processors that mlk itself was built for.
// Empty: where mlk was built there was no musl.
std::string_view embedded_mpi_helper();

// "mlk-mpi-<16 digits of the digest>": runs of the same mlk share it. Throws Error{cannot_start} if there is
// no such program.
std::string helper_map_name(const std::string& helper);

// The values of ${helper...} in its template: file, name, digest, and the program, which is base64.
nlohmann::json helper_scope(const std::string& helper);

}  // namespace mlk
