// The measurements of a process in Prometheus's text format 0.0.4.
#pragma once

#include <string>

#include "runtime/metrics/telemetry.h"

namespace mlk::rt {

inline constexpr const char* prometheus_content_type = "text/plain; version=0.0.4; charset=utf-8";

// Returns complete families in base units, with a newline after each line. Leaves out unknown values.
std::string prometheus_text(const Measurements& measurements);

}  // namespace mlk::rt
