// A shell script that plays python3 and its pip, and a class that puts the script into PATH.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/image/python.h"
#include "cli/util/files.h"
#include "tests/unit/image/pip_reports.h"
#include "tests/unit/util/environment_variable.h"
#include "tests/unit/util/temporary_folder.h"

// The script has only the package "six" 1.16.0, and writes its arguments to the file `calls`. $MACHINE stands
// for text that differs between machines.
inline const std::string playing_pip = R"(
cat > "$PLAYED/input"
case "$*" in *pip._internal.configuration*) cat "$PLAYED/settings" 2>/dev/null; exit 0 ;; esac
[ -e trap.py ] && exit 9
shift 3
echo "$*" >> "$PLAYED/calls"
env > "$PLAYED/variables"
case "$*" in
  *--dry-run*) while [ "$1" != --report ]; do [ "$1" = -r ] && cp "$2" "$PLAYED/wanted"; shift; done; cat "$PLAYED/report" > "$2"; exit ;;
esac
all="$*"
while [ "$1" != --target ]; do shift; done
cp "${all##* }" "$PLAYED/pinned"
mkdir -p "$2/six-1.16.0.dist-info" "$2/bin" "$2/six/__pycache__"
echo "#!$MACHINE/python3" > "$2/bin/six"
printf '[console_scripts]\nsix = six.cli:main\n' > "$2/six-1.16.0.dist-info/entry_points.txt"
echo "x = 1" > "$2/six/__init__.py"
echo "$MACHINE" > "$2/six/__pycache__/x.pyc"
printf '#!/bin/sh\n' > "$2/six/tool"
chmod 755 "$2/six/tool"
ln -s tool "$2/six/link"
cat > "$2/six-1.16.0.dist-info/RECORD" << end
../../bin/six,sha256=$MACHINE,10
six/__init__.py,sha256=a,6
six-1.16.0.dist-info/RECORD,,
end
)";

// A folder with the script as python3 in PATH, a cache, and a file of requirements.
class Machine {
 public:
  explicit Machine(const std::string& script = playing_pip, const std::string& name = "one")
      : path_("PATH", (folder_.path() / "bin").string() + ":/usr/bin:/bin"),
        played_("PLAYED", folder_.path().string()),
        machine_("MACHINE", "/opt/" + name) {
    folder_.write("bin/python3", "#!/bin/sh\n" + script);
    std::filesystem::permissions(folder_.path() / "bin/python3", std::filesystem::perms::owner_all);
    report("six", "1.16.0", "aa");
    folder_.write("code/requirements.txt", "six\n");
  }
  void report(const std::string& package, const std::string& version, const std::string& digest,
              const std::string& python = "3.11") const {
    folder_.write("report", mlk::image::samples::report_of(package, version, digest, python));
  }
  mlk::image::PythonPackages packages() const {
    return {.requirements = folder_.path() / "code/requirements.txt",
            .target = {{"linux", "amd64", ""}, "3.11"},
            .cache = folder_.path() / "cache"};
  }
  std::size_t installations() const {
    std::ifstream in(folder_.path() / "calls");
    std::size_t out = 0;
    for (std::string line; std::getline(in, line);) out += line.find("--dry-run") == line.npos ? 1 : 0;
    return out;
  }
  std::string calls() const { return mlk::read_file(folder_.path() / "calls", 16 << 20); }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  EnvironmentVariable path_, played_, machine_;
};
