#include "cli/registry/registry.h"

#include <algorithm>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/http/url.h"
#include "cli/registry/address.h"
#include "cli/registry/answers.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk::registry {

using http::Call;
using http::Failure;
using http::Reply;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

namespace fs = std::filesystem;

constexpr int most_attempts = 6;
constexpr milliseconds first_wait{500}, longest_wait{60'000};
constexpr int most_redirects = 5;

std::string authorities_for(const std::vector<fs::path>& folders, const std::string& registry) {
  constexpr std::size_t longest = 1 << 20;
  std::string out;
  for (const fs::path& folder : folders) {
    std::error_code error;
    if (!fs::is_directory(folder / registry, error)) continue;
    std::vector<fs::path> files;
    visit_folder(folder / registry, [&](const fs::directory_entry& entry) {
      if (entry.path().extension() == ".crt") files.push_back(entry.path());
    });
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) out += read_file(file, longest) + "\n";
  }
  return out;
}

// If a type is missing in this list, some registries answer that there is no such image.
std::string accepted_manifests() {
  return fmt::format("{}, {}, {}, {}", image::oci_types.index, image::oci_types.manifest,
                     image::docker_types.index, image::docker_types.manifest);
}

std::string hint_for(const Failure& failure, const std::string& registry, const std::string& authorities) {
  switch (failure.kind) {
    case Failure::Kind::tls:
    case Failure::Kind::handshake:
      return "if it speaks http without TLS, and you trust the network: --insecure";
    case Failure::Kind::proxy:
      return failure.hint;
    case Failure::Kind::untrusted:
      return fmt::format("put the authority's certificate into ~/.config/containers/certs.d/{}/ca.crt",
                         registry);
    case Failure::Kind::authority:
      return authorities.empty() ? "install the package ca-certificates"
                                 : fmt::format("the files certs.d/{}/*.crt must be in PEM", registry);
    default:
      return "";
  }
}

[[noreturn]] void refuse_mirror(const std::string& pair) {
  const bool may_be_login = pair.find('@') != pair.npos;
  throw Error(ExitCode::usage,
              fmt::format("MLK_REGISTRY_MIRRORS: '{}' is not a registry and its mirror",
                          may_be_login ? "..." : printable(pair)),
              "for example: MLK_REGISTRY_MIRRORS=docker.io=mirror.example:5000");
}

// The failure of a request as text, for the note about the next attempt.
std::string shown_failure(const Reply& reply) {
  return reply.failure.kind == Failure::Kind::none ? fmt::format("answered with status {}", reply.status)
                                                   : "cannot be reached: " + describe(reply.failure);
}

// The registry on one side of a pair NAME=MIRROR of MLK_REGISTRY_MIRRORS. Refuses a side with a path.
std::string registry_in(const std::string& side, const std::string& pair) {
  const image::Reference named = image::parse_repository(side + "/a/b");
  if (named.repository != "a/b") refuse_mirror(pair);
  return named.registry;
}

}  // namespace

Access usual_access(const std::function<std::string(const std::string&)>& env) {
  Access out;
  out.login_files = login_files(env);
  const std::string home = env("HOME"), own = env("XDG_CONFIG_HOME");
  if (!own.empty() || !home.empty())
    out.authorities.push_back(fs::path(own.empty() ? home + "/.config" : own) / "containers/certs.d");
  if (!home.empty()) out.authorities.push_back(fs::path(home) / ".docker/certs.d");
  for (const char* folder : {"/etc/containers/certs.d", "/etc/docker/certs.d"})
    out.authorities.emplace_back(folder);
  for (const std::string& pair : split(env("MLK_REGISTRY_MIRRORS"), ',')) {
    const std::vector<std::string> sides = split(pair, '=');
    if (sides.size() != 2) refuse_mirror(pair);
    out.mirrors[registry_in(sides[0], pair)] = registry_in(sides[1], pair);
  }
  return out;
}

Scope pull_scope(const std::string& repository) { return "repository:" + repository + ":pull"; }
Scope push_scope(const std::string& repository) { return "repository:" + repository + ":pull,push"; }

// A connection that is lent to one exchange.
struct Registry::Lent {
  Registry& owner;
  std::vector<std::unique_ptr<http::Connection>>& idle;
  std::unique_ptr<http::Connection> connection;
  ~Lent() {
    const std::lock_guard lock(owner.idle_mutex_);
    idle.push_back(std::move(connection));
  }
};

