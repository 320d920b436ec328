// Records the protocols that clients offer to a server in their handshakes.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include <httplib.h>
#include <openssl/ssl.h>

// Must outlive the server. The server has TLS, selects no offered protocol, and so speaks HTTP/1.
class OfferedProtocols {
 public:
  explicit OfferedProtocols(httplib::Server& server) {
    SSL_CTX_set_alpn_select_cb(dynamic_cast<httplib::SSLServer&>(server).ssl_context(), &on_offer, this);
  }
  OfferedProtocols(const OfferedProtocols&) = delete;
  OfferedProtocols& operator=(const OfferedProtocols&) = delete;

  // The protocols that the newest connection has offered, for example "h2 http/1.1".
  std::string newest() const {
    const std::lock_guard lock(mutex_);
    return newest_;
  }

 private:
  static int on_offer(SSL*, const unsigned char**, unsigned char*, const unsigned char* in,
                      unsigned int length, void* self) {
    std::string names;
    for (unsigned int at = 0; at < length; at += 1U + in[at])
      names += (at == 0 ? "" : " ") + std::string(reinterpret_cast<const char*>(in) + at + 1, in[at]);
    auto& own = *static_cast<OfferedProtocols*>(self);
    const std::lock_guard lock(own.mutex_);
    own.newest_ = names;
    return SSL_TLSEXT_ERR_NOACK;
  }

  mutable std::mutex mutex_;
  std::string newest_;
};
