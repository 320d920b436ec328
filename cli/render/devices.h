// Adapts a pod to the devices that it asks for.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Changes a pod template after all patches, because a patch may ask for devices, such as
// nvidia.com/mig-1g.10gb, for which the experiment file has no key. With a device, the pod gets a volume in
// memory at /dev/shm: NCCL and the workers of PyTorch's DataLoader share memory there, and without the volume
// a container has 64 MiB. The volume has no size limit of its own, because its content counts as memory of
// the pod. Without a device, the pod gets NVIDIA_VISIBLE_DEVICES=void. Otherwise the pod could use the GPUs
// of other pods on nodes whose container runtime gives GPUs to every container. An existing variable or mount
// stays.
void fit_to_devices(nlohmann::json& pod);

}  // namespace mlk
