"""Seeds that found something once, by store, each with what it found; the tests run them again."""

SEEDS: dict[str, dict[str, str]] = {
    "sqlite": {"first": "nothing yet: the slice that every change must pass"},
    "redis": {"first": "nothing yet: the slice that every change must pass"},
}
