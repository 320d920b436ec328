// Ops on a device, behind the table of a plugin.
#pragma once

#include <memory>
#include <string>

#include "kernels/device/plugin.h"
#include "kernels/ops.h"

namespace mlk::kernels {

// Opens the library, once, and gives its table, which lives as long as the process. Throws DeviceFailure
// where it is not there, or does not fit.
const mlk_device_table& load_plugin(const std::string& path);

// The Ops of device `index`, which multiplies with this precision. Its operations only queue work. Those that
// return a number, read() and write() wait for the device, and throw DeviceFailure if it has failed since;
// allocate() throws it where the device has no memory left. place() of a tensor is memory that the device
// copies from and to by itself.
std::unique_ptr<Ops> make_device_ops(const mlk_device_table& table, int index, Precision precision);

}  // namespace mlk::kernels
