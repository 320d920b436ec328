#include "sweeps/search/spec.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "cli/experiment/check.h"
#include "cli/experiment/schema.h"
#include "cli/experiment/values.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "sweeps/space/axis.h"
#include "sweeps/space/forms.h"
#include "sweeps/space/names.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr int most_trials = 100'000;

// Returns a whole number from `least` to `most`. If the node is something else, adds a problem and returns
// nothing.
std::optional<std::int64_t> whole_of(const YamlNode& node, const std::string& of, std::int64_t least,
                                     std::int64_t most, Problems& problems) {
  const json value = to_json(node);
  if (value.is_number_integer() && value >= least && value <= most) return value.get<std::int64_t>();
  problems.add(node.place, fmt::format("{} must be a whole number from {} to {}, not {}", of, least, most,
                                       describe(node)));
  return std::nullopt;
}

class Reader {
 public:
  Reader(YamlNode& root, Problems& problems) : root_(root), names_(root), problems_(problems) {}

  Spec read(const std::vector<std::string>& words) {
    const YamlNode sweep = take_sweep();
    const json checked = sweep.kind == YamlNode::Kind::map
                             ? check_section(sweep, schema_section("sweep"), "sweep", problems_)
                             : json::object();
    read_parameters(sweep);
    check_conditions(sweep);  // before the command's words are read, since these words may remove values
    for (const std::string& word : words) read_argument(word);
    check_order();
    read_except(sweep);
    // If the check has refused a value, the value is null here, and the default replaces it.
    const auto number = [&checked](const char* key, int otherwise) {
      return checked.contains(key) && checked[key].is_number_integer() ? checked[key].get<int>() : otherwise;
    };
    out_.repeat = number("repeat", 1);
    out_.parallel = number("parallel", 4);
    if (checked.contains("max_failures") && checked["max_failures"].is_number())
      out_.max_failures = checked["max_failures"].get<int>();
    if (const YamlNode* points = sweep.find("points"); points != nullptr && checked.contains("points")) {
      out_.points_file = points->text;
      out_.points_place = points->place;
    }
    // The columns of a points file also give values. mlk reads this file later, so it skips the check here.
    if (out_.points_file.empty()) names_.check_all_given(all_named(), problems_);
    if (!out_.points_file.empty() && !out_.space.parameters.empty())
      problems_.add(out_.points_place,
                    "sweep.points and sweep.parameters exclude each other: the columns of the "
                    "file are the parameters");
    read_search(sweep);
    if (const YamlNode* objective = sweep.find("objective"))
      out_.objective = read_objective(*objective, "sweep.objective", problems_);
    if (out_.search.kind == Search::Kind::tpe) check_tpe(sweep);
    if (problems_.empty()) check_varies(sweep);
    if (const YamlNode* stop = sweep.find("stop")) read_stop(*stop);
    out_.decides = {{"search", {{"kind", to_string(out_.search.kind)}, {"seed", out_.search.seed}}},
                    {"objective", checked.value("objective", json())},
                    {"stop", checked.value("stop", json())}};
    if (!out_.search.start.empty()) out_.decides["search"]["start"] = normal_form(json(out_.search.start));
    return std::move(out_);
  }

 private:
  YamlNode take_sweep() {
    YamlNode sweep;
    for (YamlEntry& entry : root_.entries) {
      if (entry.key == "sweep") sweep = std::move(entry.value);
    }
    std::erase_if(root_.entries, [](const YamlEntry& entry) { return entry.key == "sweep"; });
    if (sweep.kind != YamlNode::Kind::map && sweep.kind != YamlNode::Kind::null)
      check_section(sweep, schema_section("sweep"), "sweep", problems_);  // reports that it must be a map
    return sweep;
  }

  // The new values replace the values that the parameter has already.
  void read_values(const std::string& path, const YamlNode& values) {
    std::optional<Parameter> parameter = read_form(path, values, names_, problems_);
    const auto same = std::ranges::find(out_.space.parameters, path, &Parameter::path);
    if (!parameter) {
      unread_.emplace_back().path = path;
    } else if (same == out_.space.parameters.end()) {
      out_.space.parameters.push_back(std::move(*parameter));
    } else {
      *same = std::move(*parameter);
    }
  }

  bool has(const std::string& path) const {
    const std::vector<Parameter> all = all_named();
    return std::ranges::find(all, path, &Parameter::path) != all.end();
  }

  // All named parameters. Includes parameters with refused values, since mlk must not report them as missing.
  std::vector<Parameter> all_named() const {
    std::vector<Parameter> out = out_.space.parameters;
    out.insert(out.end(), unread_.begin(), unread_.end());
    return out;
  }

