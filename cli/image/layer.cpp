#include "cli/image/layer.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/image/gzip.h"
#include "cli/image/reference.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/own_folder.h"
#include "cli/util/text.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

constexpr int level = 3;  // higher levels cost more time than they save on most networks
fs::path note_of(const fs::path& file) { return file.string() + ".json"; }

// The note stores this name, so that find_layer() refuses a file that was renamed together with its note. The
// name includes the parent folder, because the files of some layers have the same name in different folders.
std::string name_in_note(const fs::path& file) {
  return (file.parent_path().filename() / file.filename()).generic_string();
}

// The time when an entry of a cache was last used: the newest modification time of the entry, of its note and
// of the files directly in it.
fs::file_time_type last_use(const fs::path& entry) {
  std::error_code error;
  fs::file_time_type newest = fs::last_write_time(entry, error);
  if (error) newest = fs::file_time_type::min();
  const auto visit = [&](const fs::path& path) {
    const fs::file_time_type used = fs::last_write_time(path, error);
    if (!error) newest = std::max(newest, used);
  };
  if (fs::is_directory(fs::symlink_status(entry, error))) {
    visit_folder(entry, [&](const fs::directory_entry& inside) { visit(inside.path()); });
  } else {
    visit(note_of(entry));
  }
  return newest;
}

bool is_whole(const Layer& layer, const std::function<bool()>& go_on) {
  Sha256 digest;
  read_whole(layer.file, layer.blob.size, [&](std::string_view part) {
    if (go_on && !go_on()) throw Error(ExitCode::interrupted, "interrupted");
    digest.add(part);
  });
  return "sha256:" + digest.hex() == layer.blob.digest;
}

void remove_layer(const Layer& layer) {
  std::error_code ignored;
  fs::remove(layer.file, ignored);
  fs::remove(note_of(layer.file), ignored);
}

}  // namespace

struct LayerWriter::State {
  State(fs::path path, std::function<bool()> asked)
      : file(std::move(path)),
        go_on(std::move(asked)),
        aside(beside(file)),
        out(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW),
        gzip(level, [this](std::string_view part) { write_out(part); }) {}

  void write_out(std::string_view part) {
    blob.add(part);
    size += part.size();
    write_whole(out, aside, part);
  }

  const fs::path file;
  const std::function<bool()> go_on;
  const fs::path aside;
  const OpenFile out;
  Sha256 blob, content;
  std::uint64_t size = 0;
  bool done = false;
  GzipStream gzip;
};

LayerWriter::LayerWriter(fs::path file, std::function<bool()> go_on)
    : state_([&] {
        if (file.has_parent_path()) make_cache_folder(file.parent_path());
        return std::make_unique<State>(std::move(file), std::move(go_on));
      }()) {
  if (state_->out.number() < 0) fail_with(state_->aside, errno);
}

LayerWriter::~LayerWriter() {
  std::error_code ignored;
  if (!state_->done) fs::remove(state_->aside, ignored);
}

void LayerWriter::put(std::string_view bytes) {
  if (state_->go_on && !state_->go_on()) throw Error(ExitCode::interrupted, "interrupted");
  state_->content.add(bytes);
  state_->gzip.add(bytes);
}

void LayerWriter::add(const TarEntry& entry, std::string_view content) {
  put(tar_header(entry, content.size()));
  put(content);
  put(std::string(tar_padding(content.size()), '\0'));
}

void LayerWriter::add_file(const TarEntry& entry, const fs::path& from, std::uint64_t size) {
  put(tar_header(entry, size));
  read_whole(from, size, [this](std::string_view part) { put(part); });
  put(std::string(tar_padding(size), '\0'));
}

void LayerWriter::add_file(const TarEntry& entry, const OpenFile& folder, const fs::path& shown,
                           std::uint64_t size, const std::function<void(std::string_view)>& also) {
  put(tar_header(entry, size));
  read_whole(folder, shown, size, [&](std::string_view part) {
    put(part);
    if (also) also(part);
  });
  put(std::string(tar_padding(size), '\0'));
}

