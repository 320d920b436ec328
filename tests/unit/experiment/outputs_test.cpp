// `outputs:`, the folders whose files stay.
#include "cli/experiment/outputs.h"

#include <doctest/doctest.h>

#include "tests/unit/experiment/loaded.h"

TEST_SUITE_BEGIN("experiment/outputs");

namespace mlk {
namespace {

using nlohmann::json;
using test::contains;
using test::load;
using test::problems_of;

constexpr char program_with_outputs[] = "name: x\nmode: single\nrun: [p]\n";

json outputs_in(const std::string& line) {
  return load(program_with_outputs + line + "\n").effective["outputs"];
}

TEST_CASE("outputs is a folder, a list of folders, or a map with a volume") {
  CHECK(outputs_in("outputs: out") == json{{"path", {"out"}}});
  CHECK(outputs_in("outputs: [out, logs/curves]") == json{{"path", {"out", "logs/curves"}}});
  CHECK(outputs_in("outputs: {path: out, to: {pvc: results}}") ==
        json{{"path", {"out"}}, {"to", {{"pvc", "results"}}}});
  CHECK(outputs_in("outputs: {path: [a, b], to: {hostPath: /data}}") ==
        json{{"path", {"a", "b"}}, {"to", {{"hostPath", "/data"}}}});
}

TEST_CASE("all spellings of a folder of outputs become the same text") {
  CHECK(outputs_in("outputs: ./out/") == json{{"path", {"out"}}});
  CHECK(outputs_in("outputs: [a//b/./c, my results]") == json{{"path", {"a/b/c", "my results"}}});
}

TEST_CASE("an experiment without outputs has no key for them, so the name of its run stays the same") {
  CHECK_FALSE(load(program_with_outputs).effective.contains("outputs"));
}

TEST_CASE("outputs name folders below the one in which the program starts") {
  const auto problem = [](const std::string& line) {
    return problems_of(program_with_outputs + line + "\n");
  };
  CHECK(contains(problem("outputs: /results"),
                 "x.yaml:4:1: /results is absolute; outputs names folders below the one in which the program "
                 "starts, and the program finds a folder for anything else in $MLK_OUTPUTS"));
  for (const char* folder : {"../out", ".", "a/../..", "./"})
    CHECK_MESSAGE(contains(problem(std::string("outputs: ") + folder), "is no folder below"), folder);
  CHECK(contains(problem("outputs: [a, a/b]"), "outputs names a and a/b, of which one is in the other"));
  CHECK(contains(problem("outputs: [a, ./a]"), "outputs names a and a, of which one is in the other"));
  CHECK(contains(problem("outputs: '-rf'"), "-rf cannot be the name of an output"));
  CHECK(contains(problem("outputs: " + std::string(300, 'a')), "cannot be the name of an output"));
  CHECK(contains(problem("outputs: []"), "outputs names no folder"));
  CHECK(contains(problem("outputs: [1,2,3,4,5,6,7,8,9,a,b,c,d,e,f,g,h]"), "more than 16 folders"));
}

TEST_CASE("the volume of outputs is one that outlives the pods") {
  const auto problem = [](const std::string& to) {
    return problems_of(program_with_outputs + ("outputs: {path: out, to: " + to + "}\n"));
  };
  CHECK(contains(problem("{emptyDir: {}}"), "unknown key 'emptyDir' in outputs.to"));
  CHECK(contains(problem("{pvc: a, hostPath: /b}"), "outputs.to names several volumes (pvc, hostPath)"));
  CHECK(contains(problem("{}"), "outputs.to names no volume: one of pvc, nfs, hostPath, csi"));
  CHECK(contains(problems_of(program_with_outputs + std::string("outputs: {to: {pvc: a}}\n")), "path"));
  CHECK(contains(problems_of(test::smallest + std::string("outputs: out\n")),
                 "outputs is for run; train has no use for it"));
}

}  // namespace
}  // namespace mlk