  void read_parameters(const YamlNode& sweep) {
    const YamlNode* parameters = sweep.find("parameters");
    if (parameters == nullptr || parameters->kind != YamlNode::Kind::map) return;
    for (const YamlEntry& entry : parameters->entries) {
      const std::optional<std::string> path = names_.resolve(entry.key, entry.place, problems_);
      if (!path) continue;
      if (has(*path)) problems_.add(entry.place, fmt::format("{} is given twice", *path));
      places_.try_emplace(*path, entry.place);
      read_values(*path, entry.value);
    }
  }

  // Checks that each condition of the file names values of the file's parameters. A condition that never
  // holds is a mistake.
  void check_conditions(const YamlNode& sweep) {
    const YamlNode* parameters = sweep.find("parameters");
    if (parameters == nullptr || parameters->kind != YamlNode::Kind::map) return;
    for (const YamlEntry& entry : parameters->entries) {
      if (const YamlNode* when = entry.value.find("when")) check_values(*when, "when of " + entry.key);
    }
    const YamlNode* except = sweep.find("except");
    if (except == nullptr || except->kind != YamlNode::Kind::list) return;
    for (const YamlNode& item : except->items) check_values(item, "sweep.except");
  }

  void check_values(const YamlNode& conditions, const std::string& of) {
    if (conditions.kind != YamlNode::Kind::map) return;
    for (const YamlEntry& entry : conditions.entries) {
      const std::optional<std::string> path = names_.resolve(entry.key, entry.place, problems_);
      const auto parameter = std::find_if(out_.space.parameters.begin(), out_.space.parameters.end(),
                                          [&](const Parameter& each) { return path && each.path == *path; });
      if (parameter == out_.space.parameters.end() || can_be(*parameter, to_json(entry.value))) continue;
      const bool is_list = entry.value.kind == YamlNode::Kind::list;
      for (const YamlNode& item : is_list ? entry.value.items : std::vector<YamlNode>{entry.value}) {
        if (const json value = to_json(item); !can_be(*parameter, value))
          problems_.add(item.place, fmt::format("{}: {} is never {}{}", of, entry.key, json_text(value),
                                                near_value(*parameter, value)));
      }
    }
  }

  static std::string near_value(const Parameter& parameter, const json& value) {
    std::vector<std::string> texts;
    for (const json& each : parameter.values) texts.push_back(text_of_value(each));
    const std::string near = nearest(text_of_value(value), texts);
    return near.empty() || near == text_of_value(value) ? "" : fmt::format("; did you mean '{}'?", near);
  }

  // A parameter on the command line replaces the parameter of the file.
  void read_argument(const std::string& argument) {
    const std::optional<Word> word = read_word(argument, problems_);
    if (!word) return;
    const std::optional<std::string> path = names_.resolve(word->path, word->place, problems_);
    if (!path) return;
    if (!typed_.insert(*path).second)
      problems_.add(word->place,
                    fmt::format("{} is given twice; several values are written {}=1,2", *path, word->path));
    places_[*path] = word->place;
    read_values(*path, word->values);
  }

  // A parameter must come after the parameters of its conditions, since a search chooses values in this
  // order.
  void check_order() {
    std::vector<Parameter>& all = out_.space.parameters;
    std::vector<Parameter> ordered;
    while (!all.empty()) {
      const auto free = std::find_if(all.begin(), all.end(), [&](const Parameter& each) {
        return std::all_of(each.when.begin(), each.when.end(), [&](const Condition& condition) {
          const auto names_it = [&](const Parameter& before) { return before.path == condition.path; };
          return std::any_of(ordered.begin(), ordered.end(), names_it) ||
                 std::any_of(unread_.begin(), unread_.end(), names_it);
        });
      });
      if (free == all.end()) {
        const auto place = places_.find(all.front().path);
        problems_.add(place == places_.end() ? root_.place : place->second,
                      fmt::format("when of {} names a parameter that the sweep does not have, or "
                                  "that depends on {} itself",
                                  all.front().path, all.front().path));
        return;
      }
      ordered.push_back(std::move(*free));
      all.erase(free);
    }
    all = std::move(ordered);
  }

  void read_except(const YamlNode& sweep) {
    const YamlNode* except = sweep.find("except");
    if (except == nullptr) return;
    if (except->kind != YamlNode::Kind::list) {
      problems_.add(except->place, fmt::format("sweep.except must be a list of maps such as [{{lr: 0.1, "
                                               "batch: 16}}], not {}",
                                               describe(*except)));
      return;
    }
    for (const YamlNode& item : except->items) {
      std::vector<Condition> conditions =
          read_conditions(item, "an entry of sweep.except", names_, problems_);
      for (const Condition& condition : conditions) {
        if (!has(condition.path))
          problems_.add(item.place, fmt::format("sweep.except names {}, which is no parameter of the sweep",
                                                condition.path));
      }
      if (!conditions.empty()) out_.space.except.push_back(std::move(conditions));
    }
  }

