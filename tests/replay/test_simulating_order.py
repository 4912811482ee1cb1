"""Simulated logs keep the order of clicks."""

from multileave.clicks import Returning, user
from multileave.data import synthetic
from multileave.methods import TeamDraft
from multileave.replay.simulating import LogSimulation


def clicked_pages(model):
    simulation = LogSimulation(synthetic(queries=20, grades=3, seed=1), TeamDraft(), model, users=10, k=5)
    for rows in simulation.batches(400, seed=1):
        for row in rows:
            clicks = [event for event in row["clicks"] if event["action"] == "click"]
            times = [event["timestamp"] for event in clicks]
            assert times == sorted(times)
            yield [event["position"] for event in clicks]


def test_users_who_go_back_click_upwards_in_the_log():
    returns = Returning((0.2, 0.5, 0.9), (0.0, 0.0, 0.0), back=(0.8,))
    pages = list(clicked_pages(returns))
    assert all(len(set(page)) == len(page) for page in pages)
    assert sum(page != sorted(page) for page in pages) > 50


def test_users_who_read_down_click_downwards_in_the_log():
    assert all(page == sorted(page) for page in clicked_pages(user("informational", 3)))
