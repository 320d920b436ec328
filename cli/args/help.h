// The form of the text of --help.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace mlk {

struct Session;

// On a terminal, descriptions are folded to the width of the terminal. In a pipe, each description is one
// line.
std::shared_ptr<CLI::FormatterBase> help_formatter(const Session& session);

}  // namespace mlk
