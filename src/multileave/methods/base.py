"""What a method is, the registry of all methods, and the two steps that they share: combine and infer.

A method is an immutable value in one file: its parameters, the facts about it, a definition in Fractions and kernels.

    draw(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f) -> m
        top i4[R, depth]   document numbers, -1 past the end      entering i4[depth]  see `numbering`
        ranks i4[U, R]     ranks of the numbered documents, only if `draw_reads_ranks`, else i4[0, R]
        lengths i4[R]      k                                      params f8[p]        rng u8[4]
        shown, note i4[k + beyond]   out: document numbers and notes of the m drawn documents
        stat f8[2]         out: figures worth reporting           work_i, work_f      scratch, not cleared
    credit(ranks, lengths, note, clicks, k, params, out, work_i, work_f)
        ranks i4[m, R]     note i4[m]     clicks u1[m]     out f8[R], or f8[R, R] for a "matrix", zeroed
    balance(ranks, lengths, note, visible, every, params, observed, expected, work_f) -> whether anything is expected
        observed, expected f8[R]     out, zeroed: what was drawn for each ranker, and what was expected given the
                                     rankings, in the first place or, if `every`, in all `visible` places
        work_f f8[visible + 2]       scratch
    weigh(top, entering, k, params, shown, visible, out, work_i, work_f) -> whether propensities are known
        out f8[k]          out: as of `propensity`, for methods that cannot tell from the impression; kept as its stat
    propensity(ranks, lengths, note, stat, visible, params, out, work_f) -> whether they are known
        out f8[visible]    out: the probability, given the rankings, that each shown document is shown at its rank
        work_f f8[visible + 2]       scratch

Kernels never raise and never allocate; this file validates. The first min(k, m) drawn documents are visible. Ranks are
1-based, ABSENT for a document that a ranker did not return. If the class gives a number as `reads_below`, credit may be
called with only the first min(m, last click + 1 + reads_below) drawn documents.

The contract, the registry and the two steps depend on each other, so they share a file.
"""

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from multileave.errors import ImpressionError, MethodError, nearest
from multileave.impression import Impression, Ints
from multileave.kernels import Kernel, as_kernel
from multileave.methods._alone import alone, propensities
from multileave.methods._drawing import DrawPlan, plan_draw
from multileave.methods._page import checked_position, earned_values, page_size, position_of, read_pins
from multileave.methods._parameters import parse_spec, spell
from multileave.methods._unstated import OTHER_RATES, expect_nothing, unknown_propensities, weigh_nothing
from multileave.outcome import Floats, Kind, Outcome
from multileave.random import Seed, State, seed_state
from multileave.rankings import Longs, RankingsLike, Source, read_rankings, with_pins

Pareto: TypeAlias = Literal["", "independent", "reader", "any reader"]
RECOMMENDED = "recommended"  # what `get_method` calls the one method with that class variable
NO_NOTE: Ints = np.zeros(0, dtype=np.int32)  # of all impressions of methods that keep none


