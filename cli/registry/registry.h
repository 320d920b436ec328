// One registry, spoken to by the protocol of the OCI distribution specification 1.1.
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

// What holds for all registries.
struct Access {
  std::vector<std::filesystem::path> login_files;
  std::vector<std::filesystem::path> authorities;  // folders; in them HOST[:PORT]/*.crt, as Docker has them
  std::map<std::string, std::string> mirrors;      // registry -> host[:port] that is asked before it, to read
  bool insecure = false;          // certificates are not checked, and a registry without TLS is spoken to
  bool is_patient = true;         // what may pass by itself is tried again
  int haste = 1;                  // waits are shorter by this factor. Other values are for tests
  std::function<bool()> go_on{};  // false: the user wants to stop
  std::function<void(const std::string&)> note{};  // long waits, for people; may come from any thread
  // Of all registries that are given a copy of this.
  std::shared_ptr<http::ConnectionPool> pool = std::make_shared<http::ConnectionPool>();
};

// The places where Docker and the containers tools keep these, and MLK_REGISTRY_MIRRORS,
// "docker.io=mirror.example:5000,...". Throws Error{usage} for a value of that which is none. `env`: the
// value of a variable, "" when unset.
Access usual_access(const std::function<std::string(const std::string&)>& env);

// The user has asked to stop, or the registry did not answer well. Messages name the registry.
class Registry {
 public:
  // `reference`: its registry, and the repository whose login counts.
  Registry(Access access, const image::Reference& reference);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // All are safe from several threads, and throw Error: cluster if the registry cannot be reached or refuses,
  // failure if what it answers is not what was asked for, interrupted. What may pass by itself is tried
  // again, for a minute or so.

  struct Document {
    std::string bytes, type, digest;
  };
  // A manifest or an index, by tag or digest; nullopt: there is none. Bytes of another digest are refused.
  std::optional<Document> find_manifest(const std::string& repository, const std::string& version);
  // Its digest alone; nullopt also where a registry does not say.
  std::optional<std::string> find_digest(const std::string& repository, const std::string& version);
  void put_manifest(const std::string& repository, const std::string& version, const std::string& type,
                    const std::string& bytes);
  // By digest. False: there was none.
  bool remove_manifest(const std::string& repository, const std::string& digest);
  // At most `most` tags, in the registry's order. Throws Error{not_found} if there is no such repository.
  std::vector<std::string> tags(const std::string& repository, std::size_t most);

  bool has_blob(const std::string& repository, const std::string& digest);
  // A small one, whole; its digest is checked.
  std::string blob(const std::string& repository, const image::Descriptor& descriptor,
                   std::size_t most_bytes);
  // Its bytes in order; false from `take` ends it. A connection that is cut is opened again. The digest is
  // checked. `take` may wait for other exchanges.
  void read_blob(const std::string& repository, const image::Descriptor& descriptor,
                 const std::function<bool(std::string_view)>& take);
  // From another repository of this registry; false: it does not do that.
  bool mount_blob(const std::string& repository, const std::string& digest, const std::string& from);

  // Gives the bytes of a blob in order, anew with each call; stops when `take` returns false.
  using Source = std::function<void(const std::function<bool(std::string_view)>& take)>;
  // `sent` is called with bytes that have gone out; they may go out again after a loss.
  void upload(const std::string& repository, const image::Descriptor& descriptor, const Source& source,
              const std::function<void(std::uint64_t)>& sent);

  const std::string& name() const { return name_; }
  // Spares asking whether it speaks TLS. `same`: the same registry, known for another login.
  void speak_as(Registry& same);

 private:
  friend class Upload;
  enum class Repeat {
    all,
    refused_only
  };  // refused_only: what the registry may have acted on is not repeated
  struct Lent;
  Lent lend(bool is_shared);
  const std::string& base();
  std::string find_base();
  std::optional<Login> find_own_login();
  http::Reply exchange(const http::Call& call);
  http::Reply send(http::Call call, const Scope& scope, Repeat repeat = Repeat::all);
  http::Reply read(http::Call call, const Scope& scope);
  void wait(std::chrono::milliseconds time, const std::string& why);
  void read_blob(const std::string& repository, const image::Descriptor& descriptor,
                 const std::function<bool(std::string_view)>& take, bool is_long);
  // How a registry says no: it "does not let you use" something, or "has no" such thing.
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
