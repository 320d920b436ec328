// The program of `run:` with its arguments, `args:`. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// The values of `args_style`, which say what the argument lr with the value 0.1 becomes: --lr 0.1, --lr=0.1,
// -lr 0.1 or lr=0.1.
inline constexpr std::string_view argument_styles = "--name value|--name=value|-name value|name=value";
inline constexpr std::string_view usual_argument_style = "--name value";

// Returns the value of `args` as JSON: a map from names to text, numbers, booleans, and lists of text and
// numbers. `{optimizer: {lr: 0.1}}` is the argument optimizer.lr. A number that JSON would spell differently,
// such as 1e-3, becomes text, since the program gets what the user wrote. An argument with null is left out.
// Adds mistakes to `problems`.
nlohmann::json arguments_value(const YamlNode& node, const std::string& path, Problems& problems);

// Whether the text can be the name of an argument: letters, digits, '_', '-' and '.', a letter first.
bool is_argument(std::string_view name);

// The names in ${args.NAME} of `run`, which is a text or a list of texts.
std::set<std::string> arguments_in(const nlohmann::json& run);

// The words that start the program of the effective experiment, which has `run`. A text of `run` is a script
// of sh. Each ${args.NAME} in `run` becomes the value of this argument. The other arguments stand at the
// place of "$@" in a script, else at the end, in the order of their names.
std::vector<std::string> program_words(const nlohmann::json& effective);

// program_words() for the field `command` of a container. There, Kubernetes replaces $(NAME) by the value of
// a variable, which is wanted only in the words of a list in `run`.
std::vector<std::string> program_command(const nlohmann::json& effective);

// Whether the script says by "$@" where its arguments go.
bool takes_arguments(std::string_view script);

// Whether arguments can follow the last word of the script, as far as this is certain without a shell. They
// cannot if the script ends with a comment, a pipe or a loop, for example.
bool may_end_with_arguments(std::string_view script);

inline constexpr char no_place_for_arguments[] =
    "the arguments have no place in run: write \"$@\" where the script passes them to the program";

// What is wrong with `run` and `args` together; empty if nothing is.
std::string wrong_with_arguments(const nlohmann::json& effective);

}  // namespace mlk
