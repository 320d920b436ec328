// Checks the images that mlk writes to the disk: OCI layouts and Docker archives.
#include "cli/registry/save.h"

#include <csignal>
#include <cstdlib>
#include <string>
#include <sys/resource.h>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "tests/unit/registry/played_image.h"

TEST_SUITE_BEGIN("registry/save");

namespace {

namespace fs = std::filesystem;
using mlk::registry::save_docker_archive;
using mlk::registry::save_oci;
using nlohmann::json;

constexpr std::size_t plenty = 16 << 20;

// An image with one layer of its own, and a base of three layers. Two layers of the base are equal.
struct Saved {
  PlayedRegistry from{};
  TemporaryFolder folder{}, out{};
  std::optional<mlk::registry::FoundImage> base{};
  mlk::image::Composed composed{};

  Saved() {
    add_image(from, "base/y", "1", {"lower", "upper", "lower"});
    base = mlk::registry::find_image({}, from.reference("base/y"), std::nullopt);
    composed = mlk::image::compose(base->image, {own_layer(folder, "code")}, {});
  }
  json in_json(const fs::path& file) const { return json::parse(mlk::read_file(out.path() / file, plenty)); }
  std::string bytes_of(const std::string& digest, const fs::path& layout) const {
    return mlk::read_file(out.path() / layout / "blobs/sha256" / digest.substr(7), plenty);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(out.path())) names.push_back(entry.path().filename());
    return names;
  }
};

}  // namespace

TEST_CASE("save_oci() writes each blob under its digest, and an index with the image's name") {
  const Saved saved;
  for (const std::string& folder : {std::string("new"), std::string("empty"), std::string("slash/")}) {
    if (folder == "empty") fs::create_directory(saved.out.path() / folder);
    save_oci(saved.out.path() / folder, "r.example/x:1", saved.composed, saved.base);
    CHECK(saved.in_json(folder + "/oci-layout") == json{{"imageLayoutVersion", "1.0.0"}});
    const json index = saved.in_json(folder + "/index.json");
    CHECK(index["schemaVersion"] == 2);
    CHECK(index["mediaType"] == mlk::image::oci_types.index);
    REQUIRE(index["manifests"].size() == 1);
    CHECK(index["manifests"][0]["mediaType"] == saved.composed.manifest_type);
    CHECK(index["manifests"][0]["digest"] == saved.composed.digest);
    CHECK(index["manifests"][0]["size"] == saved.composed.manifest.size());
    CHECK(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] == "r.example/x:1");
    CHECK(saved.bytes_of(saved.composed.digest, folder) == saved.composed.manifest);
    const json manifest = json::parse(saved.composed.manifest);
    CHECK(saved.bytes_of(manifest["config"]["digest"], folder) == saved.composed.configuration);
    for (const json& layer : manifest["layers"])
      CHECK("sha256:" + mlk::sha256_hex(saved.bytes_of(layer["digest"], folder)) == layer["digest"]);
  }
  CHECK(saved.names().size() == 3);
}

TEST_CASE("save_oci() refuses to write to a file, or to a folder with any content") {
  const Saved saved;
  saved.out.write("full/x", "mine");
  saved.out.write("file", "mine");
  for (const char* name : {"full", "file"}) {
    try {
      save_oci(saved.out.path() / name, "x", saved.composed, saved.base);
      FAIL("it was");
    } catch (const mlk::Error& error) {
      CHECK(error.code() == mlk::ExitCode::usage);
      CHECK(std::string(error.what()) == (saved.out.path() / name).string() + " holds something already");
      CHECK(error.hint() == "name a folder that is empty or not there: --output oci:DIR");
    }
  }
  CHECK(saved.names().size() == 2);
  CHECK(mlk::read_file(saved.out.path() / "full/x", plenty) == "mine");
}

TEST_CASE("if a layer is missing, saving an image leaves no new files and does not change an existing file") {
  Saved saved;
  saved.out.write("archive.tar", "mine");
  saved.from.blobs["base/y"].erase(saved.composed.of_base[1].digest);
  CHECK_THROWS_AS(save_oci(saved.out.path() / "new", "x", saved.composed, saved.base), mlk::Error);
  CHECK_THROWS_AS(save_docker_archive(saved.out.path() / "archive.tar", "x", saved.composed, saved.base),
                  mlk::Error);
  saved.from.add_blob("base/y", "upper");
  fs::remove(saved.composed.own[0].file);
  CHECK_THROWS_AS(save_oci(saved.out.path() / "new", "x", saved.composed, saved.base), mlk::Error);
  CHECK_THROWS_AS(save_docker_archive(saved.out.path() / "archive.tar", "x", saved.composed, saved.base),
                  mlk::Error);
  CHECK(saved.names() == std::vector<std::string>{"archive.tar"});
  CHECK(mlk::read_file(saved.out.path() / "archive.tar", plenty) == "mine");
}

TEST_CASE("save_docker_archive() throws and leaves no file if the disk is full") {
  const Saved saved;
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, usual.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string said;
  try {
    save_docker_archive(saved.out.path() / "archive.tar", "x", saved.composed, saved.base);
  } catch (const mlk::Error& error) {
    said = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, before);
  CHECK(said.find("File too large") != std::string::npos);
  CHECK(saved.names().empty());
}

