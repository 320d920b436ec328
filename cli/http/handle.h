// Handles of libcurl, which is initialised with the first of them.
#pragma once

#include <curl/curl.h>

#include "cli/http/proxy.h"

namespace mlk::http {

// For the caller to clean up. Throw Error{failure} if memory is short; safe from several threads.
CURL* new_easy();
CURLM* new_multi();

// Through the proxy, or directly, whatever libcurl makes of the environment.
void set_proxy(CURL* easy, const Proxy& proxy);
long proxy_status(CURL* easy);  // of the answer to CONNECT; 0: none

}  // namespace mlk::http
