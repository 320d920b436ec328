// Where the checkout lies, for tests that read its files. One source file alone knows the path, so that a
// compiler cache serves every checkout.
#pragma once

#include <filesystem>

namespace mlk::test {

std::filesystem::path source_dir();

}  // namespace mlk::test
