"""A view of a model in which matrices that read one input are multiplied as one.

A pass over a few tokens spends its time in reading weights, and one large matrix is read faster than three small ones.
The modules of the model are left as they are, and the weights are the same, in the same memory. It knows names of
modules, no model.
"""

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from playground.cache import with_parts

TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Names of children that a module calls in this order with one input; leading ones alone are joined too."""
_lock = threading.Lock()
_views: "WeakKeyDictionary[nn.Module, Any]" = WeakKeyDictionary()


def fused(model: Any) -> Any:
    """The view of `model`; made once for each model and shared, so that one pass at a time may run in it. `model`
    itself goes on to work, its weights being parts of larger ones."""
    with _lock:
        if model not in _views:
            with torch.no_grad():
                _views[model] = _view(model)
        return _views[model]


class _Product:
    """The joined matrix, and the outputs that wait for the modules that come later."""

    def __init__(self, parts: Sequence[nn.Linear]) -> None:
        self.sizes = [part.out_features for part in parts]
        self.weight = _together([part.weight for part in parts])
        biases = [part.bias for part in parts if part.bias is not None]
        self.bias = _together(biases) if biases else None
        self.read: Tensor | None = None
        self.waiting: list[Tensor] = []


class First(nn.Module):
    """The first of the joined modules: multiplies for all."""

    def __init__(self, own: nn.Linear, product: _Product) -> None:
        super().__init__()
        self.weight, self.bias = own.weight, own.bias
        self._product = product

    def forward(self, x: Tensor) -> Tensor:
        """Its own part of the product."""
        product = self._product
        first, *product.waiting = nn.functional.linear(x, product.weight, product.bias).split(product.sizes, -1)
        product.read = x
        return first


class Later(nn.Module):
    """One of the joined modules that come after: takes what the first one made, if it was made of the same input."""

    def __init__(self, own: nn.Linear, product: _Product, place: int, last: bool) -> None:
        super().__init__()
        self.weight, self.bias = own.weight, own.bias
        self._product, self._place, self._last = product, place, last

    def forward(self, x: Tensor) -> Tensor:
        """Its own part of the product."""
        product = self._product
        if product.read is not x:
            return nn.functional.linear(x, self.weight, self.bias)
        out = product.waiting[self._place]
        if self._last:
            product.read, product.waiting = None, []
        return out


def _view(module: nn.Module) -> Any:
    parts: dict[str, nn.Module] = {}
    for names in TOGETHER:
        parts |= _joined_parts(module, names)
    for name, child in module.named_children():
        if name not in parts and (view := _view(child)) is not child:
            parts[name] = view
    return with_parts(module, **parts) if parts else module


def _joined_parts(module: nn.Module, names: Sequence[str]) -> dict[str, nn.Module]:
    found = [getattr(module, name, None) for name in names]
    linear = [one for one in found if type(one) is nn.Linear]
    if len(linear) < len(names) or not _alike(linear):
        return {}
    product = _Product(linear)
    later: dict[str, nn.Module] = {
        name: Later(one, product, place, last=place == len(linear) - 2)
        for place, (name, one) in enumerate(zip(names[1:], linear[1:], strict=True))
    }
    return {names[0]: First(linear[0], product)} | later


def _alike(parts: Sequence[nn.Linear]) -> bool:
    first = parts[0]
    return not any(map(_hooked, parts)) and all(
        p.in_features == first.in_features
        and p.weight.dtype == first.weight.dtype
        and p.weight.device == first.weight.device
        and p.weight.device.type != "meta"
        and (p.bias is None) == (first.bias is None)
        for p in parts
    )


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or hasattr(module, "_hf_hook"))


def _together(tensors: Sequence[Tensor]) -> Tensor:
    """One tensor of all rows; the parameters become parts of it."""
    whole = torch.cat([t.detach() for t in tensors])
    for tensor, part in zip(tensors, whole.split([len(t) for t in tensors]), strict=True):
        tensor.data = part
    return whole
