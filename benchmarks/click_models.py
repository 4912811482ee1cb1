"""User models fitted to clicks: coverage and selection on simulated logs, speed and perplexity on real ones.

    python benchmarks/click_models.py coverage --repeats 200         # is each parameter in its interval?
    python benchmarks/click_models.py selection --repeats 40         # is the right model chosen?
    python benchmarks/click_models.py split LOG.jsonl.xz --out DIR   # a split, and our held-out figures on it
    python benchmarks/click_models.py peer DIR                       # CLAX's on the same split

The last runs in its own environment (`pip install clax-models 'jax<0.8'`): CLAX needs JAX, Flax and
PyTorch. It reads nothing but the split.
"""

import argparse
import inspect
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

K = 6
QUERIES, DOCUMENTS, PAGES = 60, 14, 20_000
SEED = 90_000  # the first of the simulated logs
ATTRACTIVE, SATISFYING = 20, 10  # levels; a grade is one of each, so satisfaction is independent of attractiveness

EXAMINE = [1.0, 0.7, 0.55, 0.45, 0.38, 0.33]
BROWSING = [[1.0], [0.6, 0.95], [0.45, 0.5, 0.9], [0.35, 0.35, 0.5, 0.9], [0.3, 0.25, 0.35, 0.5, 0.85],
            [0.25, 0.2, 0.25, 0.35, 0.5, 0.85]]  # fmt: skip
AFTER_CLICK = [0.85, 0.7, 0.6, 0.5, 0.4]
TRUTH: dict[str, list[float]] = {
    "position": EXAMINE[1:],
    "bayesian": [0.85, 0.45],
    "alike": [0.85, 0.45],
    "returning": [0.85, 0.75, 0.35],
    "dependent": [*AFTER_CLICK, 0.85],
    "browsing": [e for row in BROWSING for e in row][1:],
}

SAME = {"alike": "bayesian"}


def levels(a: float, b: float, count: int) -> Any:
    """Return that many equally likely values of a Beta distribution."""
    from scipy.stats import beta

    return beta.ppf((np.arange(count) + 0.5) / count, a, b)


def simulated(name: str, seed: int) -> Any:
    """Return pages of users of that model; better documents are shown higher, and each at several ranks."""
    from multileave.clicks import Browsing, Cascade, PositionBased, Returning
    from multileave.clicks.fitting import PageCollector
    from multileave.random import seed_state

    rng = np.random.default_rng([seed, 7])
    click = tuple(np.repeat(levels(1.0, 3.0, ATTRACTIVE), SATISFYING).tolist())
    # "alike" is the same model for documents that all satisfy alike
    satisfying = levels(4.5, 5.5, SATISFYING) if name == "bayesian" else np.full(SATISFYING, TRUTH["alike"][1])
    satisfied = tuple(np.tile(satisfying, ATTRACTIVE).tolist())
    never = (0.0,) * len(click)
    user = {
        "position": lambda: PositionBased(click, tuple(EXAMINE)),
        "browsing": lambda: Browsing(click, tuple(map(tuple, BROWSING))),
        "dependent": lambda: Cascade(click, never, False, (*AFTER_CLICK, 0.5), (0.85,)),
        "bayesian": lambda: Cascade(click, satisfied, False, (0.85,), (0.85,)),
        "alike": lambda: Cascade(click, satisfied, False, (0.85,), (0.85,)),
        "returning": lambda: Returning(click, never, False, (0.75,), (0.85,), (0.35,)),
    }[name]()
    kernel = getattr(user, "order_kernel", user.kernel)
    grade = rng.integers(len(click), size=(QUERIES, DOCUMENTS)).astype(np.uint8)
    quality = rng.normal(size=grade.shape) + 2.0 * np.array(click)[grade]
    state = seed_state(int(rng.integers(2**60)))
    order = np.zeros(K, dtype=np.uint8)
    collector = PageCollector(K)
    for _ in range(PAGES):
        query = int(rng.integers(QUERIES))
        shown = np.argsort(-(quality[query] + rng.normal(size=DOCUMENTS)))[:K]
        kernel(grade[query, shown], K, user.parameters, state, order)
        places = np.flatnonzero(order)
        collector.add(query, shown.tolist(), places[np.argsort(order[places], kind="stable")].tolist())
    return collector.pages()


