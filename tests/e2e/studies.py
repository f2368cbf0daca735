"""What the tests of `scale` and `report` share."""

import json

from harness import run

QUICK = ["--measure.repeat", 3, "--model.spin", "sleep", "--scale.oversubscribe",
         "--scale.timeline", "false"]
MPIRUN = 'mpirun --oversubscribe --bind-to none -q -n "$ranks" "$@"'


def bash_script(folder, text):
    path = folder / "launcher"
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def script(folder, text):
    """A launcher: {ranks} is its first argument, the program and its arguments follow."""
    return f"{bash_script(folder, f'ranks=$1; shift; {text}')} {{ranks}}"


def study(folder, *arguments, workload="model", quick=QUICK, code=0, **how):
    finished = run("scale", workload, *quick, *arguments, "-o", folder, timeout=120, **how)
    return finished.expect(code)


def report(*paths, code=0):
    finished = run("report", *paths, "--json").expect(code)
    return json.loads(finished.out)


def only_study(folder, code=0):
    found, = report(folder, code=code)["studies"]
    return found


def attempts(folder):
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]
