// Checks which settings of the user mlk passes to pip, and the marker values of an image.
#include "cli/image/pip.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("image/pip");

namespace {

using mlk::image::allowed_settings;
using mlk::image::marker_environment;
using mlk::image::PipSettings;

}  // namespace

TEST_CASE("allowed_settings() returns only settings for sources of packages and for the network") {
  const auto listed = [](const std::string& text) { return allowed_settings(text, {}, "/home/me"); };
  CHECK(listed("").empty());
  CHECK(listed("global.index-url='one'\n") == PipSettings{{"PIP_INDEX_URL", "one"}});
  CHECK(listed("install.extra-index-url='\\nhttps://a/\\nhttps://b/'") ==
        PipSettings{{"PIP_EXTRA_INDEX_URL", " https://a/ https://b/"}});
  CHECK(listed("global.proxy=\"it's\"") == PipSettings{{"PIP_PROXY", "it's"}});
  CHECK(listed("global.proxy='a\\\\b'") == PipSettings{{"PIP_PROXY", "a\\b"}});
  for (const char* key : {"no-index", "trusted-host", "timeout", "default-timeout", "retries", "no-cache-dir",
                          "keyring-provider", "use-feature", "use-deprecated", "pypi-url"})
    CHECK_MESSAGE(listed(std::string("global.") + key + "='x'").size() == 1, std::string(key));
  for (const char* key : {"user",
                          "prefix",
                          "target",
                          "root",
                          "require-virtualenv",
                          "verbose",
                          "quiet",
                          "python",
                          "log",
                          "no-binary",
                          "constraint",
                          "pre",
                          "editable",
                          "requirement",
                          "config-settings",
                          "report",
                          "dry-run",
                          "no-deps",
                          "platform",
                          "ignore-requires-python",
                          "force-reinstall",
                          "upgrade"})
    CHECK_MESSAGE(listed(std::string("install.") + key + "='x'").empty(), std::string(key));
  for (const char* noise :
       {"download.index-url='x'", ":env:.index-url='x'", "global.index-url=x", "global.index-url='x",
        "global.index-url=", "=", "index-url='x'", "For variant 'user', will try a.b='c'"})
    CHECK_MESSAGE(listed(noise).empty(), std::string(noise));
}

TEST_CASE("allowed_settings() prefers PIP_ variables to the section `install`, and `install` to `global`") {
  const std::string both = "install.index-url='of-install'\nglobal.index-url='of-global'\n";
  CHECK(allowed_settings(both, {}, "/x").at("PIP_INDEX_URL") == "of-install");
  CHECK(allowed_settings(both, {{"PIP_INDEX_URL", "mine"}, {"PIP_USER", "1"}, {"PATH", "/bin"}}, "/x") ==
        PipSettings{{"PIP_INDEX_URL", "mine"}});
}

TEST_CASE("allowed_settings() makes relative paths in PIP_ variables absolute, from the given folder") {
  const auto value = [](const std::string& key, const std::string& text) {
    return allowed_settings("", {{key, text}}, "/home/me").at(key);
  };
  CHECK(value("PIP_FIND_LINKS", "wheels ../more /opt/w https://x/w file:///w ~/w") ==
        "/home/me/wheels /home/more /opt/w https://x/w file:///w ~/w");
  CHECK(value("PIP_CERT", "ca.pem") == "/home/me/ca.pem");
  CHECK(value("PIP_CLIENT_CERT", "/etc/ca.pem") == "/etc/ca.pem");
  CHECK(value("PIP_CACHE_DIR", "cache") == "/home/me/cache");
  CHECK(value("PIP_PROXY", "host:80") == "host:80");
}

TEST_CASE(
    "marker_environment() returns the marker values that an image determines, and the list of unknown "
    "markers") {
  const auto named = marker_environment({{"linux", "arm64", ""}, "3.9", "3.9.18"});
  CHECK(named.known.at("python_version") == "3.9");
  CHECK(named.known.at("python_full_version") == "3.9.18");
  CHECK(named.known.at("implementation_version") == "3.9.18");
  CHECK(named.known.at("platform_machine") == "aarch64");
  CHECK(named.known.at("sys_platform") == "linux");
  CHECK(named.known.at("platform_system") == "Linux");
  CHECK(named.known.at("os_name") == "posix");
  CHECK(named.known.at("implementation_name") == "cpython");
  CHECK(named.known.at("platform_python_implementation") == "CPython");
  CHECK(named.known.size() == 11);
  CHECK(named.unknown.size() == 2);  // values of the node: platform_release, platform_version
  const auto minor = marker_environment({{"linux", "amd64", ""}, "3.9"});
  CHECK(minor.known.at("python_full_version") == "3.9.0");
  CHECK(minor.unknown.size() == 4);
  CHECK(minor.unknown.at("python_full_version").begins == "3.9.");
  const auto own = marker_environment({{"linux", "amd64", ""}, "3.9", "", {{"os_name", "posix"}}});
  CHECK(own.known.size() == 1);
  CHECK(own.unknown.empty());
}

