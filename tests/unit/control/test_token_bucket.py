from weir.control.token_bucket import TokenBuckets, TokenRate


def test_each_key_has_a_burst_and_then_a_rate() -> None:
    buckets = TokenBuckets(TokenRate(2, 0.5), keys_max=10)
    assert [buckets.take("a", 0.0) for _ in range(3)] == [0.0, 0.0, 2.0]
    assert buckets.take("b", 0.0) == 0.0
    assert buckets.take("a", 2.0) == 0.0
    buckets.give_back("a")
    assert [buckets.take("a", 2.0), buckets.take("a", 2.0)] == [0.0, 2.0]


def test_beyond_the_limit_of_keys_the_one_used_longest_ago_is_forgotten() -> None:
    buckets = TokenBuckets(TokenRate(1, 0.1), keys_max=2)
    for key in ("a", "b", "a", "c"):
        buckets.take(key, 0.0)
    assert [buckets.take("a", 0.0) > 0.0, buckets.take("b", 0.0) > 0.0] == [True, False]
    buckets.give_back("gone")