Registry::Registry(Access access, const image::Reference& reference)
    : access_(std::move(access)),
      name_(reference.registry),
      authorities_(authorities_for(access_.authorities, reference.registry)),
      reference_(reference) {}

Registry::~Registry() = default;

Registry::Lent Registry::lend(bool is_shared) {
  std::vector<std::unique_ptr<http::Connection>>& idle = is_shared ? idle_shared_ : idle_;
  {
    const std::lock_guard lock(idle_mutex_);
    if (!idle.empty()) {
      std::unique_ptr<http::Connection> out = std::move(idle.back());
      idle.pop_back();
      return {*this, idle, std::move(out)};
    }
  }
  return {*this, idle,
          std::make_unique<http::Connection>(
              http::ConnectionOptions{.ca_pem = authorities_,
                                      .insecure = access_.insecure,
                                      .go_on = access_.go_on,
                                      .pool = is_shared ? access_.pool : nullptr})};
}

Reply Registry::exchange(const Call& call) {
  // Without TLS, there is no HTTP/2, so exchanges cannot share a connection.
  Lent lent = lend(!call.is_long && call.url.starts_with("https:"));
  Reply reply = lent.connection->exchange(call);
  if (access_.go_on && !access_.go_on()) throw Error(ExitCode::interrupted, "interrupted");
  return reply;
}

// Finds out whether the registry speaks TLS. For a remote registry, mlk uses plain HTTP only if TLS fails and
// access_.insecure allows plain HTTP. For a registry on this machine, where nobody can eavesdrop, mlk tries
// plain HTTP first: reading the certificates of the authorities would take longer than everything else.
std::string Registry::find_base() {
  const std::string encrypted = url_of(name_, true), plain = url_of(name_, false);
  const bool on_this_machine = http::is_loopback(http::parts_of(encrypted)->host);
  const auto ask = [&](const std::string& url) { return exchange({.url = url + "/v2/"}); };
  // A TLS server answers plain HTTP with a closed connection, a redirect to https, or 400.
  const auto speaks_plainly = [](const Reply& reply) {
    return reply.failure.kind == Failure::Kind::none && !is_redirect(reply.status) && reply.status != 400;
  };
  const auto speaks_no_tls = [&](const Failure& failure) {
    return failure.kind == Failure::Kind::tls || failure.kind == Failure::Kind::handshake ||
           failure.kind == Failure::Kind::broken ||
           (failure.kind == Failure::Kind::refused && access_.insecure);
  };
  const bool is_plain = (on_this_machine && speaks_plainly(ask(plain))) ||
                        ((on_this_machine || access_.insecure) && speaks_no_tls(ask(encrypted).failure));
  return is_plain ? plain : encrypted;
}

void Registry::speak_as(Registry& same) {
  const std::string base = same.base();
  const std::lock_guard lock(base_mutex_);
  known_base_ = base;
}

const std::string& Registry::base() {
  const std::lock_guard lock(base_mutex_);
  if (!base_.empty()) return base_;
  base_ = known_base_.empty() ? find_base() : known_base_;
  tokens_ = std::make_unique<Tokens>(
      base_, [this] { return find_own_login(); }, [this](const Call& call) { return ask_for_token(call); });
  return base_;
}

std::string Registry::at(const std::string& repository, const std::string& path) {
  return base() + "/v2/" + repository + "/" + path;
}

// Without a login, mlk can still read public content. A note names a missing helper that may have a login.
std::optional<Login> Registry::find_own_login() {
  std::string missing;
  std::optional<Login> login = find_login(access_.login_files, reference_, access_.go_on, &missing);
  if (!login && !missing.empty() && access_.note)
    access_.note(
        printable(fmt::format("{}: going on without a login for {}; podman login and skopeo login "
                              "need no such program",
                              missing, name_)));
  return login;
}

void Registry::wait(milliseconds time, const std::string& why) {
  if (access_.note && time >= milliseconds(5000))
    access_.note(fmt::format("registry {} {}; trying again in {} s", name_, why, time.count() / 1000));
  const auto end = std::chrono::steady_clock::now() + time / access_.haste;
  while (std::chrono::steady_clock::now() < end) {
    if (access_.go_on && !access_.go_on()) throw Error(ExitCode::interrupted, "interrupted");
    std::this_thread::sleep_for(milliseconds(50));
  }
}

struct Registry::Attempts {
  int count = 1;
  milliseconds pause = first_wait;
};

