// What --help looks like.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace mlk {

struct Session;

// Descriptions are folded to the width of the terminal; in a pipe each is one line.
std::shared_ptr<CLI::FormatterBase> help_formatter(const Session& session);

}  // namespace mlk
