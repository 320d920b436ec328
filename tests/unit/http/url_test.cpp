#include "cli/http/url.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("http/url");

using namespace mlk::http;

TEST_CASE("parts_of() returns scheme, host, port and path of a URL, with defaults for port and path") {
  const auto parts = parts_of("https://api.example/prefix");
  REQUIRE(parts);
  CHECK(parts->scheme == "https");
  CHECK(parts->authority == "api.example");
  CHECK(parts->host == "api.example");
  CHECK(parts->port == "443");
  CHECK(parts->path == "/prefix");
  CHECK_FALSE(parts->has_login);
  CHECK(parts_of("http://x")->port == "80");
  CHECK(parts_of("http://x")->path == "/");
  CHECK(parts_of("http://x:8080")->authority == "x:8080");
  CHECK(parts_of("http://x:8080")->port == "8080");
  CHECK(parts_of("https://x:443")->authority == "x:443");
  CHECK(parts_of("HTTPS://x")->scheme == "https");
  CHECK(parts_of("https://me:secret@x:1/y")->authority == "x:1");
  CHECK(parts_of("odd://x")->scheme == "odd");
  CHECK(parts_of("https://x/a/../b%2Fc")->path == "/a/../b%2Fc");
}

TEST_CASE("parts_of() returns an IPv6 host without brackets, and the authority with brackets") {
  const auto parts = parts_of("https://[::1]:6443");
  REQUIRE(parts);
  CHECK(parts->host == "::1");
  CHECK(parts->authority == "[::1]:6443");
  CHECK(is_loopback(parts->host));
}

TEST_CASE("in_url() puts an IPv6 address into brackets, and does not change other hosts") {
  CHECK(in_url("::1") == "[::1]");
  CHECK(in_url("2001:db8::7") == "[2001:db8::7]");
  CHECK(in_url("127.0.0.1") == "127.0.0.1");
  CHECK(in_url("api.example") == "api.example");
}

TEST_CASE("`has_login` is true if a URL has a user name or a password") {
  CHECK(parts_of("https://me@x")->has_login);
  CHECK(parts_of("https://me:secret@x")->has_login);
  CHECK(parts_of("https://:secret@x")->has_login);
}

TEST_CASE("parts_of() refuses a text without a host, with an invalid port or with a blank") {
  for (const char* text : {"", "https://", "https://x:port", "https://x:99999", "https://a b"})
    CHECK_MESSAGE(!parts_of(text), text);
}

TEST_CASE("is_loopback() is true for loopback addresses and localhost, and false for similar names") {
  for (const char* host :
       {"localhost", "127.0.0.0", "127.0.0.1", "127.1.2.3", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1"})
    CHECK_MESSAGE(is_loopback(host), host);
  for (const char* host : {"127.0.0.1.example", "localhost.example", "10.0.0.1", "126.255.255.255",
                           "128.0.0.0", "LOCALHOST", "::", "::2", "::ffff:127.0.0.1", ""})
    CHECK_MESSAGE(!is_loopback(host), host);
}

TEST_CASE("percent_encode() encodes all characters except the unreserved characters") {
  CHECK(percent_encode("a=b,!(c)") == "a%3Db%2C%21%28c%29");
  CHECK(percent_encode("Az09-_.~") == "Az09-_.~");
  CHECK(percent_encode("\xc3\xbc/ ") == "%C3%BC%2F%20");
  CHECK(percent_encode(std::string_view("a\0b", 3)) == "a%00b");
  CHECK(percent_encode("").empty());
}