void LayerWriter::end() {
  put(tar_end());
  state_->gzip.finish();
}

Layer LayerWriter::finish() {
  end();
  return store(state_->file);
}

Layer LayerWriter::finish(const std::function<fs::path(const std::string& digits)>& file_of) {
  end();
  return store(file_of(state_->content.hex()));
}

std::optional<Layer> LayerWriter::finish_as(const std::string& diff_id) {
  end();
  if ("sha256:" + state_->content.hex() != diff_id) return std::nullopt;
  return store(state_->file);
}

Layer LayerWriter::store(const fs::path& file) {
  Layer out{{.media_type = oci_types.layer, .digest = "sha256:" + state_->blob.hex(), .size = state_->size},
            "sha256:" + state_->content.hex(),
            file};
  std::error_code error;
  fs::rename(state_->aside, file, error);
  if (error) fail_with(file, error.value());
  state_->done = true;
  const nlohmann::json note = {{"digest", out.blob.digest},
                               {"size", out.blob.size},
                               {"diff_id", out.diff_id},
                               {"file", name_in_note(file)}};
  write_checked_file(note_of(file), json_text(note), 0600);
  return out;
}

fs::path layer_cache() { return cache_home() / "layers"; }

std::optional<Layer> find_layer(const fs::path& file) {
  std::error_code error;
  if (!is_own(note_of(file)) || !is_own(file)) return std::nullopt;
  if (file.has_parent_path()) make_cache_folder(file.parent_path());
  const nlohmann::json note = json_or_null(read_file(note_of(file), 4096), {.depth = 4, .values = 100});
  if (!note.is_object()) return std::nullopt;
  const auto text = [&](const char* key) { return note.value(key, nlohmann::json()); };
  if (!text("digest").is_string() || !text("diff_id").is_string() || !text("size").is_number_unsigned() ||
      text("file") != name_in_note(file))
    return std::nullopt;
  const Layer out{
      {.media_type = oci_types.layer, .digest = note["digest"], .size = note["size"]}, note["diff_id"], file};
  const bool has_size = fs::file_size(file, error) == out.blob.size && !error;
  if (!has_size || !is_digest(out.blob.digest) || !is_digest(out.diff_id)) return std::nullopt;
  for (const fs::path& path : {file, note_of(file)})
    fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return out;
}

bool is_unused(const fs::path& entry, std::chrono::seconds age) {
  return last_use(entry) < fs::file_time_type::clock::now() - age;
}

std::vector<fs::path> unused_layers(const fs::path& cache, std::chrono::seconds age) {
  std::vector<fs::path> out;
  visit_folder(cache, [&](const fs::directory_entry& entry) {
    if (is_unused(entry.path(), age)) out.push_back(entry.path());
  });
  std::sort(out.begin(), out.end());
  return out;
}

std::uint64_t size_on_disk(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const std::uintmax_t size = fs::file_size(path, error);
    return error ? 0 : size;  // a pipe has no size
  }
  std::uint64_t out = 0;
  visit_folder(path, [&](const fs::directory_entry& entry) {
    if (!entry.is_symlink(error)) out += size_on_disk(entry.path());
  });
  return out;
}

std::optional<Layer> find_whole_layer(const fs::path& file, const std::string& diff_id,
                                      const std::function<bool()>& go_on) {
  const std::optional<Layer> kept = find_layer(file);
  if (!kept || (kept->diff_id == diff_id && is_whole(*kept, go_on))) return kept;
  remove_layer(*kept);
  return std::nullopt;
}

void check_layer(const Layer& layer, const std::function<bool()>& go_on) {
  if (is_whole(layer, go_on)) return;
  remove_layer(layer);
  throw Error(ExitCode::failure,
              fmt::format("{} was damaged, and is deleted", printable(layer.file.string())),
              "type the command again: it is made anew");
}

}  // namespace mlk::image