def coverage(repeats: int, models: list[str], out: Path, samples: int) -> None:
    """Print how often each parameter was in its 95 % interval, and write every log's intervals as they come."""
    from multileave.clicks.fitting.estimation import Estimator
    from multileave.clicks.fitting.models import MODELS
    from multileave.clicks.fitting.posterior import exposure_classes
    from multileave.clicks.fitting.resampling import intervals

    out.mkdir(parents=True, exist_ok=True)
    for name in models:
        truth = np.array(TRUTH[name])
        if name == "bayesian":
            truth[1] = levels(4.5, 5.5, SATISFYING).mean()
        started = time.process_time()
        found = []
        with open(out / f"coverage-{name}.jsonl", "w", encoding="utf-8") as file:
            for seed in range(SEED, SEED + repeats):
                pages = simulated(name, seed)
                estimator = Estimator(MODELS[SAME.get(name, name)], pages, exposure_classes(pages))
                estimator.fit(pages.row_weights())
                span = intervals(estimator, samples=samples, seed=seed, threads=1)[estimator.free]
                found.append(np.column_stack([estimator.theta[estimator.free], span]))
                line = {"seed": seed, "estimate_low_high": found[-1].round(5).tolist()}
                print(json.dumps(line), file=file, flush=True)
        value, low, high = np.moveaxis(np.array(found), 2, 0)
        figures = {
            "coverage": ((low <= truth) & (truth <= high)).mean(axis=0).round(3).tolist(),
            "below": (high < truth).mean(axis=0).round(3).tolist(),
            "above": (truth < low).mean(axis=0).round(3).tolist(),
            "bias": (value.mean(axis=0) - truth).round(4).tolist(),
            "deviation": value.std(axis=0).round(4).tolist(),
            "cpu_seconds": round(time.process_time() - started, 1),
        }
        print(name, json.dumps(figures), flush=True)


def selection(repeats: int, models: list[str], out: Path) -> None:
    """Print how often the model that simulated the log was chosen, and write every choice as it comes."""
    from multileave.clicks.fitting.estimation import Estimator
    from multileave.clicks.fitting.held_out import FOLDS, choose, deal, held_out_model
    from multileave.clicks.fitting.models import MODELS
    from multileave.clicks.fitting.posterior import exposure_classes

    out.mkdir(parents=True, exist_ok=True)
    right = []
    for name in models:
        chosen = []
        with open(out / f"selection-{name}.jsonl", "w", encoding="utf-8") as file:
            for seed in range(SEED, SEED + repeats):
                pages = simulated(name, seed)
                classes, fold = exposure_classes(pages), deal(pages, FOLDS, seed)
                fair = [model for model in MODELS.values() if pages.ordered or not model.ordered]
                results = {}
                for model in fair:
                    estimator = Estimator(model, pages, classes)
                    estimator.fit(pages.row_weights())
                    results[model.name] = held_out_model(estimator, pages, fold)
                chosen.append(choose(results, [len(model.free(pages.k)) for model in fair]))
                print(json.dumps({"seed": seed, "chosen": chosen[-1]}), file=file, flush=True)
        right += [best == SAME.get(name, name) for best in chosen]
        print(name, {best: chosen.count(best) for best in sorted(set(chosen))}, flush=True)
    print(f"right: {np.mean(right):.3f} of {len(right)}")


def split(log: str, out: Path, seed: int) -> None:
    """Write a split of a log by sessions, 80 to 20, as arrays, and print our held-out figures on it."""
    from multileave.clicks.fitting.conditional import click_rates
    from multileave.clicks.fitting.estimation import Estimator
    from multileave.clicks.fitting.held_out import predict
    from multileave.clicks.fitting.models import MODELS
    from multileave.clicks.fitting.posterior import exposure_classes
    from multileave.replay.clicked_pages import read_pages

    pages = read_pages(log).pages
    fold = np.random.default_rng(seed).permutation(np.arange(pages.sessions) % 5) == 0  # True: held out
    out.mkdir(parents=True, exist_ok=True)
    shown = pages.lists[pages.row_list[pages.page_row]]
    clicked = pages.row_order[pages.page_row] > 0
    np.savez(out / "split.npz", shown=shown, clicked=clicked, test=fold[pages.page_session])
    classes = exposure_classes(pages)
    train, test = pages.row_weights(~fold), pages.row_weights(fold)
    figures = {}
    for name, model in MODELS.items():
        if model.ordered and not pages.ordered:
            continue
        estimate = Estimator(model, pages, classes).fit(train)
        likelihood, rate = predict(model, estimate, pages, test)
        figures[name] = _figures(likelihood, rate, pages, test)
    rate = np.broadcast_to(click_rates(pages, train), pages.row_order.shape)
    chance = np.where(pages.row_order > 0, np.log(rate), np.log1p(-rate))
    figures["baseline"] = _figures(chance.sum(axis=1), rate, pages, test)
    (out / "ours.json").write_text(json.dumps(figures, indent=2))
    print(json.dumps(figures, indent=2))


