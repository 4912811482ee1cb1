"""The writer: what comes together is committed together, and one that fails harms no other."""

import asyncio

import pytest

from multileave.live.store.database import Store
from multileave.live.store.group_commit import Writer


@pytest.fixture
def writer(sqlite_address):
    store = Store(sqlite_address)
    found = Writer(store)
    yield found
    found.close()
    store.close()


def test_requests_of_one_turn_share_commits_and_get_their_own_answers(writer):
    batches = []

    def keep(_, items):
        batches.append(len(items))
        return [item * 2 for item in items]

    async def ask():
        return await asyncio.gather(*(writer.submit(keep, n) for n in range(100)))

    assert asyncio.run(ask()) == [2 * n for n in range(100)]
    assert sum(batches) == 100
    assert len(batches) <= 14  # 8 or more at a time, and the rest


def test_a_request_that_fails_harms_no_other_and_nobody_waits_for_one_that_left(writer):
    def keep(_, items):
        if "bad" in items:
            raise ValueError("this one")
        return items

    async def ask():
        gone = asyncio.ensure_future(writer.submit(keep, "gone"))
        gone.cancel()
        items = ["a", "bad", "b"]
        return await asyncio.gather(*(writer.submit(keep, item) for item in items), return_exceptions=True)

    first, failed, last = asyncio.run(ask())
    assert (first, last) == ("a", "b")
    assert str(failed) == "this one"


def test_two_loops_one_after_the_other_are_answered(writer):
    async def ask(item):
        return await writer.submit(lambda _, items: items, item)

    assert [asyncio.run(ask(n)) for n in range(3)] == [0, 1, 2]
