// What is read of git's answer.
#include "cli/image/repository.h"

#include <doctest/doctest.h>

using mlk::image::parse_revision;
using mlk::image::Revision;

TEST_CASE("commit and branch are read, and a changed or unknown file means that the folder is not clean") {
  const std::string head =
      "# branch.oid 0123abcd\n# branch.head main\n# branch.upstream origin/main\n# branch.ab +1 -0\n";
  Revision revision = parse_revision(head);
  CHECK(revision.commit == "0123abcd");
  CHECK(revision.branch == "main");
  CHECK(revision.clean);
  CHECK_FALSE(parse_revision(head + "? new.py\n").clean);
  CHECK_FALSE(parse_revision(head + "1 .M N... 100644 100644 100644 0123 0123 train.py\n").clean);
  revision = parse_revision("# branch.oid (initial)\n# branch.head (detached)\n");
  CHECK(revision.commit.empty());
  CHECK(revision.branch.empty());
}
