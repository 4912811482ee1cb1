"""Intervals: for one look and for any number of looks, and the formulas they share."""
