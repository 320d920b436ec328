// sim: runs of allreduce and of parameter servers in a simulated world, each from a seed or from a scenario.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/sim/probes.h"
#include "tests/sim/ps_run.h"
#include "tests/sim/run.h"

namespace {

using namespace mlk::sim;

constexpr const char* usage =
    "usage: sim [--mode allreduce|ps] --seeds A..B [--ranks N]\n"
    "                                          one run for each seed; exit 1 if one breaks a rule\n"
    "       sim [--mode allreduce|ps] --seed N [--ranks N] [--trace] [--text]\n"
    "       sim FILE... [--trace] [--probes]   scenarios (tests/sim/scenarios)\n"
    "--plant given_up_ends: with this fault in the simulated transport; allreduce only\n"
    "--trace prints every event, --text the seed's scenario; the mode is allreduce unless ps is named\n"
    "--probes: in how many runs each probe of the code was passed, a line for each\n"
    "--first: ends with the first seed that breaks a rule\n"
    "--seconds N: begins no run after so many seconds\n";

struct Arguments {
  std::uint64_t first = 0, last = 0;
  std::uint32_t ranks = 0;
  Plants plants;
  bool ps = false, seeds = false, trace = false, text = false, probes = false, first_only = false;
  double seconds = 1e9;
  std::vector<std::string> files;
};

std::uint64_t number(const std::string& text) {
  std::size_t end = 0;
  const std::uint64_t value = std::stoull(text, &end);
  if (end != text.size()) throw std::invalid_argument(text);
  return value;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] {
      return i + 1 < words.size() ? words[++i] : throw std::invalid_argument(words[i]);
    };
    if (words[i] == "--seeds") {
      const std::string range = value();
      const std::size_t dots = range.find("..");
      if (dots == std::string::npos) throw std::invalid_argument(range);
      arguments.first = number(range.substr(0, dots));
      arguments.last = number(range.substr(dots + 2));
      arguments.seeds = true;
    } else if (words[i] == "--seed") {
      arguments.first = arguments.last = number(value());
      arguments.seeds = true;
    } else if (words[i] == "--ranks") {
      arguments.ranks = static_cast<std::uint32_t>(number(value()));
    } else if (words[i] == "--mode") {
      const std::string mode = value();
      if (mode != "allreduce" && mode != "ps") throw std::invalid_argument(mode);
      arguments.ps = mode == "ps";
    } else if (words[i] == "--plant") {
      if (value() != "given_up_ends") throw std::invalid_argument(words[i]);
      arguments.plants.given_up_ends = true;
    } else if (words[i] == "--trace") {
      arguments.trace = true;
    } else if (words[i] == "--probes") {
      arguments.probes = true;
    } else if (words[i] == "--first") {
      arguments.first_only = true;
    } else if (words[i] == "--seconds") {
      arguments.seconds = static_cast<double>(number(value()));
    } else if (words[i] == "--text") {
      arguments.text = true;
    } else if (words[i] == "--help") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else if (words[i].starts_with("-")) {
      throw std::invalid_argument(words[i]);
    } else {
      arguments.files.push_back(words[i]);
    }
  }
  if (arguments.seeds == !arguments.files.empty()) throw std::invalid_argument("seeds or files");
  if (arguments.ps && arguments.plants.given_up_ends) throw std::invalid_argument("--plant with --mode ps");
  return arguments;
}

Print printer(bool trace) {
  if (!trace) return {};
  return [](const std::string& line) { std::printf("%s\n", line.c_str()); };
}

// A run breaks its scenario also if it does not pass the probes that the scenario names.
Outcome run_scenario(const auto& scenario, const Arguments& arguments) {
  Outcome outcome = simulate(scenario, printer(arguments.trace));
  for (const std::string& probe : scenario.passes) {
    if (!outcome.violation && !has_passed(probe)) outcome.violation = "the run does not pass " + probe;
  }
  return outcome;
}

Outcome run_text(const std::string& text, const Arguments& arguments) {
  if (is_ps_scenario(text)) return run_scenario(parse_ps_scenario(text), arguments);
  Scenario scenario = parse_scenario(text);
  scenario.settings.network.plants = arguments.plants;
  return run_scenario(scenario, arguments);
}

Outcome run_seed(std::uint64_t seed, const Arguments& arguments) {
  const auto show = [&](const auto& scenario) {
    if (arguments.text) std::printf("%s", to_text(scenario).c_str());
  };
  if (arguments.ps) {
    const PsScenario scenario = draw_ps(seed, arguments.ranks);
    show(scenario);
    return simulate(scenario, printer(arguments.trace));
  }
  Scenario scenario = draw(seed, arguments.ranks);
  scenario.settings.network.plants = arguments.plants;
  show(scenario);
  return simulate(scenario, printer(arguments.trace));
}

int run_files(const Arguments& arguments) {
  int code = 0;
  for (const std::string& path : arguments.files) {
    std::ifstream file(path);
    std::stringstream text;
    if (!(text << file.rdbuf())) throw std::runtime_error(path + ": cannot be read");
    next_run();
    const Outcome outcome = run_text(text.str(), arguments);
    std::printf("%s: %s\n", path.c_str(), outcome.violation.value_or("ok").c_str());
    if (outcome.violation) code = 1;
  }
  if (arguments.probes) print_probes();
  return code;
}

int run_seeds(const Arguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t broken = 0, events = 0, commits = 0, generations = 0;
  double virtual_seconds = 0;
  std::uint64_t runs = 0;
  const char* const comment = arguments.text ? "# " : "";  // the output of --text is a scenario
  const auto took = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (std::uint64_t seed = arguments.first; seed <= arguments.last && took() < arguments.seconds; ++seed) {
    ++runs;
    next_run();
    const Outcome outcome = run_seed(seed, arguments);
    if (outcome.violation) {
      ++broken;
      std::printf("%sseed %lu: %s\n", comment, static_cast<unsigned long>(seed), outcome.violation->c_str());
      std::fflush(stdout);
      if (arguments.first_only) break;
    }
    events += outcome.events;
    commits += outcome.commits;
    generations += outcome.generations;
    virtual_seconds += std::chrono::duration<double>(outcome.time).count();
  }
  std::printf(
      "%s%lu runs, %lu broken; %lu events, %lu generations, %lu commits, %.0f s "
      "simulated in %.1f s\n",
      comment, static_cast<unsigned long>(runs), static_cast<unsigned long>(broken),
      static_cast<unsigned long>(events), static_cast<unsigned long>(generations),
      static_cast<unsigned long>(commits), virtual_seconds, took());
  if (arguments.probes) print_probes();
  return broken > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    listen_to_probes();
    return arguments.seeds ? run_seeds(arguments) : run_files(arguments);
  } catch (const std::logic_error& error) {
    std::fprintf(stderr, "sim: not understood: %s\n%s", error.what(), usage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sim: %s\n", error.what());
    return 2;
  }
}
