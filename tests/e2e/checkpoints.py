"""What the tests of checkpoints share: the files that runs leave beside their result."""

import time

GEMM = ["--gemm.transpose-b", "true"]


def hidden(folder, end):
    return sorted(path for path in folder.iterdir() if path.name.endswith(f".{end}"))


def expect_only_result(folder, told=""):
    """A rank whose launcher was killed may need a moment to end."""
    for _ in range(50):
        names = [path.name for path in folder.iterdir()]
        if names == ["c.h5"]:
            return
        time.sleep(0.1)
    raise AssertionError(f"{names}\n{told}")
