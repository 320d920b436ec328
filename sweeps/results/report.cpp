#include "sweeps/results/report.h"

#include <array>
#include <map>
#include <stdexcept>
#include <string_view>

#include "cli/util/hash.h"
#include "cli/util/text.h"
#include "sweeps/results/report_assets.h"

namespace mlk::sweeps {
namespace {

// Each script uses only the scripts before it; main.js starts all parts.
constexpr std::array<std::string_view, 9> scripts = {"dom.js",     "scale.js",  "data.js",
                                                     "chart.js",   "curves.js", "parallel.js",
                                                     "scatter.js", "table.js",  "main.js"};

std::string_view asset(std::string_view name) {
  for (const EmbeddedFile& file : report_assets()) {
    if (file.path == name) return file.text;
  }
  throw std::logic_error("no file of the report is called " + std::string(name));
}

std::string all_scripts() {
  std::string text;
  for (const std::string_view name : scripts) text += asset(name);
  return text;
}

// The hash with which a Content-Security-Policy allows one script or style.
std::string policy_hash(std::string_view text) {
  const std::array<unsigned char, 32> digest = sha256(text);
  return "'sha256-" + base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "'";
}

std::string html_text(std::string_view text) {
  return replaced(text, {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});
}

// Replaces each {{name}} of the template. Does not replace placeholders in the inserted texts.
std::string filled(std::string_view text, const std::map<std::string, std::string, std::less<>>& values) {
  std::string result;
  while (true) {
    const std::size_t begin = text.find("{{");
    result += text.substr(0, begin);
    if (begin == std::string_view::npos) return result;
    const std::size_t end = text.find("}}", begin);
    result += values.at(std::string(text.substr(begin + 2, end - begin - 2)));
    text.remove_prefix(end + 2);
  }
}

}  // namespace

std::string report_html(const ReportData& data) {
  const std::string style(asset("report.css")), script = all_scripts();
  constexpr std::size_t longest_title = 200;
  return filled(asset("report.html"),
                {{"title", html_text(cut(printable(data.title), longest_title))},
                 {"policy", "default-src 'none'; style-src " + policy_hash(style) + "; script-src " +
                                policy_hash(script) + "; base-uri 'none'; form-action 'none'"},
                 {"style", style},
                 {"data", script_json(report_data(data))},
                 {"script", script}});
}

}  // namespace mlk::sweeps
