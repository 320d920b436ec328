// An API server that serves scripted logs of pods.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "tests/unit/kube/fake_server.h"

// The n-th request for a log gets answers[n]. After the text, `then` says how the stream goes on: "stay"
// keeps the stream open, "cut" breaks it, and "" ends it in good order.
struct LogServer {
  struct Answer {
    std::string text;
    std::string then{};
    int status = 200;
  };
  std::vector<Answer> answers;
  bool repeat_last = false;
  std::mutex mutex;
  std::vector<std::string> targets;
  FakeServer server;  // declared last: its handlers use all of the above

  mlk::kube::Config start() {
    server.http->Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      Answer now{"", "stay"};
      {
        const std::lock_guard lock(mutex);
        if (targets.size() < answers.size()) {
          now = answers[targets.size()];
        } else if (repeat_last) {
          now = answers.back();
        }
        targets.push_back(request.target.substr(request.target.find('?') + 1));
      }
      if (now.status != 200)
        return answer(response, now.status, status_body(now.status, "BadRequest", now.text));
      response.set_chunked_content_provider("text/plain", [this, now](std::size_t, httplib::DataSink& sink) {
        if (!now.text.empty()) sink.write(now.text.data(), now.text.size());
        if (now.then == "stay") server.hang();
        if (now.then.empty()) sink.done();
        return now.then.empty();
      });
    });
    return server.start();
  }
  std::vector<std::string> seen() {
    const std::lock_guard lock(mutex);
    return targets;
  }
};

inline std::string stamp(const std::string& second, const std::string& text) {
  return "2026-11-21T07:40:" + second + "Z " + text + "\n";
}
