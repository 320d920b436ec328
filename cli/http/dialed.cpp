#include "cli/http/dialed.h"

#include <poll.h>
#include <utility>

#include "cli/http/handle.h"
#include "cli/http/url.h"

namespace mlk::http {

Dialed::Dialed(const ServerAccess& server, CredentialPtr credential, Request request,
               std::function<bool()> go_on)
    : go_on_(std::move(go_on)),
      authority_(parts_of(server.url).value().authority),
      transfer_(std::move(request)) {
  peer_.proxy = proxy_to(server.url, server.proxy_url);
  transfer_.prepare(server, std::move(credential), peer_);
  CURL* const easy = transfer_.easy;
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 0L);  // the handle has no other connections
  // WebSocket needs HTTP/1.1, so TLS must not agree on HTTP/2.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &Dialed::on_progress);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, this);
}

int Dialed::on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& dialed = *static_cast<Dialed*>(self);
  try {  // no exception may pass through libcurl
    dialed.gave_up_ = dialed.gave_up_ || !dialed.go_on_();
  } catch (...) {
    dialed.gave_up_ = true;
  }
  return dialed.gave_up_ ? 1 : 0;
}

Failure Dialed::connect() {
  const CURLcode code = curl_easy_perform(transfer_.easy);
  if (gave_up_) return failure_ = {Failure::Kind::closed, ""};
  if (code == CURLE_OK) curl_easy_getinfo(transfer_.easy, CURLINFO_ACTIVESOCKET, &socket_);
  return failure_ = transfer_.failure(code);
}

std::string Dialed::target() const {
  const char* text = nullptr;
  curl_easy_getinfo(transfer_.easy, CURLINFO_EFFECTIVE_URL, &text);
  const std::string url = text == nullptr ? "" : text;
  const std::size_t path = url.find('/', url.find("://") + 3);
  return path == url.npos ? "/" : url.substr(path);
}

std::vector<std::string> Dialed::lines() const {
  std::vector<std::string> lines;
  bool has_host = false;
  for (const curl_slist* each = transfer_.headers(); each != nullptr; each = each->next) {
    lines.emplace_back(each->data);
    has_host = has_host || lines.back().starts_with("Host:");
  }
  if (!has_host) lines.insert(lines.begin(), "Host: " + authority_);
  lines.emplace_back("User-Agent: mlk");
  return lines;
}

Dialed::Moved Dialed::after(CURLcode code, std::size_t count) {
  if (code == CURLE_AGAIN) return Moved::none;
  if (code == CURLE_OK && count > 0) return Moved::some;
  failure_ = code == CURLE_OK ? Failure{Failure::Kind::broken, ""} : transfer_.failure(code);
  return Moved::ended;
}

Dialed::Moved Dialed::send(std::string_view bytes, std::size_t& sent) {
  sent = 0;
  const CURLcode code = curl_easy_send(transfer_.easy, bytes.data(), bytes.size(), &sent);
  return after(code, sent);
}

Dialed::Moved Dialed::receive(char* place, std::size_t size, std::size_t& received) {
  received = 0;
  const CURLcode code = curl_easy_recv(transfer_.easy, place, size, &received);
  return after(code, received);
}

void Dialed::wait(For what, std::chrono::milliseconds time) const {
  pollfd waiting{socket_, static_cast<short>(what == For::both ? POLLIN | POLLOUT : POLLIN), 0};
  ::poll(&waiting, 1, static_cast<int>(time.count()));
}

}  // namespace mlk::http
