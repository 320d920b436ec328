#include "cli/experiment/arguments.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using nlohmann::json;

constexpr std::string_view opening = "${args.";
constexpr std::size_t longest_name = 100;

// An argument of the program: its full name, such as optimizer.lr, and its value.
struct Argument {
  std::string name;
  const json* value;
};

void flatten(const json& args, const std::string& before, std::vector<Argument>& out) {
  for (const auto& [key, value] : args.items()) {
    const std::string name = before + key;
    if (value.is_object()) {
      flatten(value, name + ".", out);
    } else {
      out.push_back({name, &value});
    }
  }
}

// The arguments of the effective experiment, by their names.
std::vector<Argument> arguments_of(const json& effective) {
  std::vector<Argument> out;
  if (effective.contains("args")) flatten(effective["args"], "", out);
  return out;
}

std::string value_text(const json& value, std::string_view between = " ") {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return json_text(value);
  std::vector<std::string> items;
  for (const json& item : value) items.push_back(value_text(item));
  return join(items, between);
}

void add_words(const Argument& argument, std::string_view style, std::vector<std::string>& out) {
  const json& value = *argument.value;
  if (style == "--name=value") {
    out.push_back("--" + argument.name + "=" + value_text(value, ","));
  } else if (style == "name=value") {
    const std::string text = value_text(value, ",");
    out.push_back(argument.name + "=" + (value.is_array() ? "[" + text + "]" : text));
  } else if (value != false) {
    out.push_back((style == "-name value" ? "-" : "--") + argument.name);
    if (value.is_array()) {
      for (const json& item : value) out.push_back(value_text(item));
    } else if (!value.is_boolean()) {
      out.push_back(value_text(value));
    }
  }
}

// Calls `found(begin, end, name)` for each ${args.NAME} of the text, in its order.
void find_arguments(std::string_view text,
                    const std::function<void(std::size_t, std::size_t, const std::string&)>& found) {
  std::size_t end = 0;
  for (std::size_t at = text.find(opening); at != text.npos; at = text.find(opening, end)) {
    const std::size_t name = at + opening.size();
    end = text.find('}', name);
    if (end == text.npos) return;
    ++end;
    found(at, end, std::string(text.substr(name, end - 1 - name)));
  }
}

// The text, with `by(name)` in the place of each ${args.NAME}, and `other(part)` of everything between.
std::string with_arguments(std::string_view text, const std::function<std::string(const std::string&)>& by,
                           const std::function<std::string(std::string_view)>& other) {
  std::string out;
  std::size_t from = 0;
  find_arguments(text, [&](std::size_t begin, std::size_t end, const std::string& name) {
    out += other(text.substr(from, begin - from)) + by(name);
    from = end;
  });
  return out + other(text.substr(from));
}

std::string unchanged(std::string_view text) { return std::string(text); }

// In commands, Kubernetes replaces $(NAME) by a value, and $$ by $. A shell gives $(NAME) and $$ another
// meaning, so mlk escapes both.
std::string escaped(std::string_view text) { return replaced(text, {{'$', "$$"}}); }

// Makes the words of a program.
class Assembly {
 public:
  using Escape = std::string (*)(std::string_view);

  // `escape` changes each text of the words that is not in a list of `run`.
  Assembly(const json& effective, Escape escape)
      : run_(effective["run"]), escape_(escape), placed_(arguments_in(run_)) {
    const std::string style = effective.value("args_style", std::string(usual_argument_style));
    for (const Argument& argument : arguments_of(effective)) {
      values_[argument.name] = argument.value;
      if (placed_.count(argument.name) == 0) add_words(argument, style, others_);
    }
  }

  std::vector<std::string> words() const { return run_.is_array() ? words_of_list() : words_of_script(); }

 private:
  std::string value(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? "" : value_text(*found->second);
  }

