// Handles of libcurl. The first handle initialises libcurl.
#pragma once

#include <curl/curl.h>

#include "cli/http/proxy.h"

namespace mlk::http {

// The caller cleans the handle up. Both functions throw Error{failure} if memory is short, and are safe from
// several threads.
CURL* new_easy();
CURLM* new_multi();

// Makes libcurl send requests through the proxy, or directly if `proxy` has no URL. libcurl then ignores the
// proxies that the environment names.
void set_proxy(CURL* easy, const Proxy& proxy);
long proxy_status(CURL* easy);  // of the answer to CONNECT; 0: none

}  // namespace mlk::http
