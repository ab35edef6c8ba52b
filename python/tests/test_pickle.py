"""What goes to another process, and what says that it does not."""

import multiprocessing
import pickle
from pathlib import Path

import pytest
from test_policy import TWO, Fastest

import tabane


@tabane.register("by-name")
class ByName(Fastest):
    """The same, by its name."""


def goodput(scenario: tabane.Scenario) -> float:
    return float(tabane.run(scenario, watch=False).flows["goodput_bps"][0])


def scenarios() -> list[tabane.Scenario]:
    keys = TWO._keys or {}
    built = [tabane.Scenario(**keys, defaults={"scheduler": s}) for s in (Fastest, "by-name")]
    return [*built, tabane.Scenario.parse(built[1].toml, "text")]


def test_a_scenario_takes_its_policies_along() -> None:
    made = scenarios()
    for scenario in made:
        scenario.check()
    # A process of its own, which has run nothing.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.map(goodput, made)
    assert there == [goodput(scenario) for scenario in made]


def test_another_policy_of_that_name_is_an_error() -> None:
    packed = pickle.dumps(scenarios()[1])

    class Other(Fastest):
        pass

    tabane.register("by-name")(Other)
    try:
        with pytest.raises(ValueError, match="'by-name' is another class here"):
            pickle.loads(packed)
    finally:
        tabane.register("by-name")(ByName)
    assert goodput(pickle.loads(packed)) == goodput(scenarios()[1])


def test_tables_and_sweeps_go_along_and_a_result_says_what_to_do(tmp_path: Path) -> None:
    result = tabane.run(TWO)
    assert list(pickle.loads(pickle.dumps(result.flows))["bytes"]) == [5_000_000]
    with pytest.raises(TypeError, match=r"tables .*`dict\(\)`.*`write\(folder\)`"):
        pickle.dumps(result)
    over = {"link.lte.delay": ["20ms", "80ms"], "defaults.scheduler": [Fastest]}
    swept = tabane.sweep(TWO, over, progress=False, cache=tmp_path)
    same = pickle.loads(pickle.dumps(swept))
    assert (len(same), repr(same), same.axes) == (2, repr(swept), swept.axes)
    assert repr(same.estimates()) == repr(swept.estimates())