  void read_search(const YamlNode& sweep) {
    const bool continuous = std::ranges::any_of(out_.space.parameters, [](const Parameter& each) {
      return each.kind == Parameter::Kind::uniform || each.kind == Parameter::Kind::log_uniform;
    });
    const YamlNode* node = sweep.find("search");
    if (node == nullptr) {
      out_.search.kind = !out_.points_file.empty() ? Search::Kind::list : Search::Kind::grid;
      if (continuous && out_.points_file.empty()) {
        problems_.add(root_.place,
                      "a parameter with uniform or log_uniform has no end of values: say how many "
                      "to try, for example search: {random: {trials: 50}}");
      }
      return;
    }
    const bool is_map = node->kind == YamlNode::Kind::map && node->entries.size() == 1;
    const std::string kind = is_map ? node->entries.front().key : node->text;
    const SearchKind* known = find_search(kind);
    if (known == nullptr || (!is_map && node->kind != YamlNode::Kind::scalar)) {
      problems_.add(node->place,
                    fmt::format("sweep.search must be {}, not {}{}", join_or(names_of_searches()),
                                is_map ? fmt::format("'{}'", kind) : describe(*node),
                                did_you_mean(kind, names_of_searches())));
      return;
    }
    out_.search.kind = known->kind;
    if (is_map) read_search_options(node->entries.front());
    if (known->has_trials && out_.search.trials == 0)
      problems_.add(
          node->place,
          fmt::format("search {0} needs a number of trials: {{{0}: {{trials: 50}}}}, or --trials 50", kind));
    const bool list = out_.search.kind == Search::Kind::list;
    if (!list && !out_.points_file.empty())
      problems_.add(out_.points_place, fmt::format("sweep.points is for search list, not {}", kind));
    if (list && out_.points_file.empty())
      problems_.add(node->place, "search list takes its points from a file: give sweep.points");
  }

  void read_stop(const YamlNode& node) {
    const bool is_map = node.kind == YamlNode::Kind::map && node.entries.size() == 1;
    const std::string rule = is_map ? node.entries.front().key : node.text;
    if (rule != "asha" && rule != "median") {
      problems_.add(node.place,
                    fmt::format("sweep.stop must be {{asha: {{min: 100, max: 1000}}}} or median, not {}{}",
                                is_map ? fmt::format("'{}'", rule) : describe(node),
                                did_you_mean(rule, {"asha", "median"})));
      return;
    }
    out_.stop.rule = rule == "asha" ? EarlyStop::Rule::asha : EarlyStop::Rule::median;
    if (!out_.objective)
      problems_.add(node.place, "sweep.stop needs an objective, for example objective: minimize loss");
    out_.stop.asha.min = out_.stop.asha.max = 0;
    if (is_map) read_stop_options(node.entries.front());
    const AshaOptions& asha = out_.stop.asha;
    // `max` may be 0 here. In this case fit_stop() reads it from the experiment later.
    if (rule == "asha" && (asha.min < 1 || (asha.max != 0 && asha.max <= asha.min)))
      problems_.add(node.place,
                    "stop asha needs min, the steps before trials are judged, and a larger max, the steps of "
                    "a whole trial: {asha: {min: 100, max: 1000}}");
  }

  void read_stop_options(const YamlEntry& rule) {
    if (rule.value.kind != YamlNode::Kind::map) return;
    constexpr std::int64_t most = 1'000'000'000'000;
    EarlyStop& stop = out_.stop;
    for (const YamlEntry& option : rule.value.entries) {
      const std::string of = fmt::format("{} of stop {}", option.key, rule.key);
      const auto whole = [&](std::int64_t least, std::int64_t otherwise) {
        return whole_of(option.value, of, least, most, problems_).value_or(otherwise);
      };
      if (rule.key == "asha" && option.key == "min") {
        stop.asha.min = whole(1, 1);
      } else if (rule.key == "asha" && option.key == "max") {
        stop.asha.max = whole(1, most);
      } else if (rule.key == "asha" && option.key == "factor") {
        stop.asha.factor = static_cast<int>(std::min<std::int64_t>(whole(2, 4), 1000));
      } else if (rule.key == "median" && option.key == "grace") {
        stop.median.grace = whole(1, 1);
      } else if (rule.key == "median" && option.key == "min_trials") {
        stop.median.min_trials = static_cast<int>(std::min<std::int64_t>(whole(1, 3), 1'000'000));
      } else {
        problems_.add(option.place,
                      fmt::format("stop {} has no option '{}'; it has {}", rule.key, option.key,
                                  rule.key == "asha" ? "min, max, factor" : "grace, min_trials"));
      }
    }
  }