bool Registry::wait_to_repeat(Attempts& attempts, const Reply& reply, const std::string& why) {
  if (attempts.count >= most_attempts || !access_.is_patient) return false;
  milliseconds time = attempts.pause;
  const std::string asked = reply.header("retry-after");
  if (!asked.empty() && asked.size() < 6 && asked.find_first_not_of("0123456789") == asked.npos)
    time = std::max(time, milliseconds(1000L * std::stol(asked)));
  if (time > longest_wait) return false;
  wait(time, why);
  ++attempts.count;
  attempts.pause = std::min(attempts.pause * 2, longest_wait);
  return true;
}

// Other threads that need a token wait meanwhile, since Tokens calls this function with its mutex locked.
Reply Registry::ask_for_token(const Call& call) {
  for (Attempts attempts;;) {
    Reply reply = exchange(call);
    if (!may_pass(reply) ||
        !wait_to_repeat(attempts, reply, "has a token server that " + shown_failure(reply)))
      return reply;
  }
}

Reply Registry::send(Call call, const Scope& scope, Repeat repeat) {
  (void)base();
  const bool is_ours = is_same_server(base(), call.url);  // a registry may redirect uploads elsewhere
  const http::Headers own = call.headers;
  bool renewed = false;
  for (Attempts attempts;;) {
    const std::string authorization = is_ours ? tokens_->authorization(scope) : "";
    call.headers = own;
    if (!authorization.empty()) call.headers.emplace_back("Authorization", authorization);
    Reply reply = exchange(call);
    if (reply.failure.kind == Failure::Kind::closed) return reply;  // `take` has returned false
    std::optional<std::string> why;
    if (reply.failure.kind != Failure::Kind::none) {
      // `refused`: no program listened, so the request was not sent and may be repeated.
      const bool may_repeat = repeat == Repeat::all || reply.failure.kind == Failure::Kind::refused;
      if (may_pass(reply) && may_repeat && !call.take) why = shown_failure(reply);
    } else if (reply.status == 401 && is_ours && !renewed) {
      std::string challenges;
      for (const auto& [name, value] : reply.headers) {
        if (name == "www-authenticate") challenges += (challenges.empty() ? "" : ", ") + value;
      }
      renewed = !authorization.empty();  // the first request only fetches the challenge
      if (tokens_->renew(scope, challenges, authorization)) continue;
    } else if (may_pass(reply) && (repeat == Repeat::all || reply.status == 429)) {
      why = shown_failure(reply);
    }
    if (!why || !wait_to_repeat(attempts, reply, *why)) return reply;
    renewed = false;
  }
}

// Follows redirects of a registry. Sends credentials only to the registry itself.
Reply Registry::read(Call call, const Scope& scope) {
  Reply reply = send(call, scope);
  for (int hops = 0; is_redirect(reply.status); ++hops) {
    const std::string to = resolve(call.url, reply.header("location"));
    const std::string wrong = wrong_with_target(call.url, to);
    if (!wrong.empty() || hops == most_redirects)
      throw Error(ExitCode::cluster, fmt::format("registry {} sends mlk on to {}, and mlk does not go there",
                                                 name_, wrong.empty() ? "more and more places" : wrong));
    call.url = to;
    reply = send(call, scope);
  }
  return reply;
}

void Registry::fail(const Reply& reply, const std::string& what, const Denial& denial) const {
  const std::string subject = fmt::format("registry {}", name_);
  if (reply.failure.kind == Failure::Kind::too_large)
    throw Error(ExitCode::failure,
                fmt::format("{}: {} is too large: {}", subject, what, reply.failure.detail));
  if (reply.failure.kind != Failure::Kind::none)
    throw Error(ExitCode::cluster,
                fmt::format("{} cannot be reached for {}: {}", subject, what, describe(reply.failure)),
                hint_for(reply.failure, name_, authorities_));
  const std::string words = words_of(reply.body);
  const std::string said = words.empty() ? "" : ": " + words;
  if (reply.status == 401 || reply.status == 403)
    throw Error(ExitCode::cluster,
                fmt::format("{} does not let you {} {}{}", subject, denial.forbidden, what, said),
                "log in: docker login " + name_ + " (podman login and skopeo login do as well)");
  if (reply.status == 404)
    throw Error(ExitCode::not_found, fmt::format("{} {} {}{}", subject, denial.not_there, what, said));
  throw Error(ExitCode::cluster,
              fmt::format("{} answered with status {} for {}{}", subject, reply.status, what, said));
}

