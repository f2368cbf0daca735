"""Dry runs for the tests dry_run and dry_run_rates."""

import re

from harness import expect_words, run

# Sizes for tests that name no data.
SIZES = {"reduce": ["--input.count", "2^28"], "gemm": ["--gemm.m", 4096],
         "gram": ["--gram.rows", 4096]}


def with_sizes(workload, *arguments):
    named = any(str(word).startswith(("--input.", "--gemm.m", "--gemm.n", "--gemm.k", "--gram.r"))
                for word in arguments)
    return [workload, *([] if named else SIZES.get(workload, [])), *arguments]


def dry(*arguments, env=None, ranks=1, warnings=()):
    """The output of a dry run. Standard error must have one warning for each item of `warnings`,
    with its words, and nothing else. Details of a warning follow it in indented lines."""
    finished = run("run", *with_sizes(*arguments), "--dry-run", env=env, ranks=ranks).expect(0)
    said = re.findall(r"^warning: .*\n(?:  .*\n)*", finished.err, re.MULTILINE)
    assert len(said) == len(warnings) and "".join(said) == finished.err, finished
    for lines, words in zip(said, warnings):
        expect_words(lines, words, finished)
    return finished.out


def expect(text, *words):
    expect_words(text, words)
