"""Whether draws come from a distribution: their distance from it, what distance chance alone gives, and chi-square.

Draws are of one distribution, or of several of which each has draws of its own (the second token after each of some
first tokens). Knows arrays only; probabilities p are [V], float64, sum 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

SIMULATIONS = 4000
CHUNK = 2**21  # numbers drawn at once
LEAST_EXPECTED = 5.0  # draws in a cell of chi-square
OUTSIDE = 0.002  # a right setting is called wrong in one test of so many
DOUBTFUL = 0.05
ALMOST = 1e-9  # two distances of the same counts may differ by rounding

Probabilities = NDArray[np.float64]
Finding = Literal["within", "doubtful", "outside", "untested"]


@dataclass(frozen=True, slots=True)
class Group:
    """One distribution and how often each token was drawn from it."""

    p: Probabilities
    counts: Mapping[int, int]

    @property
    def n(self) -> int:
        """How many draws."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Fit:
    """How far draws are from their distributions.

    `tv` is the total variation between the draws' shares and p (of several groups: the mean, weighted by draws);
    `floor_mean` and `floor_95` are the mean and the 95th percentile of it over simulated tests with as many draws from
    p itself, `tv_share` the share of those that reach `tv`. `chi_square` has `freedom` degrees of freedom (0: too few
    draws for it) and the p-value `chi_share`; cells expected fewer than 5 times are one. `impossible` draws have p 0.
    """

    n: int
    tv: float
    floor_mean: float
    floor_95: float
    tv_share: float
    chi_square: float
    freedom: int
    chi_share: float | None
    impossible: int


def fit(groups: Sequence[Group], seed: int = 0, simulations: int = SIMULATIONS) -> Fit:
    """The Fit of these groups, which hold a draw at least; the simulation's random numbers are those of `seed`."""
    groups = [group for group in groups if group.n]
    total = sum(group.n for group in groups)
    rng = np.random.default_rng(seed)
    tv = sum(group.n / total * distance(group) for group in groups)
    floor = sum((group.n / total * simulated(group.p, group.n, simulations, rng) for group in groups), np.zeros(1))
    cells = [chi_square(group) for group in groups]
    value, freedom = sum(v for v, _ in cells), sum(f for _, f in cells)
    return Fit(
        n=total,
        tv=tv,
        floor_mean=float(floor.mean()),
        floor_95=float(np.quantile(floor, 0.95)),
        tv_share=float((1 + (floor >= tv - ALMOST).sum()) / (1 + simulations)),
        chi_square=value,
        freedom=freedom,
        chi_share=upper_tail(value, freedom) if freedom else None,
        impossible=sum(n for group in groups for token, n in group.counts.items() if group.p[token] == 0),
    )


def distance(group: Group) -> float:
    """Total variation between the shares of the draws and p: what is too much, summed over tokens."""
    n = group.n
    return float(sum(max(count / n - group.p[token], 0.0) for token, count in group.counts.items()))


def simulated(p: Probabilities, n: int, simulations: int, rng: np.random.Generator) -> Probabilities:
    """The distances [simulations] of so many tests with `n` draws from `p`."""
    possible = np.flatnonzero(p)
    chances = p[possible]
    edges = chances.cumsum()
    rows = max(1, CHUNK // n)
    parts = []
    for start in range(0, simulations, rows):
        count = min(rows, simulations - start)
        drawn = np.searchsorted(edges, rng.random((count, n)) * edges[-1], side="right").clip(max=len(possible) - 1)
        drawn.sort(axis=1)
        starts = np.ones((count, n), dtype=bool)
        starts[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
        at = np.flatnonzero(starts.ravel())
        lengths = np.diff(np.append(at, count * n))
        beyond = np.maximum(lengths / n - chances[drawn.ravel()[at]], 0.0)
        parts.append(np.bincount(at // n, weights=beyond, minlength=count))
    return np.concatenate(parts)


def chi_square(group: Group) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom. Tokens expected less than LEAST_EXPECTED times are one cell, and
    join the smallest other one where they are still too few together."""
    n = group.n
    large = np.flatnonzero(group.p * n >= LEAST_EXPECTED)
    expected = [float(group.p[token] * n) for token in large]
    seen = [group.counts.get(int(token), 0) for token in large]
    rest_expected, rest_seen = max(0.0, n - sum(expected)), n - sum(seen)
    if rest_expected >= LEAST_EXPECTED or not expected:
        expected, seen = [*expected, rest_expected], [*seen, rest_seen]
    else:
        smallest = min(range(len(expected)), key=lambda i: expected[i])
        expected[smallest] += rest_expected
        seen[smallest] += rest_seen
    if len(expected) < 2:
        return 0.0, 0
    return sum((s - e) ** 2 / e for s, e in zip(seen, expected, strict=True)), len(expected) - 1


def upper_tail(value: float, freedom: int) -> float:
    """The chance that chi-square with so many degrees of freedom reaches `value`."""
    half = torch.tensor([freedom / 2, value / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def p_value(fits: Sequence[Fit]) -> float:
    """The chance that a right setting gives one of these fits' tests a result as extreme as their most extreme
    (Bonferroni: the least p-value times their number, at most 1)."""
    shares = [share for one in fits for share in (one.tv_share, one.chi_share) if share is not None]
    return min(1.0, len(shares) * min(shares, default=math.inf))


def judge(fits: Sequence[Fit], exact_numbers: bool = True) -> Finding:
    """What the fits together say. `exact_numbers`: rounding cannot have moved a token across the edge of the possible,
    so that a draw of probability 0 is a fault."""
    if not fits:
        return "untested"
    if exact_numbers and any(one.impossible for one in fits):
        return "outside"
    chance = p_value(fits)
    return "outside" if chance < OUTSIDE else "doubtful" if chance < DOUBTFUL else "within"
