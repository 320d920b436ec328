// Programs of mlk that some pods have beside the user's program. A ConfigMap holds each program, and the
// digest of the program is a part of its name.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

struct Helper {
  std::string_view name;    // of the program, and of its file
  std::string_view mount;   // mount path of the ConfigMap
  std::string_view volume;  // name of the volume in the pods
};

inline constexpr Helper mpi_helper{"mlk-mpi", "/etc/mlk/bin", "mlk-helper"};  // its source is in pod/mpi/
inline constexpr Helper pod_helper{"mlk-pod", "/etc/mlk/pod", "mlk-pod"};     // its source is in pod/

// The bytes of a program for the same processor as mlk itself. cmake/embed_helper.cmake embeds these bytes.
// Empty if the machine that built mlk had no musl.
std::string_view embedded_helper(std::string_view name);

// The path of the program in the pods.
std::string helper_path(const Helper& helper);

// The name of the ConfigMap, "mlk-mpi-<16 digits of the digest>". Runs of the same mlk share the ConfigMap.
// Throws Error{cannot_start} if mlk was built without the program.
std::string helper_map_name(const Helper& helper);

// The volume of a pod with the program, as Kubernetes writes it.
nlohmann::json helper_volume(const Helper& helper);

// The values of ${helper...} in the ConfigMap's template: name, digest, and the file with the program in
// base64.
nlohmann::json helper_scope(const Helper& helper);

}  // namespace mlk
