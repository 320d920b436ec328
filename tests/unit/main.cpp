#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "tests/unit/paths.h"

std::filesystem::path mlk::test::source_dir() { return MLK_SOURCE_DIR; }
