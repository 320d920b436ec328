// Checks to which addresses mlk connects when a registry names these addresses.
#include "cli/registry/address.h"

#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("registry/address");

namespace {

using mlk::registry::is_same_server;
using mlk::registry::resolve;
using mlk::registry::wrong_with_target;
using Urls = std::vector<std::string>;

}  // namespace

TEST_CASE("url_of() uses the name of the registry as the host, except for Docker Hub") {
  CHECK(mlk::registry::url_of("registry.example:5000", true) == "https://registry.example:5000");
  CHECK(mlk::registry::url_of("[::1]:5000", false) == "http://[::1]:5000");
  CHECK(mlk::registry::url_of("docker.io", true) == "https://registry-1.docker.io");
  CHECK(mlk::registry::url_of("docker.io", false) == "http://registry-1.docker.io");
  CHECK(mlk::registry::url_of("docker.io.example", true) == "https://docker.io.example");
}

TEST_CASE("a registry with https cannot send mlk to an http URL or to an invalid URL") {
  const std::string from = "https://registry.example";
  CHECK(wrong_with_target(from, "https://storage.example/x").empty());
  CHECK(wrong_with_target(from, "https://registry.example:444/x").empty());
  CHECK(wrong_with_target(from, "http://storage.example/x") == "a place that is not encrypted");
  CHECK(wrong_with_target(from, "http://registry.example/x") == "a place that is not encrypted");
  CHECK(wrong_with_target("http://registry.example", "http://storage.example/x").empty());
  for (const std::string& bad : Urls{"", "/x", "ftp://storage.example/x", "file:///etc/passwd", "https://",
                                     "x y", "https://a b/", "gopher://x"})
    CHECK_MESSAGE(wrong_with_target(from, bad) == "an address that is not a valid URL", bad);
}

TEST_CASE("a remote registry cannot send mlk to this machine by any spelling of the address") {
  const std::string from = "http://registry.example";
  for (const std::string& host :
       Urls{"localhost", "LOCALHOST", "LocalHost:5000", "localhost.", "registry.localhost", "a.LocalHost.",
            "127.0.0.1", "127.1", "127.255.0.9:80", "0x7f000001", "2130706433", "0177.0.0.1", "[::1]",
            "[0:0:0:0:0:0:0:1]:5000"})
    CHECK_MESSAGE(wrong_with_target(from, "http://" + host + "/x") == "an address of this machine", host);
  for (const std::string& host : Urls{"localhost.example", "128.0.0.1", "notlocalhost"})
    CHECK_MESSAGE(wrong_with_target(from, "http://" + host + "/x").empty(), host);
  // A registry on this machine may lead to another one, because tests and users have several.
  CHECK(wrong_with_target("http://localhost:5000", "http://127.0.0.1:6000/x").empty());
  CHECK(wrong_with_target("http://127.0.0.1:5000", "http://localhost:6000/x").empty());
  CHECK(wrong_with_target("http://registry.localhost:5000", "http://127.0.0.1:6000/x").empty());
  CHECK(wrong_with_target("http://LOCALHOST.:5000", "http://[::1]:6000/x").empty());
}

TEST_CASE("a registry cannot send mlk to a link-local address, where clouds hand out logins") {
  for (const std::string& from : Urls{"http://registry.example", "http://localhost:5000"}) {
    for (const std::string& host :
         Urls{"169.254.169.254", "169.254.0.1:80", "0xa9fea9fe", "2852039166", "0.0.0.0", "0", "[fe80::1]",
              "[::]", "[::ffff:169.254.169.254]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"})
      CHECK_MESSAGE(wrong_with_target(from, "http://" + host + "/x") == "an address of this machine's link",
                    host);
  }
  CHECK(wrong_with_target("https://169.254.1.1", "https://169.254.1.1:5000/x").empty());
  for (const std::string& host : Urls{"169.254.0.0", "169.254.255.255", "[febf:ffff::1]", "[::ffff:8.8.8.8]"})
    CHECK_MESSAGE(
        wrong_with_target("http://r.example", "http://" + host) == "an address of this machine's link", host);
  for (const std::string& host :
       Urls{"169.253.255.255", "169.255.0.0", "168.254.1.1", "[fe7f::1]", "[fec0::1]", "[2001:db8::1]"})
    CHECK_MESSAGE(wrong_with_target("http://r.example", "http://" + host + "/x").empty(), host);
}

TEST_CASE("resolve() accepts a Location that is a path on the same server or a URL") {
  const std::string base = "https://registry.example:5000";
  CHECK(resolve(base, "/v2/a/blobs/uploads/1?x=%2f") == base + "/v2/a/blobs/uploads/1?x=%2f");
  CHECK(resolve(base, "//storage.example/x") == "https://storage.example/x");
  CHECK(resolve(base, "https://storage.example/x?y=1") == "https://storage.example/x?y=1");
  CHECK(resolve(base + "/v2/x", "/y") == base + "/y");
  CHECK(resolve("http://registry.example", "//storage.example/x") == "http://storage.example/x");
  CHECK(resolve(base, "/~\xc3\xa9!") == base + "/~\xc3\xa9!");
  for (const std::string& bad : Urls{"", " ", "a b", "/x\r\nHost: y", "/x\x01", "/x y", "/x\x7f", "x/y",
                                     "://x", "x/https://y", "https:/x", "registry.example"})
    CHECK_MESSAGE(resolve(base, bad).empty(), bad);
}

TEST_CASE("is_same_server() is true for two URLs with the same scheme, host and port") {
  CHECK(is_same_server("https://a.example", "https://a.example:443/x?y"));
  CHECK_FALSE(is_same_server("https://a.example", "http://a.example:443"));
  CHECK_FALSE(is_same_server("https://a.example:80", "http://a.example"));
  for (const char* none : {"", "x y"}) {
    CHECK_FALSE(is_same_server(none, none));
    CHECK_FALSE(is_same_server(none, "https://a.example"));
  }
  for (const std::string& other :
       Urls{"http://a.example", "https://a.example:444", "https://b.example", "https://a.example.b.example",
            "https://a.example@b.example/", "", "x y"})
    CHECK_MESSAGE(!is_same_server("https://a.example", other), other);
}
