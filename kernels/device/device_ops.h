// Ops on a device. They call the device through the function table of a plugin.
#pragma once

#include <memory>
#include <string>

#include "kernels/device/plugin.h"
#include "kernels/ops.h"

namespace mlk::kernels {

// Opens the library, and returns its table. The table lives as long as the process. Throws DeviceFailure if
// the library is missing or of another version.
const mlk_device_table& load_plugin(const std::string& path);

// The Ops of device `index`, which multiplies with this precision. Most operations only queue work.
// read(), write(), write_tokens(), hold() and all operations that return a number wait for the device. They
// throw DeviceFailure if the device has failed meanwhile. gather_rows() and gather_labels() also wait if
// their ids are new. allocate() throws DeviceFailure if the device has no memory left. place() returns host
// memory that the device reads and writes directly.
std::unique_ptr<Ops> make_device_ops(const mlk_device_table& table, int index, Precision precision);

}  // namespace mlk::kernels
