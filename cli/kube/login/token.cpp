#include "cli/kube/login/token.h"

#include <utility>

#include "cli/kube/login/entry_fields.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/text.h"

namespace mlk::kube {

Token::Token(std::string initial, std::string file) : token_(std::move(initial)), file_(std::move(file)) {}

const std::string& Token::current(Time now) {
  if (!file_.empty() && now >= next_read_) read(now);
  return token_;
}

bool Token::renew(const std::string& refused, Time now) {
  if (file_.empty()) return false;
  if (token_ == refused) read(now);
  return token_ != refused;
}

void Token::read(Time now) {
  next_read_ = now + std::chrono::minutes(1);
  try {
    const std::string text(trim(read_file(file_, credential_file_limit)));
    if (!text.empty() && fits_in_header(text)) token_ = text;
  } catch (const Error&) {
    next_read_ = now + std::chrono::seconds(10);  // another program may be replacing the file right now
  }
}

}  // namespace mlk::kube
