// The folders of a program whose contents stay: links to folders in a volume. Each function returns what went
// wrong, in one line for people, or an empty text.
#pragma once

#include <string>

namespace mlk::pod {

// Makes the folder `place` and those above it, and checks that files can be written there.
std::string make_place(const std::string& place);

// Makes `path` a link to the folder `target`, which is made too. If `path` is a folder with files, such as a
// folder of the code, the files move to `target`, but do not replace what is there from an earlier start.
std::string link_output(const std::string& path, const std::string& target);

// If the program has put a folder of its own in the place of the link `path`, copies what is in this folder
// to `target`. The files replace older ones of the same name.
std::string keep_output(const std::string& path, const std::string& target);

}  // namespace mlk::pod
