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


def best_k(alpha: float, c: float, verify: float = 1.0, k_max: int = 32, wider: float = 0.0) -> int:
    """The draft length of the highest predicted speedup, from 1 to `k_max`; the smallest where several are.

    A pass over k drafted tokens costs `verify` + k `wider` one-token passes.
    """
    return max(range(1, k_max + 1), key=lambda k: predicted_speedup(alpha, k, c, verify + k * wider))


def wider_pass(k: float, v: float) -> float:
    """1 + k v: the target pass that checks `k` drafted tokens, in one-token passes, where each further token makes it
    longer by `v` of one. 0: further tokens are free, as theorem 3.8 assumes. 1: each costs a pass, as plain decoding.
    """
    return 1.0 + k * v


def round_speedup(alpha: float, k: float, c: float, v: float = 0.0) -> float:
    """Theorem 3.8 with 1 + k v in place of 1 for the target pass: expected tokens / (k c + 1 + k v).

    As k c + 1 + k v = k (c + v) + 1, a wider pass that costs more acts like a drafter that does.
    """
    return predicted_speedup(alpha, k, c, wider_pass(k, v))


def can_speed_up(alpha: float, c: float, v: float = 0.0) -> bool:
    """Whether any draft length is faster than plain decoding: alpha > c + v.

    One token gains where 1 + alpha > 1 + c + v; and k tokens give at most 1 + k alpha, so that they lose where one
    does.

    Source: Leviathan et al. 2023 (arXiv 2211.17192), corollary 3.9, which has v = 0.
    """
    return alpha > c + v


def least_best_speedup(alpha: float, c: float, v: float = 0.0) -> float:
    """(1 + alpha) / (1 + c + v): what the best draft length gives at least, since a draft of one token gives it.

    Source: Leviathan et al. 2023 (arXiv 2211.17192), corollary 3.9, which has v = 0.
    """
    return (1.0 + alpha) / (1.0 + c + v)


def break_even_cost(alpha: float, k: float) -> float:
    """The c + v at which drafts of `k` tokens are exactly as fast as plain decoding: (expected tokens - 1) / k."""
    return (expected_tokens(alpha, k) - 1.0) / k


def break_even_alpha(k: float, c: float, v: float = 0.0) -> float | None:
    """The smallest alpha at which drafts of `k` tokens are as fast as plain decoding; None where none is, not even 1.

    The root of expected tokens = k (c + v) + 1, whose left side rises from 1 at alpha = 0 to k + 1 at alpha = 1.
    """
    cost = c + v
    if cost > 1.0:
        return None
    low, high = 0.0, 1.0
    if cost == 0.0 or cost == 1.0:
        return cost
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if break_even_cost(middle, k) < cost else (low, middle)
    return high


def target_passes(alpha: float, k: float) -> float:
    """Target passes, and so reads of the target's weights, per token: 1 / expected tokens. Plain decoding has 1.

    Source: Leviathan et al. 2023 (arXiv 2211.17192), section 3.4.
    """
    return 1.0 / expected_tokens(alpha, k)


def operations_factor(alpha: float, k: float, c_operations: float) -> float:
    """(1 - alpha) (k c' + k + 1) / (1 - alpha^(k+1)): arithmetic operations per token, as a multiple of plain
    decoding's. Never below 1 + k c' / (k + 1): what is saved is time and memory traffic, not arithmetic.

    `c_operations` (c', the paper's c with a hat) is what a drafted token takes, as a share of what the target takes
    for a token.

    Source: Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.11.
    """
    return (k * c_operations + k + 1.0) / expected_tokens(alpha, k)
