// Handles of libcurl, which is initialised with the first of them.
#pragma once

#include <curl/curl.h>

namespace mlk::http {

// For the caller to clean up. Throw Error{failure} if memory is short; safe from several threads.
CURL* new_easy();
CURLM* new_multi();

}  // namespace mlk::http