@dataclass(frozen=True)
class Method:
    """A way to combine rankings into one list and to infer preferences from clicks on it.

    A subclass is a frozen dataclass whose fields are the method's parameters. It states the facts about itself in the
    class variables below, gives `draw_kernel`, `credit_kernel` and, for the balance checks, `balance_kernel`; if it
    knows how likely its lists are, `propensity_kernel`, and `estimates_rates` if that is enough for rates. To be judged
    exactly by `multileave.theory` it has a definition:

        lists(rankings, k)   yields (drawn documents, note, probability as a Fraction)
        score(rankings, drawn, note, clicks, k)   the exact credits, or the matrix, for clicked positions
        propensity(rankings, document, rank, k)   the exact probability that the document is shown at the rank

    considerate: no document is shown above the best rank that any ranker gives it.
    unbiased_lists: "any" lists, "k" for lists of k documents or more, "" if the method is biased.
    clone_proof: copies of a ranker change no expected preference between the others.
    proof: where these three and `pareto` are proved for every size. It counts only for the class that states it.
    note_label: what the method notes for each document, in a word. note_help: what that means, in a sentence.
    note_is_ranker: the note is a ranker's position.
    slow_to_compile: takes several seconds; studies compile it first.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    considerate: ClassVar[bool] = False
    fidelity: ClassVar[str] = "unknown"
    reference: ClassVar[str] = ""
    recommended: ClassVar[bool] = False
    unbiased_lists: ClassVar[str] = ""
    clone_proof: ClassVar[bool] = False
    proof: ClassVar[str] = ""
    most_rankers: ClassVar[int | None] = None
    keeps_ranks: ClassVar[bool] = True
    keeps_note: ClassVar[bool] = False
    note_label: ClassVar[str] = ""
    note_help: ClassVar[str] = ""
    note_is_ranker: ClassVar[bool] = False
    keeps_stat: ClassVar[int] = 0
    draw_reads_ranks: ClassVar[bool] = False
    slow_to_compile: ClassVar[bool] = False
    draw_kernel: ClassVar[Kernel]
    credit_kernel: ClassVar[Kernel]
    balance_kernel: ClassVar[Kernel] = expect_nothing
    weigh_kernel: ClassVar[Kernel] = weigh_nothing
    propensity_kernel: ClassVar[Kernel] = unknown_propensities

    @property
    def pareto(self) -> Pareto:
        """The users for whom a ranker that Pareto dominates all others is proved to be preferred.

        "independent": clicks at a rank depend on that rank and its document alone. "reader": as well users who read
        downwards and stop no less after relevant documents. "any reader": wherever they stop. "": not proved.
        """
        return ""

    @property
    def estimates_rates(self) -> bool:
        """Whether pages say what each ranker would earn alone.

        For that, propensities must be known, and positive for every document of a ranker's own page at its rank there.
        """
        return False

    @property
    def rates_advice(self) -> str:
        """Why pages of this method say nothing, or little, about what each ranker would earn alone, and what to do."""
        if self.estimates_rates:
            return ""
        return (
            f"With {self.name}, some results cannot appear at the rank that a ranker gives them, or the probability of "
            f"that is unknown. {OTHER_RATES}"
        )

    @property
    def keeps_propensities(self) -> bool:
        """Whether the propensities of what is shown are worth keeping with every impression; see `weigh_kernel`."""
        return False

    @property
    def outcome(self) -> Kind:
        """What the credits mean: "difference", "sign" (R credits) or "matrix" (R by R preferences)."""
        return "difference"

    @property
    def reads_below(self) -> int | None:
        """How many of the documents below the last click inference reads; None if all.

        With a number, credits must be the same to the last bit without the documents further down: `study` leaves
        them out.
        """
        return None

    @property
    def reads_late(self) -> bool:
        """Whether inference reads documents below the last click that no ranker places as high as the click.

        If not, `study` may leave them out and move up the documents below them.
        """
        return True

    def params(self) -> Sequence[float]:
        """Return the parameters as the kernels read them."""
        return ()

    def beyond(self) -> int:
        """Return how many documents are drawn beyond k and kept hidden."""
        return 0

    def read_depth(self, k: int, longest: int) -> int:
        """Return how many ranks of each ranking the draw reads."""
        return min(k + self.beyond(), longest)

    def reads_to(self, k: int) -> int | None:
        """Return how many ranks of a ranking the draw and inference depend on; None if all."""
        return None

    def workspace(self, rankers: int, documents: int, k: int) -> tuple[int, int]:
        """Return how many integers and floats of scratch the kernels need, for that many numbered documents."""
        return 4 * (rankers + documents + k + 2), 4 * (rankers + documents + k + 2)

    def check_rankers(self, rankers: int) -> None:
        """Raise an error if this method cannot compare that many rankers."""
        if self.most_rankers is not None and rankers > self.most_rankers:
            able = [name for name, cls in methods().items() if cls.most_rankers is None]
            raise MethodError(
                f"{self.name} compares exactly {self.most_rankers} rankers, and there are {rankers}. "
                f"Use a method that compares any number: {', '.join(able)}."
            )

    @functools.cached_property
    def parameters(self) -> Floats:
        """The parameters as the array that the kernels read."""
        return np.array(self.params(), dtype=np.float64)

    @functools.cached_property
    def spelled(self) -> str:
        """The name with all parameters, defaults included: what an impression keeps."""
        return spell(self.name, {f.name: getattr(self, f.name) for f in fields(self)})

    @functools.cached_property
    def _plan(self) -> Callable[[int, int, int, bool], DrawPlan]:
        """`plan_draw` for this method, cached for recent sizes."""
        return functools.lru_cache(1024)(functools.partial(plan_draw, self))

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # without what is cached

    def __str__(self) -> str:
        return spell(
            self.name,
            {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default},
        )

    def rereads(self, drawn: "Method") -> "Method | None":
        """Return the method that infers as this one would from lists that another drew; None if that is impossible."""
        return self if drawn == self else None

    def combine(
        self,
        rankings: RankingsLike,
        k: int = 10,
        *,
        seed: Seed = None,
        pinned: Mapping[int, Hashable] | None = None,
        propensities: bool = False,
    ) -> Impression:
        """Draw one list of at most k documents to show to a user.

        rankings: a mapping of ranker names to sequences of document ids, best first; a sequence of such sequences
            (rankers are then named "0", "1", ...); or an (R, n) integer array. A ranker that did not answer may be
            mapped to None: it takes no part, and nothing is inferred about it.
        seed: an integer, a string or a `numpy.random.Generator`; the same seed draws the same list on every machine.
            None draws a new one.
        pinned: documents to keep at positions, counted from 0. They use up slots of the k, and take no part in the
            draw and in inference.
        propensities: keep the propensities of what is shown, for `impression.propensity` and for rpm's estimates of
            what each ranker earns alone. rpm computes them for up to six rankers and tdm for two, in microseconds;
            ppm, dpm and opm can tell them from any impression. The service and the clients ask for them if the method
            `keeps_propensities`.

        >>> from multileave import TeamDraft
        >>> TeamDraft().combine({"bm25": "abc", "dense": "bca"}, k=2, seed=4).shown
        ('b', 'a')
        """
        size = page_size(k)
        pins = read_pins(pinned, size) if pinned else {}
        source = read_rankings(rankings, frozenset(pins.values()), some_absent=True)
        self.check_rankers(len(source.names))
        state = seed_state(seed)
        k = size - len(pins)
        drawn, note, ranks, stat = self._draw(source, k, state, propensities and self.weigh_kernel is not weigh_nothing)
        ids = source.decoded(drawn)
        shown = with_pins(ids[:k], pins, size) if pins else ids[:k]
        placed = tuple((shown.index(document), document) for document in pins.values())
        found = Impression(
            source.names, self.spelled, k, tuple(shown), tuple(ids[k:]), placed, source.lengths, ranks, note, stat
        )
        return found.among(source.asked, note_is_ranker=self.note_is_ranker) if source.asked else found

    def _draw(self, source: Source, k: int, state: State, weighed: bool) -> tuple[Longs, Ints, Ints, tuple[float, ...]]:
        """Return the codes, notes and ranks of the drawn documents, and figures of the draw."""
        made = self._plan(len(source.names), source.longest, k, weighed)
        array = source.read(made.read)
        note = np.empty(made.length, dtype=np.int32)
        ranks = np.empty((made.length if self.keeps_ranks else 0, len(source.names)), dtype=np.int32)
        drawn = np.empty(made.longs, dtype=np.int64)
        stat = np.empty(made.floats)
        m = made.draw(
            array, source.lengths, k, made.depth, made.tables, made.figures, self.draw_reads_ranks, self.parameters,
            state, note, ranks, drawn, np.empty(made.integers, dtype=np.int32), stat,
        )  # fmt: skip
        if m < 0:
            raise source.repeat(-1 - m)
        kept = self.keeps_stat
        if weighed:
            kept = min(k, m) if stat[0] > 0.0 else 0
        figures = tuple(stat[:kept].tolist()) if kept else ()
        return drawn[:m], note[:m] if self.keeps_note else NO_NOTE, ranks[:m] if m < len(ranks) else ranks, figures

    def infer(self, impression: Impression, clicked: "np.ndarray[Any, np.dtype[np.uint8]]") -> Outcome:
        """Infer preferences from a uint8 (m,) array of clicks on the drawn documents."""
        rankers, m = len(impression.rankers), len(clicked)
        if (self.keeps_ranks and len(impression.ranks) != m) or (self.keeps_note and len(impression.note) != m):
            raise ImpressionError(
                f"The impression holds {len(impression.ranks)} rows of ranks and {len(impression.note)} notes for "
                f"{m} drawn documents; {self.name} needs one for each. Infer with the method that drew the list."
            )
        if 0 in impression.lengths.tolist():
            return self._infer_present(impression, clicked)
        values = np.zeros((rankers, rankers) if self.outcome == "matrix" else rankers)
        if any(clicked.tobytes()):
            self.check_rankers(rankers)
            integers, floats = self.workspace(rankers, m, impression.k)
            self.credit_kernel(
                impression.ranks, impression.lengths, impression.note, clicked, impression.k, self.parameters,
                values, np.empty(integers, dtype=np.int32), np.empty(floats),
            )  # fmt: skip
        return Outcome(impression.rankers, self.outcome, values)

    def _infer_present(self, impression: Impression, clicked: "np.ndarray[Any, np.dtype[np.uint8]]") -> Outcome:
        """Infer preferences among the rankers that answered; there are none about the others."""
        answered = np.flatnonzero(impression.lengths)
        values = np.zeros((len(impression.rankers), len(impression.rankers)))
        if len(answered) > 1:
            names = [impression.rankers[place] for place in answered]
            present = impression.among(names, note_is_ranker=self.note_is_ranker)
            values[np.ix_(answered, answered)] = self.infer(present, clicked).preferences
        return Outcome(impression.rankers, "matrix", values)


def infer(
    impression: Impression,
    clicks: Iterable[Hashable] = (),
    *,
    positions: Iterable[int] = (),
    method: str | Method | None = None,
    values: Mapping[Hashable, float] | None = None,
) -> Outcome:
    """Infer preferences between rankers from the clicks on an impression.

    clicks: the ids of the clicked documents. If no shown document has an integer id, integers are positions in
        `impression.shown`, counted from 0.
    positions: positions of clicked documents, counted from 0, whatever the ids are.
    method: infer as this method would, if it can read lists of the method that drew the impression: those of ppm, dpm
        and opm are alike, and rpm reads a team draft whose impression holds ranks.
    values: what shown documents earned, such as revenue by id. Rates (`Verdict.rates`) then add up these values instead
        of clicks; preferences do not read them.

    Clicks on pinned documents count for no ranker; a document clicked twice counts once.
    """
    if impression.arm is not None:
        raise ImpressionError(
            f"The impression is a page of {impression.arm!r} alone and compares nothing. Add it to an ArmTally of "
            "multileave.stats.arms."
        )
    shown = impression.shown
    clicked = np.zeros(len(shown) + len(impression.hidden), dtype=np.uint8)
    for click in clicks:
        clicked[position_of(shown, click)] = 1
    for position in positions:
        clicked[checked_position(shown, position)] = 1
    earned: np.ndarray[Any, Any] = clicked if values is None else earned_values(shown, values)
    if impression.pinned:
        fixed = [position for position, _ in impression.pinned]
        clicked, earned = np.delete(clicked, fixed), np.delete(earned, fixed)
    drawn = get_method(impression.method)
    found = (drawn if method is None else reader_of(drawn, get_method(method))).infer(impression, clicked)
    return Outcome(found.rankers, found.kind, found.values, alone(drawn, impression, earned), values is not None)


Impression._propensities = lambda impression: propensities(get_method(impression.method), impression)


def reader_of(drawn: Method, wanted: Method) -> Method:
    """Return the method that infers from lists of one method as another would, or raise an error."""
    reader = wanted.rereads(drawn)
    if reader is None:
        raise MethodError(f"{wanted} cannot infer impressions that {drawn} drew: it needs lists of its own.")
    return reader


_registry: dict[str, type[Method]] = {}
M = TypeVar("M", bound=type[Method])


def register(cls: M) -> M:
    """Register a method, so that `get_method`, the command line and the checks know it.

    A class decorator for subclasses of `Method`; the kernels may be plain functions.
    """
    if not (inspect.isclass(cls) and issubclass(cls, Method)):
        raise MethodError(f"{cls!r} is not a subclass of Method; derive it from multileave.Method.")
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name.isidentifier() or name == RECOMMENDED:
        raise MethodError(f"{cls.__name__}.name is {name!r}; expected an identifier, such as 'ppm'.")
    for step in ("draw_kernel", "credit_kernel", "balance_kernel", "weigh_kernel", "propensity_kernel"):
        function = inspect.getattr_static(cls, step, None)
        if isinstance(function, staticmethod):
            function = function.__func__
        if not callable(function) and not isinstance(function, property):
            raise MethodError(f"{cls.__name__} has no {step}; see multileave.methods.base for its arguments.")
        if not isinstance(function, property):
            setattr(cls, step, as_kernel(function))
    before = _registry.get(name)
    if before is not None and (before.__module__, before.__qualname__) != (cls.__module__, cls.__qualname__):
        raise MethodError(
            f"There already is a method {name!r}, {before.__module__}.{before.__qualname__}. Choose another name."
        )
    _registry[name] = cls
    _from_string.cache_clear()
    return cls


def methods() -> dict[str, type[Method]]:
    """Return all registered methods by name: the recommended one first, then in order of registration."""
    return dict(sorted(_registry.items(), key=lambda item: not item[1].recommended))


def get_method(spec: str | Method) -> Method:
    """Return the method that a string such as ``"ppm"`` or ``"pm(tau=3.0)"`` names.

    "recommended" is the method we recommend, the default of the library and the service.

    >>> str(get_method("recommended"))
    'rpm'
    >>> get_method("pm(tau=2)") == get_method("pm(tau=2.0)")
    True
    >>> str(get_method("ppm(pairs='all')"))
    "ppm(pairs='all')"
    """
    if isinstance(spec, Method):
        return spec
    if not isinstance(spec, str):
        raise MethodError(f"The method is a {type(spec).__name__}; expected a Method or a string such as 'ppm'.")
    return _from_string(spec)


@functools.lru_cache(maxsize=4096)
def _from_string(spec: str) -> Method:
    name, arguments = parse_spec(spec)
    cls = _registry.get(name)
    if name == RECOMMENDED:
        cls = next(cls for cls in _registry.values() if cls.recommended)
    if cls is None:
        raise MethodError(
            f"There is no method {name!r}; expected one of {', '.join(_registry)}.{nearest(name, _registry)}"
        )
    known = [f.name for f in fields(cls)]
    for argument in arguments:
        if argument not in known:
            raise MethodError(
                f"{name} has no parameter {argument!r}; it has {', '.join(known) or 'none'}.{nearest(argument, known)}"
            )
    return cls(**arguments)


def warmup(specs: Iterable[str | Method] | None = None) -> None:
    """Compile, or load from the cache, what single calls of some methods (default: all) need.

    Services call it at startup, so that the first user does not wait.
    """
    for spec in _registry if specs is None else specs:
        method = get_method(spec)
        for rankings in ([["a", "b"], ["b", "a"]], np.array([[0, 1], [1, 0]])):
            infer(method.combine(rankings, 2, seed=0), positions=[0])
