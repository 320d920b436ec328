#include "cli/run/facts/submitter.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/labels.h"

TEST_SUITE_BEGIN("run/facts/submitter");

namespace mlk {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

const Submitter anna{"kubernetes-admin", "anna"}, ben{"kubernetes-admin", "ben"}, carl{"carl@lab", "root"},
    dora{"dora@lab", "root"}, unknown{}, program{"system:serviceaccount:lab:ci", "root"};

TEST_CASE("the annotation of the owner keeps the submitter") {
  const json owner = {{"metadata", {{"annotations", {{annotations::submitter, annotation_text(anna)}}}}}};
  const Submitter read = submitter_of(owner);
  CHECK(read.user == "kubernetes-admin");
  CHECK(read.name == "anna");
  CHECK(annotation_text(unknown) == "");
  for (const char* text : {"", "{", "[1]", "7", R"({"user": 3, "name": []})"}) {
    CHECK_FALSE(submitter_of({{"metadata", {{"annotations", {{annotations::submitter, text}}}}}}).is_known());
  }
}

TEST_CASE("a run is another's if the users or the names differ") {
  struct Case {
    Submitter submitter;
    Me me;
    bool mine, of_another;
  };
  const Case cases[] = {
      {anna, {anna, ""}, true, false},         {ben, {anna, ""}, false, true},
      {carl, {dora, ""}, false, true},         {carl, {carl, ""}, true, false},
      {unknown, {anna, ""}, false, false},     {anna, {unknown, ""}, false, false},
      {{"", "anna"}, {anna, ""}, true, false},  // a server that does not say who asks
      {{"", "ben"}, {anna, ""}, false, true},  {{"carl@lab", ""}, {carl, ""}, true, false},
      {program, {anna, ""}, false, false},  // service accounts are shared
      {anna, {program, ""}, false, false},     {program, {program, ""}, true, false},
      {ben, {anna, "ben"}, true, false},  // --mine-as
      {carl, {anna, "carl@lab"}, true, false}, {dora, {anna, "carl@lab"}, false, true},
  };
  for (const Case& each : cases) {
    CAPTURE(each.submitter.user + "/" + each.submitter.name + " for " + each.me.self.user + "/" +
            each.me.self.name);
    CHECK(is_mine(each.submitter, each.me) == each.mine);
    CHECK(is_of_another(each.submitter, each.me) == each.of_another);
  }
}

TEST_CASE("the words for submitters are the shortest that tell them from each other") {
  CHECK(called(ben, {anna, ""}) == "ben");
  CHECK(called(carl, {anna, ""}) == "carl@lab");
  CHECK(called({"", "ben"}, {anna, ""}) == "ben");
  CHECK(short_names({anna, ben, unknown, anna}) == Names{"anna", "ben", "", "anna"});
  CHECK(short_names({carl, dora}) == Names{"carl@lab", "dora@lab"});
  CHECK(short_names({anna, ben, carl}) ==
        Names{"kubernetes-admin/anna", "kubernetes-admin/ben", "carl@lab/root"});
  CHECK(short_names({carl}) == Names{"root"});
}

}  // namespace
}  // namespace mlk