  // Refuses a sweep in which nothing varies, since all its trials would be the same.
  void check_varies(const YamlNode& sweep) {
    if (!out_.space.parameters.empty() || !out_.points_file.empty() || out_.repeat > 1) return;
    const YamlNode* parameters = sweep.find("parameters");
    problems_.add(
        parameters != nullptr               ? parameters->place
        : sweep.kind == YamlNode::Kind::map ? sweep.place
                                            : root_.place,
        "the sweep has no parameters: give values to try, for example sweep: {parameters: {lr: [0.1, "
        "0.01]}}, or lr=0.1,0.01 after the file");
  }

  void check_tpe(const YamlNode& sweep) {
    const YamlNode* search = sweep.find("search");
    const Place place = search == nullptr ? root_.place : search->place;
    if (!out_.objective && sweep.find("objective") == nullptr)
      problems_.add(place, "search tpe needs an objective, for example objective: minimize loss");
    if (out_.space.parameters.empty()) problems_.add(place, "search tpe needs parameters to search");
    if (out_.repeat > 1) problems_.add(place, "search tpe and repeat exclude each other");
  }

  void read_search_options(const YamlEntry& search) {
    if (search.value.kind != YamlNode::Kind::map) {
      if (search.value.kind != YamlNode::Kind::null)
        problems_.add(search.value.place,
                      fmt::format("search {} takes a map such as {{trials: 50, seed: 1}}, "
                                  "not {}",
                                  search.key, describe(search.value)));
      return;
    }
    for (const YamlEntry& option : search.value.entries) {
      const std::string of = fmt::format("{} of search {}", option.key, search.key);
      if (option.key == "seed") {
        constexpr std::int64_t largest = 9007199254740991;
        if (const auto seed = whole_of(option.value, of, 0, largest, problems_))
          out_.search.seed = static_cast<std::uint64_t>(*seed);
      } else if (option.key == "start" && out_.search.kind == Search::Kind::tpe) {
        read_start(option.value);
      } else if (option.key == "trials" && search_kind(out_.search.kind).has_trials) {
        if (const auto trials = whole_of(option.value, of, 1, most_trials, problems_))
          out_.search.trials = static_cast<int>(*trials);
      } else {
        std::vector<std::string> known{"seed"};
        if (search_kind(out_.search.kind).has_trials) known.push_back("trials");
        if (out_.search.kind == Search::Kind::tpe) known.push_back("start");
        problems_.add(option.place, fmt::format("search {} has no option '{}'{}", search.key, option.key,
                                                did_you_mean(option.key, known)));
      }
    }
  }

  // Reads the points that the search tries first.
  void read_start(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::list) {
      problems_.add(node.place, "start of search tpe must be a list of points such as [{lr: 0.1}], not " +
                                    describe(node));
      return;
    }
    for (const YamlNode& item : node.items) {
      Point point;
      if (item.kind != YamlNode::Kind::map)
        problems_.add(item.place, "a point of start must be a map such as {lr: 0.1}, not " + describe(item));
      for (const YamlEntry& entry : item.entries) {
        const std::optional<std::string> path = names_.resolve(entry.key, entry.place, problems_);
        if (path && read_start_value(*path, entry)) point[*path] = to_json(entry.value);
      }
      for (const Parameter& parameter : out_.space.parameters) {
        const bool wanted = holds(parameter.when, point);
        if (wanted != (point.count(parameter.path) == 1))
          problems_.add(item.place, fmt::format("this point of start {} {}", wanted ? "lacks" : "cannot have",
                                                parameter.path));
      }
      out_.search.start.push_back(std::move(point));
    }
  }

  bool read_start_value(const std::string& path, const YamlEntry& entry) {
    for (const Parameter& parameter : out_.space.parameters) {
      if (parameter.path != path) continue;
      if (Axis(parameter).place_of(to_json(entry.value))) return true;
      problems_.add(entry.place, fmt::format("{} is no value of {}", describe(entry.value), path));
      return true;  // the parameter exists, although the value is invalid
    }
    problems_.add(entry.place, path + " is no parameter of the sweep");
    return false;
  }

  YamlNode& root_;
  const Names names_;
  Problems& problems_;
  Spec out_;
  std::vector<Parameter> unread_;        // parameters whose values were refused
  std::set<std::string> typed_;          // the paths in the command's words
  std::map<std::string, Place> places_;  // of parameters, by path
};

}  // namespace

std::string describe(const EarlyStop& stop) {
  if (stop.rule != EarlyStop::Rule::asha) return "";
  return stop.resumes
             ? "asha pauses trials at their rungs; those that are promoted go on from their checkpoints"
             : "asha ends trials that do badly at a rung for good: without checkpoint.volume none could "
               "go on later";
}

Spec extract_spec(YamlNode& root, const std::vector<std::string>& words, Problems& problems) {
  return Reader(root, problems).read(words);
}

}  // namespace mlk::sweeps
