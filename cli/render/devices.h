// What follows from the devices that a pod asks for, or does not.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Changes a pod template after all patches, which may ask for devices that the experiment file has no key
// for, such as nvidia.com/mig-1g.10gb. With a device: memory at /dev/shm. NCCL and the workers of PyTorch's
// DataLoader share memory there, and a container has 64 MiB without it. The volume has no size of its own: it
// counts as memory of the pod, whose limit bounds it. Without a device: NVIDIA_VISIBLE_DEVICES=void. Else, on
// nodes whose container runtime gives GPUs to every container, the pod would see and could use those that
// belong to others. What is there already, a variable or a mount, stays.
void fit_to_devices(nlohmann::json& pod);

}  // namespace mlk
