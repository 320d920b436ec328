#include "cli/http/failure.h"

#include <cerrno>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/x509_vfy.h>

TEST_SUITE_BEGIN("http/failure");

using namespace mlk::http;
using Kind = Failure::Kind;

TEST_CASE("failure_of() returns Kind::none for the result CURLE_OK") {
  CHECK(failure_of(CURLE_OK, "", 0, {}).kind == Kind::none);
}

TEST_CASE("the kind of a failure to connect depends on errno") {
  CHECK(failure_of(CURLE_COULDNT_CONNECT, "Failed", ECONNREFUSED, {}).kind == Kind::refused);
  const Failure no_route = failure_of(CURLE_COULDNT_CONNECT, "Failed", EHOSTUNREACH, {});
  CHECK(no_route.kind == Kind::no_route);
  CHECK(no_route.detail == "no route to host");
  CHECK(failure_of(CURLE_COULDNT_CONNECT, "Failed to connect", 0, {}).detail == "failed to connect");
}

TEST_CASE("the kind of a refused certificate depends on OpenSSL's error") {
  const auto of = [](long error) {
    return failure_of(CURLE_PEER_FAILED_VERIFICATION, "no match", 0, {error, "the words", "/CN=ca"});
  };
  CHECK(of(X509_V_ERR_CERT_HAS_EXPIRED).kind == Kind::expired);
  CHECK(of(X509_V_ERR_CERT_NOT_YET_VALID).kind == Kind::expired);
  CHECK(of(X509_V_OK).kind == Kind::host_name);
  CHECK(of(X509_V_OK).detail == "no match");
  const Failure untrusted = of(X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
  CHECK(untrusted.kind == Kind::untrusted);
  CHECK(untrusted.detail == "the words, issuer /CN=ca");
}

TEST_CASE("the failure is of kind `broken` if the connection ends before the answer is complete") {
  for (const CURLcode code : {CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE,
                              CURLE_HTTP2, CURLE_HTTP2_STREAM, CURLE_SEND_FAIL_REWIND})
    CHECK(failure_of(code, "", 0, {}).kind == Kind::broken);
}

TEST_CASE("the kind of the failure differs between a TLS handshake that is cut and one that is refused") {
  const auto kind = [](const char* text, int os_error) {
    return failure_of(CURLE_SSL_CONNECT_ERROR, text, os_error, {}).kind;
  };
  CHECK(kind("OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to h:1", 0) == Kind::handshake);
  CHECK(kind("error:0A000126:SSL routines::unexpected eof while reading", 0) == Kind::handshake);
  CHECK(kind("OpenSSL SSL_connect: Connection reset by peer in connection to h:1", 0) == Kind::handshake);
  CHECK(kind("", ECONNRESET) == Kind::handshake);
  CHECK(kind("", EPIPE) == Kind::handshake);
  CHECK(kind("error:0A00010B:SSL routines::wrong version number", 0) == Kind::tls);
}

TEST_CASE("failure_of() removes the number of a stream from the detail") {
  const auto detail = [](const char* text) { return failure_of(CURLE_HTTP2_STREAM, text, 0, {}).detail; };
  CHECK(detail("HTTP/2 stream 45 was not closed cleanly") == "HTTP/2 stream was not closed cleanly");
  CHECK(detail("HTTP/2 stream 45") == "HTTP/2 stream ");
  CHECK(detail("HTTP/2 stream closed") == "HTTP/2 stream closed");
}

TEST_CASE("failure_of() makes the detail printable, and lowers its first letter except in an abbreviation") {
  CHECK(failure_of(CURLE_RECV_ERROR, "Recv failure\x1b", 0, {}).detail.starts_with("recv failure"));
  CHECK(failure_of(CURLE_RECV_ERROR, "Recv failure\x1b", 0, {}).detail.find('\x1b') == std::string::npos);
  CHECK(failure_of(CURLE_SSL_CONNECT_ERROR, "SSL is off", 0, {}).detail == "SSL is off");
  CHECK_FALSE(failure_of(CURLE_OUT_OF_MEMORY, "", 0, {}).detail.empty());
}

TEST_CASE("failure_of() maps each result code of libcurl to a kind and a detail") {
  struct Row {
    CURLcode code;
    Kind kind;
    const char* detail;
  };
  for (const Row& row :
       std::vector<Row>{{CURLE_COULDNT_RESOLVE_HOST, Kind::resolve, "some words"},
                        {CURLE_COULDNT_RESOLVE_PROXY, Kind::proxy, "some words"},
                        {CURLE_PROXY, Kind::proxy, "some words"},
                        {CURLE_OPERATION_TIMEDOUT, Kind::timed_out, "no connection within 10 s"},
                        {CURLE_SSL_CERTPROBLEM, Kind::client_certificate, "some words"},
                        {CURLE_SSL_CACERT_BADFILE, Kind::authority, "some words"},
                        {CURLE_SSL_CONNECT_ERROR, Kind::tls, "some words"},
                        {CURLE_SSL_CIPHER, Kind::tls, "some words"},
                        {CURLE_SSL_ISSUER_ERROR, Kind::tls, "some words"},
                        {CURLE_ABORTED_BY_CALLBACK, Kind::broken, ""},
                        {CURLE_RECV_ERROR, Kind::broken, "some words"},
                        {CURLE_HTTP2_STREAM, Kind::broken, "some words"},
                        {CURLE_OUT_OF_MEMORY, Kind::other, "some words"},
                        {CURLE_WRITE_ERROR, Kind::other, "some words"},
                        {CURLE_UNSUPPORTED_PROTOCOL, Kind::other, "some words"}}) {
    CAPTURE(static_cast<int>(row.code));
    const Failure failure = failure_of(row.code, "Some words", 0, {});
    CHECK(failure.kind == row.kind);
    CHECK(failure.detail == row.detail);
    CHECK_FALSE(failure.for_good);
  }
  CHECK(failure_of(CURLE_COULDNT_CONNECT, "Failed", ECONNREFUSED, {}).detail.empty());
  CHECK(failure_of(CURLE_COULDNT_CONNECT, "Failed", ETIMEDOUT, {}).kind == Kind::no_route);
  CHECK(failure_of(CURLE_COULDNT_CONNECT, "Failed", 0, {}).kind == Kind::no_route);
  const auto expired = failure_of(CURLE_PEER_FAILED_VERIFICATION, "no match", 0,
                                  {X509_V_ERR_CERT_HAS_EXPIRED, "the words", "/CN=ca"});
  CHECK(expired.detail == "the words");
}

TEST_CASE("failure_of() lowers the first letter of a text only if the second character is a small letter") {
  const auto detail = [](const char* text) { return failure_of(CURLE_RECV_ERROR, text, 0, {}).detail; };
  CHECK(detail("X") == "X");
  CHECK(detail("A b") == "A b");
  CHECK(detail("Ab") == "ab");
  CHECK(detail("Lost HTTP/2 stream 7 of many") == "lost HTTP/2 stream of many");
}
