#include "cli/experiment/argument_words.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/experiment/arguments.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk {
namespace {

// One word, or the two words of an argument and its value.
struct Piece {
  std::string word;  // without a name: the word. Else what stands before the value: "--lr", "--lr=", "lr="
  std::string name;  // empty: no argument with a name
  std::string value;
  bool joined = false;  // name and value are one word

  std::string style() const {
    return !joined ? "--name value" : word.starts_with("--") ? "--name=value" : "name=value";
  }
};

// Whether the word can be the value of the flag before it: "-5" can, "-x" cannot.
bool is_value(const std::string& word) { return !word.starts_with('-') || is_number(word); }

// `style` decides whether a word such as lr=0.1 is an argument.
std::vector<Piece> pieces_of(const std::vector<std::string>& words, std::string_view style) {
  std::vector<Piece> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('='), dashes = word.starts_with("--") ? 2 : 0;
    const std::string name =
        word.substr(dashes, equals == word.npos ? word.npos : equals - std::min(equals, dashes));
    const bool named = is_argument(name) && (dashes == 2 || (style == "name=value" && equals != word.npos));
    if (named && equals != word.npos && equals + 1 < word.size()) {
      out.push_back({word.substr(0, equals + 1), name, word.substr(equals + 1), true});
    } else if (named && equals == word.npos && i + 1 < words.size() && is_value(words[i + 1])) {
      out.push_back({word, name, words[++i], false});
    } else {
      out.push_back({word, "", "", false});
    }
  }
  return out;
}

// An argument that is given twice has no single value, and x cannot be beside x.y. Their words stay as they
// are.
void drop_names_that_clash(std::vector<Piece>& pieces) {
  std::vector<Piece> out;
  const auto clash = [](const std::string& a, const std::string& b) {
    return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
  };
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    bool alone = !piece.name.empty();
    for (std::size_t k = 0; k < pieces.size(); ++k)
      alone = alone && (k == i || pieces[k].name.empty() || !clash(piece.name, pieces[k].name));
    if (alone || piece.name.empty()) {
      out.push_back(piece);
    } else if (piece.joined) {
      out.push_back({piece.word + piece.value, "", "", false});
    } else {
      out.push_back({piece.word, "", "", false});
      out.push_back({piece.value, "", "", false});
    }
  }
  pieces = std::move(out);
}

// The program gets the value as it is, so `true` is a text here.
YamlNode value_node(const std::string& text, const Place& place) {
  YamlNode node = text_node(text, place);
  node.plain = is_number(text);
  if (json_text(to_json(node)) != text) node.plain = false;  // such as 1e-3, so that it keeps its spelling
  return node;
}

YamlNode& child(YamlNode& map, const std::string& key, YamlNode::Kind kind, const Place& place) {
  for (YamlEntry& entry : map.entries) {
    if (entry.key == key) return entry.value;
  }
  YamlNode node;
  node.kind = kind;
  node.place = place;
  map.entries.push_back({key, place, std::move(node)});
  return map.entries.back().value;
}

// The value of the argument in `args`: that of optimizer.lr is in {optimizer: {lr: 0.1}}. nullptr if there is
// none.
YamlNode* find_argument(YamlNode& args, const std::string& name) {
  const std::size_t dot = name.find('.');
  for (YamlEntry& entry : args.entries) {
    if (entry.key != name.substr(0, dot)) continue;
    return dot == name.npos ? &entry.value : find_argument(entry.value, name.substr(dot + 1));
  }
  return nullptr;
}

void put_argument(YamlNode& args, const Piece& piece, const Place& place) {
  YamlNode* at = &args;
  for (const std::string& step : split(piece.name, '.')) at = &child(*at, step, YamlNode::Kind::map, place);
  *at = value_node(piece.value, place);
}

std::string reference(const std::string& name) { return "${args." + name + "}"; }

// Kubernetes replaces $(NAME) and $$ in the words of a list.
std::string literal(const std::string& word) {
  const bool changes = word.find("$(") != word.npos || word.find("$$") != word.npos;
  return changes ? replaced(word, {{'$', "$$"}}) : word;
}

// Adds the words to the words that the script passes to its program as "$@", or else to its end.
void add_to_script(YamlNode& run, const std::vector<Piece>& pieces, Problems& problems) {
  std::string words;
  for (const Piece& piece : pieces) {
    words += " " + shell_word(piece.word);
    if (!piece.name.empty()) words += (piece.joined ? "\"" : " \"") + reference(piece.name) + "\"";
  }
  if (takes_arguments(run.text)) {
    run.text = "set --" + words + " \"$@\"; " + run.text;
  } else if (may_end_with_arguments(run.text)) {
    run.text = std::string(trim(run.text)) + words;
  } else {
    problems.add(run.place, no_place_for_arguments);
  }
}

