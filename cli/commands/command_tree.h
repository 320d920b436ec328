// Looking into the tree of commands.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mlk {

// The commands below `app` that users see; hidden ones have no group.
std::vector<const CLI::App*> visible_commands(const CLI::App& app);

// Any command below `app` of that name; nullptr without one.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

}  // namespace mlk
