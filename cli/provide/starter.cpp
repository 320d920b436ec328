#include "cli/provide/starter.h"

#include <algorithm>
#include <cctype>

namespace mlk {

std::string name_of_folder(const std::filesystem::path& folder) {
  constexpr std::size_t longest = 40;
  std::string out;
  for (const char c : folder.filename().string()) {
    const auto character = static_cast<unsigned char>(c);
    const bool usable = character < 0x80 && std::isalnum(character) != 0;
    if (!usable && (out.empty() || out.back() == '-')) continue;
    out += usable ? static_cast<char>(std::tolower(character)) : '-';
  }
  out.erase(0, std::min(out.find_first_of("abcdefghijklmnopqrstuvwxyz"), out.size()));
  out.resize(std::min(out.size(), longest));
  while (out.ends_with('-')) out.pop_back();
  const bool is_yaml = out == "null" || out == "true" || out == "false";  // YAML does not read these as text
  return out.empty() || is_yaml ? "experiment" : out;
}

std::string framework_of_launcher(const std::vector<std::string>& words) {
  const auto is_torchrun = [&](std::size_t i) {
    if (std::filesystem::path(words[i]).filename() == "torchrun") return true;
    return words[i] == "-m" && i + 1 < words.size() &&
           (words[i + 1] == "torch.distributed.run" || words[i + 1] == "torch.distributed.launch");
  };
  // A launcher stands before the program and its arguments, perhaps behind python, env or another launcher.
  constexpr std::size_t most_words = 4;
  for (std::size_t i = 0; i < std::min(words.size(), most_words); ++i) {
    if (is_torchrun(i)) return "torch";
  }
  return "";
}

}  // namespace mlk
