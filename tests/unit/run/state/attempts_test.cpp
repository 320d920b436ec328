// Tests which run of an experiment a submit continues, and which answers of a cluster it does not accept.
#include <doctest/doctest.h>

#include "cli/experiment/load.h"
#include "cli/run/change/submission.h"
#include "cli/run/facts/labels.h"
#include "cli/util/error.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("run/state/attempts");

namespace {

using mlk::test::FakeCluster;
using nlohmann::json;

mlk::Submitted submit(FakeCluster& cluster, bool again) {
  const mlk::Templates templates;
  const mlk::Experiment experiment =
      mlk::load_experiment("name: x\nmode: single\nimage: i\nrun: echo\n", "x.yaml", {}, templates.names());
  const mlk::FileContents files;
  mlk::kube::Client client(cluster.config());
  const mlk::SubmitRequest request{.experiment = experiment,
                                   .files = files,
                                   .templates = templates,
                                   .name_space = "default",
                                   .version = "0",
                                   .again = again};
  return mlk::submit_run(client, request, mlk::render_run(request),
                         {.note = [](const std::string&) {}, .check_interrupted = [] {}});
}

}  // namespace

TEST_CASE("--again gives the new run a number that is one more than the highest number so far") {
  FakeCluster cluster;
  const std::string run = submit(cluster, false).run;
  const auto stop = [](json& owner) {
    owner["metadata"]["annotations"][mlk::annotations::stopped] = "2026-11-22T12:00:00Z";
  };
  cluster.store.modify("configmaps", "default", run, stop);
  for (const char* number : {"-10", "-2", "-3"}) {
    json owner = *cluster.store.get("configmaps", "default", run);
    owner["metadata"]["name"] = run + number;
    owner["metadata"]["uid"] = run + number;
    owner["metadata"]["labels"][mlk::labels::run] = run + number;
    cluster.store.create("configmaps", owner);
  }
  CHECK(submit(cluster, false).run == run + "-10");
  CHECK(submit(cluster, true).run == run + "-11");  // a stopped run counts as over for --again
}

TEST_CASE("a submit fails if the cluster drops a field from a Service") {
  FakeCluster cluster;
  cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method != "POST" || !request.path.ends_with("/services")) return std::nullopt;
    json stored = json::parse(request.body);
    stored["spec"].erase("publishNotReadyAddresses");
    mlk::local::Answer answer;
    answer.status = 201;
    answer.body = stored.dump();
    return answer;
  });
  CHECK_THROWS_WITH(submit(cluster, false), doctest::Contains("publishNotReadyAddresses of service/"));
}
