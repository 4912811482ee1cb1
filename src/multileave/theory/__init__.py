"""Considerateness and fidelity [oosterhuis2017], decided exactly."""

from multileave.theory.checking import check
from multileave.theory.enumeration import distribution, expectation
from multileave.theory.findings import Counterexample, Finding, Report
from multileave.theory.users import Cascade, Independent

__all__ = ["Cascade", "Counterexample", "Finding", "Independent", "Report", "check", "distribution", "expectation"]
