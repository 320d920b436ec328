// Checks how mlk reads the challenges in 401 answers of registries.
#include "cli/registry/challenge.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("registry/challenge");

namespace {

using mlk::registry::best_of;
using mlk::registry::Challenge;
using mlk::registry::parse_challenges;
using Parameters = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("parse_challenges() reads the scheme and the parameters, with and without quotes") {
  const std::vector<Challenge> found = parse_challenges(
      R"(Bearer realm="https://auth.example/token",service=registry.example , Scope="repository:a/b:pull,push")");
  REQUIRE(found.size() == 1);
  CHECK(found[0].scheme == "bearer");
  CHECK(found[0].parameters == Parameters{{"realm", "https://auth.example/token"},
                                          {"service", "registry.example"},
                                          {"scope", "repository:a/b:pull,push"}});
}

TEST_CASE("parse_challenges() separates several challenges in one value, and ignores a repeated parameter") {
  const std::vector<Challenge> found =
      parse_challenges(R"(, Negotiate, basic Realm="a \"b\" \\", ,BEARER realm = "x", realm="y",Digest)");
  REQUIRE(found.size() == 4);
  CHECK(found[0].scheme == "negotiate");
  CHECK(found[0].parameters.empty());
  CHECK(found[1].parameters == Parameters{{"realm", R"(a "b" \)"}});
  CHECK(found[2].parameters == Parameters{{"realm", "x"}});
  CHECK(found[3].scheme == "digest");
}

TEST_CASE("an unquoted value ends at the first character that no token may have, and tabs count as blanks") {
  const auto first = [](const std::string& header) {
    const std::vector<Challenge> found = parse_challenges(header);
    return found.empty() ? Parameters{} : found[0].parameters;
  };
  CHECK(first("Bearer realm=!#$%&'*+-.^_`|~aZ09") == Parameters{{"realm", "!#$%&'*+-.^_`|~aZ09"}});
  for (const char end : std::string("@:/()<>[]{}?;\\"))
    CHECK_MESSAGE((first(std::string("Bearer realm=x") + end + "y") == Parameters{{"realm", "x"}}), end);
  CHECK(first("Bearer realm=x\xc3\xa9") == Parameters{{"realm", "x"}});
  CHECK(first("\tBearer\trealm\t=\t\"x\"\t,\tservice=y") == Parameters{{"realm", "x"}, {"service", "y"}});
  CHECK(first("Bearer realm=x,,service=y") == Parameters{{"realm", "x"}, {"service", "y"}});
}

TEST_CASE("parse_challenges() drops a second parameter if no comma separates it from the first") {
  const std::vector<Challenge> found = parse_challenges(R"(Basic realm="x" charset="y")");
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].parameters == Parameters{{"realm", "x"}});
}

TEST_CASE("parse_challenges() returns the challenges before the first malformed part") {
  for (const std::string& empty :
       std::vector<std::string>{"", " ", ",,", "\"", "=", "\x01", "\xff", "(comment)"})
    CHECK_MESSAGE(parse_challenges(empty).empty(), empty);
  CHECK(parse_challenges("Basic realm=\"x\", Bearer realm=\"never closed").size() == 1);
  CHECK(parse_challenges("Bearer realm=\"ends with \\").empty());
  CHECK(parse_challenges("Basic, ;").size() == 1);
  const std::vector<Challenge> valueless = parse_challenges("Bearer realm=,service=x");
  REQUIRE(valueless.size() == 1);
  CHECK(valueless[0].parameters == Parameters{{"realm", ""}, {"service", "x"}});
}

TEST_CASE("parse_challenges() reads at most sixteen challenges, and at most sixteen parameters of each") {
  std::string schemes, parameters = "Bearer ";
  for (int i = 0; i < 100; ++i) {
    schemes += "a" + std::to_string(i) + ", ";
    parameters += "p" + std::to_string(i) + "=x, ";
  }
  CHECK(parse_challenges(schemes).size() == 16);
  CHECK(parse_challenges(schemes).back().scheme == "a15");
  const Parameters read = parse_challenges(parameters)[0].parameters;
  CHECK(read.size() == 16);
  CHECK(read.contains("p15"));
}

TEST_CASE("best_of() prefers a bearer challenge with a realm to a basic challenge") {
  const auto best = [](const std::string& header) {
    const auto found = best_of(parse_challenges(header));
    return found ? found->scheme + " " +
                       (found->parameters.contains("realm") ? found->parameters.at("realm") : "")
                 : "none";
  };
  CHECK(best("Basic realm=\"a\", Bearer realm=\"b\"") == "bearer b");
  CHECK(best("Bearer service=\"x\", Basic realm=\"a\"") == "basic a");
  CHECK(best("Bearer service=\"x\", Bearer realm=\"b\"") == "bearer b");
  CHECK(best("Bearer realm=\"a\", Bearer realm=\"b\"") == "bearer a");
  CHECK(best("Basic realm=\"a\", Basic realm=\"b\"") == "basic a");
  CHECK(best("Bearer, Negotiate realm=\"x\"") == "none");
  CHECK(best("Basic") == "basic ");
  CHECK(best("Negotiate, Digest realm=\"x\"") == "none");
  CHECK(best("") == "none");
}
