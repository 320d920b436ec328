// The address and the port of a host, and how they are saved.
#include "cli/local/node/addresses.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/util/files.h"
#include "cli/util/json.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/addresses");

namespace mlk::local {
namespace {

namespace address_book {

using samples::json;

struct Book {
  samples::Folder folder;
  std::filesystem::path file = folder.path() / "addresses.json";
  json saved() const {
    return std::filesystem::exists(file) ? parse_json(read_file(file, 100000), "") : json("none");
  }
};

TEST_CASE("the address of a host follows from its name, lies in 127.64.0.0/10, and never ends in 0 or 255") {
  const Book book;
  Addresses addresses(book.file);
  CHECK(addresses.address_of("default", "w-0") == "127.121.181.107");
  CHECK(addresses.address_of("default", "w-1") == "127.64.20.53");
  CHECK(addresses.address_of("default", "w-25") == "127.96.118.254");
  CHECK(addresses.address_of("default", "w-149") == "127.75.251.1");
  CHECK(addresses.address_of("default", "w-231") == "127.85.244.1");
  CHECK(addresses.address_of("default", "w-476") == "127.113.70.1");
  CHECK(addresses.address_of("lab", "w-0") != "127.121.181.107");
}

TEST_CASE("a host whose address is taken gets the next free address, and keeps it") {
  const Book book;
  samples::write_text(book.file, R"({"default/a": "127.121.181.107", "default/b": "127.121.181.108"})");
  Addresses addresses(book.file);
  CHECK(addresses.address_of("default", "w-0") == "127.121.181.109");
  addresses.forget_unless([](const std::string& host) { return host == "default/w-0"; });
  CHECK(addresses.address_of("default", "w-0") == "127.121.181.109");
  addresses.save();
  CHECK(book.saved() == json{{"default/w-0", "127.121.181.109"}, {"ports", json::object()}});
  addresses.forget_unless([](const std::string&) { return false; });
  CHECK(addresses.address_of("default", "w-0") == "127.121.181.107");
}

// A socket that listens on all addresses or on one address, at a wanted port or at a port that the system
// has chosen.
struct Listener {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port = 0;
  explicit Listener(int wanted = 0, std::uint32_t address = INADDR_ANY) {
    struct sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(wanted));
    where.sin_addr.s_addr = htonl(address);
    socklen_t size = sizeof where;
    if (::bind(fd, reinterpret_cast<struct sockaddr*>(&where), size) != 0 || ::listen(fd, 1) != 0) return;
    ::getsockname(fd, reinterpret_cast<struct sockaddr*>(&where), &size);
    port = ntohs(where.sin_port);
  }
  ~Listener() { ::close(fd); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
};

TEST_CASE("a port is saved with its service, its host and the wanted number") {
  const Book book;
  Addresses addresses(book.file);
  const Listener taken;
  REQUIRE(taken.port > 0);
  REQUIRE(taken.port < 65000);
  const int given = addresses.port_of("default", "s", "w-0", taken.port);
  CHECK(given > taken.port);
  CHECK(given < taken.port + 100);
  CHECK(addresses.port_of("default", "t", "w-1", 70000) == 70000);  // no program can listen on this port
  CHECK(addresses.port_of("default", "t", "w-10", 70001) == 70001);
  addresses.save();
  const std::string port = std::to_string(taken.port);
  json expected = {{"default/w-0", "127.121.181.107"},
                   {"default/w-1", "127.64.20.53"},
                   {"default/w-10", addresses.address_of("default", "w-10")},
                   {"ports",
                    {{"default/s", {{"default/w-0:" + port, given}}},
                     {"default/t", {{"default/w-1:70000", 70000}, {"default/w-10:70001", 70001}}}}}};
  CHECK(book.saved() == expected);
  struct stat info{};
  ::stat(book.file.c_str(), &info);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK(Addresses(book.file).port_of("default", "s", "w-0", taken.port) == given);
  addresses.forget_unless([](const std::string& host) { return host != "default/w-1"; });
  addresses.save();
  expected.erase("default/w-1");
  expected["ports"]["default/t"].erase("default/w-1:70000");
  CHECK(book.saved() == expected);
  addresses.forget_ports("default", "t");
  addresses.forget_ports("lab", "s");
  addresses.save();
  expected["ports"].erase("default/t");
  CHECK(book.saved() == expected);
  addresses.forget_unless([](const std::string& host) { return host != "default/w-0"; });
  addresses.save();
  expected.erase("default/w-0");
  expected["ports"] = json::object();
  CHECK(book.saved() == expected);
}

TEST_CASE("own_port_of() returns a port that no other host has and no program listens on") {
  const Book book;
  Addresses addresses(book.file);
  const int first = addresses.own_port_of("default", "s", "w-0", 7070);
  CHECK(first >= 10000);
  CHECK(first < 30000);
  CHECK(addresses.own_port_of("default", "s", "w-0", 7070) == first);
  CHECK(addresses.own_port_of("default", "s", "w-1", 7070) != first);
  addresses.forget_ports("default", "s");
  CHECK(addresses.own_port_of("default", "s", "w-0", 7070) == first);
  addresses.save();
  CHECK(Addresses(book.file).own_port_of("default", "s", "w-0", 7070) == first);

  // Another service has the port.
  samples::write_text(book.file, json{{"ports", {{"default/t", {{"default/x-0:7070", first}}}}}}.dump());
  CHECK(Addresses(book.file).own_port_of("default", "s", "w-0", 7070) > first);

  // A program listens on the port, only at one address.
  std::filesystem::remove(book.file);
  const Listener taken(first, 0x7f123456);
  REQUIRE(taken.port == first);
  CHECK(Addresses(book.file).own_port_of("default", "s", "w-0", 7070) > first);
}

TEST_CASE("save() writes nothing if nothing has changed") {
  const Book book;
  Addresses addresses(book.file);
  addresses.save();
  CHECK(book.saved() == "none");
  addresses.address_of("default", "w-0");
  addresses.save();
  CHECK(book.saved().contains("default/w-0"));
  std::filesystem::remove(book.file);
  addresses.address_of("default", "w-0");
  addresses.forget_ports("default", "s");
  addresses.forget_unless([](const std::string&) { return true; });
  addresses.save();
  CHECK(book.saved() == "none");
  CHECK(addresses.port_of("default", "s", "w-0", 70000) == 70000);
  addresses.save();
  CHECK(book.saved().at("ports").size() == 1);
  std::filesystem::remove(book.file);
  addresses.forget_ports("default", "s");
  addresses.forget_ports("default", "s");
  addresses.save();
  CHECK(book.saved().at("ports").empty());
}

}  // namespace address_book

}  // namespace
}  // namespace mlk::local
