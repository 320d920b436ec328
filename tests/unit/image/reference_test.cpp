// Checks that mlk reads names of images as Docker does, and which names mlk refuses.
#include "cli/image/reference.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("image/reference");

namespace {

using mlk::image::parse_reference;
using mlk::image::parse_repository;
using mlk::image::Reference;
using Texts = std::vector<std::string>;

const std::string some_digest = "sha256:" + std::string(64, 'a');

mlk::Error name_refusal(const std::string& text) {
  try {
    (void)parse_reference(text);
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted: " + text};
}

mlk::Error repository_refusal(const std::string& text) {
  try {
    (void)parse_repository(text);
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted: " + text};
}

}  // namespace

TEST_CASE("parse_reference() adds docker.io to a name without a registry, and library/ to a one-part name") {
  CHECK(parse_reference("python").text() == "docker.io/library/python:latest");
  CHECK(parse_reference("python:3.11-slim").text() == "docker.io/library/python:3.11-slim");
  CHECK(parse_reference("team/trainer").text() == "docker.io/team/trainer:latest");
  CHECK(parse_reference("docker.io/python").text() == "docker.io/library/python:latest");
  for (const char* host : {"docker.io", "index.docker.io", "registry-1.docker.io"})
    CHECK(parse_reference(std::string(host) + "/team/x:1").text() == "docker.io/team/x:1");
  CHECK(parse_reference("localhost:5000").text() == "docker.io/library/localhost:5000");
}

TEST_CASE(
    "the first part of a name is a registry if it has a dot, a colon or a capital letter, or is localhost") {
  for (const char* host : {"registry.example", "registry.example:5000", "localhost", "localhost:5000", "a:1",
                           "Registry", "10.0.0.1", "10.0.0.1:65535", "[::1]", "[fe80::1]:5000"}) {
    const Reference reference = parse_reference(std::string(host) + "/team/trainer:1");
    CHECK(reference.registry == host);
    CHECK(reference.repository == "team/trainer");
    CHECK(reference.tag == "1");
    CHECK(reference.name() == std::string(host) + "/team/trainer");
  }
  CHECK(parse_reference("ghcr.io/python").repository == "python");
}

TEST_CASE("a digest has priority over a tag, and parse_reference() keeps both") {
  const Reference digest = parse_reference("team/x@" + some_digest);
  CHECK(digest.tag.empty());
  CHECK(digest.version() == some_digest);
  const Reference both = parse_reference("r.example:1/x:Tag_1.0-a@" + some_digest);
  CHECK(both.tag == "Tag_1.0-a");
  CHECK(both.version() == some_digest);
  CHECK(both.text() == "r.example:1/x:Tag_1.0-a@" + some_digest);
  for (const std::string& bad :
       Texts{std::string("x@"), std::string("x@sha256:abc"), "x@" + some_digest + "a",
             "x@SHA256:" + std::string(64, 'a'), "x@sha256:" + std::string(64, 'A'),
             "x@sha512:" + std::string(128, 'a'), "x@" + some_digest + ":1"})
    CHECK_MESSAGE(name_refusal(bad).code() == mlk::ExitCode::usage, bad);
}

TEST_CASE(
    "parse_reference() accepts lower-case letters, digits and separators between them in a repository") {
  for (const std::string& good : Texts{"a.b", "a_b", "a__b", "a-b", "a---b", "0/1/2/3", "a.b_c-d"})
    CHECK_MESSAGE(name_refusal("r.example/" + good).code() == mlk::ExitCode::ok, good);
  for (const std::string& bad :
       Texts{"",      "/",  "a/",     "/a",       "a//b", "A",   "team/Trainer", "a..b", "a._b",
             "a___b", ".a", "a.",     "-a",       "a-",   "_a",  "a_",           "a b",  "a\nb",
             "a%2fb", "..", "a/../b", "\xc3\xa9", "a\\b", "a?b", "a#b"})
    CHECK_MESSAGE(name_refusal("r.example/" + bad).code() == mlk::ExitCode::usage, bad);
  CHECK(name_refusal("").code() == mlk::ExitCode::usage);
  CHECK(name_refusal("r.example/" + std::string(245, 'a')).code() == mlk::ExitCode::ok);
  CHECK(name_refusal("r.example/" + std::string(246, 'a')).code() == mlk::ExitCode::usage);
}

TEST_CASE("a tag has at most 128 characters, and is refused if it begins with a dash or a dot") {
  CHECK(parse_reference("x:" + std::string(128, 'T')).tag.size() == 128);
  for (const std::string& bad :
       Texts{std::string(), std::string(129, 'a'), std::string("-a"), std::string(".a"), std::string("a b"),
             std::string("a:b"), std::string("a\x1b[31m")})
    CHECK_MESSAGE(name_refusal("r.example/x:" + bad).code() == mlk::ExitCode::usage, bad);
  CHECK(std::string(name_refusal("x:a\x1b[31m").what()).find('\x1b') == std::string::npos);
}

TEST_CASE("parse_reference() refuses a registry that no URL can name") {
  for (const std::string& bad : Texts{":5000",
                                      "r.example:",
                                      "r.example:0",
                                      "r.example:65536",
                                      "r.example:99999",
                                      "r.example:5x",
                                      "r.example:123456",
                                      "..",
                                      "a..b",
                                      ".a",
                                      "a.",
                                      "-a.b",
                                      "a-.b",
                                      "a_b.c",
                                      "[]",
                                      "[:]",
                                      "[:::]",
                                      "[::1",
                                      "[1.2.3.4]:5",
                                      "[::1]x:5",
                                      "[::1]:",
                                      "::1",
                                      "a:1:2",
                                      "r.example:-1",
                                      "r.exa mple",
                                      "\xc3\xa9.example"})
    CHECK_MESSAGE(name_refusal(bad + "/x").code() == mlk::ExitCode::usage, bad);
  CHECK(name_refusal(std::string("[::1\0]/x", 9)).code() == mlk::ExitCode::usage);
}

TEST_CASE("parse_reference() refuses a name with a login, and repeats no login in its message") {
  for (const std::string& bad :
       Texts{"me:secret@r.example/x", "me:secret@r.example", "https://me:secret@r.example/x",
             "https://me:secret@r.example", "me:secret@r.example:5000", "r.example/me:secret@x",
             "secret@r.example/x:1", "me:secret@r.example/x@sha256:00", "me:secret@", "https://me:secret@"}) {
    for (const mlk::Error& error : {name_refusal(bad), repository_refusal(bad)}) {
      CHECK_MESSAGE(error.code() == mlk::ExitCode::usage, bad);
      const std::string all = error.what() + error.hint();
      CHECK_MESSAGE(all.find("secret") == std::string::npos, bad, ": ", all);
    }
  }
  CHECK(std::string(name_refusal("https://r.example/x").what()) ==
        "'https://r.example/x' is a URL, and an image is named without a scheme");
}

TEST_CASE("parse_repository() refuses a name with a tag or a digest") {
  const Reference reference = parse_repository("r.example:5000/team");
  CHECK(reference.text() == "r.example:5000/team");
  for (const std::string& bad : Texts{std::string("r.example/x:1"), "r.example/x@" + some_digest})
    CHECK_MESSAGE(repository_refusal(bad).code() == mlk::ExitCode::usage, bad);
}

TEST_CASE("is_digest() accepts only sha256: and 64 lower-case hexadecimal digits") {
  CHECK(mlk::image::is_digest(some_digest));
  for (const std::string& bad :
       Texts{std::string(), std::string(64, 'a'), "sha256:" + std::string(63, 'a'), some_digest + "0",
             "sha256:../" + std::string(61, 'a'), "sha512:" + std::string(64, 'a')})
    CHECK_FALSE(mlk::image::is_digest(bad));
}

TEST_CASE(
    "no character just outside the ranges of letters and digits is allowed in a repository, tag or digest") {
  for (const std::string& good : Texts{"az09", "0", "z"})
    CHECK_MESSAGE(name_refusal("r.example/" + good).code() == mlk::ExitCode::ok, good);
  for (const char c : std::string("`{:AZ~@+=,"))
    CHECK_MESSAGE(name_refusal(std::string("r.example/x/") + c + "/a").code() == mlk::ExitCode::usage, c);
  for (const std::string& good : Texts{"_", "A", "Z", "a", "z", "0", "9", "_x", "a.b-c_D", "a.", "a-"})
    CHECK_MESSAGE(mlk::image::is_tag(good), good);
  for (const std::string& bad :
       Texts{"", ".", "-", "-a", ".a", "a@", "a[", "a`", "a{", "a/", "a:", "a+", "a b"})
    CHECK_MESSAGE(!mlk::image::is_tag(bad), bad);
  CHECK(mlk::image::is_tag(std::string(128, 'a')));
  CHECK_FALSE(mlk::image::is_tag(std::string(129, 'a')));
  for (const std::string& host : Texts{"aZ09.example", "a-b.example", "a--b.example", "Z", "A"})
    CHECK_MESSAGE(parse_reference(host + "/x").registry == host, host);
  for (const char c : std::string("09af")) CHECK(mlk::image::is_digest("sha256:" + std::string(63, 'a') + c));
  for (const char c : std::string("/:`gAF"))
    CHECK_FALSE(mlk::image::is_digest("sha256:" + std::string(63, 'a') + c));
}

TEST_CASE("a port is a number from 1 to 65535") {
  for (const char* port : {"1", "80", "65535", "00080"})
    CHECK_MESSAGE(name_refusal(std::string("r.example:") + port + "/x").code() == mlk::ExitCode::ok,
                  std::string(port));
  for (const char* port : {"0", "00000", "65536", "000080", "+1", " 1", "1/"})
    CHECK_MESSAGE(name_refusal(std::string("r.example:") + port + "/x").code() == mlk::ExitCode::usage,
                  std::string(port));
}

TEST_CASE("the error for a bad name says what is wrong, but shows no text before the @ of a bad digest") {
  const auto told = [](const std::string& text) { return std::string(name_refusal(text).what()); };
  CHECK(told("x@sha256:abc") ==
        "'@sha256:abc' in the name of an image: after @ stands sha256: and 64 hexadecimal digits");
  CHECK(told("x:-a") == "'x:-a': a tag has letters, digits, '_', '.' and '-', 128 at most");
  CHECK(told("a_b.c/x") == "'a_b.c/x' does not begin with a valid registry host");
  CHECK(told("r.example/X") ==
        "'r.example/X' is not the name of an image: its parts have lower-case letters, digits and single "
        "'.', '_' "
        "or '-' between them");
  CHECK(told("me:word@r.example/x") == "the name of an image holds no user and no password");
  CHECK(name_refusal("r.example/X").hint() == "an image is named like registry.example/team/trainer:1");
  CHECK(name_refusal("https://r.example/x").hint().starts_with("log in to the registry by docker login"));
  CHECK(std::string(repository_refusal("r.example/x@" + some_digest).what()).starts_with("'@sha256:aaa"));
  CHECK(told("r.example/" + std::string(1000, 'a')).size() < 500);
}

TEST_CASE("parse_repository() completes a name of Docker Hub with docker.io and library/, but adds no tag") {
  CHECK(parse_repository("python").text() == "docker.io/library/python");
  CHECK(parse_repository("index.docker.io/team/x").text() == "docker.io/team/x");
  CHECK(parse_reference("x@" + some_digest).text() == "docker.io/library/x@" + some_digest);
  CHECK(parse_reference("localhost/x").registry == "localhost");
  CHECK(parse_reference("localhosts/x").registry == "docker.io");
  CHECK(parse_reference("team/x:1").version() == "1");
}
