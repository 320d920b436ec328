// Tests how images are built: their base, layers, repository, tag and platform.
#include "cli/run/inputs/build.h"

#include <doctest/doctest.h>

#include "cli/image/tar.h"
#include "cli/util/error.h"
#include "tests/unit/registry/played_image.h"
#include "tests/unit/run/submitter.h"
#include "tests/unit/util/environment_variable.h"

TEST_SUITE_BEGIN("run/inputs/build");

namespace {

using mlk::platform_of_nodes;
using mlk::test::one_worker;
using nlohmann::json;

mlk::Experiment built_experiment(const std::string& more = "") {
  const mlk::Templates templates;
  return mlk::load_experiment(one_worker + more, "x.yaml", {}, templates.names());
}

json labelled(const std::string& architecture, const std::string& kind = "") {
  json labels = {{"kubernetes.io/os", "linux"}, {"kubernetes.io/arch", architecture}};
  if (!kind.empty()) labels["kind"] = kind;
  return {{"metadata", {{"labels", labels}}}};
}

std::string platform_text(const std::vector<json>& nodes, const mlk::Experiment& experiment) {
  const auto found = platform_of_nodes(nodes, experiment);
  return found ? found->text() : "unknown";
}

mlk::Error target_error(const std::string& typed, const std::string& registry) {
  try {
    (void)mlk::target_of(typed, registry, "digits", {});
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

}  // namespace

TEST_CASE("the platform of a build is the platform that all usable nodes share") {
  const mlk::Experiment any = built_experiment(),
                        chosen = built_experiment("scheduling: {node: {selector: {kind: gpu}}}\n");
  CHECK(platform_text({}, any) == "unknown");
  CHECK(platform_text({labelled("amd64"), labelled("amd64")}, any) == "linux/amd64");
  CHECK(platform_text({labelled("amd64"), labelled("arm64")}, any) == "unknown");
  CHECK(platform_text({labelled("amd64"), labelled("arm64", "gpu")}, chosen) == "linux/arm64");
  CHECK(platform_text({labelled("amd64")}, chosen) == "unknown");
}

TEST_CASE("the platform of a build ignores nodes of other systems and nodes without labels") {
  const mlk::Experiment any = built_experiment();
  json windows = labelled("amd64");
  windows["metadata"]["labels"]["kubernetes.io/os"] = "windows";
  json numbered = labelled("amd64");
  numbered["metadata"]["labels"]["kubernetes.io/arch"] = 5;
  for (const json& node : {windows, numbered, json::object(), json{{"metadata", nullptr}},
                           json{{"metadata", "x"}}, json{{"metadata", {{"labels", nullptr}}}},
                           json{{"metadata", {{"labels", "x"}}}}, json(nullptr), json("x")}) {
    CHECK(platform_text({node}, any) == "unknown");
    CHECK(platform_text({node, labelled("arm64")}, any) == "linux/arm64");
  }
}

TEST_CASE("target_of() takes the typed repository, or else the experiment's name in the registry") {
  mlk::Build build;
  build.composed.digest = "sha256:" + std::string(64, 'a');
  CHECK(mlk::target_of("r.example/x:2", "s.example", "digits", build).text() == "r.example/x:2");
  CHECK(mlk::target_of("r.example/x", "", "digits", build).tag == "latest");
  CHECK(mlk::target_of("", "s.example:5000/team", "digits", build).text() ==
        "s.example:5000/team/digits:mlk-aaaaaaaaaaaa");
  CHECK(mlk::runtime_reference("s.example/team", "0.1.0") == "s.example/team/mlk-runtime:0.1.0");
  CHECK(target_error("", "").hint().find("MLK_REGISTRY") != std::string::npos);
  for (const auto& [typed, registry] :
       std::vector<std::pair<std::string, std::string>>{{"r.example/x@" + build.composed.digest, ""},
                                                        {"", "https://s.example"},
                                                        {"", "s.example/team:1"},
                                                        {"", "me:secret@s.example"},
                                                        {"me:secret@s.example", ""}}) {
    const mlk::Error error = target_error(typed, registry);
    CHECK_MESSAGE(error.code() == mlk::ExitCode::usage, typed, registry);
    CHECK_MESSAGE(std::string(error.what()).find("secret") == std::string::npos, error.what());
  }
}

TEST_CASE("is_built_tag() accepts only `mlk-` followed by the first twelve digits of the image's digest") {
  const std::string digest = "sha256:0123456789abcdef" + std::string(48, '0');
  CHECK(mlk::is_built_tag("mlk-0123456789ab", digest));
  for (const char* tag :
       {"mlk-paper-final", "mlk-0123456789a", "mlk-0123456789abc", "mlk-ffffffffffff", "mlk-", "1"})
    CHECK_FALSE(mlk::is_built_tag(tag, digest));
}

TEST_CASE("a node without a label for its system counts as Linux, but must have all labels of the selector") {
  const mlk::Experiment any = built_experiment();
  json unsaid = labelled("arm64");
  unsaid["metadata"]["labels"].erase("kubernetes.io/os");
  CHECK(platform_text({unsaid}, any) == "linux/arm64");
  CHECK(platform_text({unsaid, labelled("amd64")}, any) == "unknown");
  json system = labelled("amd64");
  system["metadata"]["labels"]["kubernetes.io/os"] = 3;
  CHECK(platform_text({system}, any) == "unknown");
  CHECK(platform_text({labelled(""), labelled("amd64")}, any) == "linux/amd64");
  // A node must have each label of the selector.
  const mlk::Experiment two =
      built_experiment("scheduling: {node: {selector: {kind: gpu, kubernetes.io/os: linux}}}\n");
  json half = labelled("amd64", "gpu");
  half["metadata"]["labels"].erase("kubernetes.io/os");
  CHECK(platform_text({half}, two) == "unknown");
  CHECK(platform_text({half, labelled("arm64", "gpu"), labelled("amd64", "cpu")}, two) == "linux/arm64");
}

TEST_CASE("repository_of() takes the typed repository, or else the experiment's name in the registry") {
  CHECK(mlk::repository_of("r.example/x:2", "s.example", "digits").text() == "r.example/x:2");
  CHECK(mlk::repository_of("", "s.example/team", "digits").name() == "s.example/team/digits");
  const mlk::Error none = target_error("", "");
  CHECK(none.what() == std::string("no repository is named for the image"));
  const mlk::Error digest = target_error("r.example/x@sha256:" + std::string(64, 'a'), "s.example");
  CHECK(digest.what() == std::string("-t names a digest, which the image gives itself"));
  CHECK(digest.hint() == "name a tag, or none");
  CHECK_THROWS_AS(mlk::runtime_reference("https://s.example", "1"), mlk::Error);
}

TEST_CASE("needs_build() is true for code in a layer and for Python packages") {
  const mlk::Experiment plain = built_experiment("code: .\n"),
                        packages = built_experiment("code: {path: ., python: requirements.txt}\n");
  const mlk::CodeArchive small{.digest = "d", .bytes = "b"},
      layer{.digest = "d", .bytes = "", .layer_file = "/layer"};
  const auto needs = [](const mlk::Experiment& experiment, const std::optional<mlk::CodeArchive>& code,
                        const std::string& image = "") {
    mlk::FileContents files;
    files.code = code;
    files.image = image;
    return mlk::needs_build(experiment, files);
  };
  CHECK_FALSE(needs(built_experiment(), std::nullopt));
  CHECK_FALSE(needs(packages, std::nullopt));
  CHECK_FALSE(needs(plain, small));
  CHECK(needs(plain, layer));
  CHECK(needs(packages, small));
  CHECK(needs(packages, layer));
  CHECK_FALSE(needs(packages, layer, "r.example/x@sha256:1"));
}

namespace {

// An image of amd64 with this configuration, as a registry returns it.
mlk::registry::FoundImage found_image(const json& config) {
  mlk::registry::FoundImage found;
  found.image.manifest.media_type = mlk::image::oci_types.manifest;
  found.image.configuration.platform.architecture = "amd64";
  found.image.configuration.whole = {{"os", "linux"},
                                     {"architecture", "amd64"},
                                     {"config", config},
                                     {"rootfs", {{"type", "layers"}, {"diff_ids", json::array()}}}};
  return found;
}

mlk::Error assembly_error(const mlk::Experiment& experiment, const mlk::FileContents& files,
                          const json& config) {
  try {
    (void)mlk::assemble(experiment, files, found_image(config), {});
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, ""};
}

}  // namespace

TEST_CASE("assemble() puts the layer of the code on top of the image") {
  const TemporaryFolder folder;
  const mlk::Experiment experiment = built_experiment("code: .\n");
  const mlk::image::Addition code = own_layer(folder, "program");
  mlk::FileContents files;
  files.code = mlk::CodeArchive{.digest = "d", .bytes = "", .layer_file = code.layer.file.string()};
  const json config = {{"Env", {"PATH=/bin", "A=b"}}, {"WorkingDir", "/app"}};
  const mlk::Build build = mlk::assemble(experiment, files, found_image(config), {});
  REQUIRE(build.base);
  REQUIRE(build.composed.own.size() == 1);
  CHECK(build.composed.own[0].blob.digest == code.layer.blob.digest);
  const json made = json::parse(build.composed.configuration).at("config");
  CHECK(made["WorkingDir"] == "/mlk/code");
  CHECK(made["Env"] == config["Env"]);
  CHECK(json::parse(build.composed.manifest).at("layers").at(0).at("annotations").at("dev.mlk.layer") ==
        "code");
  std::filesystem::remove(code.layer.file);
  const mlk::Error gone = assembly_error(experiment, files, config);
  CHECK(gone.code() == mlk::ExitCode::failure);
  CHECK(gone.what() == "the layer of the code is gone from " + code.layer.file.string());
  CHECK(gone.hint() == "type the command again");
}

TEST_CASE("assemble() adds no layer if the run has no code, or if its code is not a layer") {
  const json config = {{"WorkingDir", "/app"}};
  const mlk::Build bare = mlk::assemble(built_experiment(), {}, found_image(config), {});
  CHECK(bare.composed.own.empty());
  CHECK(json::parse(bare.composed.configuration).at("config").at("WorkingDir") == "/app");
  mlk::FileContents files;
  files.code = mlk::CodeArchive{.digest = "d", .bytes = "b"};
  CHECK(mlk::assemble(built_experiment("code: .\n"), files, found_image(config), {}).composed.own.empty());
}

TEST_CASE("a run with packages is refused if neither the image nor the experiment names a Python version") {
  mlk::Experiment experiment = built_experiment("code: {path: ., python: requirements.txt}\n");
  mlk::FileContents files;
  files.code = mlk::CodeArchive{.digest = "d", .bytes = "b"};
  const std::string hint = "say it: code: {python_version: \"3.11\"}";
  for (const json& config : {json(), json{{"Env", {"PATH=/bin"}}}, json{{"Env", {"PYTHON_VERSION="}}}}) {
    const mlk::Error unsaid = assembly_error(experiment, files, config);
    CHECK(unsaid.code() == mlk::ExitCode::usage);
    CHECK(unsaid.what() == std::string("code.python: image i does not say which Python it has"));
    CHECK(unsaid.hint() == hint);
  }
  const mlk::Error odd = assembly_error(experiment, files, {{"Env", {"PYTHON_VERSION=new"}}});
  CHECK(odd.code() == mlk::ExitCode::usage);
  CHECK(odd.what() == std::string("code.python: 'new' is no version of Python"));
  CHECK(odd.hint() == hint);
  // The version in the experiment overrides the version of the image.
  experiment.effective["code"]["python_version"] = "old";
  CHECK(assembly_error(experiment, files, {{"Env", {"PYTHON_VERSION=3.11.4"}}}).what() ==
        std::string("code.python: 'old' is no version of Python"));
}

TEST_CASE("if the image's C library is unknown, a build says that it uses wheels for glibc") {
  std::string debian;
  mlk::image::append_to_tar(debian, {.path = "etc/debian_version"}, "12");
  const mlk::Experiment experiment = built_experiment("code: {path: ., python: requirements.txt}\n");
  const TemporaryFolder folder;
  const EnvironmentVariable cache("XDG_CACHE_HOME", folder.path().string());
  mlk::FileContents files;
  files.code = mlk::CodeArchive{.digest = "d", .bytes = "b"};
  files.code->requirements = folder.path() / "gone.txt";
  PlayedRegistry played;
  const auto notes_for = [&](const std::string& layer) {
    add_image(played, "team/x", "1", {layer});
    mlk::registry::FoundImage found = mlk::registry::find_image({}, played.reference(), std::nullopt);
    found.image.configuration.whole["config"] = {{"Env", {"PYTHON_VERSION=3.11.4"}}};
    std::vector<std::string> notes;
    mlk::registry::Access access;
    access.note = [&](const std::string& note) { notes.push_back(note); };
    CHECK_THROWS_AS((void)mlk::assemble(experiment, files, found, access), mlk::Error);  // no requirements
    return notes;
  };
  CHECK(notes_for(debian).empty());
  CHECK(notes_for("\x28\xb5\x2f\xfd of zstd" + std::string(1000, 'x')) ==
        std::vector<std::string>{"code.python: mlk finds no C library in the layers of image " + played.name +
                                 "/team/x (it cannot read layers of zstd), and takes wheels for glibc"});
}

TEST_CASE("the PYTHONPATH of the base image is recorded together with the origin of the code") {
  mlk::Build build;
  const auto noted = [&](const std::string& source) {
    mlk::FileContents files;
    files.code = mlk::CodeArchive{.digest = "d", .bytes = "b", .source = source};
    mlk::note_base(files, build);
    return files.code->source;
  };
  CHECK(noted("{}") == "{}");
  build.base = found_image({{"Env", {"PATH=/bin"}}});
  CHECK(noted("{}") == "{}");
  build.base = found_image({{"Env", {"PYTHONPATH=/lib/own"}}});
  CHECK(json::parse(noted(R"({"path":"src"})")) == json{{"path", "src"}, {"base_python_path", "/lib/own"}});
  mlk::FileContents without;
  mlk::note_base(without, build);
  CHECK_FALSE(without.code);
}

TEST_CASE("user_of() reads the user and the home of an image from the configuration") {
  const auto user = [](const json& config) {
    const mlk::ImageUser found = mlk::user_of(found_image(config).image.configuration);
    return found.user + " " + found.home;
  };
  CHECK(user({{"User", "1000:100"}, {"Env", {"HOME=/home/app"}}}) == "1000:100 /home/app");
  CHECK(user({{"User", 1000}}) == " ");
  CHECK(user(json::object()) == " ");
  CHECK(user(nullptr) == " ");
  CHECK(user(json::array()) == " ");
}

TEST_CASE("find_base() takes the image that the user named, or else the experiment's image") {
  PlayedRegistry played;
  const std::string own = add_image(played, "team/own", "1", {"a"}),
                    other = add_image(played, "team/other", "1", {"b"});
  mlk::Experiment experiment = built_experiment();
  experiment.image = played.name + "/team/own:1";
  const mlk::image::Platform amd64{"linux", "amd64", ""};
  const auto digest_of = [&](const std::string& named) {
    return mlk::find_base(experiment, named, amd64, {}).reference.digest;
  };
  CHECK(digest_of("") == own);
  CHECK(digest_of(played.name + "/team/other:1") == other);
  experiment.image.clear();
  CHECK(digest_of(played.name + "/team/other:1") == other);
  try {
    (void)digest_of("");
    FAIL("no image was named");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::usage);
    CHECK(error.what() == std::string("no base image is named for the code"));
    CHECK(error.hint() == "name one that has what the program needs: image: in the file, or --base");
  }
}

TEST_CASE("ask_user_of_image() gives the reason if it cannot read the image") {
  PlayedRegistry played;
  (void)add_image(played, "team/x", "1", {"a"}, mlk::registry::own_platform().architecture);
  std::string why, said;
  mlk::registry::Access access;
  access.note = [&](const std::string& note) { said += note; };
  const std::optional<mlk::ImageUser> user = mlk::ask_user_of_image(played.name + "/team/x:1", access, why);
  REQUIRE(user);
  CHECK(user->user.empty());
  CHECK(why.empty());
  CHECK_FALSE(mlk::ask_user_of_image(played.name + "/team/x:2", access, why));
  CHECK_FALSE(why.empty());
  CHECK(why != "its registry is slow");
  why.clear();
  CHECK_FALSE(mlk::ask_user_of_image("no image:at all", access, why));
  CHECK_FALSE(why.empty());
  // mlk does not wait for a temporary error, and prints no notes meanwhile.
  played.before = [](const httplib::Request&, httplib::Response& response) {
    response.status = 503;
    return true;
  };
  const int before = played.count("");
  CHECK_FALSE(mlk::ask_user_of_image(played.name + "/team/x:1", access, why));
  CHECK(played.count("") - before <= 2);
  CHECK(said.empty());
  // The user wants to stop.
  access.go_on = [] { return false; };
  CHECK_FALSE(mlk::ask_user_of_image(played.name + "/team/x:1", access, why));
  CHECK(why == "its registry is slow");
}

TEST_CASE("mlk --local installs no packages that are already installed") {
  const auto folder_of = [](const mlk::Experiment& experiment, bool has_code, const std::string& there) {
    mlk::FileContents files;
    if (has_code) files.code = mlk::CodeArchive{.digest = "d", .bytes = "b", .source = "{}"};
    files.python_on_machine = there;
    mlk::prepare_on_machine(experiment, files, {});
    CHECK((!files.code || files.code->source == "{}"));
    return files.python_on_machine;
  };
  CHECK(folder_of(built_experiment(), false, "") == "");
  CHECK(folder_of(built_experiment("code: .\n"), true, "") == "");
  CHECK(folder_of(built_experiment("code: {path: ., python: r.txt}\n"), true, "/there") == "/there");
}
