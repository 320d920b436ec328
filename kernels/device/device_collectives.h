// Collectives of a device, behind the table of a plugin.
#pragma once

#include <memory>

#include "kernels/communicator.h"
#include "kernels/device/plugin.h"

namespace mlk::kernels {

// The device must outlive the returned object and all communicators.
std::unique_ptr<Collectives> make_device_collectives(const mlk_device_table& table, mlk_device& device);

}  // namespace mlk::kernels
