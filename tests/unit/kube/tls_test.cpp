#include <atomic>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("kube/tls");

using namespace mlk::kube;

namespace {

// The outcome of send(): "200", or the error.
std::string outcome(const Config& config) {
  Client client(config);
  try {
    return std::to_string(client.send({.path = "/x"}).status);
  } catch (const ApiError& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

void answer_all(FakeServer& server) {
  server.http->Get(".*", [](const auto&, auto& response) { answer(response, 200, "{}"); });
}

}  // namespace

TEST_CASE("a client trusts a server if the configured authority signed the certificate") {
  const Certificate authority = make_authority("cluster ca"), other = make_authority("another ca");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  answer_all(server);
  Config config = server.start();
  config.ca_pem = authority.pem();
  CHECK(outcome(config) == "200");
  config.ca_pem = other.pem();
  const std::string refused = outcome(config);
  CHECK(contains(refused, "signed by an unknown authority"));
  CHECK(contains(refused, "issuer /CN=cluster ca"));
  config.ca_pem.clear();  // now the system's authorities are used
  CHECK(contains(outcome(config), "unknown authority"));
  config.insecure = true;
  CHECK(outcome(config) == "200");
}

TEST_CASE("if a certificate authority is not in PEM, the error names the authority, not the user") {
  const Certificate authority = make_authority("cluster ca");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  answer_all(server);
  Config config = server.start();
  const std::string pem = authority.pem();
  for (const std::string& unusable : {std::string("no certificate"), pem.substr(0, pem.size() / 2)}) {
    config.ca_pem = unusable;
    const std::string refused = outcome(config);
    CHECK(contains(refused, "certificate-authority of the cluster cannot be used"));
    CHECK_FALSE(contains(refused, config.user));
  }
}

TEST_CASE("if a certificate has expired or has another name, the error gives the reason") {
  const Certificate authority = make_authority("cluster ca");
  SUBCASE("expired") {
    FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority, -60}));
    Config config = server.start();
    config.ca_pem = authority.pem();
    CHECK(contains(outcome(config), "not valid now: certificate has expired"));
  }
  SUBCASE("another name") {
    FakeServer server(make_certificate({"server", "DNS:api.example", &authority}));
    answer_all(server);
    Config config = server.start();
    config.ca_pem = authority.pem();
    CHECK(contains(outcome(config), "its certificate is for another name"));
    config.tls_server_name = "api.example";
    CHECK(outcome(config) == "200");
    config.tls_server_name = "other.example";
    CHECK(contains(outcome(config), "its certificate is for another name"));
  }
}

TEST_CASE("the Host header still names the server if tls-server-name is another name") {
  const Certificate authority = make_authority("cluster ca");
  FakeServer server(make_certificate({"server", "DNS:api.example", &authority}));
  std::string host;
  server.http->Get(".*", [&](const auto& request, auto& response) {
    host = request.get_header_value("Host");
    answer(response, 200, "{}");
  });
  Config config = server.start();
  config.ca_pem = authority.pem();
  config.tls_server_name = "api.example";
  CHECK(outcome(config) == "200");
  CHECK("https://" + host == config.server);
}

TEST_CASE("a client certificate is sent to a server that requests it") {
  const Certificate authority = make_authority("cluster ca");
  const Certificate client = make_certificate({"me", "DNS:me", &authority});
  X509_STORE* store = X509_STORE_new();  // the server becomes the owner of the store
  X509_STORE_add_cert(store, authority.x509.get());
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}), store);
  answer_all(server);
  Config config = server.start();
  config.ca_pem = authority.pem();
  CHECK(outcome(config) != "200");
  config.client_certificate_pem = client.pem();
  config.client_key_pem = client.key_pem();
  CHECK(outcome(config) == "200");
  config.client_key_pem = make_certificate({}).key_pem();
  const std::string wrong_key = outcome(config);
  CHECK(contains(wrong_key, "certificate or key of user \"researcher\" cannot be used"));
  CHECK_FALSE(contains(wrong_key, "BEGIN"));
  config.client_certificate_pem = "no certificate";
  CHECK(contains(outcome(config), "certificate or key of user \"researcher\" cannot be used"));
}

TEST_CASE("tokens, passwords and impersonation are sent in headers over TLS") {
  const Certificate authority = make_authority("cluster ca");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  std::string authorization, user;
  std::vector<std::string> groups;
  server.http->Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
    authorization = request.get_header_value("Authorization");
    user = request.get_header_value("Impersonate-User");
    groups.clear();
    for (std::size_t i = 0; i < request.get_header_value_count("Impersonate-Group"); ++i) {
      groups.push_back(request.get_header_value("Impersonate-Group", i));
    }
    answer(response, 200, "{}");
  });
  Config config = server.start();
  config.ca_pem = authority.pem();
  config.token = "t0k";
  config.impersonation = {
      {"Impersonate-User", "boss"}, {"Impersonate-Group", "a"}, {"Impersonate-Group", "b"}};
  CHECK(outcome(config) == "200");
  CHECK(authorization == "Bearer t0k");
  CHECK(user == "boss");
  CHECK(groups == std::vector<std::string>{"a", "b"});
  config.token.clear();
  config.username = "me";
  config.password = "pw";
  CHECK(outcome(config) == "200");
  CHECK(authorization == "Basic bWU6cHc=");
}

TEST_CASE("a client reads the token file again after a 401, and repeats the request with a new token") {
  const Certificate authority = make_authority("cluster ca");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  std::atomic<int> requests = 0;
  server.http->Get(".*", [&](const auto& request, auto& response) {
    ++requests;
    answer(response, request.get_header_value("Authorization") == "Bearer new" ? 200 : 401, "{}");
  });
  const TemporaryFolder folder;
  Config config = server.start();
  config.ca_pem = authority.pem();
  config.token_file = folder.write("token", "old\n").string();
  Client client(config);
  CHECK(client.send({.path = "/x"}).status == 401);
  CHECK(requests == 1);  // there is no new token to try
  folder.write("token", " new\n");
  CHECK(client.send({.path = "/x"}).status == 200);
  CHECK(requests == 3);
  folder.write("token", "");
  CHECK(client.send({.path = "/x"}).status == 200);  // the file is empty, so the last token stays in use
}

TEST_CASE("a request over https fails, and does not hang, if the server does not use TLS") {
  FakeServer server;
  Config config = server.start();
  config.server.replace(0, 4, "https");
  CHECK(contains(outcome(config), "no TLS connection"));
}

TEST_CASE("many streams to an HTTP/1 server run at the same time, each over its own connection") {
  constexpr int many = 50;  // ten more than the limit of connections
  const Certificate authority = make_authority("cluster ca");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  server.http->Get(".*", [&](const auto&, auto& response) {
    response.set_chunked_content_provider("application/json", [&](std::size_t, httplib::DataSink& sink) {
      sink.write("line\n", 5);
      server.hang();
      return false;
    });
  });
  Config config = server.start();
  config.ca_pem = authority.pem();
  Client client(config);
  std::atomic<int> lines = 0;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < many; ++i) {
    streams.push_back(client.stream({.path = "/x"}, [&](std::string_view) { ++lines; }, [](StreamEnd) {}));
  }
  CHECK(eventually([&] { return lines == many; }));
}