void add_to_list(YamlNode& run, const std::vector<Piece>& pieces, const Place& place) {
  for (const Piece& piece : pieces) {
    const bool joined = !piece.name.empty() && piece.joined;
    run.items.push_back(text_node(literal(piece.word) + (joined ? reference(piece.name) : ""), place));
    if (!piece.name.empty() && !joined) run.items.push_back(text_node(reference(piece.name), place));
  }
}

}  // namespace

namespace {

// The words of a command line as the text of a place, for messages.
std::optional<Place> place_of(const std::vector<std::string>& words, Problems& problems) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  const Place place{std::make_shared<const Source>(Source{"--", join(quoted, " ")}), 0, 0};
  if (std::all_of(words.begin(), words.end(), is_utf8)) return place;
  problems.add(place, "not UTF-8 text");
  return std::nullopt;
}

}  // namespace

void append_arguments(YamlNode& root, const std::vector<std::string>& words, Problems& problems) {
  if (words.empty()) return;
  const std::optional<Place> found = place_of(words, problems);
  if (!found) return;
  const Place& place = *found;
  const YamlNode* written_style = root.find("args_style");
  const std::string style(written_style == nullptr ? usual_argument_style : written_style->text);
  std::vector<Piece> pieces = pieces_of(words, style);
  drop_names_that_clash(pieces);
  YamlNode& args = child(root, "args", YamlNode::Kind::map, place);
  if (args.kind != YamlNode::Kind::map) return;  // check.cpp reports this
  std::erase_if(pieces, [&](const Piece& piece) {
    YamlNode* there = piece.name.empty() ? nullptr : find_argument(args, piece.name);
    if (there != nullptr) *there = value_node(piece.value, place);
    return there != nullptr;
  });
  for (const Piece& piece : pieces) {
    if (!piece.name.empty()) put_argument(args, piece, place);
  }
  if (args.entries.empty())
    std::erase_if(root.entries, [](const YamlEntry& entry) { return entry.key == "args"; });
  // Arguments in the style of the file need no place in `run`, since their order does not matter.
  if (std::all_of(pieces.begin(), pieces.end(),
                  [&](const Piece& piece) { return !piece.name.empty() && piece.style() == style; }))
    return;
  YamlNode& run = child(root, "run", YamlNode::Kind::null, place);
  if (run.kind == YamlNode::Kind::scalar) add_to_script(run, pieces, problems);
  if (run.kind == YamlNode::Kind::list) add_to_list(run, pieces, place);
}

void set_program(YamlNode& root, const std::vector<std::string>& words, Problems& problems) {
  const std::optional<Place> place = place_of(words, problems);
  if (!place || words.empty()) return;
  std::erase_if(root.entries, [](const YamlEntry& entry) { return entry.key == "run"; });
  if (words.size() == 1 && words[0].find_first_of(" \n") != std::string::npos) {  // a script
    root.entries.push_back({"run", *place, text_node(words[0], *place)});
    return;
  }
  std::vector<Piece> pieces = pieces_of(words, usual_argument_style);
  drop_names_that_clash(pieces);
  YamlNode& run = child(root, "run", YamlNode::Kind::list, *place);
  const auto first =
      std::find_if(pieces.begin(), pieces.end(), [](const Piece& p) { return !p.name.empty(); });
  // A program that is called with --lr=0.1 may not understand --lr 0.1.
  const bool joined = first != pieces.end() && std::all_of(first, pieces.end(), [](const Piece& p) {
                        return p.name.empty() || p.style() == "--name=value";
                      });
  const std::string style = joined ? "--name=value" : std::string(usual_argument_style);
  // If all words from the first argument on are arguments in the order of their names, they need no place.
  const bool plain =
      std::all_of(first, pieces.end(),
                  [&](const Piece& p) { return !p.name.empty() && p.style() == style; }) &&
      std::is_sorted(first, pieces.end(), [](const Piece& a, const Piece& b) { return a.name < b.name; });
  add_to_list(run, plain ? std::vector<Piece>(pieces.begin(), first) : pieces, *place);
  if (first == pieces.end()) return;
  if (joined) root.entries.push_back({"args_style", *place, text_node(style, *place)});
  YamlNode& args = child(root, "args", YamlNode::Kind::map, *place);
  for (const Piece& piece : pieces) {
    if (!piece.name.empty()) put_argument(args, piece, *place);
  }
}

}  // namespace mlk
