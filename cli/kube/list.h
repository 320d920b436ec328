// Lists objects page by page, as client-go's pager does.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"

namespace mlk::kube {

// The request for the objects that `options` select. If `watch` is true, the request is for the
// changes of these objects. Pure.
Request list_request(const Resource& resource, const std::string& name_space, const ListOptions& options,
                     bool watch);

// Requests all pages of one consistent list, or as many pages as ListOptions::enough needs. `send` makes one
// request; its exceptions pass through. If the server refuses a later page because its snapshot of the list
// has expired, the whole list is requested again without pages. Items get kind and apiVersion, which servers
// omit in lists. Throws ApiError.
ListResult list_pages(const std::function<Response(const Request&)>& send, const Resource& resource,
                      const std::string& name_space, const ListOptions& options, const Config* config);

// "pods in namespace x", for messages.
std::string describe(const Resource& resource, const std::string& name_space, const std::string& name = "");

// The text of a server's answer without metadata.managedFields. mlk never reads these fields. They make
// up about half of the text, and cost half of the time for parsing. So mlk removes them first.
std::string without_managed_fields(std::string_view text);

// Like parse_response(), but the messages of errors name the server, the user and the file.
json parse_answer(const Response& response, const std::string& what, const Config* config);

}  // namespace mlk::kube
