import pytest
from caches import LruCache, TtlCache, memoise


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_value_that_was_put_is_found():
    cache = LruCache(2)
    cache.put("a", 1)
    assert cache.get("a") == 1
    assert cache.get("b") is None
    assert cache.get("b", 7) == 7


def test_a_cache_needs_room_for_one_entry():
    assert LruCache(1).capacity == 1
    with pytest.raises(ValueError, match="at least one"):
        LruCache(0)


def test_the_oldest_entry_makes_room():
    cache = LruCache(2)
    for key in "abc":
        cache.put(key, key.upper())
    assert cache.keys() == ["b", "c"]
    assert len(cache) == 2


def test_reading_an_entry_keeps_it():
    cache = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert cache.keys() == ["a", "c"]


def test_writing_an_entry_again_keeps_it():
    cache = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 9)
    cache.put("c", 3)
    assert cache.get("a") == 9
    assert "b" not in cache


def test_looking_for_a_key_does_not_count_as_using_it():
    cache = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert "a" in cache
    cache.put("c", 3)
    assert "a" not in cache


def test_discard_says_whether_the_key_was_there():
    cache = LruCache(2)
    cache.put("a", None)
    assert cache.discard("a") is True
    assert cache.discard("a") is False
    assert len(cache) == 0


def test_the_hit_rate_counts_reads_only():
    cache = LruCache(2)
    assert cache.hit_rate == 0.0
    cache.put("a", 1)
    for key in ("a", "a", "a", "b"):
        cache.get(key)
    assert (cache.hits, cache.misses) == (3, 1)
    assert cache.hit_rate == 0.75


def test_an_entry_dies_when_its_time_is_over():
    clock = Clock()
    cache = TtlCache(10, clock)
    cache.put("a", 1)
    clock.now += 9.5
    assert cache.get("a") == 1
    clock.now += 0.5
    assert cache.get("a", "gone") == "gone"


def test_reading_does_not_prolong_a_life():
    clock = Clock()
    cache = TtlCache(10, clock)
    cache.put("a", 1)
    for _ in range(2):
        clock.now += 6
        found = cache.get("a")
    assert found is None


def test_an_entry_may_have_a_time_of_its_own():
    clock = Clock()
    cache = TtlCache(10, clock)
    cache.put("short", 1, ttl=2)
    cache.put("none", 2, ttl=0)
    cache.put("usual", 3)
    assert cache.get("none") is None
    clock.now += 5
    assert cache.get("short") is None
    assert cache.get("usual") == 3


def test_purge_forgets_the_dead_and_counts_them():
    clock = Clock()
    cache = TtlCache(10, clock)
    cache.put("a", 1)
    cache.put("b", 2, ttl=20)
    clock.now += 10
    assert cache.purge() == 1
    assert cache.purge() == 0
    assert cache.get("b") == 2


def test_length_counts_the_living():
    clock = Clock()
    cache = TtlCache(10, clock)
    cache.put("a", 1)
    cache.put("b", 2, ttl=1)
    assert len(cache) == 2
    clock.now += 1
    assert len(cache) == 1


def test_a_memoised_function_is_called_once_for_the_same_arguments():
    calls = []

    @memoise()
    def add(a, b=0):
        calls.append((a, b))
        return a + b

    assert [add(1, b=2), add(1, b=2), add(2, b=2)] == [3, 3, 4]
    assert calls == [(1, 2), (2, 2)]
    assert add.cache.capacity == 128
    assert add.__name__ == "add"


def test_a_memoised_function_remembers_none():
    calls = []

    @memoise(capacity=2)
    def nothing(x):
        calls.append(x)

    nothing(1)
    nothing(1)
    assert calls == [1]


def test_a_memoised_function_forgets_the_oldest_arguments():
    calls = []

    @memoise(capacity=2)
    def double(x):
        calls.append(x)
        return 2 * x

    for x in (1, 2, 3, 1):
        assert double(x) == 2 * x
    assert calls == [1, 2, 3, 1]
    assert len(double.cache) == 2
