// Handles of libcurl. The first handle initialises libcurl.
#pragma once

#include <curl/curl.h>

#include "cli/http/proxy.h"

namespace mlk::http {

// The caller cleans the handle up. Both functions are thread-safe, and throw Error{failure} if memory is
// short.
CURL* new_easy();
CURLM* new_multi();

// Sets the options that all exchanges have in common. `error`: a buffer of CURL_ERROR_SIZE bytes that
// outlives the handle.
void set_basics(CURL* easy, char* error);

// Makes libcurl send requests through the proxy, or directly if `proxy` has no URL. libcurl then ignores the
// proxies that the environment names.
void set_proxy(CURL* easy, const Proxy& proxy);

// What libcurl tells about the last exchange, such as CURLINFO_RESPONSE_CODE; 0: nothing.
int number_about(CURL* easy, CURLINFO what);
int proxy_status(CURL* easy);  // of the answer to CONNECT; 0: none

}  // namespace mlk::http
