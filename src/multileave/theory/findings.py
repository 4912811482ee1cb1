"""The result of a check: counterexamples that can be verified, findings, and the report."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from multileave.methods.exact import ExactRankings
from multileave.theory.users import User, user_from_dict


@dataclass(frozen=True)
class Counterexample:
    """An instance that violates a requirement.

    considerate: the list `shown`, and the `rank` that no ranker justifies.
    unbiased, pareto: a user, the relevant documents (pareto) and E[P] of the pair of rankers (from 0). It should be
        zero (unbiased), or positive as the first of the pair dominates all others (pareto).
    clone_proof: the last ranker copies the one numbered `copied`. expectation is how much that changes the preference
        between the pair, for pages with some pattern of relevance and these clicks.
    full: the rankings of all documents, if rankers returned only a part.
    """

    requirement: str
    rankings: ExactRankings
    k: int
    relevant: frozenset[Hashable] = frozenset()
    user: User | None = None
    pair: tuple[int, int] | None = None
    expectation: Fraction | None = None
    shown: tuple[Hashable, ...] = ()
    rank: int = 0
    full: ExactRankings = ()
    copied: int = -1

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, from which `theory.expectation` reproduces the expectation."""
        data: dict[str, Any] = {
            "requirement": self.requirement,
            "rankings": [list(ranking) for ranking in self.rankings],
            "k": self.k,
        }
        if self.requirement == "considerate":
            return {**data, "shown": list(self.shown), "rank": self.rank}
        assert self.user is not None
        if self.full:
            data["full_rankings"] = [list(ranking) for ranking in self.full]
        if self.copied >= 0:
            data["copied"] = self.copied
        return {
            **data,
            "relevant": sorted(self.relevant, key=str),
            "user": self.user.to_dict(),
            "rankers": list(self.pair or ()),
            "expectation": str(self.expectation),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Counterexample":
        """Return the counterexample that `to_dict` wrote."""
        rankings = tuple(tuple(ranking) for ranking in data["rankings"])
        if data["requirement"] == "considerate":
            return cls("considerate", rankings, data["k"], shown=tuple(data["shown"]), rank=data["rank"])
        return cls(
            data["requirement"], rankings, data["k"], relevant=frozenset(data["relevant"]),
            user=user_from_dict(data["user"]), pair=(data["rankers"][0], data["rankers"][1]),
            expectation=Fraction(data["expectation"]), copied=data.get("copied", -1),
            full=tuple(tuple(ranking) for ranking in data.get("full_rankings", ())),
        )  # fmt: skip

    def __str__(self) -> str:
        lists = " / ".join(_joined(ranking) for ranking in self.rankings)
        if self.requirement == "considerate":
            return f"{lists}, k={self.k}: {_joined(self.shown)} shows {self.shown[self.rank - 1]} at rank {self.rank}"
        assert self.pair is not None
        n, m = (i + 1 for i in self.pair)
        if self.requirement == "clone_proof":
            return (
                f"{lists}, k={self.k}, ranker {len(self.rankings)} copies {self.copied + 1}: P{n}{m} changes by "
                f"{_readable(self.expectation)} for clicks {_described(self.user)}"
            )
        if self.full and self.full != self.rankings:
            lists += f" of {' / '.join(_joined(ranking) for ranking in self.full)}"
        if self.requirement == "unbiased":
            who = f"clicks {_described(self.user)} on every list"
        else:
            who = f"{', '.join(map(str, sorted(self.relevant, key=str)))} relevant, user {_described(self.user)}"
        return f"{lists}, k={self.k}, {who}: E[P{n}{m}] = {_readable(self.expectation)}"


@dataclass(frozen=True)
class Finding:
    """What was found about one requirement.

    by_size: (documents, k) -> (violations, instances).
    covers: the users it applies to. proved: whether the method has a proof for every size.
    """

    requirement: str
    counterexample: Counterexample | None
    by_size: dict[tuple[int, int], tuple[int, int]]
    covers: str
    proved: bool = False

    @property
    def holds(self) -> bool:
        """Whether no counterexample was found."""
        return self.counterexample is None

    @property
    def violations(self) -> int:
        """How many instances violate the requirement, over all sizes and k."""
        return sum(broken for broken, _ in self.by_size.values())

    @property
    def instances(self) -> int:
        """How many instances were decided, over all sizes and k."""
        return sum(total for _, total in self.by_size.values())

    def __bool__(self) -> bool:
        return self.holds

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "holds": self.holds,
            "proved": self.proved,
            "covers": self.covers,
            "violations": self.violations,
            "instances": self.instances,
            "by_size": [
                {"documents": d, "k": k, "violations": broken, "instances": total}
                for (d, k), (broken, total) in self.by_size.items()
            ],
            "counterexample": self.counterexample.to_dict() if self.counterexample else None,
        }


