// A client of one registry, by the protocol of the OCI distribution specification 1.1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/http/connection.h"
#include "cli/http/connection_pool.h"
#include "cli/image/manifest.h"
#include "cli/image/reference.h"
#include "cli/registry/tokens.h"

namespace mlk::registry {

// The settings for all registries.
struct Access {
  std::vector<std::filesystem::path> login_files;
  std::vector<std::filesystem::path> authorities;  // folders that hold HOST[:PORT]/*.crt, as for Docker
  std::map<std::string, std::string> mirrors;      // registry -> host[:port] from which mlk reads first
  bool insecure = false;                           // true: certificates are not checked, HTTP is allowed
  bool is_patient = true;                          // temporary failures are retried
  int haste = 1;                                   // divides all waits. Values other than 1 are for tests
  std::function<bool()> go_on{};                   // false: the user wants to stop
  std::function<void(const std::string&)> note{};  // gets messages for the user; called from any thread
  // Shared by all registries that get a copy of this Access.
  std::shared_ptr<http::ConnectionPool> pool = std::make_shared<http::ConnectionPool>();
};

// Uses the logins and authorities of Docker, Podman and similar tools, and the mirrors in the variable
// MLK_REGISTRY_MIRRORS ("docker.io=mirror.example:5000,..."). Throws Error{usage} for an invalid value of
// this variable. `env`: the value of a variable, "" when unset.
Access usual_access(const std::function<std::string(const std::string&)>& env);

// A client of one registry. Its error messages name the registry.
class Registry {
 public:
  // `reference`: names the registry, and the repository for which the login is looked up.
  Registry(Access access, const image::Reference& reference);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // All functions below may be called from several threads at once. They throw Error{cluster} if the registry
  // cannot be reached or refuses the request, Error{not_found} if the registry lacks what they need,
  // Error{failure} if the answer is not the requested content, and Error{interrupted}. After a temporary
  // failure, they repeat a request up to five times, after waits of 0.5 s to 8 s or as Retry-After says.

  struct Document {
    std::string bytes, type, digest;
  };
  // A manifest or an index, by tag or digest; nullopt: there is none. Throws if the bytes have another
  // digest.
  std::optional<Document> find_manifest(const std::string& repository, const std::string& version);
  // Only the digest of the manifest; nullopt also if the registry does not send a digest.
  std::optional<std::string> find_digest(const std::string& repository, const std::string& version);
  void put_manifest(const std::string& repository, const std::string& version, const std::string& type,
                    const std::string& bytes);
  // Deletes a manifest by digest. False: there was no such manifest.
  bool remove_manifest(const std::string& repository, const std::string& digest);
  // At most `most` tags, in the registry's order. Throws Error{not_found} if there is no such repository.
  std::vector<std::string> tags(const std::string& repository, std::size_t most);

  bool has_blob(const std::string& repository, const std::string& digest);
  // The bytes of a small blob. Checks the digest.
  std::string blob(const std::string& repository, const image::Descriptor& descriptor,
                   std::size_t most_bytes);
  // Passes the bytes of a blob to `take` in order, until `take` returns false. After a lost connection,
  // continues at the next byte. Checks the digest unless `take` has returned false. `take` may wait for other
  // exchanges only if `is_long` (see http::Call) is true.
  void read_blob(const std::string& repository, const image::Descriptor& descriptor,
                 const std::function<bool(std::string_view)>& take, bool is_long = true);
  // Mounts a blob from another repository of this registry; false: the registry does not mount it.
  bool mount_blob(const std::string& repository, const std::string& digest, const std::string& from);

  // A function that passes a blob's bytes to `take` in order, until `take` returns false. Each call of a
  // Source begins with the first byte.
  using Source = std::function<void(const std::function<bool(std::string_view)>& take)>;
  // `sent` is called with the number of newly sent bytes. Bytes may be sent again after a lost connection.
  void upload(const std::string& repository, const image::Descriptor& descriptor, const Source& source,
              const std::function<void(std::uint64_t)>& sent);

  const std::string& name() const { return name_; }
  // Learns from `same` whether the registry speaks TLS, which saves a request. `same`: the same registry,
  // with another login.
  void speak_as(Registry& same);

 private:
  friend class Upload;
  enum class Repeat {
    all,
    refused_only
  };  // refused_only: a request that the registry may have executed is not repeated
  struct Lent;
  Lent lend(bool is_shared);
  const std::string& base();
  std::string find_base();
  std::optional<Login> find_own_login();
  http::Reply exchange(const http::Call& call);
  http::Reply send(http::Call call, const Scope& scope, Repeat repeat = Repeat::all);
  http::Reply read(http::Call call, const Scope& scope);
  http::Reply ask_for_token(const http::Call& call);
  void wait(std::chrono::milliseconds time, const std::string& why);
  struct Attempts;
  // Waits before the next attempt, at least for the time in Retry-After. Returns false if no further attempt
  // is allowed.
  bool wait_to_repeat(Attempts& attempts, const http::Reply& reply, const std::string& why);
  // The words of an error: the registry "does not let you use" something, or "has no" such thing.
  struct Denial {
    const char *forbidden, *not_there;
  };
  static constexpr Denial to_use{"use", "has no"}, to_make{"make", "has no"},
      to_send{"send", "does not take"}, to_delete{"delete", "has no"};
  [[noreturn]] void fail(const http::Reply& reply, const std::string& what,
                         const Denial& denial = to_use) const;
  std::string at(const std::string& repository, const std::string& path);

  const Access access_;
  const std::string name_;
  std::mutex base_mutex_;
  std::string base_, known_base_;
  std::mutex idle_mutex_;
  std::vector<std::unique_ptr<http::Connection>> idle_, idle_shared_;
  const std::string authorities_;
  std::unique_ptr<Tokens> tokens_;
  const image::Reference reference_;
};

Scope pull_scope(const std::string& repository);
Scope push_scope(const std::string& repository);

}  // namespace mlk::registry
