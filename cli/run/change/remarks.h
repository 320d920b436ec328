// Changes the tags and the note of a run or sweep that was submitted before. They are no part of its
// identity.
#pragma once

#include <string>
#include <vector>

namespace mlk::kube {
class Client;
}

namespace mlk {

// Returns the tags after these changes: +WORD or WORD adds a tag, and WORD- removes it. +KEY=VALUE replaces
// another tag KEY=..., and KEY- also removes it. Throws Error{usage} for a change without a word. Pure.
std::vector<std::string> changed_tags(std::vector<std::string> tags, const std::vector<std::string>& changes);

// Changes the tags of the owner and returns the new ones. Changes by others at the same time are not lost.
// Throws ApiError, and Error{usage} as changed_tags().
std::vector<std::string> change_tags(kube::Client& client, const std::string& run,
                                     const std::vector<std::string>& changes);

// Sets the note of the owner; an empty text removes it. Throws ApiError, and Error{usage} if the text is too
// long.
void set_note(kube::Client& client, const std::string& run, const std::string& text);

}  // namespace mlk
