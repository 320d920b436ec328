// A request to a server, and its answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace mlk::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method = "GET";
  std::string path{};                                        // below the server's URL; percent-encoded
  std::vector<std::pair<std::string, std::string>> query{};  // encoded by the client
  std::string body{};
  std::string content_type = "application/json";
  std::string accept = "application/json";
  std::chrono::milliseconds timeout{30000};  // for the whole exchange; for a stream only until the head of
                                             // the answer. 0: no time-out
  bool twice = false;                        // idempotent: may be executed twice, as a GET may
  std::size_t longest_line = 0;              // of a stream, in bytes, at least 8: a longer line loses its
                                             // middle. 0: a line of more than 16 MiB is a failure
  Headers headers{};                         // if not empty, these replace ServerAccess::headers
};

struct Response {
  int status = 0;
  std::string body;
  std::vector<std::string> warnings;  // "Warning: 299" headers
};

}  // namespace mlk::http
