// Quantities and numbers.
#include "cli/experiment/values.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/yaml/yaml.h"

TEST_SUITE_BEGIN("experiment/values");

namespace mlk {
namespace {

TEST_CASE("memory_bytes() reads a number with or without a unit such as k, G or Gi") {
  CHECK(memory_bytes("1Gi") == 1LL << 30);
  CHECK(memory_bytes("1.5Gi") == 3LL << 29);
  CHECK(memory_bytes("512Mi") == 512LL << 20);
  CHECK(memory_bytes("1G") == 1000000000);
  CHECK(memory_bytes("128974848") == 128974848);
  CHECK(memory_bytes("3Ki") == 3 * 1024);
  CHECK(memory_bytes("3Mi") == 3LL << 20);
  CHECK(memory_bytes("3Gi") == 3LL << 30);
  CHECK(memory_bytes("3Ti") == 3LL << 40);
  CHECK(memory_bytes("3k") == 3000);
  CHECK(memory_bytes("3.001k") == 3001);
  CHECK(memory_bytes("0.009M") == 9000);
  CHECK(memory_bytes("3M") == 3'000'000);
  CHECK(memory_bytes("3G") == 3'000'000'000);
  CHECK(memory_bytes("3T") == 3'000'000'000'000);
  for (const char* bad :
       {"", "0", "-1Gi", "1GB", "1 Gi", "Gi", "1,5Gi", "1e9Gi", "0x10", "99999999999999999999", "1.Gi"}) {
    CHECK_MESSAGE(!memory_bytes(bad), bad);
  }
}

TEST_CASE("cpu_millis() accepts whole numbers, decimal numbers and thousandths of CPUs") {
  CHECK(cpu_millis("2") == 2000);
  CHECK(cpu_millis("0.5") == 500);
  CHECK(cpu_millis("250m") == 250);
  for (const char* bad : {"", "0", "-1", "1.5m", "two", "0.0001", "1e3", "m", "2 "})
    CHECK_MESSAGE(!cpu_millis(bad), bad);
}

TEST_CASE("is_whole_number() and is_number() refuse the special forms of numbers in YAML 1.1") {
  for (const char* good : {"0", "-1", "12"}) CHECK(is_whole_number(good));
  for (const char* bad : {"", "-", "012", "+1", "1_000", "0x1F", "1.0", "1e3", " 1"})
    CHECK_MESSAGE(!is_whole_number(bad), bad);
  for (const char* good : {"0.5", ".5", "1.", "-1e-3", "1E+3", "10"}) CHECK_MESSAGE(is_number(good), good);
  for (const char* bad : {"", ".", "-", "e3", "1e", "01.5", "1.2.3", ".inf", "nan", "0x1F", "1_0.5"})
    CHECK_MESSAGE(!is_number(bad), bad);
}

TEST_CASE("plain scalars in free content get the types of JSON") {
  const nlohmann::json value =
      to_json(parse_yaml("[1, 012, yes, true, ~, '5', 1e400, 99999999999999999999]", "x"));
  CHECK(value[0] == 1);
  CHECK(value[1] == "012");
  CHECK(value[2] == "yes");
  CHECK(value[3] == true);
  CHECK(value[4].is_null());
  CHECK(value[5] == "5");
  CHECK(value[6] == "1e400");
  CHECK(value[7].is_number());
}

TEST_CASE("an alias has the value of its anchor") {
  const nlohmann::json value = to_json(parse_yaml("a: &x {b: [1]}\nc: *x\n", "x"));
  CHECK(value["c"] == value["a"]);
}

}  // namespace
}  // namespace mlk
