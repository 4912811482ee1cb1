"""What is known about each document: a Beta prior by exposure, and the posterior given all pages, by quadrature.

Rankers put good documents on top, so a prior that ignores where a document was shown would take part of what is due to
attractiveness for examination. Documents are therefore put into classes by the mean rank at which their query's pages
showed them, and every class has a Beta prior of its own, fitted by marginal likelihood: a correlated random effect
[mundlak1978]. Documents that were rarely shown shrink to the mean of their class.

The posterior density of attractiveness a is

    prior(a) a^hits (1 - a)^fails prod_b (1 - rho_b a)^bins_b,    rho_b = b / 16

where weights between two values of rho are shared linearly. For documents with little data, Gauss-Jacobi quadrature
with the prior as its weight integrates this exactly; for others the trapezoidal rule on the logit scale around the mode
does.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, roots_jacobi

from multileave.clicks.fitting.pages import Pages
from multileave.kernels import kernel, vector_kernel
from multileave.outcome import Floats

NODES = 24
BINS = 17
TINY = 1e-300
DENSE = 40.0  # impressions from which the trapezoidal rule is used; Gauss-Jacobi is exact below 2 NODES
# Bounds of the prior's parameters. Sessions that show a page again make documents look as if they were clicked always
# or never; a prior with more weight near 0 predicts worse than none.
LEAST, MOST = 0.2, 200.0
SIZE, SIZE_SPREAD = 5.0, 1.5  # of the prior's own prior
CLASSES = 20
DOCUMENTS_PER_CLASS = 50


def exposure_classes(pages: Pages) -> Any:
    """Return the class of each document: by the mean rank on its query's pages, k + 1 where it is missing."""
    k = pages.k
    weights = np.bincount(pages.row_list, pages.row_weights(), minlength=len(pages.lists))
    shown = pages.lists >= 0
    found = pages.lists[shown]
    counts = np.broadcast_to(weights[:, None], shown.shape)[shown]
    ranks = np.broadcast_to(np.arange(1.0, k + 1), shown.shape)[shown]
    times = np.bincount(found, counts, minlength=pages.documents)
    summed = np.bincount(found, counts * ranks, minlength=pages.documents)
    of_query = np.bincount(pages.query, weights, minlength=pages.queries)
    query = np.zeros(pages.documents, dtype=np.int64)
    query[found] = np.broadcast_to(pages.query[:, None], shown.shape)[shown]
    total = np.maximum(of_query[query], times)
    mean = (summed + (total - times) * (k + 1)) / np.maximum(total, 1.0)
    count = int(np.clip(pages.documents // DOCUMENTS_PER_CLASS, 1, CLASSES))
    edges = np.quantile(mean, np.linspace(0.0, 1.0, count + 1)[1:-1])
    return np.unique(np.searchsorted(edges, mean), return_inverse=True)[1]


@dataclass(eq=False)
class Tables:
    """The nodes, weights and logarithms of the quadrature for each class of documents."""

    alpha: Floats
    beta: Floats

    def __post_init__(self) -> None:
        size = len(self.alpha), NODES
        self.nodes, self.log_weights, self.log_hit, self.log_fail = (np.zeros(size) for _ in range(4))
        self.log_miss = np.zeros((len(self.alpha), BINS, NODES))
        for z in range(len(self.alpha)):
            self.set_class(z, self.alpha[z], self.beta[z])

    def set_class(self, z: int, alpha: float, beta: float) -> None:
        """Set the prior of a class."""
        if (alpha, beta) == (self.alpha[z], self.beta[z]) and self.nodes[z, 0] > 0.0:
            return
        self.alpha[z], self.beta[z] = alpha, beta
        with np.errstate(invalid="ignore"):  # SciPy divides 0 by 0, and then leaves the result out
            x, weights = roots_jacobi(NODES, beta - 1.0, alpha - 1.0)
        self.nodes[z] = np.clip((1.0 + x) / 2.0, 1e-15, 1.0 - 1e-15)
        self.log_weights[z] = np.log(np.maximum(weights / weights.sum(), 1e-300))
        self.log_hit[z] = np.log(self.nodes[z])
        self.log_fail[z] = np.log1p(-self.nodes[z])
        self.log_miss[z] = np.log1p(-np.arange(BINS)[:, None] / (BINS - 1.0) * self.nodes[z])

    def updated(self, logs: Floats) -> tuple[Floats, Floats, Floats]:
        """Return alpha and beta after a Newton step for the logit of the mean and the log of the size, and the size.

        logs: (Z, 6) sums over the documents of a class of the posterior expectations of log a and log(1 - a), of their
            variances and their covariance, and the number of documents.
        The size alpha + beta has a weak prior around 5, for classes that say nothing about it.
        """
        counts = logs[:, 5]
        weights = np.exp(self.log_weights)
        hit, fail = (weights * self.log_hit).sum(1), (weights * self.log_fail).sum(1)
        moments = np.stack(
            [(weights * self.log_hit**2).sum(1) - hit**2, (weights * self.log_fail**2).sum(1) - fail**2,
             (weights * self.log_hit * self.log_fail).sum(1) - hit * fail], axis=1,
        )  # fmt: skip
        # The same nodes for posterior and prior, so that the error of the quadrature cancels.
        by_alpha, by_beta = (logs[:, :2] - counts[:, None] * np.stack([hit, fail], axis=1)).T
        whole = counts[:, None] * moments
        size = self.alpha + self.beta
        mean = self.alpha / size
        scale = size * mean * (1.0 - mean)

        def information(m: Floats) -> Floats:
            """Return the information about the logit of the mean, and the logs of size, alpha and beta."""
            of_alpha, of_beta, both = self.alpha**2 * m[:, 0], self.beta**2 * m[:, 1], self.alpha * self.beta * m[:, 2]
            by_mean = scale**2 * (m[:, 0] + m[:, 1] - 2.0 * m[:, 2])
            return np.stack([by_mean, of_alpha + of_beta + 2.0 * both, of_alpha, of_beta])

        known = np.maximum(information(whole - logs[:, 2:5]), 0.1 * information(whole))
        pull = np.log(size / SIZE) / SIZE_SPREAD**2
        curve = 1.0 / SIZE_SPREAD**2
        mean_step = scale * (by_alpha - by_beta) / np.maximum(known[0], 1e-6)
        size_step = (self.alpha * by_alpha + self.beta * by_beta - pull) / (known[1] + curve)
        # At a bound of one parameter, the other has its own step.
        alpha_step = (self.alpha * by_alpha - mean * pull) / (known[2] + mean**2 * curve)
        beta_step = (self.beta * by_beta - (1.0 - mean) * pull) / (known[3] + (1.0 - mean) ** 2 * curve)
        moved = expit(logit(mean) + np.clip(mean_step, -1.0, 1.0))
        size = size * np.exp(np.clip(size_step, -0.5, 0.5))
        alpha, beta = size * moved, size * (1.0 - moved)
        alone = self.alpha * np.exp(np.clip(alpha_step, -0.5, 0.5)), self.beta * np.exp(np.clip(beta_step, -0.5, 0.5))
        alpha, beta = np.where(beta < LEAST, alone[0], alpha), np.where(alpha < LEAST, alone[1], beta)
        return np.clip(alpha, LEAST, MOST), np.clip(beta, LEAST, MOST), size


@vector_kernel
def slopes(u, hits, fails, bins):  # type: ignore[no-untyped-def]
    """Return the first and second derivative of the log posterior density of u = logit a."""
    a = 1.0 / (1.0 + np.exp(-u))
    first = hits * (1.0 - a) - fails * a
    second = -(hits + fails) * a * (1.0 - a)
    whole = 1.0 / (len(bins) - 1.0)
    for b in range(len(bins)):
        part = b * whole * a * (1.0 - a) / max(1.0 - b * whole * a, TINY)
        first -= bins[b] * part
        second -= bins[b] * part * (1.0 - 2.0 * a + part)
    return first, second


@kernel
def log_density(u, hits, fails, bins):  # type: ignore[no-untyped-def]
    """Return the log posterior density of u = logit a but for a constant, log a and log(1 - a)."""
    a = 1.0 / (1.0 + np.exp(-u))
    log_hit = np.log(a)
    log_fail = log_hit - u
    height = hits * log_hit + fails * log_fail
    whole = 1.0 / (len(bins) - 1.0)
    for b in range(1, len(bins)):
        if bins[b] != 0.0:
            height += bins[b] * np.log(1.0 - b * whole * a)
    return height, log_hit, log_fail


@kernel
def dense_posterior(hits, fails, bins, points):  # type: ignore[no-untyped-def]
    """Return mean and variance of a, means, variances and covariance of log a and log(1 - a).

    hits and fails include the prior's.
    """
    effective = fails
    for b in range(len(bins)):
        effective += bins[b] * b / (len(bins) - 1.0)
    u = np.log(hits / effective)
    second = -1.0
    for _ in range(30):
        first, second = slopes(u, hits, fails, bins)
        if second >= -1e-9:
            second = -1e-9 - (hits + effective) * 0.01
        step = min(max(-first / second, -1.0), 1.0)
        u += step
        if abs(step) < 1e-6:
            break
    first, second = slopes(u, hits, fails, bins)
    deviation = 1.0 / np.sqrt(max(-second, 1e-6))
    low = max(u - max(6.0 * deviation, 12.0 / hits), -500.0)  # exp(500) is still a number
    high = u + 6.0 * deviation
    peak = log_density(u, hits, fails, bins)[0]
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for g in range(points):
        at = low + (high - low) * g / (points - 1.0)
        height, log_hit, log_fail = log_density(at, hits, fails, bins)
        p = np.exp(height - peak)
        a = np.exp(log_hit)
        s0 += p
        s1 += p * a
        s2 += p * a * a
        s3 += p * log_hit
        s4 += p * log_fail
        s5 += p * log_hit * log_hit
        s6 += p * log_fail * log_fail
        s7 += p * log_hit * log_fail
    mean, hit, fail = s1 / s0, s3 / s0, s4 / s0
    variance = max(s2 / s0 - mean * mean, 0.0)
    return mean, variance, hit, fail, s5 / s0 - hit * hit, s6 / s0 - fail * fail, s7 / s0 - hit * fail


@vector_kernel
def exponential(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for x <= 0 with an error below 1e-14; loops over it vectorise, as it has no branches."""
    t = max(x, -40.0) / 64.0
    p = 1 / 24 + t * (1 / 120 + t * (1 / 720 + t * (1 / 5040 + t * (1 / 40320))))
    p = 1.0 + t * (1.0 + t * (1 / 2 + t * (1 / 6 + t * p)))
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    return p * p


@vector_kernel
def sparse_posterior(  # type: ignore[no-untyped-def]
    hits, fails, bins, nodes, log_weights, log_hit, log_fail, log_miss, chance, part
):
    """Return what `dense_posterior` does, for a document with little data, and write its chances on the nodes.

    part: work space for the nodes.
    """
    points = len(nodes)
    for g in range(points):
        part[g] = log_weights[g] + hits * log_hit[g] + fails * log_fail[g]
    for b in range(1, len(bins)):
        if bins[b] != 0.0:
            for g in range(points):
                part[g] += bins[b] * log_miss[b, g]
    peak = part[0]
    for g in range(points):
        peak = max(peak, part[g])
    whole = 0.0
    for g in range(points):
        part[g] = exponential(part[g] - peak)
        whole += part[g]
    s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for g in range(points):
        p = part[g] / whole
        chance[g] = p
        s1 += p * nodes[g]
        s2 += p * nodes[g] * nodes[g]
        s3 += p * log_hit[g]
        s4 += p * log_fail[g]
        s5 += p * log_hit[g] * log_hit[g]
        s6 += p * log_fail[g] * log_fail[g]
        s7 += p * log_hit[g] * log_fail[g]
    return s1, max(s2 - s1 * s1, 0.0), s3, s4, s5 - s3 * s3, s6 - s4 * s4, s7 - s3 * s4


@vector_kernel
def mean_without(r, chance, nodes):  # type: ignore[no-untyped-def]
    """Return the posterior mean of a document with little data, less a factor 1 - r a of its posterior."""
    below = above = 0.0
    for g in range(len(chance)):
        p = chance[g] / (1.0 - r * nodes[g])
        below += p
        above += p * nodes[g]
    return above / below


@vector_kernel
def total(values):  # type: ignore[no-untyped-def]
    """Return the sum."""
    found = 0.0
    for value in values:
        found += value
    return found


@kernel
def update_posterior(  # type: ignore[no-untyped-def]
    kind,
    alpha,
    beta,
    nodes,
    log_weights,
    log_hit,
    log_fail,
    log_miss,
    hits,
    fails,
    bins,
    mean,
    spread,
    dense,
    chance,
    logs,
    part,
):
    """Write each document's posterior mean and variance, and its chances on the nodes if it has little data.

    kind: the class of each. logs: (Z, 6), see `Tables.updated`; documents without data are left out.
    """
    points = nodes.shape[1]
    logs[:] = 0.0
    for d in range(len(kind)):
        z = kind[d]
        seen = hits[d] + fails[d] + total(bins[d])
        if seen == 0.0:
            size = alpha[z] + beta[z]
            mean[d] = alpha[z] / size
            spread[d] = mean[d] * (1.0 - mean[d]) / (size + 1.0)
            continue
        logs[z, 5] += 1.0
        if seen > DENSE:
            dense[d] = 1
            found = dense_posterior(alpha[z] + hits[d], beta[z] + fails[d], bins[d], points)
        else:
            dense[d] = 0
            found = sparse_posterior(
                hits[d],
                fails[d],
                bins[d],
                nodes[z],
                log_weights[z],
                log_hit[z],
                log_fail[z],
                log_miss[z],
                chance[d],
                part,
            )
        mean[d] = found[0]
        spread[d] = found[1]
        for j in range(5):
            logs[z, j] += found[2 + j]