def _figures(likelihood: Any, rate: Any, pages: Any, test: Any) -> dict[str, float]:
    there = pages.lists[pages.row_list] >= 0
    rate = np.clip(rate, 1e-9, 1 - 1e-9)
    loss = -np.where(pages.row_order > 0, np.log(rate), np.log1p(-rate)) * there
    shown = (test @ there).sum()
    return {
        "perplexity": float(np.exp((test @ loss).sum() / shown)),
        "conditional_perplexity": float(np.exp(-(test @ likelihood) / shown)),
    }


def peer(folder: Path, rates: list[float], epochs: int = 60) -> None:
    """Fit CLAX's models to the training pages of a split, and print their held-out figures."""
    import clax
    import jax
    import jax.numpy as jnp
    from flax import nnx
    from optax import adamw

    held = np.load(folder / "split.npz")
    shown, clicked, test = held["shown"], held["clicked"], held["test"]
    documents, k = int(shown.max()) + 1, shown.shape[1]

    def batch(rows: Any) -> dict[str, Any]:
        return {
            "positions": jnp.asarray(np.broadcast_to(np.arange(1, k + 1), (len(rows), k))),
            "query_doc_ids": jnp.asarray(np.maximum(shown[rows], 0)),
            "clicks": jnp.asarray(clicked[rows].astype(np.float32)),
            "mask": jnp.asarray(shown[rows] >= 0),
        }

    rng = np.random.default_rng(0)
    train = rng.permutation(np.flatnonzero(~test))
    check, train = train[: len(train) // 10], train[len(train) // 10 :]  # CLAX stops early on pages of its own
    kinds = {
        "position": clax.PositionBasedModel, "browsing": clax.UserBrowsingModel, "dependent": clax.DependentClickModel,
        "bayesian": clax.DynamicBayesianNetwork, "cascade": clax.CascadeModel, "chain": clax.ClickChainModel,
    }  # fmt: skip
    figures = {}
    for name, kind in kinds.items():
        best: dict[str, float] = {}
        for rate in rates:
            sizes = {"query_doc_pairs": documents + 1, "positions": k + 1}
            taken = inspect.signature(kind.__init__).parameters
            model = kind(**{name: size for name, size in sizes.items() if name in taken}, rngs=nnx.Rngs(0))
            optimizer = nnx.ModelAndOptimizer(model, adamw(rate))

            @nnx.jit
            def step(model: Any, optimizer: Any, data: Any) -> Any:
                loss, gradient = nnx.value_and_grad(lambda m: m.compute_loss(data).mean())(model)
                optimizer.update(gradient)
                return loss

            @nnx.jit
            def losses(model: Any, data: Any) -> Any:
                clicks, there = data["clicks"], data["mask"]
                found = []
                for logs in (model.predict_clicks(data), model.predict_conditional_clicks(data)):
                    logs = jnp.minimum(logs, -1e-7)
                    other = jnp.log(-jnp.expm1(logs))
                    found.append(-(jnp.where(clicks > 0, logs, other) * there).sum())
                return jnp.stack(found), there.sum()

            least, patience, kept = np.inf, 0, nnx.state(model)
            for _ in range(epochs):
                rows = rng.permutation(train)
                for start in range(0, len(rows) - 511, 512):
                    step(model, optimizer, batch(rows[start : start + 512]))
                found, count = losses(model, batch(check))
                value = float(found[1] / count)
                if value < least - 1e-5:
                    least, patience, kept = value, 0, jax.tree.map(jnp.copy, nnx.state(model))
                else:
                    patience += 1
                    if patience > 2:
                        break
            nnx.update(model, kept)
            if not best or least < best["check"]:
                found, count = losses(model, batch(np.flatnonzero(test)))
                plain, conditional = (float(x) for x in jnp.exp(found / count))
                best = {"perplexity": plain, "conditional_perplexity": conditional, "check": least, "rate": rate}
        figures[name] = best
        print(name, best, flush=True)
    (folder / "peer.json").write_text(json.dumps(figures, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["coverage", "selection", "split", "peer"])
    parser.add_argument("path", nargs="?")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--models", nargs="*", default=list(TRUTH))
    parser.add_argument("--samples", type=int, default=50, help="of the bootstrap")
    parser.add_argument("--rates", nargs="*", type=float, default=[0.003, 0.01, 0.03], help="of the peer")
    parser.add_argument("--seed", type=int, default=24, help="of the split")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/click-models"))
    given = parser.parse_args()
    if given.what == "coverage":
        coverage(given.repeats, given.models, given.out, given.samples)
    elif given.what == "selection":
        selection(given.repeats, given.models, given.out)
    elif given.what == "split":
        split(given.path, given.out, given.seed)
    else:
        peer(Path(given.path), given.rates)


if __name__ == "__main__":
    main()
