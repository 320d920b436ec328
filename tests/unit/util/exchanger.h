// Exchanges two paths again and again in a thread, for tests of code that reads these paths at the same time.
#pragma once

#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <thread>
#include <utility>

class Exchanger {
 public:
  Exchanger(std::filesystem::path one, std::filesystem::path other)
      : one_(std::move(one)), other_(std::move(other)) {
    thread_ = std::thread([this] {
      while (!done_) ::renameat2(AT_FDCWD, one_.c_str(), AT_FDCWD, other_.c_str(), RENAME_EXCHANGE);
    });
  }
  ~Exchanger() {
    done_ = true;
    thread_.join();
  }
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

 private:
  const std::filesystem::path one_, other_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};
