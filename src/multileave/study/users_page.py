"""The page of users fitted to a log: which model predicts best, its curves, and all parameters with intervals."""

import base64
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from multileave.clicks.fitting import UserFit
from multileave.study.plots import COLOURS, MARKERS, STYLE, require_matplotlib, save
from multileave.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPLANATION = (
    "Log-likelihood in nats per page, of the set of results clicked. Perplexity of a rank: 1 is a perfect "
    "prediction, 2 a "
    "coin's; conditional perplexity knows the clicks above. Difference: from the best model, with a 95 % interval "
    "clustered by session. The best model has the fewest parameters among those not significantly worse than "
    "the one that "
    "predicts best."
)


def users_page(users: UserFit) -> str:
    """Return the page as HTML, in one file that loads nothing; all text from outside is escaped."""
    require_matplotlib()
    log = users.log
    page = Template(files("multileave.study").joinpath("users.html").read_text(encoding="utf-8"))
    notes = [*users.notes, *(f"{name} cannot be fitted. {reason}" for name, reason in users.unidentified.items())]
    pictures = (
        (curves(users), "Examination and going on by rank, with 95 % intervals, for each model that has them by rank."),
        (perplexities(users), "Held-out perplexity by rank; lower is better. Dashed: the click rate of each rank."),
        (attractiveness(users), "Attractiveness of the results shown: the share of results that are less attractive."),
    )
    return page.substitute(
        version=__version__,
        title="Users fitted to a log",
        summary=f"{log['pages']:,} pages of {log['queries']:,} queries in {log['sessions']:,} sessions, with "
        f"{log['clicks']:,} clicked results; {log['quarantined']:,} rows quarantined.",
        verdict=escape(users.summary),
        notes="".join(f"<p>{escape(note)}</p>" for note in notes),
        models=_table(
            ("model", "parameters", "log-likelihood", "perplexity", "conditional", "difference"), _models(users)
        ),
        explanation=escape(EXPLANATION),
        figures="".join(_picture(figure, caption) for figure, caption in pictures),
        parameters=_table(("parameter", "estimate", "from", "to"), _parameters(users)),
    )


def by_rank(users: UserFit) -> Iterator[tuple[str, list[float], list[tuple[float, float]]]]:
    """Yield the parameters by rank, named, with their intervals; of user browsing, those with no click above."""
    for model in users.models.values():
        for name, value in model.parameters.items():
            span = model.intervals[name]
            if isinstance(value, list) and value and isinstance(value[0], list):
                yield f"{model.name}: {name}, no click above", [row[0] for row in value], [row[0] for row in span]
                after = [row[-1] for row in value[1:]]
                if after:
                    yield f"{model.name}: {name} after a click just above", [float("nan"), *after], [
                        (float("nan"), float("nan")), *(row[-1] for row in span[1:])
                    ]  # fmt: skip
            elif isinstance(value, list) and value:
                yield f"{model.name}: {name.replace('_', ' ')}", value, span


def curves(users: UserFit) -> "Figure":
    """Return parameters by rank, with intervals."""
    figure, axes = _axes("rank", "probability")
    for at, (name, value, span) in enumerate(by_rank(users)):
        ranks = range(1, len(value) + 1)
        style = {"color": COLOURS[at % len(COLOURS)], "marker": MARKERS[at % len(MARKERS)], "markersize": 3.6}
        axes.plot(ranks, value, label=name, linewidth=1.2, **style)
        axes.fill_between(
            ranks, [s[0] for s in span], [s[1] for s in span], color=style["color"], alpha=0.15, linewidth=0
        )
    axes.set_ylim(0.0, 1.02)
    return _with_legend(figure, axes)


def perplexities(users: UserFit) -> "Figure":
    """Return held-out perplexity by rank."""
    figure, axes = _axes("rank", "perplexity")
    baseline = users.baseline["perplexity_by_rank"]
    axes.plot(range(1, len(baseline) + 1), baseline, color="#000000", linewidth=1.2, linestyle="--", label="click rate")
    for at, model in enumerate(users.models.values()):
        value = model.perplexity_by_rank
        axes.plot(
            range(1, len(value) + 1), value, label=model.name, linewidth=1.2, color=COLOURS[at % len(COLOURS)],
            marker=MARKERS[at], markersize=3.6,
        )  # fmt: skip
    return _with_legend(figure, axes)


def attractiveness(users: UserFit) -> "Figure":
    """Return the distribution of attractiveness under each model."""
    figure, axes = _axes("attractiveness", "share of results shown")
    shares = [x / 100 for x in range(101)]
    for at, model in enumerate(users.models.values()):
        axes.plot(model.attractiveness, shares, label=model.name, linewidth=1.2, color=COLOURS[at % len(COLOURS)])
    return _with_legend(figure, axes)


def _axes(x: str, y: str) -> "tuple[Figure, Any]":
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _with_legend(figure: "Figure", axes: Any) -> "Figure":
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def _picture(figure: "Figure", caption: str) -> str:
    data = base64.b64encode(save(figure, "svg")).decode("ascii")
    alternative = escape(f"{caption} The tables hold the values.")
    return (
        f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{alternative}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _models(users: UserFit) -> Iterator[tuple[str, ...]]:
    baseline = users.baseline
    yield (
        "click rate by rank", str(users.log["k"]), f"{baseline['log_likelihood']:.4f}", f"{baseline['perplexity']:.4f}",
        f"{baseline['perplexity']:.4f}", "",
    )  # fmt: skip
    for model in users.models.values():
        behind = "best" if model.name == users.best else f"{model.difference:+.4f} ± {1.96 * model.error:.4f}"
        yield (
            f"{model.name} ({model.title})", str(model.size), f"{model.log_likelihood:.4f}", f"{model.perplexity:.4f}",
            f"{model.conditional_perplexity:.4f}", behind,
        )  # fmt: skip


def _parameters(users: UserFit) -> Iterator[tuple[str, ...]]:
    for model in users.models.values():
        for name, value in model.parameters.items():
            yield from _flat(f"{model.name}: {name.replace('_', ' ')}", value, model.intervals[name])


def _flat(name: str, value: Any, span: Any) -> Iterator[tuple[str, ...]]:
    if not isinstance(value, list):
        yield name, f"{value:.3f}", f"{span[0]:.3f}", f"{span[1]:.3f}"
        return
    for x, (one, around) in enumerate(zip(value, span, strict=True)):
        if isinstance(one, list):
            for last, (inner, inner_span) in enumerate(zip(one, around, strict=True)):
                where = f"last click at {last}" if last else "no click above"
                yield from _flat(f"{name}, rank {x + 1}, {where}", inner, inner_span)
        else:
            yield from _flat(f"{name}, rank {x + 1}", one, around)


def _table(columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
