// Sends the files of a folder through standard output. `mlk pull` executes this in a pod; its other end is
// cli/files/sent_files.h.
#pragma once

#include <string>

namespace mlk::pod {

// Reads one request from standard input: the number of its bytes and '\n', then for each wanted file its
// offset, ' ', its path below the folder, and '\0'. The length comes first, because not every cluster can
// close the input of a command.
//
// A request without files gets the list of all files below the folder. Each entry is
//   KIND MODE SIZE MTIME PATH\0   KIND: f a file, d a folder, l a link, e what went wrong, in place of the
//   path
// with MODE in octal digits and MTIME in nanoseconds; the target and '\0' follow a link. The list ends with
// "end\0". The folder itself has the entry "none\0" if there is none.
//
// Otherwise the answer has for each file, in the order of the request
//   SIZE MTIME\n                  as of the moment when the file is opened
//   LENGTH\n and the bytes        parts of the file from the offset on
//   0 SHA256\n                    of the whole file, from its first byte on; or
//   - REASON\n                    in place of any of these lines: the file cannot be read, or it became
//   shorter
//
// Returns 0, or 1 if the answer could not be written, or 64 if the request is none.
int send(const std::string& folder);

}  // namespace mlk::pod
