"""What transformers' `generate` calls the settings of a run: the one place that knows. Values are plain, models and
tokenizers are named by a Part; it loads nothing and writes no code.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from playground.trace import Request


class Part(Enum):
    """An object that an argument is, by what it is for."""

    ASSISTANT = "assistant"
    TOKENIZER = "tokenizer"
    ASSISTANT_TOKENIZER = "assistant_tokenizer"


Arguments = dict[str, Any]
MODELS = ("assistant", "mtp-drafter")  # strategies whose drafter is an `assistant_model`


def drafting(request: Request) -> Arguments | None:
    """What makes `generate` draft in this way; None where it cannot. Of the verifiers it knows the exact one and the
    ensemble."""
    weight = _weight(request)
    if request.strategy == "plain":
        return {}
    if request.strategy in MODELS:
        return {"assistant_model": Part.ASSISTANT, **weight}
    if request.strategy == "prompt-lookup":
        return {"prompt_lookup_num_tokens": request.k, "max_matching_ngram_size": int(request.setting("ngram", 3))}
    if request.strategy == "early-exit":
        return {"assistant_early_exit": int(request.setting("exit_layer", 1)), **weight}
    if request.strategy == "mtp":
        return {"use_mtp": True, **weight}  # drafts one token a layer, whatever K is
    if request.strategy == "universal" and request.temperature == 0 and not weight:
        # Its sampled path changes the assistant's weights for good, and its greedy one knows no q.
        return {
            "assistant_model": Part.ASSISTANT,
            "tokenizer": Part.TOKENIZER,
            "assistant_tokenizer": Part.ASSISTANT_TOKENIZER,
        }
    return None


def _weight(request: Request) -> Arguments:
    if request.verifier != "ensemble":
        return {}
    return {"assistant_ensemble_weight": dict(request.verifier_settings)["weight"]}


def draft_length(request: Request) -> Arguments:
    """What says how many tokens are drafted. `generate` takes it from the generation configuration of the model that
    drafts, and ignores it among its own arguments."""
    schedule, confidence = request.setting("schedule", "constant"), request.setting("confidence", 0.0)
    unsure = schedule == "confidence" or request.strategy == "early-exit"
    out: Arguments = {
        "num_assistant_tokens": request.k,
        "num_assistant_tokens_schedule": "heuristic_transient" if schedule == "heuristic" else "constant",
        "assistant_confidence_threshold": confidence if unsure else 0.0,
    }
    if request.strategy == "universal":
        out["assistant_lookbehind"] = int(request.setting("lookbehind", 10))
    return out


def drafts_by(arguments: Mapping[str, Any]) -> str | None:
    """Whose generation configuration `draft_length` belongs to: assistant, model (the target), or nobody's."""
    if "assistant_early_exit" in arguments:
        return "model"
    return "assistant" if "assistant_model" in arguments else None


def law(request: Request) -> Arguments:
    """What the target's distribution is made with. What is off is given too: a checkpoint's own settings may have it
    on, and top-k is on by itself."""
    out: Arguments = {"do_sample": request.temperature > 0}
    if request.temperature > 0:
        # A whole number is refused where a float is expected.
        out |= {"temperature": float(request.temperature), "top_k": request.top_k, "top_p": float(request.top_p)}
        out |= {"min_p": float(request.min_p)} if request.min_p else {}
    return out | {"repetition_penalty": float(request.repetition_penalty)}
