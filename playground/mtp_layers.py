"""The prediction layers that a target's own checkpoint holds: loaded once for each model in memory, shared by its runs.

It knows checkpoints; it knows no draft, no cache and no request.
"""

import threading
from typing import Any
from weakref import WeakKeyDictionary

from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel

from playground.fused import fused
from playground.trace import InvalidRequest

WITH_LAYERS = (
    "choose a target that has them, story-teller for example, or a folder of DeepSeek-V3, GLM-4.5 or GLM-4.5-Air"
)
_lock = threading.Lock()
_loaded: "WeakKeyDictionary[Any, MtpModel]" = WeakKeyDictionary()


def prediction_layers(model: Any, name: str) -> MtpModel:
    """The prediction layers of `model`, which has that name, with its embedding and output layer.

    Read from the checkpoint at the first call and kept as long as `model` is; transformers' `generate` reads them
    again at every run.

    Raises:
        InvalidRequest: its configuration names no such layers, its files do not hold them, or they keep a state
            that cannot go back over rejected tokens.
    """
    with _lock:
        if model not in _loaded:
            _loaded[model] = _load(model, name)
        return _loaded[model]


def _load(model: Any, name: str) -> MtpModel:
    if not getattr(model.config.get_text_config(decoder=True), "num_mtp_layers", None):
        raise InvalidRequest(
            f"{name} ({type(model).__name__}) has no layers for multi-token prediction: {WITH_LAYERS}, "
            "or another strategy."
        )
    try:
        layers = MtpModel.from_pretrained(model)
        cache = MtpCache(config=layers.config)
    except (OSError, ValueError, RuntimeError, TypeError, AttributeError, KeyError) as error:
        raise InvalidRequest(
            f"The configuration of {name} promises layers for multi-token prediction, but they could not be loaded "
            f"from {model.config.name_or_path or 'its files, since it has none'}: {WITH_LAYERS}. {error}"
        ) from error
    stuck = [type(layer).__name__ for layer in cache.layers if not getattr(layer, "is_croppable", False)]
    if stuck:
        raise InvalidRequest(
            f"The prediction layers of {name} keep a {stuck[0]}, which cannot go back over rejected tokens: "
            f"{WITH_LAYERS}."
        )
    return fused(layers.eval())
