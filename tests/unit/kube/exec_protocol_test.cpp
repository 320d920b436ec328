#include "cli/kube/exec_protocol.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("kube/exec_protocol");

using namespace mlk::kube;

TEST_CASE("exec_end() reads the exit code, or why the command did not run") {
  CHECK(exec_end(R"({"status":"Success"})")->code == 0);
  const auto failed = [](const std::string& code) {
    return exec_end(R"({"status":"Failure","reason":"NonZeroExitCode","message":"m","details":{"causes":[)"
                    R"({"reason":"Other","message":"9"},{"reason":"ExitCode","message":")" +
                    code + "\"}]}}");
  };
  CHECK(failed("137")->code == 137);
  CHECK(failed("x")->code == -1);
  CHECK(failed("3x")->message == "m");
  const auto other = exec_end(R"({"status":"Failure","reason":"InternalError","message":"no such file"})");
  CHECK(other->code == -1);
  CHECK(other->message == "no such file");
  CHECK_FALSE(exec_end("no json"));
  CHECK_FALSE(exec_end("[]"));
  CHECK_FALSE(exec_end("{}"));
}

TEST_CASE("ExecInput divides the input into messages for stdin, and closes stdin if it can") {
  const std::string text((32 << 10) + 1, 'a');
  ExecInput input(text, true);
  CHECK(input.next().size() == (32u << 10) + 1);
  CHECK(input.next() == std::string("\0a", 2));
  CHECK(input.next() == std::string("\xff\0", 2));
  CHECK(input.next() == "");
  ExecInput open("b", false);
  CHECK(open.next() == std::string("\0b", 2));
  CHECK(open.next() == "");
  CHECK(ExecInput("", true).next() == "");
}
