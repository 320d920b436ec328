// Reads blobs of a registry in one stream, and writes blobs in parts. Reading and writing continue after a
// lost connection.

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "cli/http/url.h"
#include "cli/registry/address.h"
#include "cli/registry/answers.h"
#include "cli/registry/registry.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"

namespace mlk::registry {

using http::Call;
using http::Failure;
using http::Reply;
using std::chrono::milliseconds;

namespace {
constexpr std::size_t part_bytes = 16 << 20;  // the size of a part; each upload holds one part in memory
constexpr std::size_t most_shared = 1 << 20;  // a larger blob would delay other exchanges on its connection
constexpr int most_losses = 5;                // lost connections in a row, each after almost no bytes
constexpr std::uint64_t next_to_nothing = 64 << 10;
}  // namespace

bool Registry::has_blob(const std::string& repository, const std::string& digest) {
  const Reply reply =
      send({.method = "HEAD", .url = at(repository, "blobs/" + digest)}, push_scope(repository));
  if (reply.has_status(404)) return false;
  // Some registries answer with a redirect to the blob.
  if (reply.failure.kind == Failure::Kind::none && (reply.ok() || is_redirect(reply.status))) return true;
  fail(reply, fmt::format("repository {}/{}", name_, repository));
}

std::string Registry::blob(const std::string& repository, const image::Descriptor& descriptor,
                           std::size_t most_bytes) {
  std::string out;
  if (descriptor.size > most_bytes)
    throw Error(ExitCode::failure,
                fmt::format("registry {}: blob {} of {} is too large", name_, descriptor.digest, repository));
  const auto take = [&](std::string_view part) {
    out += part;
    return true;
  };
  read_blob(repository, descriptor, take, descriptor.size > most_shared);
  return out;
}

void Registry::read_blob(const std::string& repository, const image::Descriptor& descriptor,
                         const std::function<bool(std::string_view)>& take, bool is_long) {
  const std::string what = fmt::format("blob {} of {}/{}", descriptor.digest, name_, repository);
  const auto refuse = [&](const char* why) {
    throw Error(ExitCode::failure, fmt::format("{} {}", what, why));
  };
  Sha256 digest;
  std::uint64_t have = 0;
  bool enough = false;
  for (int losses = 0; have < descriptor.size && !enough;) {
    const std::uint64_t before = have;
    std::uint64_t skip = 0;
    Call call{.url = at(repository, "blobs/" + descriptor.digest)};
    call.is_long = is_long;
    if (have > 0) call.headers = {{"Range", fmt::format("bytes={}-", have)}};
    call.begun = [&](int status) { skip = status == 206 ? 0 : have; };  // some registries ignore Range
    call.take = [&](std::string_view part) {
      const std::size_t known = std::min<std::uint64_t>(skip, part.size());
      skip -= known;
      part.remove_prefix(known);
      if (have + part.size() > descriptor.size) refuse("has more bytes than its manifest says");
      have += part.size();
      digest.add(part);
      enough = !part.empty() && !take(part);
      return !enough;
    };
    const Reply reply = read(call, pull_scope(repository));
    if (enough || have >= descriptor.size) break;
    const bool is_whole = reply.ok() || reply.has_status(416);
    if (is_whole && have == before) refuse("has fewer bytes than its manifest says");
    losses = have - before > next_to_nothing ? 0 : losses + 1;
    const bool is_lost = may_pass(reply) || have > before;
    if (!is_lost || losses >= most_losses) fail(reply, what);
    wait(milliseconds(200 << losses), "lost the connection");
  }
  if (!enough && "sha256:" + digest.hex() != descriptor.digest)
    refuse("has other content than its digest says");
}

bool Registry::mount_blob(const std::string& repository, const std::string& digest, const std::string& from) {
  const std::string query = fmt::format("blobs/uploads/?mount={}&from={}", http::percent_encode(digest),
                                        http::percent_encode(from));
  // 202: the registry begins an upload instead of a mount, and later forgets this upload. mlk also returns
  // false for an error, because the token server may have refused only the repository `from`. If the error
  // has another cause, the upload that follows reports the error.
  try {
    const Reply reply = send({.method = "POST", .url = at(repository, query)},
                             push_scope(repository) + " " + pull_scope(from));
    return reply.has_status(201);
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted) throw;
    return false;
  }
}

// The upload of one blob. After a lost connection, mlk sends only the bytes that the registry has not stored.
class Upload {
 public:
  Upload(Registry& registry, const std::string& repository, const image::Descriptor& descriptor,
         const std::function<void(std::uint64_t)>& sent)
      : registry_(registry),
        repository_(repository),
        descriptor_(descriptor),
        sent_(sent),
        what_(fmt::format("an upload to {}/{}", registry.name(), repository)) {}

  void run(const Registry::Source& source) {
    while (true) {
      if (session_.empty()) begin();
      std::string part;
      part.reserve(std::min<std::uint64_t>(part_bytes, descriptor_.size));  // growth doubles the memory
      bool going = true;
      source([&](std::string_view bytes) {
        while (going && !bytes.empty()) {
          const std::size_t count = std::min(bytes.size(), part_bytes - part.size());
          part += bytes.substr(0, count);
          bytes.remove_prefix(count);
          if (part.size() < part_bytes) continue;
          going = send_part(part);
          part.clear();
        }
        return going;
      });
      if (going && stored_ + part.size() != descriptor_.size)
        throw Error(ExitCode::failure,
                    fmt::format("{}: blob {} has {} of the {} bytes that it should have", what_,
                                descriptor_.digest, stored_ + part.size(), descriptor_.size));
      if (going && stored_ > 0 && !part.empty()) {
        going = send_part(part);
        part.clear();
      }
      if (going && finish(part)) return;
    }
  }

