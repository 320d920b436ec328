// Checks the bytes of layers on the disk, and which files stay if a layer cannot be written.
#include "cli/image/layer.h"

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/image/gzip.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("image/layer");

namespace {

namespace fs = std::filesystem;
using mlk::image::find_layer;
using mlk::image::Layer;
using mlk::image::LayerWriter;

constexpr std::size_t large = 64 << 20;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

Layer write_small(const fs::path& file) {
  LayerWriter writer(file);
  writer.add({.path = "a", .kind = mlk::image::TarEntry::Kind::folder});
  writer.add({.path = "a/text"}, "content");
  return writer.finish();
}

// Limits the length of the files that this process writes. A longer write fails, as on a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace

TEST_CASE("LayerWriter makes the same layer from the same entries, and gives the digests of the layer") {
  const TemporaryFolder folder;
  const Layer one = write_small(folder.path() / "new/folder/one.tar.gz"),
              other = write_small(folder.path() / "other.tar.gz");
  CHECK(one.blob.digest == other.blob.digest);
  CHECK(one.diff_id == other.diff_id);
  const std::string bytes = mlk::read_file(one.file, large);
  CHECK(one.blob.size == bytes.size());
  CHECK(one.blob.digest == "sha256:" + mlk::sha256_hex(bytes));
  CHECK(one.diff_id == "sha256:" + mlk::sha256_hex(mlk::image::gunzip(bytes, large)));
  CHECK(one.blob.media_type == mlk::image::oci_types.layer);
  CHECK(one.diff_id == "sha256:8963581375644f4d089695f3d8ac7d9672e004a8539bf670726d726bbc2703ee");
}

TEST_CASE("add_file() gives the same layer as add(), and passes the content of the file to `also`") {
  const TemporaryFolder folder;
  const std::string content = mlk::random_bytes(700'000);
  const fs::path from = folder.write("from", content);
  LayerWriter writer(folder.path() / "layer");
  std::string also;
  const mlk::image::OpenFile open(folder.path(), O_RDONLY | O_DIRECTORY);
  writer.add_file({.path = "x"}, open, from, content.size(), [&](std::string_view part) { also += part; });
  const Layer of_file = writer.finish();
  CHECK(also == content);
  LayerWriter whole(folder.path() / "whole");
  whole.add({.path = "x"}, content);
  CHECK(whole.finish().diff_id == of_file.diff_id);
}

TEST_CASE(
    "an unfinished layer leaves no file, and add_file() refuses a file whose size is not the given size") {
  const TemporaryFolder folder;
  {
    LayerWriter writer(folder.path() / "layer");
    writer.add({.path = "x"}, "content");
    CHECK(names_in(folder.path()).size() == 1);
  }
  CHECK(names_in(folder.path()).empty());
  const fs::path from = folder.write("from", "content");
  for (const std::uint64_t size : {6, 8}) {
    LayerWriter writer(folder.path() / "layer");
    CHECK_THROWS_WITH_AS(writer.add_file({.path = "x"}, from, size),
                         (from.string() + " changes while it is read").c_str(), mlk::Error);
  }
  LayerWriter writer(folder.path() / "layer");
  CHECK_THROWS_AS(writer.add_file({.path = "x"}, folder.path() / "gone", 1), mlk::Error);
}

TEST_CASE("add_file() throws and leaves no file if the user interrupts mlk") {
  const TemporaryFolder folder;
  const fs::path from = folder.write("from", std::string(3 << 20, 'x'));
  int parts = 0;
  {
    LayerWriter writer(folder.path() / "out/layer", [&] { return ++parts < 5; });
    try {
      writer.add_file({.path = "x"}, from, 3 << 20);
      FAIL("it went on");
    } catch (const mlk::Error& error) {
      CHECK(error.code() == mlk::ExitCode::interrupted);
    }
  }
  CHECK(parts == 5);
  CHECK(names_in(folder.path() / "out").empty());
}

TEST_CASE("add_file() refuses a link, a pipe or a folder") {
  const TemporaryFolder folder;
  folder.write("from", "content");
  fs::create_symlink("from", folder.path() / "link");
  REQUIRE(mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  for (const char* name : {"link", "pipe", "."}) {
    LayerWriter writer(folder.path() / "layer");
    CHECK_THROWS_AS(writer.add_file({.path = "x"}, folder.path() / name, 7), mlk::Error);
  }
}

TEST_CASE("if the disk is full, the error of LayerWriter names the file, and the earlier layer stays") {
  const TemporaryFolder folder;
  const Layer before = write_small(folder.path() / "layer");
  const std::string noise = mlk::random_bytes(1 << 20);
  {
    const SmallDisk disk(64 << 10);
    LayerWriter writer(folder.path() / "layer");
    try {
      writer.add({.path = "x"}, noise);
      (void)writer.finish();
      FAIL("the disk is large enough");
    } catch (const mlk::Error& error) {
      CHECK(error.code() == mlk::ExitCode::failure);
      CHECK(std::string(error.what()).starts_with((folder.path() / "layer").string()));
      CHECK(std::string(error.what()).ends_with("File too large"));
    }
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"layer", "layer.json"});
  CHECK(find_layer(folder.path() / "layer")->blob.digest == before.blob.digest);
}

TEST_CASE("LayerWriter() throws if it cannot make the folder of the layer") {
  const TemporaryFolder folder;
  folder.write("file", "");
  CHECK_THROWS_AS(LayerWriter(folder.path() / "file/layer"), mlk::Error);
}

TEST_CASE("find_layer() finds a layer by its note and marks it as used") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "layer";
  const Layer layer = write_small(file);
  for (const char* name : {"layer", "layer.json"})
    fs::last_write_time(folder.path() / name, fs::file_time_type::clock::now() - std::chrono::hours(48));
  CHECK(mlk::image::unused_layers(folder.path(), std::chrono::hours(24)).size() == 2);
  const std::optional<Layer> found = find_layer(file);
  REQUIRE(found);
  CHECK(found->blob.digest == layer.blob.digest);
  CHECK(found->blob.size == layer.blob.size);
  CHECK(found->blob.media_type == layer.blob.media_type);
  CHECK(found->diff_id == layer.diff_id);
  CHECK(found->file == file);
  CHECK(mlk::image::unused_layers(folder.path(), std::chrono::hours(24)).empty());
}

TEST_CASE("find_layer() finds no layer that was cut off, has no note or has a broken note") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "layer", note = folder.path() / "layer.json";
  CHECK_FALSE(find_layer(file));
  const Layer layer = write_small(file);
  const std::string said = mlk::read_file(note, 4096);
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("null"), std::string("[]"),
        said.substr(0, said.size() / 2), std::string(R"({"digest":"x","diff_id":"y","size":1})"),
        std::string(R"({"digest":5,"diff_id":"y","size":1})"),
        R"({"digest":")" + layer.blob.digest + R"(","diff_id":")" + layer.diff_id + R"(","size":-1})",
        R"({"digest":")" + layer.blob.digest + R"(","diff_id":"../x","size":)" +
            std::to_string(layer.blob.size) + "}"}) {
    folder.write("layer.json", bad);
    CHECK_MESSAGE(!find_layer(file), bad);
  }
  folder.write("layer.json", said);
  CHECK(find_layer(file));
  fs::resize_file(file, layer.blob.size - 1);
  CHECK_FALSE(find_layer(file));
  fs::remove(file);
  CHECK_FALSE(find_layer(file));
  write_small(file);
  fs::remove(note);
  CHECK_FALSE(find_layer(file));
}

