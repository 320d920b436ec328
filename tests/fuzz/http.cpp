// Requests to the port for metrics. The answer to any bytes begins as an HTTP answer does.
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/metrics/metrics_server.h"
#include "tests/fuzz/demand.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view head(reinterpret_cast<const char*>(data), size);
  const std::string answer =
      mlk::rt::http_answer(head, "text/plain", [] { return std::string("figures\n"); });
  mlk::fuzz::demand(answer.starts_with("HTTP/1.1 ") && answer.find("\r\n\r\n") != std::string::npos);
  return 0;
}
