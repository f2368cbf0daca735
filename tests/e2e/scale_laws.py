#!/usr/bin/python3
"""Studies of the workload `model`, whose laws are known: `scale` and `report` must find them."""

from harness import each, expect_words, main, new_folder, run
from studies import only_study, study


def check_study(check, *arguments, attempts=3):
    """Makes a study and passes its folder and what `report` finds there to `check`. Machines are
    shared, and a rank that wakes up late falsifies a law: a study that fails is repeated, and the
    last one counts."""
    for left in reversed(range(attempts)):
        folder = new_folder() / "study"
        study(folder, *arguments, "--scale.replicates", 2)
        try:
            return check(folder, only_study(folder))
        except AssertionError:
            if left == 0:
                raise


def test_strong_scaling_finds_the_serial_share():
    def check(serial):
        def is_found(_, found):
            assert abs(found["serial"] - serial) < 0.02, found
            assert found["serial_lo"] < found["serial"] < found["serial_hi"], found
            assert [point["ranks"] for point in found["points"]] == [1, 2, 4], found
            assert all(point["launches"] == 2 for point in found["points"]), found
            assert found["excluded"] == [] and found["contradiction"] == "", found
            ideal = 1 / (serial + (1 - serial) / 4)
            assert abs(found["points"][2]["speedup"] / ideal - 1) < 0.1, found
        check_study(is_found, "--model.work", "400ms", "--model.serial", serial,
                    "--scale.ranks", "1,2,4")
    each([(0,), (0.05,), (0.25,)], check, workers=1)


def test_weak_scaling_keeps_the_work_of_a_rank():
    def check(_, found):
        one, three = found["points"]
        assert found["mode"] == "weak" and abs(three["work"] / one["work"] - 2.8) < 1e-9, found
        assert abs(three["time"] / one["time"] - 1) < 0.1, found
        assert abs(found["serial"] - 0.1) < 0.05, found
    check_study(check, "--model.work", "200ms", "--model.serial", 0.1, "--scale.ranks", "1,3",
                "--scale.mode", "weak")


def test_overhead_does_not_fit_the_law():
    def check(folder, found):
        assert found["law_fits"] == "no", found
        assert found["points"][1]["karp_flatt"] < found["points"][2]["karp_flatt"], found
        expect_words(run("report", folder).expect(0).out, ["does not fit"])
    check_study(check, "--model.work", "200ms", "--model.serial", 0, "--model.overhead", "100ms",
                "--scale.ranks", "1,2,4")


if __name__ == "__main__":
    main()
