#include "cli/yaml/yaml.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <locale>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "cli/util/error.h"
#include "cli/util/surrogate_pairs.h"
#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk {

namespace {

constexpr std::size_t most_nodes = 10000;

// An exception that stops the parser at once, so that the rest is not read.
struct Abandon {};

std::size_t count_nodes(const YamlNode& node) {
  std::size_t count = 1;
  for (const YamlNode& item : node.items) count += count_nodes(item);
  for (const YamlEntry& entry : node.entries) count += count_nodes(entry.value);
  return count;
}

std::size_t depth_of(const YamlNode& node) {
  std::size_t below = 0;
  for (const YamlNode& item : node.items) below = std::max(below, depth_of(item));
  for (const YamlEntry& entry : node.entries) below = std::max(below, depth_of(entry.value));
  return below + 1;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<const Source> source, Problems& problems)
      : source_(std::move(source)), problems_(problems) {}

  YamlNode take_root() { return std::move(root_); }
  int documents() const { return documents_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) {
      problems_.add(place(mark), "a second document begins here; one file is one experiment");
      throw Abandon();
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.place = place(mark);
    finish(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.text = show_surrogate_pairs(value);
    if (node.text.find('\0') != std::string::npos) {
      problems_.add(place(mark), "a zero byte (\\0), which no program can be given");
    }
    node.plain = tag == "?" || tag.empty();
    node.place = place(mark);
    // The parser gives a quoted scalar the tag "!". !!str also means text, so only other tags are refused.
    if (!node.plain && tag != "!" && tag != "tag:yaml.org,2002:str") refuse_tag(mark, tag);
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) {
      problems_.add(place(mark), "this alias refers to a value that holds it");
      throw Abandon();
    }
    // The size of each anchored value is known, so an alias bomb is refused before any value is copied.
    nodes_ += known->second.nodes - 1;
    if (open_.size() + known->second.depth > deepest_yaml) too_deep(mark);
    check_count(mark);
    YamlNode copy = known->second.node;
    finish(std::move(copy), YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::list);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Anchored {
    YamlNode node;
    std::size_t nodes, depth;
  };
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool has_key = false;
    std::string key;
    Place key_place;
  };

  Place place(const YAML::Mark& mark) const {
    return {source_, static_cast<std::size_t>(std::max(mark.line, 0)),
            static_cast<std::size_t>(std::max(mark.column, 0))};
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    problems_.add(place(mark), fmt::format("the tag {} is not supported", show_surrogate_pairs(tag)));
  }

  void too_deep(const YAML::Mark& mark) {
    problems_.add(place(mark), fmt::format("nested deeper than {} levels", deepest_yaml));
    throw Abandon();
  }

  void check_count(const YAML::Mark& mark) {
    if (nodes_ <= most_nodes) return;
    problems_.add(place(mark), fmt::format("more than {} values with all aliases written out", most_nodes));
    throw Abandon();
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (open_.size() >= deepest_yaml) too_deep(mark);
    if (tag != "?" && tag != "!" && !tag.empty()) refuse_tag(mark, tag);
    Open next;
    next.node.kind = kind;
    next.node.place = place(mark);
    next.anchor = anchor;
    open_.push_back(std::move(next));
    ++nodes_;
    check_count(mark);
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    --nodes_;  // finish() counts the node again
    finish(std::move(done.node), done.anchor);
  }

  void finish(YamlNode node, YAML::anchor_t anchor) {
    ++nodes_;
    check_count({});
    if (anchor != YAML::NullAnchor) anchors_[anchor] = {node, count_nodes(node), depth_of(node)};
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      take_key(parent, std::move(node));
    } else {
      parent.has_key = false;
      // For a missing value, the parser reports the place of the next token. mlk uses the place of the key
      // instead.
      const bool missing = node.kind == YamlNode::Kind::null && node.place.line != parent.key_place.line;
      if (missing) node.place = parent.key_place;
      if (parent.node.find(parent.key) != nullptr) {
        problems_.add(parent.key_place, fmt::format("'{}' is given twice", parent.key));
      } else {
        parent.node.entries.push_back({std::move(parent.key), parent.key_place, std::move(node)});
      }
    }
  }

  void take_key(Open& parent, YamlNode node) {
    parent.has_key = true;
    parent.key_place = node.place;
    if (node.kind != YamlNode::Kind::scalar) problems_.add(node.place, "a key must be one word of text");
    parent.key = std::move(node.text);
  }

  std::shared_ptr<const Source> source_;
  Problems& problems_;
  YamlNode root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

// Refuses binary files, and text that is not UTF-8, because the parser would accept some of them.
bool check_text(const std::shared_ptr<const Source>& source, Problems& problems) {
  const std::string_view text = source->text;
  Place place{source, 0, 0};
  for (std::size_t i = 0; i < text.size();) {
    const Character character = first_character(text.substr(i));
    const auto c = static_cast<unsigned char>(text[i]);
    const bool control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    if (!character.valid || control) {
      const char* what = c == 0    ? "a zero byte: this is not a text file"
                         : control ? "a control character"
                                   : "not UTF-8 text";
      problems.add(place, what);
      return false;
    }
    i += character.bytes;
    place.column += character.bytes;
    if (c == '\n') ++place.line, place.column = 0;
  }
  return true;
}

