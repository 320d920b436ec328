#include "cli/http/failure.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include <openssl/x509_vfy.h>

#include "cli/util/text.h"

namespace mlk::http {
namespace {

// Removes the number of the stream from a text of libcurl, because this number differs between equal
// failures.
std::string without_stream_number(std::string text) {
  constexpr std::string_view words = "HTTP/2 stream ";
  const std::size_t begin = text.find(words);
  if (begin == std::string::npos) return text;
  const std::size_t number = begin + words.size();
  std::size_t end = number;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  return end == number ? text : text.erase(number, std::min(end + 1, text.size()) - number);
}

// libcurl's text as a part of a message of mlk: the first letter becomes lower case, except in an
// abbreviation.
std::string detail_of(CURLcode code, const std::string& text) {
  std::string detail = without_stream_number(printable(text.empty() ? curl_easy_strerror(code) : text));
  if (detail.size() > 1 && std::islower(static_cast<unsigned char>(detail[1])) != 0)
    detail[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(detail[0])));
  return detail;
}

// Whether the connection ended within the TLS handshake. libcurl has no result code for this, so only errno
// and the texts of OpenSSL and of the system show it.
bool is_cut(const std::string& text, int os_error) {
  const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
  return os_error == ECONNRESET || os_error == EPIPE || has("SSL_ERROR_SYSCALL") || has("unexpected eof") ||
         has("reset by peer");
}

Failure verification_failure(const std::string& detail, const CertificateProblem& problem) {
  if (problem.error == X509_V_OK) return {Failure::Kind::host_name, detail};
  if (problem.error == X509_V_ERR_CERT_HAS_EXPIRED || problem.error == X509_V_ERR_CERT_NOT_YET_VALID)
    return {Failure::Kind::expired, problem.text};
  return {Failure::Kind::untrusted, problem.text + ", issuer " + problem.issuer};
}

}  // namespace

Failure failure_of(CURLcode code, const std::string& text, int os_error, const CertificateProblem& problem) {
  using Kind = Failure::Kind;
  const std::string detail = detail_of(code, text);
  switch (code) {
    case CURLE_OK:
      return {};
    case CURLE_COULDNT_RESOLVE_HOST:
      return {Kind::resolve, detail};
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_PROXY:
      return {Kind::proxy, detail};
    case CURLE_COULDNT_CONNECT:
      if (os_error == ECONNREFUSED) return {Kind::refused, ""};
      return {Kind::no_route, os_error == 0 ? detail : lower_case(std::strerror(os_error))};
    case CURLE_OPERATION_TIMEDOUT:
      return {Kind::timed_out, "no connection within 10 s"};
    case CURLE_PEER_FAILED_VERIFICATION:
      return verification_failure(detail, problem);
    case CURLE_SSL_CACERT_BADFILE:
      return {Kind::authority, detail};
    case CURLE_SSL_CERTPROBLEM:
      return {Kind::client_certificate, detail};
    case CURLE_SSL_CONNECT_ERROR:
      return {is_cut(text, os_error) ? Kind::handshake : Kind::tls, detail};
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
      return {Kind::tls, detail};
    case CURLE_ABORTED_BY_CALLBACK:  // on_start() has refused a second start
      return {Kind::broken, ""};
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SEND_FAIL_REWIND:
      return {Kind::broken, detail};
    default:
      return {Kind::other, detail};
  }
}

Failure blame_proxy(Failure failure, const Proxy& proxy, long answered) {
  using Kind = Failure::Kind;
  if (proxy.url.empty() || failure.kind == Kind::none) return failure;
  const std::string name = "the proxy " + printable(proxy.host) + " of " + proxy.origin;
  const auto of_proxy = [&](const std::string& what) {
    const std::string beside = proxy.origin == "proxy-url" ? "" : " and NO_PROXY";
    return Failure{Kind::proxy, name + " " + what, "check " + proxy.origin + beside, true};
  };
  if (answered >= 300) {
    const std::string number = " (it answers " + std::to_string(answered) + ")";
    if (answered != 407)
      return of_proxy((answered < 500 ? "does not let us through" : "does not reach the server") + number);
    Failure lacks_login = of_proxy("wants a login" + number);
    lacks_login.hint = "write it as http://USER:PASSWORD@" + printable(proxy.host) + " into " + proxy.origin;
    return lacks_login;
  }
  switch (failure.kind) {
    case Kind::refused:
      return of_proxy("refuses connections");
    case Kind::no_route:
      return of_proxy("cannot be reached: " + failure.detail);
    case Kind::proxy:
      return of_proxy("does not let us through: " + failure.detail);
    case Kind::authority:  // before the tunnel, only the proxy's certificate is checked
      if (answered != 0 || !proxy.url.starts_with("https:")) return failure;
      return of_proxy("cannot be trusted without this machine's certificate authorities: " + failure.detail);
    case Kind::timed_out:
      failure.detail += " through " + name;
      return failure;
    default:
      return failure;
  }
}

}  // namespace mlk::http