@dataclass(frozen=True)
class Report:
    """What was found about one method.

    considerate, unbiased, pareto, clone_proof: a Finding each, with a counterexample or None.
    returned: how many documents each ranker returned of its ranking; None for all, "any" for every number.
    infeasible: instances for which the method reports that it cannot be unbiased (om's slack); they are left out of
        the findings.
    exact: whether everything was computed; otherwise `draws` lists were simulated per instance.
    """

    method: str
    documents: int
    rankers: int
    user: str
    considerate: Finding
    unbiased: Finding
    pareto: Finding
    clone_proof: Finding
    exact: bool = True
    draws: int = 0
    searched: int = 0
    infeasible: tuple[tuple[ExactRankings, int], ...] = field(default=())
    returned: int | str | None = None

    @property
    def findings(self) -> tuple[Finding, Finding, Finding, Finding]:
        """The findings: the paper's three in its order, then clone-proofness."""
        return self.considerate, self.unbiased, self.pareto, self.clone_proof

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "method": self.method,
            "documents": self.documents,
            "rankers": self.rankers,
            "user": self.user,
            "exact": self.exact,
            "draws": self.draws,
            "searched": self.searched,
            "returned": self.returned,
            **{finding.requirement: finding.to_dict() for finding in self.findings},
            "infeasible": [
                {"rankings": [list(ranking) for ranking in rankings], "k": k} for rankings, k in self.infeasible
            ],
        }

    def __str__(self) -> str:
        lines = [f"{self.method}: up to {self.documents} documents, {self.rankers} rankers"]
        if not self.exact:
            lines[0] += f", not exact: {self.draws} simulated draws each"
        for finding in self.findings:
            if finding.counterexample is None:
                verdict = f"no violation in {finding.instances} cases" + (", proved" if finding.proved else "")
            else:
                verdict = f"violated in {finding.violations} of {finding.instances} cases: {finding.counterexample}"
            lines.append(f"  {finding.requirement:<12} {verdict}")
        if self.infeasible:
            lines.append(f"  infeasible   {len(self.infeasible)} cases, left out above")
        return "\n".join(lines)


def _joined(documents: tuple[Hashable, ...]) -> str:
    names = [str(document) for document in documents]
    return "".join(names) if all(len(name) == 1 for name in names) else " ".join(names)


def _readable(value: Fraction | None) -> str:
    if value is None or (len(str(value)) <= 12 and abs(value.denominator) < 10**6):
        return str(value)
    return f"{float(value):.3g}"


def _described(user: User | None) -> str:
    if user is None:
        return "unknown"
    data = user.to_dict()
    if data["kind"] == "independent":
        if data["relevant"] == data["other"]:
            return "at rank " + ", ".join(
                str(x) if chance == "1" else f"{x} ({chance})"
                for x, chance in enumerate(data["relevant"], 1)
                if chance != "0"
            )
        return "clicks " + ", ".join(f"{a}|{b}" for a, b in zip(data["relevant"], data["other"], strict=True))
    return " ".join([data.pop("kind"), *(f"{name} {_listed(values)}" for name, values in data.items() if values)])


def _listed(values: Any) -> str:
    """Return probabilities on one line, those of several ranks or grades separated by slashes."""
    if not isinstance(values, list):
        return str(values).lower()
    return "/".join(f"({_listed(value)})" if isinstance(value, list) else str(value) for value in values)
