// Tests the advice for a program that was denied a file.
#include "cli/run/facts/denied.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

TEST_SUITE_BEGIN("run/facts/denied");

namespace mlk {
namespace {

using nlohmann::json;

json pod_with_mounts(const json& number = 1000) {
  json pod = {{"containers",
               {{{"name", "sidecar"}, {"volumeMounts", {{{"name", "claim"}, {"mountPath", "/side"}}}}},
                {{"name", "main"},
                 {"volumeMounts",
                  {{{"name", "claim"}, {"mountPath", "/data"}},
                   {{"name", "host"}, {"mountPath", "/data/host"}},
                   {{"name", "nas"}, {"mountPath", "/nas"}},
                   {{"name", "still"}, {"mountPath", "/still"}, {"readOnly", true}},
                   {{"name", "gone"}, {"mountPath", "/gone"}}}}}}},
              {"volumes",
               {{{"name", "claim"}, {"persistentVolumeClaim", {{"claimName", "results"}}}},
                {{"name", "host"}, {"hostPath", {{"path", "/srv/x"}}}},
                {{"name", "nas"}, {"nfs", {{"server", "nas"}, {"path", "/export"}}}},
                {{"name", "still"}, {"emptyDir", json::object()}}}}};
  if (!number.is_null()) pod["securityContext"]["runAsUser"] = number;
  return pod;
}

TEST_CASE("if a write is denied, the advice names the program's user, the volume and the key `user:`") {
  const auto advice = [](const std::string& said) { return advice_on_denied(said, pod_with_mounts()); };
  const std::string end = ": let this user write there, or name another with `user:`)";
  CHECK(advice("PermissionError: [Errno 13] Permission denied: '/data/out.pt'") ==
        " (the program ran as uid 1000, and /data is claim results" + end);
  CHECK(advice("sh: can't create /data/host/x: Permission denied\n") ==
        " (the program ran as uid 1000, and /data/host is /srv/x of the node" + end);
  CHECK(advice("open /nas: permission denied") ==
        " (the program ran as uid 1000, and /nas is nas:/export" + end);
  CHECK(advice("Error: EACCES, open '/gone/x'") ==
        " (the program ran as uid 1000, and /gone is a volume" + end);
  const std::string in_image =
      " (the program ran as uid 1000, a user without this right in the image; `user:` names another)";
  CHECK(advice("mkdir: cannot create directory '/app/out': Permission denied") == in_image);
  CHECK(advice("Permission denied: '/database/x'") == in_image);  // not /data
  CHECK(advice("Permission denied: '/side/x'") == in_image);      // only another container has this mount
  CHECK(advice_on_denied("Permission denied: '/nas/x'", pod_with_mounts(nullptr)) ==
        " (the program ran as the image's user, and /nas is nas:/export" + end);
}

TEST_CASE("if a volume is read-only, the advice names the key `read_only:`") {
  const auto advice = [](const std::string& said) { return advice_on_denied(said, pod_with_mounts()); };
  CHECK(advice("OSError: [Errno 30] Read-only file system: '/still/x'") ==
        " (/still is mounted to be read: `read_only: false` lets it write)");
  CHECK(advice("OSError: [Errno 30] Read-only file system: '/data/x'").empty());
  CHECK(advice("OSError: [Errno 30] Read-only file system: '/x'").empty());
}

TEST_CASE("under --local, the advice on a missing path says that the mount is another folder") {
  json pod = pod_with_mounts();
  const std::string said = "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'";
  CHECK(advice_on_denied(said, pod).empty());
  pod["nodeName"] = "n1";
  CHECK(advice_on_denied(said, pod).empty());
  pod["nodeName"] = "local";
  const std::string elsewhere =
      " (with --local /data is another folder, and the program's files do not have its path: pass the path "
      "in "
      "`run:` or `env:`)";
  CHECK(advice_on_denied(said, pod) == elsewhere);
  CHECK(advice_on_denied("Error: ENOENT, open '/data/x'", pod) == elsewhere);
  CHECK(advice_on_denied("No such file or directory: '/database/x'", pod).empty());
  CHECK(advice_on_denied("No such file or directory: 'data/x'", pod).empty());
}

TEST_CASE("advice_on_denied() returns no advice if the last line does not report a denied file") {
  const json pod = pod_with_mounts();
  CHECK(advice_on_denied("", pod).empty());
  CHECK(advice_on_denied("Permission denied: '/data/x'\nValueError: bad", pod).empty());
  CHECK(advice_on_denied("mlk: uid 1000 cannot write checkpoints in /x: Permission denied", pod).empty());
  CHECK(advice_on_denied("Permission denied: '/data/x'", json()) ==
        " (the program ran as the image's user, a user without this right in the image; `user:` names "
        "another)");
}

TEST_CASE(
    "advice_on_denied() recognises every form of the message about a denied file, if it is the last line") {
  const json pod = pod_with_mounts();
  for (const char* words : {"Permission denied", "permission denied", "EACCES"}) {
    CAPTURE(words);
    CHECK(advice_on_denied(std::string(words) + ": '/data/x'", pod).find("/data is claim results") !=
          std::string::npos);
    CHECK(advice_on_denied(std::string("first\n") + words + ": '/data/x'\n\n", pod).size() > 1);
  }
  for (const char* words : {"Read-only file system", "read-only file system", "EROFS"}) {
    CAPTURE(words);
    CHECK(advice_on_denied(std::string(words) + ": '/still/x'", pod) ==
          " (/still is mounted to be read: `read_only: false` lets it write)");
  }
  CHECK(advice_on_denied("denied: '/data/x'", pod).empty());
  CHECK(advice_on_denied("EACCES EROFS: '/still/x'", pod).starts_with(" (/still is mounted to be read"));
}

TEST_CASE("a path belongs to a volume if the path is the volume's folder or lies in it") {
  const auto place = [](const std::string& said) {
    const std::string advice = advice_on_denied("Permission denied: " + said, pod_with_mounts());
    const std::size_t from = advice.find(", and "), to = advice.find(" is ", from);
    return from == std::string::npos ? "the image" : advice.substr(from + 6, to - from - 6);
  };
  for (const char* said : {"/data", "/data/x", "'/data'", "\"/data\"", "/data: no", "/data no",
                           "(/data)x /data", "x=/data", "/database and /data"})
    CHECK_MESSAGE(place(said) == "/data", said);
  for (const char* said : {"/mnt/data/x", "a/data", "./data", "../data", "_/data", "-/data", "~/data",
                           "9/data", "Z/data", "//data", "/data2", "/data-x", "/data.x", "\xc3\xa9/data"})
    CHECK_MESSAGE(place(said) == "the image", said);
  CHECK(place("/data/host/x") == "/data/host");  // the innermost mount
  CHECK(place("/data/hostile") == "/data");
}

}  // namespace
}  // namespace mlk
