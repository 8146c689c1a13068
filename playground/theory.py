"""The formulas of speculative decoding, for numbers only: no run, no model, no figure."""

from collections.abc import Mapping


def expected_tokens(alpha: float, k: float) -> float:
    """Expected tokens of a round that drafts `k`, each accepted with probability `alpha`:
    (1 - alpha^(k+1)) / (1 - alpha), and k + 1 in the limit alpha = 1.

    Source: Leviathan et al. 2023 (arXiv 2211.17192), equation 1.
    """
    if alpha >= 1.0:
        return k + 1.0
    return float((1.0 - alpha ** (k + 1.0)) / (1.0 - alpha))


def predicted_speedup(alpha: float, k: float, c: float, verify: float = 1.0) -> float:
    """(1 - alpha^(k+1)) / ((1 - alpha) (k c + verify)): walltime improvement over plain decoding.

    `c` is the cost of drafting a token and `verify` that of the checking pass, both in one-token
    target passes; the theorem takes `verify` as 1.

    Source: Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.8.
    """
    return expected_tokens(alpha, k) / (k * c + verify)


def predicted_speedup_of_rounds(
    alpha: float, rounds_by_length: Mapping[int, int], c: float, verify: float = 1.0
) -> float | None:
    """Theorem 3.8 for rounds whose drafts differ in length (a lookup that finds nothing drafts 0):
    the expected tokens of all rounds over their expected cost. With one length it is the theorem.

    `rounds_by_length` says how many rounds drafted that many tokens; None where there is no round.
    """
    cost = sum(n * (k * c + verify) for k, n in rounds_by_length.items())
    expected = sum(n * expected_tokens(alpha, k) for k, n in rounds_by_length.items())
    return expected / cost if cost > 0 else None


def best_k(alpha: float, c: float, verify: float = 1.0, k_max: int = 32) -> int:
    """The draft length of the highest predicted speedup, from 1 to `k_max`."""
    return max(range(1, k_max + 1), key=lambda k: predicted_speedup(alpha, k, c, verify))