TEST_CASE("machine_name() translates an architecture such as amd64 into Linux's name x86_64") {
  for (const auto& [architecture, name] : std::map<std::string, std::string>{{"amd64", "x86_64"},
                                                                             {"arm64", "aarch64"},
                                                                             {"386", "i686"},
                                                                             {"arm", "armv7l"},
                                                                             {"ppc64le", "ppc64le"}})
    CHECK(mlk::image::machine_name(architecture) == name);
}

TEST_CASE("minor_version() gives the first two numbers of a version, and nothing for any other text") {
  CHECK(mlk::image::minor_version("3.11.9") == "3.11");
  CHECK(mlk::image::minor_version("3.13") == "3.13");
  for (const char* bad : {"", "3", "3.", ".11", "3.x", "x.11", "3.1111", "3.11rc1", "-3.11", "3 .11"})
    CHECK_MESSAGE(mlk::image::minor_version(bad).empty(), std::string(bad));
}

TEST_CASE("full_version() accepts only a version of three numbers") {
  CHECK(mlk::image::full_version("3.11.9") == "3.11.9");
  for (const char* bad : {"", "3.11", "3.11.", "3.11.9.1", "3.11.x", "3.13.0rc1"})
    CHECK_MESSAGE(mlk::image::full_version(bad).empty(), std::string(bad));
}

TEST_CASE("allowed_settings() reads values in the form of Python's repr(), and ignores empty values") {
  const auto proxy = [](const std::string& text) {
    const PipSettings found = allowed_settings("global.proxy=" + text, {}, "/home/me");
    return found.empty() ? "none" : found.at("PIP_PROXY");
  };
  CHECK(proxy("'a\\tb\\rc\\nd'") == "a b c d");
  CHECK(proxy("'a\\'b'") == "a'b");
  CHECK(proxy("'a\\'") == "a\\");
  CHECK(proxy("  'a'  ") == "a");
  for (const char* none : {"''", "\"\"", "'", "\"", "'a\"", "\"a'", "a'", "'a"})
    CHECK_MESSAGE(proxy(none) == "none", std::string(none));
  CHECK(allowed_settings("global.proxy='a'", {{"PIP_PROXY", ""}}, "/x") == PipSettings{{"PIP_PROXY", "a"}});
  CHECK(allowed_settings("global.proxy='a'\ninstall.proxy=''", {}, "/x") == PipSettings{{"PIP_PROXY", "a"}});
  CHECK(allowed_settings("global.proxy='a=b.c'", {}, "/x") == PipSettings{{"PIP_PROXY", "a=b.c"}});
  CHECK(allowed_settings("proxy='a.b'\nglobal.x.proxy='a'", {}, "/x").empty());
  CHECK(allowed_settings("", {{"pip_proxy", "a"}, {"XPIP_PROXY", "a"}, {"PIP_", "a"}}, "/x").empty());
}

TEST_CASE("allowed_settings() makes relative paths in pip's settings absolute, but leaves $HOME/c as it is") {
  for (const char* key : {"find-links", "cert", "client-cert", "cache-dir"}) {
    const PipSettings found = allowed_settings(std::string("global.") + key + "='a  ./b $HOME/c'", {}, "/w");
    REQUIRE(found.size() == 1);
    CHECK_MESSAGE(found.begin()->second == "/w/a /w/b $HOME/c", std::string(key));
  }
  CHECK(allowed_settings("global.trusted-host='a'", {}, "/w").at("PIP_TRUSTED_HOST") == "a");
}

TEST_CASE("marker_environment() has a value for every variable that markers can use") {
  const auto environment = marker_environment({{"linux", "386", ""}, "3.10"});
  CHECK(environment.known == std::map<std::string, std::string>{{"implementation_name", "cpython"},
                                                                {"implementation_version", "3.10.0"},
                                                                {"os_name", "posix"},
                                                                {"platform_machine", "i686"},
                                                                {"platform_python_implementation", "CPython"},
                                                                {"platform_release", ""},
                                                                {"platform_system", "Linux"},
                                                                {"platform_version", ""},
                                                                {"python_full_version", "3.10.0"},
                                                                {"python_version", "3.10"},
                                                                {"sys_platform", "linux"}});
  for (const char* of_node : {"platform_release", "platform_version"}) {
    CHECK(environment.unknown.at(of_node).begins.empty());
    CHECK(environment.unknown.at(of_node).samples == std::vector<std::string>{"0", "99999"});
  }
  for (const char* of_python : {"python_full_version", "implementation_version"}) {
    CHECK(environment.unknown.at(of_python).begins == "3.10.");
    CHECK(environment.unknown.at(of_python).samples == std::vector<std::string>{"3.10.0", "3.10.99"});
  }
}

TEST_CASE("a part of a version has at most three digits") {
  CHECK(mlk::image::minor_version("999.999.x") == "999.999");
  CHECK(mlk::image::minor_version("1000.1").empty());
  CHECK(mlk::image::full_version("999.999.999") == "999.999.999");
  CHECK(mlk::image::full_version("3.11.1000").empty());
  CHECK(mlk::image::full_version("3..1").empty());
}