TEST_CASE("size_on_disk() adds up the sizes of all files below a path, and is 0 for a missing path") {
  const TemporaryFolder folder;
  folder.write("a/b/one", "12345");
  folder.write("a/two", "123");
  fs::create_symlink("/etc", folder.path() / "a/link");
  REQUIRE(mkfifo((folder.path() / "a/pipe").c_str(), 0600) == 0);
  CHECK(mlk::image::size_on_disk(folder.path() / "a") == 8);
  CHECK(mlk::image::size_on_disk(folder.path() / "a/two") == 3);
  CHECK(mlk::image::size_on_disk(folder.path() / "gone") == 0);
}

TEST_CASE("check_layer() deletes a layer that was damaged on the disk") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "layer";
  const mlk::image::Layer layer = write_small(file);
  mlk::image::check_layer(layer);
  std::string bytes = mlk::read_file(file, 1 << 20);
  bytes[bytes.size() / 2] ^= 1;
  folder.write("layer", bytes);
  CHECK_THROWS_WITH_AS(mlk::image::check_layer(layer), doctest::Contains("was damaged, and is deleted"),
                       mlk::Error);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("find_layer() refuses a layer that was renamed, or that other users may change") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "layer", note = folder.path() / "layer.json";
  write_small(file);
  for (const fs::path& open : {file, note}) {
    fs::permissions(open, fs::perms::others_write, fs::perm_options::add);
    CHECK_FALSE(find_layer(file));
    fs::permissions(open, fs::perms::others_write, fs::perm_options::remove);
    CHECK(find_layer(file));
  }
  fs::rename(file, folder.path() / "other");
  fs::rename(note, folder.path() / "other.json");
  CHECK_FALSE(find_layer(folder.path() / "other"));
}

