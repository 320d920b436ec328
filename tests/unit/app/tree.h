// Runs the command tree of mlk inside the test, with streams and an environment of the test.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/app.h"
#include "cli/session/session.h"

namespace mlk::test {

struct Tree {
  std::ostringstream out, err;
  std::atomic<int> interrupted{0};
  std::map<std::string, std::string> env;
  Session session{.out = out,
                  .err = err,
                  .version = "0",
                  .interrupted = interrupted,
                  .env = [this](const std::string& name) { return env[name]; },
                  .global = {}};

  int run(const std::vector<std::string>& words) { return mlk::run(words, session); }
};

}  // namespace mlk::test
