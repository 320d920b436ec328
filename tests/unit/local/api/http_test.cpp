// The API over TLS, with its threads: several clients, a watch, and the controllers behind it.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>
#include <httplib.h>
#include <openssl/ssl.h>

#include "cli/local/api/http_server.h"
#include "cli/local/controllers.h"
#include "cli/local/state/seed.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/api/http");

using namespace mlk::local;
using mlk::local::samples::Folder;

namespace {

mlk::Time now() { return std::chrono::system_clock::now(); }

struct Served {
  Folder folder;
  Paths paths{folder.path()};
  Store store{paths.objects()};
  PodLogs logs{paths.pods()};
  Api api{store, logs, now};
  Credentials credentials = make_credentials();
  HttpServer server{api, credentials, 0};

  Served() {
    seed(store, now());
    std::ofstream(folder.path() / "ca.pem") << credentials.ca;
  }

  std::unique_ptr<httplib::SSLClient> client(const std::string& token) const {
    auto client = std::make_unique<httplib::SSLClient>("127.0.0.1", server.port());
    client->set_ca_cert_path((folder.path() / "ca.pem").c_str());
    client->enable_server_certificate_verification(true);
    client->set_default_headers({{"Authorization", "Bearer " + token}});
    client->set_read_timeout(30);
    return client;
  }
  std::unique_ptr<httplib::SSLClient> client() const { return client(credentials.token); }
};

const std::string maps_path = "/api/v1/namespaces/default/configmaps";

std::string map_text(const std::string& name) {
  return json{{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", name}}}}.dump();
}

}  // namespace

TEST_CASE("a request is refused with 401 if it does not have the server's token") {
  const Served served;
  const auto good = served.client()->Get("/version");
  REQUIRE(good);
  CHECK(good->status == 200);
  for (const std::string token : {"", "wrong", "Wrong"}) {
    const auto client = served.client(token);
    CHECK(client->Get("/version")->status == 401);
    CHECK(client->Post(maps_path, map_text("a"), "application/json")->status == 401);
    CHECK(client->Delete(maps_path + "/a")->status == 401);
  }
  CHECK(!served.store.find("configmaps", "default", "a"));
}

TEST_CASE("a client that trusts another authority does not accept the server's certificate") {
  Served served;
  std::ofstream(served.folder.path() / "ca.pem") << make_credentials().ca;
  CHECK(!served.client()->Get("/version"));
}

TEST_CASE("a body over the limit is refused with 413, and a DELETE needs no body") {
  const Served served;
  const auto client = served.client();
  CHECK(client->Post(maps_path, std::string(4 << 20, 'x'), "application/json")->status == 413);
  CHECK(served.client()->Post(maps_path, map_text("a"), "application/json")->status == 201);
  CHECK(served.client()->Delete(maps_path + "/a")->status == 200);
}

TEST_CASE("a watch sends each event without delay, also to a client that accepts compressed answers") {
  Served served;
  std::atomic<int> lines{0};
  std::thread watcher([&] {
    const auto client = served.client();
    client->Get(maps_path + "?watch=1&timeoutSeconds=30", {{"Accept-Encoding", "gzip"}},
                [&](const char* data, std::size_t size) {
                  lines += static_cast<int>(std::count(data, data + size, '\n'));
                  return lines < 20;
                });
  });
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      const auto client = served.client();
      for (int j = 0; j < 5; ++j) {
        CHECK(
            client->Post(maps_path, map_text("m-" + std::to_string(i * 5 + j)), "application/json")->status ==
            201);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  watcher.join();
  CHECK(lines >= 20);
  CHECK(served.store.list("configmaps").size() == 20);
}

namespace {

// A client that has connected, and waits at most 20 s for an answer.
class Idler {
 public:
  explicit Idler(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    struct sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const struct timeval patience{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    REQUIRE(::connect(fd_, reinterpret_cast<const struct sockaddr*>(&address), sizeof address) == 0);
  }
  ~Idler() { ::close(fd_); }
  Idler(const Idler&) = delete;
  Idler& operator=(const Idler&) = delete;
  int fd() const { return fd_; }
  bool is_closed_by_server() const {
    char byte;
    return ::recv(fd_, &byte, 1, 0) == 0;
  }

 private:
  const int fd_;
};

}  // namespace

TEST_CASE("the server closes the oldest silent connections, so that a client with the token can connect") {
  const Served served;
  std::vector<std::unique_ptr<Idler>> idlers;
  for (int i = 0; i < 200; ++i) idlers.push_back(std::make_unique<Idler>(served.server.port()));
  CHECK(served.client()->Get("/version")->status == 200);
  CHECK(idlers.front()->is_closed_by_server());
  // The newest connection stays open. The test makes this connection last, since on a busy machine the other
  // connections take longer than a connection may be silent.
  const Idler newest(served.server.port());
  CHECK(served.client()->Get("/version")->status == 200);
  char byte;
  CHECK(::recv(newest.fd(), &byte, 1, MSG_DONTWAIT) < 0);
}

TEST_CASE("the server ends a connection that sends endless headers") {
  const Served served;
  for (const std::string& line : {std::string("X-More: and more\r\n"), std::string(4096, 'x')}) {
    const Idler idler(served.server.port());
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                    SSL_CTX_free);
    const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context.get()), SSL_free);
    SSL_set_fd(tls.get(), idler.fd());
    REQUIRE(SSL_connect(tls.get()) == 1);
    ::signal(SIGPIPE, SIG_IGN);
    std::size_t sent = 0;
    const std::string begin = "GET /version HTTP/1.1\r\n";
    SSL_write(tls.get(), begin.data(), static_cast<int>(begin.size()));
    // Sends more than the buffers of the sockets can hold.
    while (sent < (64u << 20) && SSL_write(tls.get(), line.data(), static_cast<int>(line.size())) > 0)
      sent += line.size();
    CHECK(sent < (64u << 20));
  }
  CHECK(served.client()->Get("/version")->status == 200);
}

TEST_CASE("the value of a parameter ends at the next &, and may contain = or %3D") {
  const Served served;
  json labelled = json::parse(map_text("a"));
  labelled["metadata"]["labels"] = {{"l", "1"}};
  const auto client = served.client();
  CHECK(client->Post(maps_path, labelled.dump(), "application/json")->status == 201);
  CHECK(client->Post(maps_path, map_text("b"), "application/json")->status == 201);
  for (const std::string query :
       {"labelSelector=l=1", "labelSelector=l%3D1", "labelSelector=l%3d1&limit=9",
        "limit=9&labelSelector=l=1,l%20in%20(1)", "fieldSelector=metadata.name=a&x"}) {
    CAPTURE(query);
    const auto answer = client->Get(maps_path + "?" + query);
    REQUIRE(answer->status == 200);
    const json items = json::parse(answer->body).at("items");
    REQUIRE(items.size() == 1);
    CHECK(items.at(0).at("metadata").at("name") == "a");
  }
}

TEST_CASE("the server ends its open streams when it is stopped") {
  auto served = std::make_unique<Served>();
  std::atomic<bool> begun{false};
  std::thread watcher([&, client = served->client()] {
    client->Get("/api/v1/nodes?watch=1", [&](const char*, std::size_t) {
      begun = true;
      return true;
    });
  });
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  served.reset();
  watcher.join();
}

TEST_CASE("the controllers create the pods of a Job that a client creates, and remove them with the Job") {
  Served served;
  const Controllers controllers(served.store, served.logs, served.paths, "/nowhere/mlk");
  const json gpu = {{"limits", {{"nvidia.com/gpu", 1}}}};  // the node has no GPU, so no process is started
  const json job = {
      {"apiVersion", "batch/v1"},
      {"kind", "Job"},
      {"metadata", {{"name", "j"}}},
      {"spec",
       {{"completionMode", "Indexed"},
        {"completions", 5},
        {"parallelism", 5},
        {"template",
         {{"spec",
           {{"restartPolicy", "Never"},
            {"containers",
             {{{"name", "main"}, {"image", "i"}, {"command", {"true"}}, {"resources", gpu}}}}}}}}}}};
  const auto client = served.client();
  CHECK(client->Post("/apis/batch/v1/namespaces/default/jobs", job.dump(), "application/json")->status ==
        201);
  const auto pods = [&] {
    return json::parse(client->Get("/api/v1/namespaces/default/pods")->body).at("items");
  };
  const auto told = [&] {
    const json items = pods();
    return items.size() == 5 && std::all_of(items.begin(), items.end(), [](const json& pod) {
             return pod.at("status").contains("conditions");
           });
  };
  for (int i = 0; i < 2000 && !told(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(told());
  CHECK(client->Delete("/apis/batch/v1/namespaces/default/jobs/j")->status == 200);
  for (int i = 0; i < 2000 && !pods().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(pods().empty());
}
