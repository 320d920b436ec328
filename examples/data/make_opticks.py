#!/usr/bin/env python3
"""Writes opticks/train.txt: the first book of Newton's Opticks, from Isaac.Newton-Opticks.txt of Go's source tree."""
import pathlib
import sys

text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
begin = text.index("THE FIRST BOOK OF OPTICKS")
end = text.index("SECOND BOOK", begin)  # of "THE SECOND BOOK OF OPTICKS", in two lines
first_book = text[begin:end].removesuffix("THE\n\n").strip() + "\n"
target = pathlib.Path(__file__).parent / "opticks" / "train.txt"
target.parent.mkdir(exist_ok=True)
target.write_text(first_book, encoding="utf-8", newline="\n")