std::optional<Registry::Document> Registry::find_manifest(const std::string& repository,
                                                          const std::string& version) {
  const Reply reply = read({.url = at(repository, "manifests/" + version),
                            .headers = {{"Accept", accepted_manifests()}},
                            .most_bytes = image::longest_manifest},
                           pull_scope(repository));
  if (reply.has_status(404)) return std::nullopt;
  const std::string what =
      fmt::format("{}/{}{}{}", name_, repository, image::is_digest(version) ? "@" : ":", version);
  if (!reply.ok()) fail(reply, "image " + what);
  const std::string digest = "sha256:" + sha256_hex(reply.body);
  const std::string said = reply.header("docker-content-digest");
  if ((image::is_digest(version) && version != digest) || (image::is_digest(said) && said != digest))
    throw Error(ExitCode::failure,
                fmt::format("registry {} gave a manifest of {} that does not match its digest", name_, what));
  return Document{reply.body, reply.header("content-type"), digest};
}

std::optional<std::string> Registry::find_digest(const std::string& repository, const std::string& version) {
  const Reply reply = read({.method = "HEAD",
                            .url = at(repository, "manifests/" + version),
                            .headers = {{"Accept", accepted_manifests()}}},
                           pull_scope(repository));
  if (reply.has_status(404)) return std::nullopt;
  if (!reply.ok()) fail(reply, fmt::format("image {}/{}", name_, repository));
  const std::string digest = reply.header("docker-content-digest");
  return image::is_digest(digest) ? std::optional(digest) : std::nullopt;
}

void Registry::put_manifest(const std::string& repository, const std::string& version,
                            const std::string& type, const std::string& bytes) {
  Reply reply;
  for (int attempt = 1; attempt <= most_attempts; ++attempt) {
    reply = send({.method = "PUT",
                  .url = at(repository, "manifests/" + version),
                  .headers = {{"Content-Type", type}},
                  .body = bytes},
                 push_scope(repository));
    // docker-registry also answers with DIGEST_INVALID if it read a tag while another push to this repository
    // wrote the tag. So mlk sends the request again.
    const bool may_be_other_push = reply.status == 400 && words_of(reply.body).starts_with("DIGEST_INVALID");
    if (!may_be_other_push || attempt == most_attempts) break;
    wait(milliseconds(50 << attempt), "was disturbed by another push");
  }
  if (!reply.ok()) fail(reply, fmt::format("the manifest of {}/{}", name_, repository), to_send);
  const std::string said = reply.header("docker-content-digest");
  if (image::is_digest(said) && said != "sha256:" + sha256_hex(bytes))
    throw Error(ExitCode::failure,
                fmt::format("registry {} has stored the manifest of {} under another digest than it has",
                            name_, repository));
}

bool Registry::remove_manifest(const std::string& repository, const std::string& digest) {
  const Reply reply = send({.method = "DELETE", .url = at(repository, "manifests/" + digest)},
                           "repository:" + repository + ":pull,push,delete");
  if (reply.has_status(404)) return false;
  if (reply.has_status(405))
    throw Error(ExitCode::cluster, fmt::format("registry {} does not let anyone delete images", name_),
                "delete them by the registry's own rules of retention");
  if (!reply.ok()) fail(reply, fmt::format("image {}/{}@{}", name_, repository, digest), to_delete);
  return true;
}

std::vector<std::string> Registry::tags(const std::string& repository, std::size_t most) {
  constexpr std::size_t page = 500, longest_page = 16 << 20;
  std::vector<std::string> out;
  std::set<std::string> known;  // pages may link to each other in a circle
  std::string url = at(repository, fmt::format("tags/list?n={}", page));
  while (!url.empty() && out.size() < most) {
    const Reply reply = send({.url = url, .most_bytes = longest_page}, pull_scope(repository));
    if (!reply.ok()) fail(reply, fmt::format("repository {}/{}", name_, repository));
    const json answer = json_or_null(reply.body);
    const json list = answer.is_object() ? answer.value("tags", json()) : json();
    const std::size_t before = out.size();
    for (const json& tag : list.is_array() ? list : json::array()) {
      if (!tag.is_string() || !image::is_tag(tag.get_ref<const std::string&>()) || out.size() == most)
        continue;
      if (known.insert(tag).second) out.push_back(tag);
    }
    // Link: </v2/...?last=...>; rel="next"
    const std::string link = reply.header("link");
    const std::size_t open = link.find('<'), close = link.find('>');
    const bool has_next = open != link.npos && close != link.npos && open < close && out.size() > before;
    url = has_next ? resolve(base(), link.substr(open + 1, close - open - 1)) : "";
    if (!is_same_server(base(), url)) url.clear();
  }
  return out;
}

}  // namespace mlk::registry