 private:
  void begin() {
    const Reply reply = registry_.send({.method = "POST", .url = registry_.at(repository_, "blobs/uploads/")},
                                       push_scope(repository_));
    if (!reply.ok()) registry_.fail(reply, what_, Registry::to_make);
    read_session(reply);
    if (session_.empty()) refuse("names no place for it");
    stored_ = 0;
    is_doubtful_ = false;
  }

  void read_session(const Reply& reply) {
    const std::string location = reply.header("location");
    if (location.empty()) return;
    const std::string next = resolve(registry_.base(), location);
    const std::string wrong = wrong_with_target(registry_.base(), next);
    if (!wrong.empty()) refuse("sends mlk to " + wrong + ", and mlk does not go there");
    session_ = next;
  }

  [[noreturn]] void refuse(const std::string& why) {
    throw Error(ExitCode::cluster, fmt::format("registry {}: {}: it {}", registry_.name(), what_, why));
  }

  [[noreturn]] void give_up(const Reply& reply) {
    if (reply.has_status(404)) refuse("has forgotten it again and again");
    registry_.fail(reply, what_, Registry::to_make);
  }

  // Counts a failed request of the upload, and waits before the next attempt. Throws after too many failures
  // in a row.
  void lose(const Reply& reply) {
    is_doubtful_ = true;
    if (++losses_ >= most_losses) give_up(reply);
    registry_.wait(milliseconds(250 << losses_), "lost an upload");
  }

  // Returns false if the upload must begin again, for example because the registry has forgotten it.
  bool send_part(std::string_view part) {
    while (!part.empty()) {
      const std::string range = fmt::format("{}-{}", stored_, stored_ + part.size() - 1);
      const Reply reply =
          registry_.send({.method = "PATCH",
                          .url = session_,
                          .headers = {{"Content-Type", "application/octet-stream"}, {"Content-Range", range}},
                          .body = part,
                          .sent = sent_,
                          .is_long = part.size() > most_shared},
                         push_scope(repository_), Registry::Repeat::refused_only);
      if (reply.ok()) {
        read_session(reply);
        stored_ += part.size();
        losses_ = 0;
        return true;
      }
      const bool is_unclear = may_pass(reply) || reply.has_status(404) || reply.has_status(416);
      if (!is_unclear) registry_.fail(reply, what_, Registry::to_make);
      lose(reply);
      const std::uint64_t now = stored_by_registry();
      if (session_.empty() || now < stored_ || now > stored_ + part.size()) return forget(reply);
      if (now - stored_ > next_to_nothing) losses_ = 0;
      part.remove_prefix(now - stored_);
      stored_ = now;
    }
    return true;
  }

  // A forgotten upload loses all stored bytes, so a separate counter limits the number of forgotten uploads.
  bool forget(const Reply& reply) {
    if (++forgotten_ >= most_losses) give_up(reply);
    session_.clear();
    stored_ = 0;
    return false;
  }

  // The number of bytes that the registry has stored. Clears session_ if the request fails, for example
  // because the registry has forgotten the upload.
  std::uint64_t stored_by_registry() {
    const Reply reply = registry_.send({.url = session_}, push_scope(repository_));
    if (!reply.ok()) {
      session_.clear();
      return 0;
    }
    read_session(reply);
    const std::string range = reply.header("range");  // "0-99"; "0-0" if nothing is stored
    const std::size_t dash = range.find('-');
    if (dash == range.npos) return 0;
    const std::uint64_t last = std::strtoull(range.c_str() + dash + 1, nullptr, 10);
    return last == 0 ? 0 : last + 1;
  }

  bool finish(std::string_view rest) {
    const std::string url = session_ + (session_.find('?') == session_.npos ? "?" : "&") +
                            "digest=" + http::percent_encode(descriptor_.digest);
    const Reply reply = registry_.send({.method = "PUT",
                                        .url = url,
                                        .headers = {{"Content-Type", "application/octet-stream"}},
                                        .body = rest,
                                        .sent = sent_,
                                        .is_long = rest.size() > most_shared},
                                       push_scope(repository_), Registry::Repeat::refused_only);
    if (reply.ok()) {
      const std::string said = reply.header("docker-content-digest");
      if (image::is_digest(said) && said != descriptor_.digest)
        refuse("has stored other bytes than were sent");
      return true;
    }
    // 400: the stored bytes do not match the digest. If a PATCH has failed before, a part may be missing, so
    // mlk begins the upload again.
    const bool is_unclear =
        may_pass(reply) || reply.has_status(404) || (reply.has_status(400) && is_doubtful_);
    if (!is_unclear) registry_.fail(reply, what_, Registry::to_make);
    lose(reply);
    if (registry_.has_blob(repository_, descriptor_.digest)) return true;
    return forget(reply);
  }

  Registry& registry_;
  const std::string& repository_;
  const image::Descriptor& descriptor_;
  const std::function<void(std::uint64_t)>& sent_;
  const std::string what_;
  std::string session_;
  std::uint64_t stored_ = 0;
  int losses_ = 0, forgotten_ = 0;
  bool is_doubtful_ = false;  // a PATCH has failed, so a part may be missing
};

void Registry::upload(const std::string& repository, const image::Descriptor& descriptor,
                      const Source& source, const std::function<void(std::uint64_t)>& sent) {
  Upload(*this, repository, descriptor, sent).run(source);
}

}  // namespace mlk::registry
