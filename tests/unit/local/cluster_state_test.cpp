// The objects of a fresh cluster, and the content of its state folder: file names, addresses, volumes, keys.
#include <algorithm>
#include <memory>
#include <set>
#include <sys/stat.h>
#include <thread>

#include <doctest/doctest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "cli/local/api/tls.h"
#include "cli/local/local.h"
#include "cli/local/state/file_lock.h"
#include "cli/local/state/metadata.h"
#include "cli/local/state/seed.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/cluster_state");

namespace mlk::local {
namespace {

namespace state_files {

using samples::Folder;
using samples::json;
using samples::noon;
using samples::write_text;

// Sets $XDG_STATE_HOME while this object lives.
struct Home {
  Folder folder;
  Paths paths{folder.path() / "mlk/local"};
  Home() { ::setenv("XDG_STATE_HOME", folder.path().c_str(), 1); }
  ~Home() { ::unsetenv("XDG_STATE_HOME"); }
};

unsigned mode_of(const std::filesystem::path& path) {
  struct stat info{};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

// The object without the fields that the store adds and without random values.
json plain(const Object& object) {
  json copy = *object;
  CHECK(copy["metadata"].at("uid").get<std::string>().size() == 36);
  copy["metadata"].erase("uid");
  copy["metadata"].erase("resourceVersion");
  return copy;
}

// The error that `call` throws, as "exit code | text | hint".
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " | " + error.what() + " | " + error.hint();
  }
  return "";
}

std::unique_ptr<X509, decltype(&X509_free)> parse_certificate(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  return {PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free};
}

TEST_CASE("a fresh cluster has the namespace `default` with a service account, and one node that is ready") {
  const Folder folder;
  Store store(folder.path() / "objects");
  seed(store, noon);
  const json created = "2026-11-21T12:00:00Z";
  REQUIRE(store.list("namespaces").size() == 1);
  CHECK(plain(store.get("namespaces", "", "default")) ==
        json{{"apiVersion", "v1"},
             {"kind", "Namespace"},
             {"metadata",
              {{"name", "default"},
               {"creationTimestamp", created},
               {"labels", {{"kubernetes.io/metadata.name", "default"}}}}},
             {"spec", {{"finalizers", {"kubernetes"}}}},
             {"status", {{"phase", "Active"}}}});
  REQUIRE(store.list("serviceaccounts").size() == 1);
  CHECK(plain(store.get("serviceaccounts", "default", "default")) ==
        json{{"apiVersion", "v1"},
             {"kind", "ServiceAccount"},
             {"metadata", {{"name", "default"}, {"namespace", "default"}, {"creationTimestamp", created}}}});
  REQUIRE(store.list("nodes").size() == 1);
  const json capacity = {{"cpu", std::to_string(std::thread::hardware_concurrency())}, {"pods", "1000"}};
  CHECK(plain(store.get("nodes", "", "local")) ==
        json{{"apiVersion", "v1"},
             {"kind", "Node"},
             {"metadata",
              {{"name", "local"},
               {"creationTimestamp", created},
               {"labels", {{"kubernetes.io/hostname", "local"}}}}},
             {"spec", json::object()},
             {"status",
              {{"capacity", capacity},
               {"allocatable", capacity},
               {"conditions", json::array({{{"type", "Ready"},
                                            {"status", "True"},
                                            {"reason", "KubeletReady"},
                                            {"lastHeartbeatTime", created},
                                            {"lastTransitionTime", created}}})},
               {"addresses", json::array({{{"type", "InternalIP"}, {"address", "127.0.0.1"}}})},
               {"nodeInfo", {{"kubeletVersion", "v1.37.0+mlk"}}}}}});
}

TEST_CASE("seed() adds the objects that a fresh cluster needs, and a second call changes nothing") {
  const Folder folder;
  Store store(folder.path() / "objects");
  seed(store, noon);
  const json before = {*store.get("namespaces", "", "default"),
                       *store.get("serviceaccounts", "default", "default"), *store.get("nodes", "", "local")};
  seed(store, noon + std::chrono::hours(1));
  const json after = {*store.get("namespaces", "", "default"),
                      *store.get("serviceaccounts", "default", "default"), *store.get("nodes", "", "local")};
  CHECK(after == before);
  add_default_account(store, "lab", noon);
  add_default_account(store, "lab", noon + std::chrono::hours(1));
  CHECK(plain(store.get("serviceaccounts", "lab", "default")) ==
        json{{"apiVersion", "v1"},
             {"kind", "ServiceAccount"},
             {"metadata",
              {{"name", "default"}, {"namespace", "lab"}, {"creationTimestamp", "2026-11-21T12:00:00Z"}}}});
}

TEST_CASE("a uid is a UUID of version 4 with random digits") {
  std::vector<std::set<char>> seen(36);
  std::set<std::string> all;
  for (int i = 0; i < 1000; ++i) {
    const std::string uid = new_uid();
    REQUIRE(uid.size() == 36);
    all.insert(uid);
    for (std::size_t at = 0; at < uid.size(); ++at) seen[at].insert(uid[at]);
  }
  CHECK(all.size() == 1000);
  for (std::size_t a = 0; a < 36; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const bool differ = std::ranges::any_of(all, [&](const std::string& uid) { return uid[a] != uid[b]; });
      CHECK((differ || (seen[a].size() == 1 && seen[a] == seen[b])));
    }
  }
  const auto range = [](const std::string& text) { return std::set<char>(text.begin(), text.end()); };
  for (std::size_t at = 0; at < seen.size(); ++at) {
    CAPTURE(at);
    if (at == 8 || at == 13 || at == 18 || at == 23) {
      CHECK(seen[at] == range("-"));
    } else if (at == 14) {
      CHECK(seen[at] == range("4"));
    } else if (at == 19) {
      CHECK(seen[at] == range("89ab"));
    } else {
      CHECK(seen[at] == range("0123456789abcdef"));
    }
  }
  CHECK(uid_of({{"metadata", {{"uid", "u-1"}}}}) == "u-1");
  CHECK_THROWS_AS(uid_of(json{{"metadata", json::object()}}), json::out_of_range);
}

TEST_CASE("the random part of a name has five of the letters and digits that Kubernetes uses") {
  std::vector<std::set<char>> seen(5);
  for (int i = 0; i < 2000; ++i) {
    const std::string suffix = random_suffix();
    REQUIRE(suffix.size() == 5);
    for (std::size_t at = 0; at < 5; ++at) seen[at].insert(suffix[at]);
  }
  const std::string letters = "bcdfghjklmnpqrstvwxz2456789";
  for (const std::set<char>& at : seen) CHECK(at == std::set<char>(letters.begin(), letters.end()));
}

TEST_CASE("default_paths() puts the files of the cluster into the folder mlk/local of the state home") {
  const Home home;
  const std::filesystem::path root = home.folder.path() / "mlk/local";
  const Paths paths = default_paths();
  CHECK(paths.root == root);
  CHECK(paths.objects() == root / "objects");
  CHECK(paths.pods() == root / "pods");
  CHECK(paths.claims() == root / "claims");
  CHECK(paths.kubeconfig() == root / "kubeconfig");
  CHECK(kubeconfig_path() == root / "kubeconfig");
  CHECK(paths.server() == root / "server.json");
  CHECK(paths.lock() == root / "lock");
  CHECK(paths.volumes() == root / "volumes.json");
  CHECK(paths.fifo() == root / "notices");
  CHECK(paths.log() == root / "server.log");
}

TEST_CASE("make_state_folder() gives a new or existing state folder the mode 0700") {
  const Folder folder;
  const std::filesystem::path made = folder.path() / "a" / "b" / "local";
  make_state_folder(made);
  CHECK(mode_of(made) == 0700);
  for (const int open : {0755, 0701, 0710, 0500, 0}) {
    CAPTURE(open);
    ::chmod(made.c_str(), static_cast<mode_t>(open));
    make_state_folder(made);
    CHECK(mode_of(made) == 0700);
  }
  write_text(made / "kept", "x");
  make_state_folder(made);
  CHECK(std::filesystem::exists(made / "kept"));
}

TEST_CASE("a state folder is refused if it is a link, is a file, or belongs to another user") {
  const Folder folder;
  const std::filesystem::path target = folder.path() / "target", link = folder.path() / "link",
                              file = folder.path() / "file";
  std::filesystem::create_directory(target);
  std::filesystem::create_directory_symlink(target, link);
  write_text(file, "");
  for (const std::filesystem::path& bad : {link, file}) {
    CHECK(error_of([&] { make_state_folder(bad); }) == "1 | cannot make the folder " + bad.string() + " | ");
  }
  // "/proc" belongs to root, and root can give its own folder to another user.
  std::filesystem::path other = "/proc";
  if (::geteuid() == 0) {
    other = target;
    if (::chown(other.c_str(), 12345, 12345) != 0) return;
  }
  CHECK(error_of([&] { make_state_folder(other); }) ==
        "1 | " + other.string() + " belongs to another user | set XDG_STATE_HOME to a folder of your own");
}

TEST_CASE("read_address() returns the process id and the port of the server, with 0 for an invalid number") {
  const Folder folder;
  const Paths paths(folder.path());
  CHECK_FALSE(read_address(paths));
  write_address(paths, {4711, 65535});
  CHECK(parse_json(read_file(paths.server(), 1000), "") == json{{"pid", 4711}, {"port", 65535}});
  CHECK(mode_of(paths.server()) == 0600);
  REQUIRE(read_address(paths));
  CHECK(read_address(paths)->pid == 4711);
  CHECK(read_address(paths)->port == 65535);
  const auto read = [&](const std::string& text) {
    write_text(paths.server(), text);
    const auto address = read_address(paths);
    return address ? std::to_string(address->pid) + ":" + std::to_string(address->port) : "none";
  };
  CHECK(read(R"({"pid": 2147483647, "port": 1})") == "2147483647:1");
  CHECK(read(R"({"pid": 2147483648, "port": 65536})") == "0:0");
  CHECK(read(R"({"pid": -1, "port": -1})") == "0:0");
  CHECK(read(R"({"pid": "7", "port": 8.0})") == "0:0");
  CHECK(read("{}") == "0:0");
  CHECK(read("[1, 2]") == "none");
  CHECK(read("{") == "none");
}

TEST_CASE("lost() is true if the process id of a server is stored but no server holds the lock") {
  const Home home;
  CHECK_FALSE(lost());
  std::filesystem::create_directories(home.paths.root);
  write_address(home.paths, {0, 4711});  // the server was stopped
  CHECK_FALSE(lost());
  write_address(home.paths, {4000000, 4711});
  CHECK(lost());
  CHECK_FALSE(running());
  CHECK_FALSE(is_elsewhere());
  CHECK(error_of([] { throw elsewhere_error(); }) ==
        "1 | the local cluster in " + home.paths.root.string() +
            " runs on another machine or in another container"
            " | use it there, or set XDG_STATE_HOME to a folder of this machine");
}

TEST_CASE("volume_folder() prefers the folder of --volume to the folder of a claim or a host path") {
  const Home home;
  const auto folder_of = [](const json& volume) { return volume_folder("lab", "data", volume).string(); };
  const std::string claim = (home.paths.claims() / "lab" / "c").string();
  CHECK(folder_of({{"pvc", "c"}}) == claim);
  CHECK(folder_of({{"hostPath", "/host"}}) == "/host");
  CHECK(folder_of({{"emptyDir", json::object()}}).empty());
  CHECK(folder_of({{"pvc", 5}}).empty());
  CHECK(folder_of({{"pvc", ""}, {"hostPath", "/host"}}) == "/host");
  CHECK(folder_of({{"hostPath", 5}}).empty());
  write_text(home.paths.volumes(), R"({"c": "/given/c", "data": "/given/data", "bad": 5})");
  CHECK(folder_of({{"pvc", "c"}}) == "/given/c");
  CHECK(folder_of({{"pvc", "d"}}) == (home.paths.claims() / "lab" / "d").string());
  CHECK(folder_of({{"pvc", "bad"}}) == (home.paths.claims() / "lab" / "bad").string());
  CHECK(folder_of({{"hostPath", "/host"}}) == "/given/data");
  CHECK(folder_of(json::object()) == "/given/data");
  CHECK(volume_folder("lab", "other", {{"hostPath", "/host"}}) == "/host");
  for (const char* damaged : {"", "[]", "{"}) {
    write_text(home.paths.volumes(), damaged);
    CHECK(folder_of({{"pvc", "c"}}) == claim);
    CHECK(folder_of({{"hostPath", "/host"}}) == "/host");
  }
}

TEST_CASE("own_program() returns the absolute path of the running program") {
  const std::filesystem::path program = own_program();
  CHECK(program.is_absolute());
  CHECK(std::filesystem::equivalent(program, "/proc/self/exe"));
}

TEST_CASE("load_credentials() creates the credentials once, and again if the file is damaged") {
  const Folder folder;
  const std::filesystem::path file = folder.path() / "credentials.json";
  const Credentials made = load_credentials(file);
  CHECK(mode_of(file) == 0600);
  CHECK(parse_json(read_file(file, 1 << 20), "") ==
        json{{"ca", made.ca}, {"certificate", made.certificate}, {"key", made.key}, {"token", made.token}});
  const Credentials again = load_credentials(file);
  CHECK(again.ca == made.ca);
  CHECK(again.certificate == made.certificate);
  CHECK(again.key == made.key);
  CHECK(again.token == made.token);
  write_text(file, "damaged");
  const Credentials other = load_credentials(file);
  CHECK(other.token != made.token);
  CHECK(other.ca != made.ca);
  CHECK(load_credentials(file).token == other.token);
}

TEST_CASE("FileLock::error() is 0 if the lock is free, and says why a file cannot be opened") {
  const Folder folder;
  CHECK(FileLock(folder.path() / "free").error() == 0);
  CHECK(FileLock(folder.path() / "none" / "lock").error() == ENOENT);
  CHECK(FileLock(folder.path()).error() == EISDIR);
}

TEST_CASE("load_credentials() creates new certificates if the old ones are not valid now") {
  for (const auto& [from, until] : {std::pair(-7200, -3600), std::pair(3600, 7200)}) {
    const Folder folder;
    const std::filesystem::path file = folder.path() / "credentials.json";
    const Credentials made = load_credentials(file);
    const auto certificate = parse_certificate(made.certificate);
    const std::unique_ptr<ASN1_TIME, decltype(&ASN1_TIME_free)> first(X509_gmtime_adj(nullptr, from),
                                                                      ASN1_TIME_free),
        last(X509_gmtime_adj(nullptr, until), ASN1_TIME_free);
    REQUIRE(X509_set1_notBefore(certificate.get(), first.get()) == 1);
    REQUIRE(X509_set1_notAfter(certificate.get(), last.get()) == 1);
    REQUIRE(i2d_re_X509_tbs(certificate.get(), nullptr) > 0);  // or else OpenSSL writes the old encoding
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    REQUIRE(PEM_write_bio_X509(bio.get(), certificate.get()) == 1);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    json saved = parse_json(read_file(file, 1 << 20), "");
    saved["certificate"] = std::string(data, static_cast<std::size_t>(size));
    write_text(file, saved.dump());
    CHECK(load_credentials(file).token != made.token);
  }
}

TEST_CASE(
    "make_credentials() makes certificates that are valid from ten years ago until ten years from now") {
  const Credentials made = make_credentials();
  CHECK(made.token.size() == 64);
  CHECK(made.token.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(made.key.starts_with("-----BEGIN PRIVATE KEY-----\n"));
  const auto ca = parse_certificate(made.ca), server = parse_certificate(made.certificate);
  REQUIRE(ca);
  REQUIRE(server);
  for (X509* certificate : {ca.get(), server.get()}) {
    CHECK(X509_get_version(certificate) == 2);
    int days = 0, seconds = 0;
    REQUIRE(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(certificate),
                           X509_get0_notAfter(certificate)) == 1);
    CHECK(days == 7300);
    CHECK(seconds <= 60);  // the clock is read twice
    REQUIRE(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(certificate), nullptr) == 1);
    CHECK(days == 3650);
    CHECK(seconds < 1800);
    CHECK(ASN1_STRING_length(X509_get_serialNumber(certificate)) > 8);
  }
  const auto name = [](X509_NAME* whole) {
    char text[100] = "";
    X509_NAME_get_text_by_NID(whole, NID_commonName, text, sizeof text);
    return std::string(text);
  };
  CHECK(name(X509_get_subject_name(ca.get())) == "mlk-local-ca");
  CHECK(name(X509_get_issuer_name(ca.get())) == "mlk-local-ca");
  CHECK(name(X509_get_subject_name(server.get())) == "mlk-local");
  CHECK(name(X509_get_issuer_name(server.get())) == "mlk-local-ca");
  CHECK(X509_check_ca(ca.get()) == 1);
  CHECK(X509_check_ca(server.get()) == 0);
  CHECK(X509_get_key_usage(ca.get()) == KU_KEY_CERT_SIGN);
  CHECK(X509_get_extended_key_usage(server.get()) == XKU_SSL_SERVER);
  CHECK(X509_check_ip_asc(server.get(), "127.0.0.1", 0) == 1);
  CHECK(X509_check_ip_asc(server.get(), "127.0.0.2", 0) == 0);
  CHECK(X509_check_host(server.get(), "localhost", 0, 0, nullptr) == 1);
  CHECK(X509_verify(server.get(), X509_get0_pubkey(ca.get())) == 1);
  CHECK(X509_verify(ca.get(), X509_get0_pubkey(ca.get())) == 1);
  CHECK(X509_verify(server.get(), X509_get0_pubkey(server.get())) != 1);
}

TEST_CASE("kubeconfig_text() writes one cluster, one user, and one context for both") {
  const Credentials credentials{"authority", "certificate", "key", "token"};
  CHECK(kubeconfig_text(credentials, "https://127.0.0.1:4711") == R"({
  "apiVersion": "v1",
  "clusters": [
    {
      "cluster": {
        "certificate-authority-data": "YXV0aG9yaXR5",
        "server": "https://127.0.0.1:4711"
      },
      "name": "mlk-local"
    }
  ],
  "contexts": [
    {
      "context": {
        "cluster": "mlk-local",
        "namespace": "default",
        "user": "mlk-local"
      },
      "name": "mlk-local"
    }
  ],
  "current-context": "mlk-local",
  "kind": "Config",
  "preferences": {},
  "users": [
    {
      "name": "mlk-local",
      "user": {
        "token": "token"
      }
    }
  ]
}
)");
}

}  // namespace state_files

}  // namespace
}  // namespace mlk::local
