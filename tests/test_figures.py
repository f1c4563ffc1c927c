"""What is counted, without a daemon: the minutes under clocks that jump, the bounds of labels, buckets."""

from datetime import UTC, datetime

from a2ad.figures import MOST_VALUES, OTHER, Histogram, Minutes, Tally, TaskFigures
from a2ad.model import TaskState

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC).timestamp()


class Clocks:
    """Two clocks: one that may be set, and one that cannot."""

    def __init__(self) -> None:
        self.wall = NOON
        self.steady = 1000.0
        self.minutes = Minutes(("n",), wall=lambda: self.wall, steady=lambda: self.steady)

    def go(self, seconds: float, *, looks: int = 1) -> None:
        """Let time pass, with so many looks at the clock meanwhile."""
        for _ in range(looks):
            self.wall += seconds / looks
            self.steady += seconds / looks
            self.minutes.advance()

    def set(self, seconds: float) -> None:
        """Somebody sets the clock, so much later."""
        self.wall += seconds
        self.minutes.advance()

    def count(self, times: int = 1) -> None:
        for _ in range(times):
            self.minutes.add(0)

    @property
    def rows(self) -> list[tuple[str, int]]:
        """The minutes in which something was counted: hour and minute, and how often."""
        rows = self.minutes.to_json()
        assert len(rows) == 60
        starts = [datetime.fromisoformat(row["at"]).timestamp() for row in rows]
        assert [start - starts[0] for start in starts] == [60 * n for n in range(60)]
        assert starts[-1] == self.wall // 60 * 60
        return [(row["at"][11:16], row["n"]) for row in rows if row["n"]]


def test_a_count_belongs_to_the_minute_in_which_it_happened() -> None:
    clocks = Clocks()
    clocks.count()
    clocks.go(59.9, looks=240)
    clocks.count()
    clocks.go(0.2)
    clocks.count()
    clocks.go(120, looks=480)
    clocks.count(2)

    assert clocks.rows == [("12:00", 2), ("12:01", 1), ("12:03", 2)]


def test_what_is_an_hour_old_is_gone_and_what_is_younger_is_there() -> None:
    clocks = Clocks()
    clocks.count()
    clocks.go(60)
    clocks.count(2)
    clocks.go(58 * 60, looks=58)

    assert clocks.rows == [("12:00", 1), ("12:01", 2)]
    clocks.go(60)
    assert clocks.rows == [("12:01", 2)]


def test_after_hours_of_silence_nothing_old_is_left() -> None:
    clocks = Clocks()
    clocks.count(5)
    clocks.go(30 * 3600 + 61)  # asleep: nobody looked
    assert clocks.rows == []
    clocks.count()

    assert clocks.rows == [("18:01", 1)]


def test_a_clock_that_is_set_back_loses_nothing_and_counts_nothing_twice() -> None:
    clocks = Clocks()
    clocks.count()
    clocks.go(600, looks=10)
    clocks.count(2)
    clocks.set(-600)
    clocks.count(3)

    # the ages are the real ones
    assert clocks.rows == [("11:50", 1), ("12:00", 5)]
    clocks.go(600, looks=10)
    clocks.count()
    assert clocks.rows == [("11:50", 1), ("12:00", 5), ("12:10", 1)]


def test_a_clock_that_is_set_forward_by_days_leaves_the_last_hour() -> None:
    clocks = Clocks()
    clocks.count()
    clocks.go(300, looks=5)
    clocks.count(2)
    clocks.set(2 * 86400)

    assert clocks.rows == [("12:00", 1), ("12:05", 2)]


def test_small_corrections_of_the_clock_at_the_turn_of_a_minute_lose_nothing() -> None:
    clocks = Clocks()
    for _ in range(20):
        clocks.go(59.95)
        clocks.count()
        clocks.go(0.1)
        clocks.count()
        clocks.set(-0.1)
        clocks.count()
        clocks.set(0.05)

    assert sum(n for _, n in clocks.rows) == 60


def test_a_bucket_has_all_that_is_no_larger_than_its_bound() -> None:
    histogram = Histogram((1, 2, 5))
    for value in (0, 1, 1.5, 5, 6):
        histogram.add(value)

    assert histogram.to_json() == {
        "count": 5,
        "sum": 13.5,
        "buckets": [{"le": 1, "count": 2}, {"le": 2, "count": 3}, {"le": 5, "count": 4}],
    }


def test_the_values_of_a_label_are_bounded_in_number_and_length() -> None:
    tally = Tally()
    for number in range(3 * MOST_VALUES):
        tally.add(f"{number} {'x' * 10_000}")
    tally.add("lone \udcff surrogate")

    counts = tally.to_json()
    assert len(counts) == MOST_VALUES + 1
    assert counts[OTHER] == 2 * MOST_VALUES + 1
    assert max(map(len, counts)) == 100


def test_the_skills_of_tasks_are_bounded_and_none_is_forgotten() -> None:
    tasks = TaskFigures()
    for number in range(3 * MOST_VALUES):
        tasks.reached(f"skill {number}", None, TaskState.WORKING, 0)
        tasks.reached(f"skill {number}", TaskState.WORKING, TaskState.FAILED, 1)

    skills = tasks.skills()
    assert len(skills) == MOST_VALUES + 1
    assert skills[OTHER] == {
        "started": 2 * MOST_VALUES, "completed": 0, "failed": 2 * MOST_VALUES, "canceled": 0, "rejected": 0
    }  # fmt: skip
    assert sum(each["started"] for each in skills.values()) == 3 * MOST_VALUES


def test_a_task_that_is_told_of_twice_is_counted_once() -> None:
    tasks = TaskFigures()
    tasks.reached("chat", None, TaskState.CANCELED, 2)
    tasks.reached("chat", TaskState.CANCELED, TaskState.CANCELED, 2)

    assert tasks.skills()["chat"] == {"started": 1, "completed": 0, "failed": 0, "canceled": 1, "rejected": 0}
    assert tasks.seconds[TaskState.CANCELED].to_json()["count"] == 1