TEST_CASE("tar can read a Docker archive, and the archive's manifest lists the layers in order") {
  const Saved saved;
  saved.out.write("archive.tar", "before");
  save_docker_archive(saved.out.path() / "archive.tar", "r.example/x:1", saved.composed, saved.base);
  CHECK(saved.names() == std::vector<std::string>{"archive.tar"});
  fs::create_directory(saved.folder.path() / "unpacked");
  const std::string command = "tar -xf '" + (saved.out.path() / "archive.tar").string() + "' -C '" +
                              (saved.folder.path() / "unpacked").string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  const auto unpacked = [&](const std::string& name) {
    return mlk::read_file(saved.folder.path() / "unpacked" / name, plenty);
  };
  const json manifest = json::parse(unpacked("manifest.json"));
  REQUIRE(manifest.size() == 1);
  CHECK(manifest[0]["RepoTags"] == json::array({"r.example/x:1"}));
  CHECK(unpacked(manifest[0]["Config"]) == saved.composed.configuration);
  const json layers = manifest[0]["Layers"];
  REQUIRE(layers.size() == 4);
  CHECK(manifest[0]["Config"] == saved.composed.configuration_blob.digest.substr(7) + ".json");
  CHECK(layers[1] == saved.composed.of_base[1].digest.substr(7) + ".tar.gz");
  // Two equal layers are one entry, and the manifest names this entry twice.
  const std::string whole = mlk::read_file(saved.out.path() / "archive.tar", plenty);
  int named = 0;
  const std::string lower = layers[0];
  for (std::size_t at = whole.find(lower); at != whole.npos; at = whole.find(lower, at + 1)) ++named;
  CHECK(named == 3);
  CHECK(layers[0] == layers[2]);
  CHECK(unpacked(layers[0]) == "lower");
  CHECK(unpacked(layers[1]) == "upper");
  CHECK(mlk::sha256_hex(unpacked(layers[3])) == saved.composed.own[0].blob.digest.substr(7));
}

TEST_CASE("save_docker_archive() writes a layer above the base only once if the image has this layer twice") {
  Saved saved;
  const mlk::image::Addition layer = own_layer(saved.folder, "code");
  saved.composed = mlk::image::compose(saved.base->image, {layer, layer}, {});
  save_docker_archive(saved.out.path() / "archive.tar", "r.example/x:1", saved.composed, saved.base);
  const std::string repeated =
      "tar -tf '" + (saved.out.path() / "archive.tar").string() + "' | sort | uniq -d | grep .";
  CHECK(std::system(repeated.c_str()) != 0);
}

TEST_CASE("save_docker_archive() writes no tag if the name is empty") {
  const TemporaryFolder folder;
  const auto composed = mlk::image::compose(std::nullopt, {own_layer(folder, "code")}, {});
  save_docker_archive(folder.path() / "archive.tar", "", composed, {});
  CHECK(mlk::read_file(folder.path() / "archive.tar", plenty).find(R"("RepoTags":[])") != std::string::npos);
}

TEST_CASE("saving an image deletes a layer that was damaged in the cache, and writes no file") {
  for (const bool as_archive : {false, true}) {
    const Saved saved;
    const fs::path file = saved.composed.own[0].file, to = saved.out.path() / "new";
    saved.folder.write(file.filename(), std::string(saved.composed.own[0].blob.size, 'x'));
    try {
      if (as_archive) {
        save_docker_archive(to, "x", saved.composed, saved.base);
      } else {
        save_oci(to, "x", saved.composed, saved.base);
      }
      FAIL("it was");
    } catch (const mlk::Error& error) {
      CHECK(error.code() == mlk::ExitCode::failure);
      CHECK(std::string(error.what()) == file.string() + " was damaged, and is deleted");
    }
    CHECK_FALSE(fs::exists(file));
    CHECK(saved.names().empty());
  }
}

TEST_CASE("saving an image leaves no files if the user interrupts mlk at any time") {
  const Saved saved;
  const auto save = [&](bool as_archive, const std::function<bool()>& go_on) {
    const fs::path to = saved.out.path() / "new";
    if (as_archive) {
      save_docker_archive(to, "x", saved.composed, saved.base, go_on);
    } else {
      save_oci(to, "x", saved.composed, saved.base, go_on);
    }
  };
  for (const bool as_archive : {false, true}) {
    int questions = 0;
    save(as_archive, [&] { return ++questions > 0; });
    CHECK(questions >= 3);  // before the layer, while it is checked, and while it is copied
    fs::remove_all(saved.out.path() / "new");
    for (int last = 0; last < questions; ++last) {
      int left = last;
      try {
        save(as_archive, [&] { return left-- > 0; });
        FAIL("it went on");
      } catch (const mlk::Error& error) {
        CHECK(error.code() == mlk::ExitCode::interrupted);
      }
      CHECK(saved.names().empty());
    }
  }
}

TEST_CASE("saving an image throws and changes no file if a part of the target's path is a file") {
  const Saved saved;
  saved.out.write("file", "mine");
  const fs::path to = saved.out.path() / "file/new";
  CHECK_THROWS_AS(save_oci(to, "x", saved.composed, saved.base), mlk::Error);
  CHECK_THROWS_AS(save_docker_archive(to, "x", saved.composed, saved.base), mlk::Error);
  CHECK(saved.names() == std::vector<std::string>{"file"});
  CHECK(mlk::read_file(saved.out.path() / "file", plenty) == "mine");
}