// Describes the most common mistakes in words for users. Other mistakes keep the words of the parser.
std::string explain(const YAML::Exception& error) {
  const std::string& message = error.msg;
  if (message.find("document indicator") != std::string::npos) return "a quote is not closed";
  if (message.find("end of sequence flow") != std::string::npos)
    return "a '[' is not closed, or a comma is missing";
  if (message.find("end of map flow") != std::string::npos)
    return "a '{' is not closed, or a comma is missing";
  if (message == "illegal map value")
    return "a value cannot stand here; indent it, or quote text that has ': ' in it";
  if (message == "unknown token") return "this character cannot begin a value; quote the text";
  if (message.starts_with("invalid unicode"))
    return "the escape before this place is not a character; a half such as \\ud83d needs the other, "
           "\\ude00, behind it";
  if (message.find("tab") != std::string::npos) return "a tab in the indentation; YAML allows only blanks";
  return "not valid YAML: " + message;
}

void add_syntax_error(const std::shared_ptr<const Source>& source, const YAML::Exception& error,
                      Problems& problems) {
  // The parser reads a tab in the indentation as part of a value. Then the error of the parser has a later
  // place or names another cause. So mlk first searches for such a tab.
  std::size_t line = 0;
  for (const std::string& text : split(source->text, '\n')) {
    if (line > static_cast<std::size_t>(std::max(error.mark.line, 0))) break;
    const std::size_t indent = text.find_first_not_of(" \t");
    const std::size_t tab = text.find('\t');
    if (indent != std::string::npos && tab < indent) {
      problems.add({source, line, tab}, "a tab in the indentation; YAML allows only blanks");
      return;
    }
    ++line;
  }
  Place place{source, static_cast<std::size_t>(std::max(error.mark.line, 0)),
              static_cast<std::size_t>(std::max(error.mark.column, 0))};
  // parse_yaml adds an end mark after the text. If the place is in this mark, the error shows the end of the
  // last line.
  const std::string_view text = trim(source->text);
  const auto last_line = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (place.line > last_line) {
    place.line = last_line;
    place.column = text.size() - std::min(text.size(), text.rfind('\n') + 1);
  }
  problems.add(place, explain(error));
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const YamlEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

YamlNode text_node(const std::string& text, const Place& place) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = text;
  node.place = place;
  return node;
}

YamlNode parse_yaml(std::string_view text, const std::string& source_name) {
  if (text.size() > longest_yaml) {
    throw Error(ExitCode::usage,
                fmt::format("{}: larger than {} KiB", printable(source_name), longest_yaml / 1024));
  }
  const auto source = std::make_shared<const Source>(Source{source_name, std::string(text)});
  Problems problems;
  std::optional<YamlNode> root = parse_yaml(source->text, source, problems);
  problems.throw_if_any();
  return std::move(*root);
}

std::optional<YamlNode> parse_yaml(const std::string& text, const std::shared_ptr<const Source>& source,
                                   Problems& problems) {
  const std::size_t known_problems = problems.size();
  if (!check_text(source, problems)) return std::nullopt;
  // With the end mark, the parser notices an unclosed quote. Without the mark, the parser would treat the end
  // of the file as the end of the quote.
  std::istringstream in(hide_surrogate_pairs(text) +
                        (text.empty() || text.ends_with('\n') ? "...\n" : "\n...\n"));
  TreeBuilder builder(source, problems);
  try {
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    add_syntax_error(source, error, problems);
  } catch (const Abandon&) {
  }
  if (problems.size() > known_problems) return std::nullopt;
  YamlNode root = builder.take_root();
  if (root.place.source == nullptr) root.place.source = source;
  return root;
}

bool is_whole_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return false;
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::string_view mantissa = text.substr(0, text.find_first_of("eE"));
  if (mantissa.size() < text.size()) {
    std::string_view exponent = text.substr(mantissa.size() + 1);
    if (exponent.starts_with('-') || exponent.starts_with('+')) exponent.remove_prefix(1);
    if (exponent.empty() || exponent.find_first_not_of("0123456789") != std::string_view::npos) return false;
  }
  const std::string_view whole = mantissa.substr(0, mantissa.find('.'));
  const std::string_view fraction = whole.size() < mantissa.size() ? mantissa.substr(whole.size() + 1) : "";
  if (whole.empty() && fraction.empty()) return false;
  if (!whole.empty() && !is_whole_number(whole)) return false;
  return fraction.find_first_not_of("0123456789") == std::string_view::npos;
}

nlohmann::json to_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return nullptr;
    case YamlNode::Kind::list: {
      nlohmann::json out = nlohmann::json::array();
      for (const YamlNode& item : node.items) out.push_back(to_json(item));
      return out;
    }
    case YamlNode::Kind::map: {
      nlohmann::json out = nlohmann::json::object();
      for (const YamlEntry& entry : node.entries) out[entry.key] = to_json(entry.value);
      return out;
    }
    case YamlNode::Kind::scalar:
      break;
  }
  const std::string& text = node.text;
  if (!node.plain) return text;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const char* end = text.data() + text.size();
  if (is_whole_number(text)) {
    std::int64_t value = 0;
    if (std::from_chars(text.data(), end, value).ec == std::errc()) return value;
    std::uint64_t larger = 0;
    if (std::from_chars(text.data(), end, larger).ec == std::errc()) return larger;
  }
  if (is_number(text)) {
    // Uses a stream because the standard library of macOS has no from_chars for floating point.
    std::istringstream in(text);
    in.imbue(std::locale::classic());
    double value = 0;
    if (in >> value && in.eof()) return value;
  }
  return text;
}

}  // namespace mlk