  // The values of a list become several words if a word is exactly ${args.NAME}.
  void add_word(const std::string& word, std::vector<std::string>& out) const {
    for (const auto& [name, value] : values_) {
      if (!value->is_array() || word != std::string(opening) + name + "}") continue;
      for (const json& item : *value) out.push_back(escape_(value_text(item)));
      return;
    }
    out.push_back(
        with_arguments(word, [&](const std::string& name) { return escape_(value(name)); }, unchanged));
  }

  std::vector<std::string> words_of_list() const {
    std::vector<std::string> out;
    for (const json& word : run_) add_word(word.get<std::string>(), out);
    for (const std::string& word : others_) out.push_back(escape_(word));
    return out;
  }

  // The script gets the values as positional parameters, so that no value can be read as a part of the
  // script.
  std::vector<std::string> words_of_script() const {
    std::string script = run_.get<std::string>();
    std::vector<std::string> parameters;
    if (!placed_.empty()) {
      std::map<std::string, std::string> variables;
      std::string setting;
      for (const std::string& name : placed_) {
        parameters.push_back(value(name));
        variables[name] = fmt::format("mlk_arg_{}", parameters.size());
        setting += fmt::format("{}=${{{}}}; ", variables[name], parameters.size());
      }
      script = fmt::format("{}shift {}; ", setting, parameters.size()) +
               with_arguments(
                   script, [&](const std::string& name) { return "${" + variables[name] + "}"; }, unchanged);
    }
    if (!others_.empty() && !takes_arguments(script)) script = std::string(trim(script)) + " \"$@\"";
    std::vector<std::string> out{"sh", "-c", escape_(script)};
    parameters.insert(parameters.end(), others_.begin(), others_.end());
    if (!parameters.empty()) out.emplace_back("sh");  // $0
    for (const std::string& parameter : parameters) out.push_back(escape_(parameter));
    return out;
  }

  const json& run_;
  const Escape escape_;
  const std::set<std::string> placed_;
  std::map<std::string, const json*> values_;
  std::vector<std::string> others_;  // the words of the arguments that have no place in `run`
};

// A program gets a number as it is written.
json scalar_of(const YamlNode& node) {
  const json value = to_json(node);
  const bool same = value.is_boolean() || (value.is_number() && json_text(value) == node.text);
  return same ? value : json(node.text);
}

// Reads the map `node` of arguments into the JSON object `out`.
class Reader {
 public:
  explicit Reader(Problems& problems) : problems_(problems) {}

  void read(const YamlNode& node, const std::string& path, json& out) {
    for (const YamlEntry& entry : node.entries) {
      if (is_argument(entry.key) && entry.key.find('.') == entry.key.npos) {
        read_value(entry, path + "." + entry.key, out[entry.key]);
      } else {
        problems_.add(
            entry.place,
            fmt::format("'{}' cannot be the name of an argument in {}: write --lr 0.1 as {{lr: 0.1}}, and "
                        "--a.b 1 as {{a: {{b: 1}}}}",
                        entry.key, path));
      }
    }
  }

 private:
  void read_value(const YamlEntry& entry, const std::string& path, json& out) {
    const YamlNode& value = entry.value;
    if (value.kind == YamlNode::Kind::map) return read(value, path, out);
    if (value.kind == YamlNode::Kind::list) {
      out = json::array();
      for (const YamlNode& item : value.items) {
        if (item.kind != YamlNode::Kind::scalar) {
          problems_.add(item.place, fmt::format("{} must be a list of text and numbers", path));
        } else if (may_be_shown(entry, item, path)) {
          const json one = scalar_of(item);
          out.push_back(one.is_boolean() ? json(item.text) : one);
        }
      }
    } else if (value.kind == YamlNode::Kind::scalar && may_be_shown(entry, value, path)) {
      out = scalar_of(value);
    }
  }

  // Returns whether the value may be shown to everybody who may read the run. Otherwise adds a problem.
  // Names such as pad_token are no secrets.
  bool may_be_shown(const YamlEntry& entry, const YamlNode& value, const std::string& path) {
    const std::string name = lower_case(entry.key);
    const bool named = names_secret(name) && !name.ends_with("token") && to_json(value).is_string();
    if (!looks_like_secret(value.text) && (!named || value.text.empty())) return true;
    problems_.add(entry.place,
                  fmt::format("{} looks like a secret, which anyone who may read the run could see; put it "
                              "into a Secret, write env: {{NAME: {{secret: name/key}}}}, and let the program "
                              "read the variable NAME",
                              path));
    return false;
  }

