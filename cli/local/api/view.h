// The form in which objects are sent: complete, metadata only, or as rows of a table that kubectl prints.
// Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/local/state/kinds.h"
#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

enum class View { object, metadata, table };

// The form that the Accept header asks for. Throws StatusError 406 if the header accepts only forms that the
// server does not have, such as protobuf.
View view_of(const std::string& accept);

nlohmann::json show(const Kind& kind, const nlohmann::json& object, View view, Time now);

struct ListPage {
  std::vector<Object> objects;
  std::string revision;
  std::string next;  // continue token; empty on the last page
  std::size_t remaining = 0;
};
nlohmann::json show_list(const Kind& kind, const ListPage& page, View view, Time now);

}  // namespace mlk::local
