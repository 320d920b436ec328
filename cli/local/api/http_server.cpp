#include "cli/local/api/http_server.h"

#include <algorithm>
#include <chrono>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <httplib.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>

#include "cli/local/api/connection_threads.h"
#include "cli/local/api/tls_connection.h"
#include "cli/local/api/unauthenticated.h"
#include "cli/local/state/status.h"
#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::local {
namespace {

constexpr std::size_t body_limit = 3 << 20;
constexpr std::size_t connection_limit =
    700;  // threads; each needs one of the 1024 descriptors that a process may have
constexpr std::size_t unauthenticated_limit = 64;
constexpr std::chrono::milliseconds idle_patience{5000};  // between two requests

bool use_credentials(SSL_CTX& context, const Credentials& credentials) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> certificate_text(
      BIO_new_mem_buf(credentials.certificate.data(), -1), BIO_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> key_text(BIO_new_mem_buf(credentials.key.data(), -1),
                                                           BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr), X509_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  return certificate && key && SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION) == 1 &&
         SSL_CTX_use_certificate(&context, certificate.get()) == 1 &&
         SSL_CTX_use_PrivateKey(&context, key.get()) == 1;
}

// Decodes "%3D" and "+" in a query.
std::string decoded(std::string text) {
  std::replace(text.begin(), text.end(), '+', ' ');
  return percent_decode(text);
}

Request to_request(const httplib::Request& from, std::string body) {
  Request request;
  request.method = from.method == "HEAD" ? "GET" : from.method;
  request.path = from.path;
  // The library would read the text after the last "=" as the value, which is wrong for "labelSelector=a=b".
  // So this function splits the query.
  const auto mark = from.target.find('?');
  for (const std::string& pair : split(mark == from.target.npos ? "" : from.target.substr(mark + 1), '&')) {
    const std::size_t equals = std::min(pair.find('='), pair.size());
    request.query.emplace(decoded(pair.substr(0, equals)),
                          decoded(pair.substr(std::min(equals + 1, pair.size()))));
  }
  request.content_type = from.get_header_value("Content-Type");
  request.accept = from.get_header_value("Accept");
  request.body = std::move(body);
  return request;
}

void send(const Answer& answer, httplib::Response& response) {
  response.status = answer.status;
  if (!answer.warning.empty()) response.set_header("Warning", "299 - \"" + printable(answer.warning) + "\"");
  if (!answer.stream) {
    response.set_content(answer.body, answer.content_type);
    return;
  }
  response.set_chunked_content_provider(
      answer.content_type, [stream = answer.stream](std::size_t, httplib::DataSink& sink) {
        stream({[&](std::string_view text) { return sink.write(text.data(), text.size()); },
                [&] { return sink.is_writable(); }});
        sink.done();
        return true;
      });
}

void refuse(const StatusError& error, httplib::Response& response) {
  response.status = error.code();
  response.set_content(error.status().dump(), "application/json");
}

}  // namespace

struct HttpServer::State {
  // The library handles requests. This class handles connections, since the library does not limit their
  // number, the bytes of headers, or the time until a client shows its token.
  class Server : public httplib::SSLServer {
   public:
    Server(const State& state, const Credentials& credentials)
        : SSLServer([&](SSL_CTX& context) { return use_credentials(context, credentials); }), state_(state) {}
    // The library's queue of five connections is too short for a hundred log followers.
    void lengthen_queue() { ::listen(svr_sock_, 512); }

   private:
    bool process_and_close_socket(socket_t socket) override {
      using Side = UnauthenticatedConnections::Side;
      unauthenticated_.enter(socket, user_of_peer(socket) == ::geteuid() ? Side::ours : Side::others);
      {
        TlsConnection connection(*ssl_context(), socket, {});
        bool more = connection.shake_hands(), authenticated = false;
        while (more && await_request(connection)) {
          bool closed = false;
          more = process_request(connection, false, closed, [&](httplib::Request& request) {
            authenticated = state_.has_token(request);
            connection.end_of_headers(authenticated);
            if (authenticated) unauthenticated_.leave(socket);
          });
          more = more && !closed && authenticated;
        }
      }
      unauthenticated_.leave(socket);
      ::shutdown(socket, SHUT_RDWR);
      ::close(socket);
      return true;
    }

