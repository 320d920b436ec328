// mlk-pod: a helper that mlk brings into pods, because an image may hold nothing but the user's program.
//   mlk-pod start FOLDER... -- PROGRAM...   what a pod runs: the program, and what it writes in the folders
//   stays mlk-pod send FOLDER                     what mlk pull executes in a pod: sends the files of the
//   folder mlk-pod idle SECONDS                    what a pod of mlk pull runs: waits until nothing was sent
//   for so long
#include <string>
#include <string_view>
#include <vector>

#include "pod/base/output.h"
#include "pod/idle.h"
#include "pod/send.h"
#include "pod/start.h"

using namespace mlk::pod;

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  const std::vector<std::string> words(argv + (argc > 1 ? 2 : argc), argv + argc);
  if (verb == "start") return start(words);
  if (verb == "send" && words.size() == 1) return send(words[0]);
  if (verb == "idle" && words.size() == 1) return idle(words[0]);
  give_up(64, "usage: mlk-pod start FOLDER... -- PROGRAM... | mlk-pod send FOLDER | mlk-pod idle SECONDS");
}