  Problems& problems_;
};

// Removes everything that has no value.
void remove_empty(json& args) {
  for (auto entry = args.begin(); entry != args.end();) {
    if (entry->is_object()) remove_empty(*entry);
    entry = entry->is_null() || (entry->is_object() && entry->empty()) ? args.erase(entry) : std::next(entry);
  }
}

}  // namespace

json arguments_value(const YamlNode& node, const std::string& path, Problems& problems) {
  json out = json::object();
  if (node.kind == YamlNode::Kind::map) {
    Reader(problems).read(node, path, out);
    remove_empty(out);
  } else {
    problems.add(node.place, path + " must be a map of arguments, such as {lr: 0.1, epochs: 3}");
  }
  return out;
}

bool is_argument(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto good = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  if (name.empty() || name.size() > longest_name || !letter(name.front()) || name.ends_with('.') ||
      name.find("..") != name.npos)
    return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return good(c) || c == '.'; });
}

std::set<std::string> arguments_in(const json& run) {
  std::set<std::string> out;
  const auto add = [&](const json& text) {
    if (!text.is_string()) return;  // a word that is refused
    find_arguments(text.get_ref<const std::string&>(),
                   [&](std::size_t, std::size_t, const std::string& name) { out.insert(name); });
  };
  add(run);
  if (run.is_array()) {
    for (const json& word : run) add(word);
  }
  return out;
}

std::vector<std::string> program_words(const json& effective) {
  return Assembly(effective, unchanged).words();
}

std::vector<std::string> program_command(const json& effective) {
  return Assembly(effective, escaped).words();
}

bool takes_arguments(std::string_view script) {
  return script.find("$@") != script.npos || script.find("$*") != script.npos;
}

namespace {

// The script with x in the place of each quoted text; nullopt if a quote does not end.
std::optional<std::string> without_quoted_text(std::string_view script) {
  std::string out;
  for (std::size_t i = 0; i < script.size(); ++i) {
    const char c = script[i];
    if (c == '\\' && i + 1 < script.size() && script[i + 1] != '\n') {
      out += 'x';
      ++i;
    } else if (c == '\'' || c == '"') {
      for (++i; i < script.size() && script[i] != c; ++i) {
        if (c == '"' && script[i] == '\\') ++i;
      }
      if (i >= script.size()) return std::nullopt;
      out += 'x';
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

bool may_end_with_arguments(std::string_view script) {
  const std::optional<std::string> unquoted = without_quoted_text(script);
  if (!unquoted) return false;
  const std::string_view text = trim(*unquoted), line = text.substr(text.rfind('\n') + 1);
  constexpr std::array ends{"done", "fi", "esac", "then", "do", "else"};
  const std::string_view last = line.substr(line.rfind(' ') + 1);
  return line.find_first_of("#;|&(){}") == line.npos && text.find("<<") == text.npos &&
         !line.ends_with('\\') && std::find(ends.begin(), ends.end(), last) == ends.end();
}

std::string wrong_with_arguments(const json& effective) {
  const json run = effective.value("run", json());
  if (run.is_null()) return "";
  const std::set<std::string> placed = arguments_in(run);
  std::vector<std::string> names;
  for (const Argument& argument : arguments_of(effective)) names.push_back(argument.name);
  for (const std::string& name : placed) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return fmt::format("run has ${{args.{0}}}, but args has no {0}{1}", name, did_you_mean(name, names));
  }
  const bool others = names.size() > placed.size();
  if (!others || !run.is_string() || takes_arguments(run.get<std::string>()) ||
      may_end_with_arguments(run.get<std::string>()))
    return "";
  return no_place_for_arguments;
}

}  // namespace mlk
