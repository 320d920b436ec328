// Helpers for tests of the loop: a Loop with a source of credentials that the test controls.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "cli/http/loop.h"

namespace mlk::http {

// Gives the credential that the test has set. Without a credential, transfers wait.
class Played : public CredentialSource {
 public:
  void start(std::function<void()> news) override { news_ = std::move(news); }
  Turn next(SteadyTime) override {
    const std::lock_guard lock(mutex_);
    ++asked;
    return {credential_, error_};
  }
  std::optional<News> poll_news() override {
    const std::lock_guard lock(mutex_);
    ++turns;
    return std::exchange(told_, std::nullopt);
  }
  bool refused(const CredentialPtr& used, SteadyTime) override {
    const std::lock_guard lock(mutex_);
    return used != credential_;
  }
  void accepted(const CredentialPtr&) override { ++acceptances; }
  void stop() override {}

  void give(const std::string& authorization) {
    put(std::make_shared<const Credential>(Credential{authorization, "", ""}), News{});
  }
  void fail(const mlk::Error& error) { put(nullptr, News{error}); }

  // From now on transfers wait again.
  void take_away() {
    const std::lock_guard lock(mutex_);
    credential_ = nullptr;
  }
  // From now on there is no credential, and there will be none.
  void refuse(const mlk::Error& error) {
    const std::lock_guard lock(mutex_);
    error_ = error;
  }

  std::atomic<int> asked = 0, acceptances = 0;
  std::atomic<int> turns = 0;  // rounds of the loop

 private:
  void put(CredentialPtr credential, News news) {
    {
      const std::lock_guard lock(mutex_);
      credential_ = std::move(credential);
      told_ = std::move(news);
    }
    news_();
  }

  std::function<void()> news_;
  std::mutex mutex_;
  CredentialPtr credential_;
  std::optional<News> told_;
  std::optional<mlk::Error> error_;
};

struct Outcome {
  Response response;
  Failure failure;
};

inline std::future<Outcome> ask(Loop& loop, Request request) {
  auto promise = std::make_shared<std::promise<Outcome>>();
  auto transfer = std::make_shared<Transfer>(std::move(request));
  transfer->done = [promise](Response& response, const Failure& failure) {
    promise->set_value({std::move(response), failure});
  };
  loop.add(std::move(transfer));
  return promise->get_future();
}

struct Ends {
  explicit Ends(ServerAccess server) {
    auto source = std::make_unique<Played>();
    credentials = source.get();
    loop = std::make_unique<Loop>(std::move(server), std::move(source));
  }
  Played* credentials;  // the source that the loop owns
  std::unique_ptr<Loop> loop;
};

}  // namespace mlk::http