    bool await_request(TlsConnection& connection) const {
      constexpr std::chrono::milliseconds step{100};  // between two checks whether the server stops
      for (auto waited = step; waited <= idle_patience && svr_sock_ != INVALID_SOCKET; waited += step) {
        if (connection.await_request(step)) return true;
      }
      return false;
    }

    const State& state_;
    UnauthenticatedConnections unauthenticated_{unauthenticated_limit};
  };

  State(Api& api_, const Credentials& credentials)
      : api(api_), expected("Bearer " + credentials.token), server(*this, credentials) {}

  bool has_token(const httplib::Request& request) const {
    const std::string given = request.get_header_value("Authorization");
    return given.size() == expected.size() &&
           CRYPTO_memcmp(given.data(), expected.data(), expected.size()) == 0;
  }

  bool allowed(const httplib::Request& request, httplib::Response& response) const {
    if (has_token(request)) return true;
    response.set_header("Connection", "close");
    refuse(StatusError(401, "Unauthorized", "Unauthorized"), response);
    return false;
  }

  void handle(const httplib::Request& request, httplib::Response& response, std::string body) const {
    // With this header, the library would compress streams, and hold lines back until its buffer is full. The
    // cast is valid, since the request is the library's own object, which is not const.
    const_cast<httplib::Request&>(request).headers.erase("Accept-Encoding");
    send(api.handle(to_request(request, std::move(body))), response);
  }

  void handle_body(const httplib::Request& request, httplib::Response& response,
                   const httplib::ContentReader& reader) const {
    if (!allowed(request, response)) return;
    if (request.is_multipart_form_data())
      return refuse(StatusError(415, "UnsupportedMediaType", "the body is not JSON"), response);
    std::string body;
    bool whole = true;
    // A request without these headers has no body, so the server does not read one. The library would wait
    // for a body until the connection ends.
    if (request.has_header("Content-Length") || request.has_header("Transfer-Encoding")) {
      whole = reader([&](const char* data, std::size_t size) {
        if (body.size() + size > body_limit) return false;
        body.append(data, size);
        return true;
      });
    }
    // The body is too large, or the client has disconnected and reads no answer. The library itself rejects a
    // Content-Length over the limit.
    if (!whole) {
      return refuse(StatusError(413, "RequestEntityTooLarge",
                                "Request entity too large: limit is " + std::to_string(body_limit)),
                    response);
    }
    handle(request, response, std::move(body));
  }

  Api& api;
  const std::string expected;
  Server server;
  int port = 0;
  std::thread thread;
};

HttpServer::HttpServer(Api& api, const Credentials& credentials, int port)
    : state_(std::make_unique<State>(api, credentials)) {
  State& state = *state_;
  auto& server = state.server;
  if (!server.is_valid())
    throw Error(ExitCode::failure, "the certificates of the local cluster cannot be used");
  server.new_task_queue = [] { return new ConnectionThreads(connection_limit); };
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;  // SO_REUSEPORT stays unset: it would let two servers share the port
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_payload_max_length(body_limit + 1);
  server.Get(".*", [&state](const httplib::Request& request, httplib::Response& response) {
    if (state.allowed(request, response)) state.handle(request, response, "");
  });
  const auto with_body = [&state](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& reader) {
    state.handle_body(request, response, reader);
  };
  server.Post(".*", with_body);
  server.Put(".*", with_body);
  server.Patch(".*", with_body);
  server.Delete(".*", with_body);
  server.set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
        refuse(StatusError(500, "InternalError", "Internal error occurred"), response);
      });
  state.port =
      port > 0 && server.bind_to_port("127.0.0.1", port) ? port : server.bind_to_any_port("127.0.0.1");
  if (state.port <= 0) throw Error(ExitCode::failure, "cannot listen on 127.0.0.1");
  server.lengthen_queue();
  state.thread = std::thread([&server] { server.listen_after_bind(); });
}

HttpServer::~HttpServer() {
  state_->api.stop();
  state_->server.stop();
  state_->thread.join();
}

int HttpServer::port() const { return state_->port; }

}  // namespace mlk::local
