#include "sweeps/results/report.h"

#include <regex>
#include <set>

#include <doctest/doctest.h>

#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/own_files.h"
#include "cli/util/unicode.h"
#include "sweeps/results/report_assets.h"

TEST_SUITE_BEGIN("sweeps/results/report");

using namespace mlk::sweeps;

namespace {

const std::string hostile =
    "</script></title><script>alert(1)</script><!-- '\"& \xe2\x80\xa8\xe2\x80\xae\x1b[31m \xff";

ReportData hostile_report(int trials) {
  ReportData data;
  data.title = data.name_space = data.description = data.version = hostile;
  data.objective.metric = hostile;
  data.space.parameters = {{hostile, Parameter::Kind::choice, {hostile, 1}, 0, 0, {}},
                           {"lr", Parameter::Kind::uniform, {}, 0, 1, {}}};
  for (int i = 0; i < trials; ++i) {
    Trial trial;
    trial.number = i;
    trial.hash = hostile;
    trial.point = {{hostile, i % 2 == 0 ? nlohmann::json(hostile) : nlohmann::json(1)},
                   {"lr", i / (trials + 1.0)}};
    trial.state = i % 3 == 0 ? TrialState::failed : TrialState::succeeded;
    trial.metrics = {{hostile + "2", i}, {"text", hostile}};
    trial.objective = i;
    trial.curve = {{1, 1.0}, {2, i}};
    trial.failure = hostile;
    data.trials.push_back(std::move(trial));
  }
  return data;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The text between the last `begin` and the next `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.rfind(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

std::string source(const std::string& content) {
  const std::array<unsigned char, 32> digest = mlk::sha256(content);
  return "'sha256-" + mlk::base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "'";
}

}  // namespace

TEST_CASE("a report has only two scripts (its data and its program), even if names contain scripts") {
  const std::string html = report_html(hostile_report(30));
  CHECK(count_of(html, "<script") == 2);
  CHECK(count_of(html, "</script>") == 2);
  CHECK(count_of(html, "<title>") == 1);
  CHECK(count_of(html, "</title>") == 1);
  CHECK(count_of(html, "<!--") == 0);
  CHECK(count_of(html, "alert(1)</") == 0);
  CHECK(mlk::is_utf8(html));
  const nlohmann::json page = mlk::parse_json(between(html, "id=\"data\">", "</script>"), "the data");
  CHECK(page["trials"].size() == 30);
  // Control characters are gone; other characters are unchanged.
  CHECK(page["title"] == "</script></title><script>alert(1)</script><!-- '\"& ???[31m ?");
}

TEST_CASE("the security policy of a report allows only the style and the script of this report") {
  const std::string html = report_html(hostile_report(3));
  const std::string policy = between(html, "http-equiv=\"Content-Security-Policy\" content=\"", "\">");
  CHECK(policy == "default-src 'none'; style-src " + source(between(html, "<style>", "</style>")) +
                      "; script-src " + source(between(html, "<script>", "</script>")) +
                      "; base-uri 'none'; form-action 'none'");
}

TEST_CASE("a report contains no address except the one of the SVG namespace") {
  const std::string html = report_html(hostile_report(3));
  const std::regex address(
      "\\b(https?|wss?|ftp|data|blob):[^\\s\"'`)]*|url\\([^)]*|@import|\\bsrc=|\\bhref=");
  std::set<std::string> found;
  for (auto match = std::sregex_iterator(html.begin(), html.end(), address); match != std::sregex_iterator();
       ++match)
    found.insert(match->str());
  CHECK(found == std::set<std::string>{"http://www.w3.org/2000/svg"});
}

TEST_CASE("the scripts of a report use no function that turns text into markup or code") {
  for (const mlk::EmbeddedFile& file : report_assets()) {
    for (const char* bad : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                            "new Function", "DOMParser", "fetch(", "XMLHttpRequest", "localStorage"})
      CHECK_MESSAGE(file.text.find(bad) == std::string_view::npos, file.path, " has ", bad);
  }
  CHECK(report_assets().size() == 11);
}

TEST_CASE("a report of a sweep without trials is a complete page") {
  const std::string html = report_html({});
  CHECK(html.starts_with(mlk::sign_of_report));
  const nlohmann::json page = mlk::parse_json(between(html, "id=\"data\">", "</script>"), "the data");
  CHECK(page["trials"].empty());
  CHECK(page["best"].is_null());
  CHECK(page["importance"]["reason"] == "the sweep has no parameters");
}

TEST_CASE("a report of hostile names and more trials than rows stays below its size limit") {
  const std::string html = report_html(hostile_report(21000));  // of 20 000 rows
  CHECK(html.size() < 17u << 20);
  const nlohmann::json page = mlk::parse_json(between(html, "id=\"data\">", "</script>"), "the data");
  CHECK(page["trials"].size() > 1000);
  CHECK(page["states"]["Succeeded"] == 14000);
  CHECK_FALSE(page["notes"].empty());
}

TEST_CASE("a name like {{script}} stays unchanged in a report") {
  ReportData data;
  data.title = "{{script}}";
  const std::string html = report_html(data);
  CHECK(html.find("<title>{{script}}</title>") != std::string::npos);
}
