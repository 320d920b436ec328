// The record of a run, which others may have written: its names become files.
#include "cli/run/stored.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/json.h"

namespace {

using nlohmann::json;

json owner_with(const json& experiment, const json& digests = json::object()) {
  return {{"metadata", {{"name", "x-abcde"}}},
          {"data", {{"experiment", experiment.dump()}, {"digests", digests.dump()}}}};
}

std::string refusal_of(const json& experiment, const json& digests = json::object()) {
  try {
    (void)mlk::read_stored(owner_with(experiment, digests));
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::failure);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a record whose folders and names are not such is refused by name") {
  CHECK(refusal_of({{"name", "x"}, {"code", {{"path", "src"}}}, {"data", json::array()}}) == "");
  CHECK(refusal_of({{"data", {{{"name", "d"}, {"files", "/abs"}}}}}) == "");
  CHECK(refusal_of({{"data", {{{"name", "d"}, {"pvc", "c"}}}}}) == "");
  const std::string begin = "the record of run x-abcde was changed: ";
  const std::string no_path = begin + "code.path is not the name of a folder";
  for (const json& code : {json({{"path", 7}}), json({{"path", ""}}), json({{"path", json::array()}}),
                           json::object(), json::array(), json(1), json("src"), json()})
    CHECK_MESSAGE(refusal_of({{"name", "x"}, {"code", code}}) == no_path, code.dump());
  for (const json& data : {json::object(), json("x"), json(1), json()})
    CHECK_MESSAGE(refusal_of({{"name", "x"}, {"data", data}}) == begin + "data is not a list", data.dump());
  CHECK(refusal_of({{"data", {1}}}) == begin + "an entry of data is not an object");
  for (const json& entry : {json::object(), json({{"name", 1}}), json({{"name", ""}}),
                            json({{"name", "x/../../zz"}}), json({{"name", ".."}})}) {
    json wrong = entry;
    wrong["files"] = "d";
    CHECK_MESSAGE(refusal_of({{"data", {wrong}}}) == begin + "an entry of data has no name", wrong.dump());
  }
  for (const json& files : {json(1), json(""), json::array(), json::object(), json()})
    CHECK(refusal_of({{"data", {{{"name", "d"}, {"files", files}}}}}) ==
          begin + "data 'd': files is not the name of a folder");
}

TEST_CASE("the digest of code is one, and comes with code") {
  const json code = {{"code", {{"path", "."}}}};
  CHECK(refusal_of(code, {{"code.tar", std::string(64, 'a')}}) == "");
  CHECK(refusal_of(code, {{"code.tar", "../../x"}}) ==
        "the record of run x-abcde was changed: its code has no digest");
  CHECK(refusal_of({{"name", "x"}}, {{"code.tar", std::string(64, 'a')}}) ==
        "the record of run x-abcde was changed: it has no code");
}

TEST_CASE("a ConfigMap has files whose names are single parts of a path") {
  const auto files = [](const std::string& name) {
    return mlk::files_in({{"metadata", {{"name", "m"}}}, {"binaryData", {{name, "YQ=="}}}});
  };
  CHECK(files("a.txt") == std::map<std::string, std::string>{{"a.txt", "a"}});
  for (const char* name : {"../../../x", "/abs", "a/b", "..", ".", ""})
    CHECK_THROWS_WITH_AS(files(name), doctest::Contains("is not the name of a file"), mlk::Error);
}