TEST_CASE("LayerWriter and find_layer() make the folder of the layers private to its owner") {
  const TemporaryFolder folder;
  const fs::path cache = folder.path() / "cache";
  const mode_t before = umask(0);
  write_small(cache / "layer");
  umask(before);
  CHECK(fs::status(cache).permissions() == fs::perms::owner_all);
  fs::permissions(cache, fs::perms::all);
  CHECK(find_layer(cache / "layer"));
  CHECK(fs::status(cache).permissions() == fs::perms::owner_all);
}

TEST_CASE("find_whole_layer() deletes a layer if its bytes or its diff_id are wrong") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "layer";
  const Layer layer = write_small(file);
  CHECK(mlk::image::find_whole_layer(file, layer.diff_id));
  CHECK_FALSE(mlk::image::find_whole_layer(file, "sha256:" + std::string(64, 'a')));
  CHECK_FALSE(fs::exists(file));
  write_small(file);
  std::string bytes = mlk::read_file(file, 1 << 20);
  bytes[bytes.size() / 2] ^= 1;
  folder.write("layer", bytes);
  CHECK(find_layer(file));
  CHECK_FALSE(mlk::image::find_whole_layer(file, layer.diff_id));
  CHECK_FALSE(fs::exists(file));
  write_small(file);
  CHECK_THROWS_AS(mlk::image::find_whole_layer(file, layer.diff_id, [] { return false; }), mlk::Error);
}

TEST_CASE("is_unused() uses the newest time of a layer and its note, or of a folder and its files") {
  const TemporaryFolder folder;
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(48);
  const auto unused = [&](const fs::path& entry) {
    return mlk::image::is_unused(entry, std::chrono::hours(24));
  };
  const fs::path file = folder.write("layer", "x"), note = folder.write("layer.json", "{}");
  const fs::path inside = folder.write("code/code.tar.gz", "x");
  fs::last_write_time(file, old);
  CHECK_FALSE(unused(file));
  fs::last_write_time(note, old);
  CHECK(unused(file));
  fs::last_write_time(folder.path() / "code", old);
  CHECK_FALSE(unused(folder.path() / "code"));
  fs::last_write_time(inside, old);
  CHECK(unused(folder.path() / "code"));
  // One new file is enough: the layer or its note, or any file of a folder.
  fs::last_write_time(file, fs::file_time_type::clock::now());
  CHECK_FALSE(unused(file));
  std::vector<fs::path> all{folder.path() / "many"};
  for (const char* name : {"a", "b", "c", "d", "e"})
    all.push_back(folder.write(std::string("many/") + name, "x"));
  for (const fs::path& newest : all) {
    for (const fs::path& path : all) fs::last_write_time(path, old);
    CHECK(unused(all.front()));
    fs::last_write_time(newest, fs::file_time_type::clock::now());
    CHECK_FALSE_MESSAGE(unused(all.front()), newest.string());
  }
}

TEST_CASE("find_layer() finds no layer if a field of its note is missing, malformed or wrong") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "layer";
  const Layer layer = write_small(file);
  const nlohmann::json good = nlohmann::json::parse(mlk::read_file(folder.path() / "layer.json", 4096));
  for (const char* name : {"layer", "layer.json"})
    CHECK(fs::status(folder.path() / name).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(good["digest"] == layer.blob.digest);
  CHECK(good["diff_id"] == layer.diff_id);
  CHECK(good["size"] == layer.blob.size);
  const auto found_with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json note = good;
    note[key] = value;
    folder.write("layer.json", note.dump());
    return find_layer(file).has_value();
  };
  CHECK(found_with("other", 1));
  for (const char* key : {"digest", "diff_id"}) {
    for (const nlohmann::json& bad :
         {nlohmann::json("x"), nlohmann::json(""), nlohmann::json("sha256:../x"), nlohmann::json(5),
          nlohmann::json(nullptr), nlohmann::json("sha512:" + std::string(64, 'a'))})
      CHECK_MESSAGE(!found_with(key, bad), std::string(key), bad.dump());
    CHECK(found_with(key, "sha256:" + std::string(64, 'a')));
  }
  for (const nlohmann::json& bad :
       {nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json(std::to_string(layer.blob.size)),
        nlohmann::json(nullptr), nlohmann::json(layer.blob.size - 1), nlohmann::json(layer.blob.size + 1)})
    CHECK_MESSAGE(!found_with("size", bad), bad.dump());
  for (const nlohmann::json& bad :
       {nlohmann::json("layer"), nlohmann::json("x/layer"), nlohmann::json(nullptr)})
    CHECK_MESSAGE(!found_with("file", bad), bad.dump());
  for (const char* key : {"digest", "diff_id", "size", "file"}) {
    nlohmann::json note = good;
    note.erase(key);
    folder.write("layer.json", note.dump());
    CHECK_MESSAGE(!find_layer(file), std::string(key));
  }
  folder.write("layer.json", good.dump());
  CHECK(find_layer(file));
}

