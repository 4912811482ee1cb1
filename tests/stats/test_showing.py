"""How a verdict is shown: sentence, HTML, figures."""

import builtins

import numpy as np
import pytest

from multileave.errors import MissingExtra, TallyError
from multileave.outcome import Outcome
from multileave.stats import Design, Tally, plan, plots

ABC = ("bm25", "dense", "ltr")


def tally_of(means, users=600, rankers=ABC, seed=0, visits=2):
    rng = np.random.default_rng(seed)
    tally = Tally(rankers)
    for user in range(users):
        for _ in range(visits):
            tally.add(Outcome(rankers, "difference", rng.normal(means, 1.0)), user)
    return tally


@pytest.fixture(scope="module")
def tally():
    return tally_of([0.0, 0.45, 0.5])


def test_the_sentence_says_that_it_is_valid_at_any_time_and_what_it_takes(tally):
    verdict = tally.verdict(interval="anytime")
    pair = verdict.pair("ltr", "bm25")
    assert verdict.sentence.startswith(f"ltr is preferred to bm25: +{pair.preference:.2f} per impression (95 % CI ")
    assert (
        ", valid at any time), 600 users; no significant difference between ltr and dense yet, at least "
        in verdict.sentence
    )
    assert " more users needed" in verdict.sentence
    assert "valid at any time" not in tally.verdict().sentence
    assert "valid at any time" in verdict.table()
    assert verdict.to_dict()["anytime"]


def test_needs_are_rounded_to_two_digits(tally):
    low = tally.verdict().pair("ltr", "dense").more_units_low
    assert low > 100
    assert f"at least {round(low, 2 - len(str(low))):,} more users needed" in str(tally.verdict())


def test_html_escapes_names_and_marks_what_is_significant():
    verdict = tally_of([0.0, 0.6], rankers=("<b>", "a&b"), users=50).verdict()
    html = verdict._repr_html_()
    assert "&lt;b&gt;" in html
    assert "a&amp;b" in html
    assert "<b>cannot" not in html
    assert "font-weight:bold" in html.split("</tr>")[1]
    assert "<li>Effective sample size: 50 users" in html
    assert html.count("<tr>") == 2


def axes_of(figure):
    return figure.axes[0]


def test_the_forest_has_every_pair_with_its_interval(tally):
    pytest.importorskip("matplotlib")
    verdict = tally.verdict()
    figure = plots.forest(verdict)
    labels = [text.get_text() for text in axes_of(figure).get_yticklabels()]
    assert set(labels) == {"ltr over bm25", "dense over bm25", "ltr over dense"}
    spans = [tuple(line.get_xdata()) for line in axes_of(figure).get_lines() if len(line.get_xdata()) == 2]
    pair = verdict.pair("ltr", "bm25")
    assert any(span == pytest.approx((pair.low, pair.high)) for span in spans)


def test_the_matrix_has_the_best_first_and_significant_ones_in_bold(tally):
    pytest.importorskip("matplotlib")
    axes = axes_of(plots.matrix(tally.verdict()))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["ltr", "dense", "bm25"]
    bold = {text.get_position() for text in axes.texts if text.get_fontweight() == "bold"}
    assert bold == {(2, 0), (2, 1), (0, 2), (1, 2)}


def test_the_development_shows_the_band_and_when_it_was_decided():
    pytest.importorskip("matplotlib")
    tally = Tally(("a", "b"))
    rng = np.random.default_rng(0)
    verdicts = []
    for user in range(1200):
        tally.add(Outcome(("a", "b"), "difference", rng.normal([0.3, 0.0], 1.0)), user)
        if user % 100 == 99:
            verdicts.append(tally.verdict(interval="anytime"))
    figure = plots.over_time(verdicts, "a", "b")
    (mean, *_) = axes_of(figure).get_lines()
    assert list(mean.get_xdata()) == list(range(100, 1300, 100))
    first = next(one.impressions for one in verdicts if one.pairs[0].significant)
    assert [text.get_text() for text in axes_of(figure).texts] == [f"significant at {first:,}"]
    with pytest.raises(TallyError, match="two or more"):
        plots.over_time(verdicts[:1], "a", "b")


def test_figures_are_written_alike_each_time(tally, tmp_path):
    pytest.importorskip("matplotlib")
    for suffix in (".png", ".svg", ".pdf"):
        written = []
        for name in ("one", "two"):
            path = plots.save(plots.power_curve(plan(Design(1.0), 0.1)), tmp_path / f"{name}{suffix}")
            written.append(path.read_bytes())
        assert len(written[0]) > 1000
        if suffix != ".svg":
            assert written[0] == written[1]
    with pytest.raises(TallyError, match="ending in"):
        plots.save(plots.forest(tally.verdict()), tmp_path / "figure.doc")
    with pytest.raises(TallyError, match="cannot be written"):
        plots.save(plots.forest(tally.verdict()), tmp_path / "nowhere" / "figure.png")


def test_too_many_pairs_for_a_forest_are_refused():
    pytest.importorskip("matplotlib")
    names = tuple(f"r{n}" for n in range(20))
    verdict = tally_of([0.0] * 20, rankers=names, users=5).verdict()
    with pytest.raises(TallyError, match="190 pairs"):
        plots.forest(verdict)
    assert plots.matrix(verdict) is not None


def test_without_matplotlib_the_install_line_is_printed(tally, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install 'multileave\[stats\]'"):
        plots.forest(tally.verdict())
