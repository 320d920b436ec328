#include "cli/http/upgrade.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("http/upgrade");

using namespace mlk::http;

TEST_CASE("accept_for() gives the value of the example in RFC 6455") {
  CHECK(accept_for("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST_CASE("upgrade_request() has all headers except those without a value") {
  CHECK(upgrade_request("/a?b=c", {"Host: h:1", "Expect:"}, "k", {"one", "two"}) ==
        "GET /a?b=c HTTP/1.1\r\nHost: h:1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: k\r\nSec-WebSocket-Protocol: one, two\r\n\r\n");
}

TEST_CASE("parse_answer_head() reads the status and the headers") {
  const auto head = parse_answer_head("HTTP/1.1 403 Forbidden\r\nContent-LENGTH:  12 \r\nbad\r\n\r\n");
  REQUIRE(head);
  CHECK(head->status == 403);
  CHECK(head->header("content-length") == "12");
  CHECK(head->header("bad") == "");
  for (const char* text :
       {"", "HTTP/1.1", "HTTP/1.1 x01 a\r\n\r\n", "HTTP/2 101\r\n\r\n", "SSH-2.0-x\r\n\r\n"})
    CHECK_FALSE(parse_answer_head(text));
}

TEST_CASE("upgrade_fault() accepts only an answer to our own request") {
  const AnswerHead good{101,
                        {{"upgrade", "WebSocket"},
                         {"sec-websocket-accept", accept_for("k")},
                         {"sec-websocket-protocol", "two"}}};
  CHECK(upgrade_fault(good, "k", {"one", "two"}) == "");
  CHECK(upgrade_fault(good, "other", {"two"}) != "");
  CHECK(upgrade_fault(good, "k", {"one"}) != "");
  CHECK(upgrade_fault({101, {}}, "k", {"one"}) != "");
  AnswerHead extended = good;
  extended.headers.emplace_back("sec-websocket-extensions", "permessage-deflate");
  CHECK(upgrade_fault(extended, "k", {"two"}) != "");
}

TEST_CASE("whole_body() knows when a body is complete") {
  const AnswerHead sized{403, {{"content-length", "3"}}}, chunked{403, {{"transfer-encoding", "chunked"}}};
  CHECK_FALSE(whole_body(sized, "ab"));
  CHECK(whole_body(sized, "abcd") == "abc");
  CHECK(whole_body(chunked, "2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n") == "abc");
  CHECK_FALSE(whole_body(chunked, "2\r\nab\r\n1"));
  CHECK_FALSE(whole_body(chunked, "ffffffffffffffff\r\nab"));
  CHECK_FALSE(whole_body({403, {}}, "abc"));
}