TEST_CASE("find_layer() finds no layer in a folder that was renamed") {
  const TemporaryFolder folder;
  write_small(folder.path() / "one/layer");
  CHECK(find_layer(folder.path() / "one/layer"));
  fs::rename(folder.path() / "one", folder.path() / "two");
  CHECK_FALSE(find_layer(folder.path() / "two/layer"));
}

TEST_CASE(
    "finish() can name a file by its diff_id; finish_as() stores only a layer with the wanted diff_id") {
  const TemporaryFolder folder;
  const std::string diff_id = write_small(folder.path() / "other/layer").diff_id;
  const auto fill = [](LayerWriter& writer) {
    writer.add({.path = "a", .kind = mlk::image::TarEntry::Kind::folder});
    writer.add({.path = "a/text"}, "content");
  };
  {
    LayerWriter writer(folder.path() / "out/new");
    fill(writer);
    const Layer named =
        writer.finish([&](const std::string& digits) { return folder.path() / "out" / digits; });
    CHECK(named.diff_id == diff_id);
    CHECK(named.file == folder.path() / "out" / diff_id.substr(7));
    CHECK(find_layer(named.file));
  }
  CHECK(names_in(folder.path() / "out").size() == 2);
  {
    LayerWriter writer(folder.path() / "wrong/layer");
    fill(writer);
    CHECK_FALSE(writer.finish_as("sha256:" + std::string(64, 'a')));
  }
  CHECK(fs::is_empty(folder.path() / "wrong"));
  LayerWriter writer(folder.path() / "right/layer");
  fill(writer);
  CHECK(writer.finish_as(diff_id)->diff_id == diff_id);
  CHECK(find_layer(folder.path() / "right/layer"));
}

TEST_CASE(
    "if the user interrupts mlk, LayerWriter and the checks of layers throw, and an existing layer stays") {
  const TemporaryFolder folder;
  const auto code_of_action = [](const auto& action) {
    try {
      action();
    } catch (const mlk::Error& error) {
      return error.code();
    }
    return mlk::ExitCode::ok;
  };
  const Layer layer = write_small(folder.path() / "layer");
  const auto stop = [] { return false; };
  CHECK(code_of_action([&] { LayerWriter(folder.path() / "new", stop).add({.path = "a"}, "x"); }) ==
        mlk::ExitCode::interrupted);
  CHECK(code_of_action([&] { (void)LayerWriter(folder.path() / "new", stop).finish(); }) ==
        mlk::ExitCode::interrupted);
  CHECK(code_of_action([&] { mlk::image::check_layer(layer, stop); }) == mlk::ExitCode::interrupted);
  CHECK(code_of_action([&] { (void)mlk::image::find_whole_layer(layer.file, layer.diff_id, stop); }) ==
        mlk::ExitCode::interrupted);
  CHECK(code_of_action([&] { mlk::image::check_layer(layer, [] { return true; }); }) == mlk::ExitCode::ok);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"layer", "layer.json"});
}

TEST_CASE(
    "find_whole_layer() removes a layer with another diff_id, and is_unused() is true for a missing file") {
  const TemporaryFolder folder;
  const Layer layer = write_small(folder.path() / "layer");
  CHECK_FALSE(mlk::image::find_whole_layer(layer.file, "sha256:" + std::string(64, 'a')));
  CHECK(fs::is_empty(folder.path()));
  CHECK_FALSE(mlk::image::find_whole_layer(layer.file, layer.diff_id));
  CHECK(mlk::image::is_unused(folder.path() / "gone", std::chrono::hours(1)));
}

TEST_CASE("unused_layers() sorts its entries, and is_unused() ignores the files behind a link to a folder") {
  const TemporaryFolder folder, other;
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(48);
  for (const char* name : {"c", "a", "b", "new"}) folder.write(name, "x");
  for (const char* name : {"c", "a", "b"}) fs::last_write_time(folder.path() / name, old);
  CHECK(mlk::image::unused_layers(folder.path(), std::chrono::hours(24)) ==
        std::vector<fs::path>{folder.path() / "a", folder.path() / "b", folder.path() / "c"});
  CHECK(mlk::image::unused_layers(folder.path(), std::chrono::hours(72)).empty());
  other.write("inside", "x");
  fs::last_write_time(other.path(), old);
  fs::create_directory_symlink(other.path(), folder.path() / "link");
  CHECK(mlk::image::is_unused(folder.path() / "link", std::chrono::hours(24)));
}
