"""Considerateness and fidelity [oosterhuis2017], decided exactly."""

from multileave.theory.checking import check
from multileave.theory.enumeration import distribution, expectation
from multileave.theory.findings import Counterexample, Finding, Report
from multileave.theory.users import Browsing, Cascade, Independent, PositionBased, Returning, exact

__all__ = [
    "Browsing",
    "Cascade",
    "Counterexample",
    "Finding",
    "Independent",
    "PositionBased",
    "Report",
    "Returning",
    "check",
    "distribution",
    "exact",
    "expectation",
]
