#include "cli/image/pushed.h"

#include "cli/image/reference.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/own_folder.h"

namespace mlk::image {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_notes(const fs::path& cache) { return cache / "pushed"; }

// mlk also treats a note with a time in the future as young, because the clock may have been set back.
bool is_young(const fs::path& note) {
  std::error_code error;
  const fs::file_time_type written = fs::last_write_time(note, error);
  return !error && written > fs::file_time_type::clock::now() - just_now;
}

}  // namespace

void note_pushed(const fs::path& cache, const std::string& digest) {
  if (!is_digest(digest)) return;
  try {
    const fs::path folder = folder_of_notes(cache);
    make_cache_folder(cache);
    make_cache_folder(folder);
    visit_folder(folder, [](const fs::directory_entry& entry) {
      std::error_code ignored;
      if (!is_young(entry.path())) fs::remove(entry.path(), ignored);
    });
    write_checked_file(folder / digest, "", 0600);
  } catch (const Error&) {
    // A missing note is no error. Without a note, `mlk image gc` may delete the image within the hour. But
    // before it deletes images, it lists the runs again and keeps their images.
  }
}

bool is_just_pushed(const fs::path& cache, const std::string& digest) {
  return is_digest(digest) && is_young(folder_of_notes(cache) / digest);
}

}  // namespace mlk::image
