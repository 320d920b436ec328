#include "cli/args/validators.h"

#include <algorithm>
#include <charconv>

#include "cli/util/text.h"

namespace mlk {

CLI::Validator whole_number(int least) {
  return CLI::Validator(
      [least](std::string& text) {
        const bool digits =
            !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
        if (digits && std::stoi(text) >= least) return std::string();
        return "must be a whole number" + (least > 0 ? " from " + std::to_string(least) + " on" : "") +
               ", not '" + text + "'";
      },
      "");
}

CLI::Validator number_above_zero() {
  return CLI::Validator(
      [](std::string& text) {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good = error == std::errc() && end == text.data() + text.size() && value > 0;
        return good ? std::string() : "must be a number above 0, not '" + text + "'";
      },
      "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string set = "{" + join(words, ",") + "}", either = join_or(words);
  return CLI::Validator(
      [words = std::move(words), either](std::string& text) {
        if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
        return "must be " + either + ", not '" + text + "'";
      },
      set);
}

}  // namespace mlk
