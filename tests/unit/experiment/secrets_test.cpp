// Recognition of secrets, by their value or by the name of their variable.
#include <doctest/doctest.h>

#include "cli/yaml/problems.h"

TEST_SUITE_BEGIN("experiment/secrets");

namespace mlk {
namespace {

TEST_CASE("tokens, keys and addresses with a password look like secrets") {
  for (const char* bad : {"ghp_0123456789abcdef0123", "sk-0123456789abcdef0123456789", "AKIAIOSFODNN7EXAMPLE",
                          "https://me:pw@host/x", "-----BEGIN RSA PRIVATE KEY-----\nabc",
                          "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.x"}) {
    CHECK_MESSAGE(looks_like_secret(bad), bad);
  }
  for (const char* good : {"", "sk-learn", "https://host:80/a@b", "skip", "AKIA", "info", "eyJ"}) {
    CHECK_MESSAGE(!looks_like_secret(good), good);
  }
}

TEST_CASE("a text with the prefix of a token looks like a secret if it is long enough") {
  const std::pair<std::string, std::size_t> prefixes[] = {
      {"ghp_", 20},  {"gho_", 20}, {"ghs_", 20}, {"github_pat_", 20}, {"glpat-", 20},
      {"sk-", 20},   {"AKIA", 20}, {"ASIA", 20}, {"hf_", 30},         {"xoxb-", 20},
      {"xoxp-", 20}, {"AIza", 35}, {"eyJ", 30},  {"-----BEGIN", 10}};
  for (const auto& [prefix, shortest] : prefixes) {
    const std::string longest = prefix + std::string(40, 'a');
    CHECK_MESSAGE(looks_like_secret(longest.substr(0, shortest)), prefix);
    CHECK_MESSAGE(!looks_like_secret(longest.substr(0, shortest - 1)), prefix);
    CHECK_MESSAGE(!looks_like_secret("a" + longest), prefix);
  }
}

TEST_CASE("an address with a password before its host looks like a secret") {
  CHECK(looks_like_secret("s3://key:secret@bucket"));
  CHECK(looks_like_secret("https://:pw@host"));
  CHECK(looks_like_secret("see postgres://me:pw@db/x"));
  CHECK_FALSE(looks_like_secret("https://me@host/x"));    // no password
  CHECK_FALSE(looks_like_secret("https://host:443"));     // a port
  CHECK_FALSE(looks_like_secret("https://me@host:443"));  // a port after the host
  CHECK_FALSE(looks_like_secret("https://host/a:b@c"));   // after the host
  CHECK_FALSE(looks_like_secret("me:pw@host"));           // no scheme
}

TEST_CASE("names_secret() is true for names with words such as TOKEN or PASSWORD") {
  for (const char* bad :
       {"TOKEN", "HF_TOKEN", "hf_token", "hf-token", "TOKEN_LIMIT", "A_SECRET_B", "DB_PASSWORD", "PASSWD",
        "SSH_PASSPHRASE", "X_APIKEY", "MY_CREDENTIAL", "CREDENTIALS", "NPM_AUTHTOKEN", "WANDB_API_KEY",
        "AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "PRIVATE_KEY", "ENCRYPTION_KEY"}) {
    CHECK_MESSAGE(names_secret(bad), bad);
  }
  for (const char* good : {"", "_", "KEY", "SORT_KEY", "API", "API_LEVEL", "KEY_API", "PRIVATE_DATA",
                           "TOKENS", "TOKENIZER", "PASSWORDLESS", "SECRET_FILE", "TOKEN_PATH", "SECRET_DIR",
                           "TOKEN_URL", "SECRET_NAME", "API_KEY_FILE"}) {
    CHECK_MESSAGE(!names_secret(good), good);
  }
  CHECK(names_secret("FILE_TOKEN"));  // only FILE as the last word means a place
}

}  // namespace
}  // namespace mlk
