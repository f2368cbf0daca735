#!/usr/bin/python3
"""The commands of the lessons that need no GPU run as the lessons show them."""

from harness import each, main
from shown import LESSONS, check_document


def test_lessons():
    each([(path,) for path in LESSONS], check_document)


main()
