"""JSON from outside to frozen dataclasses, by their types: what is missing, unknown or of another type is named.

Knows no run: only int, float, str, bool, None, Literal, unions of these, tuples and dataclasses of such. Whole numbers
are those of 64 bits, other numbers are finite. What a value must be beyond its type is for `check` to say.
"""

import json
import math
import re
import reprlib
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Reader = Callable[[object], Any]
Check = Callable[[Any], None]
LONGEST_MESSAGE = 300
_INT64 = 2**63
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Malformed(ValueError):
    """What is wrong; `where` grows from the inside out."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def within(self, name: str) -> "Malformed":
        """The same, seen from one level further out."""
        self.where = f"{name}{'.' if self.where and not self.where.startswith('[') else ''}{self.where}"
        return self

    def __str__(self) -> str:
        return shortened(f"{self.where or 'it'} {self.message}")


def shortened(text: str) -> str:
    """So much of it as a message may hold."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"


def shown(value: object) -> str:
    """A value in a message, however large or deep it is."""
    return reprlib.repr(value)


def parsed(text: str) -> Any:
    """What the JSON text holds.

    Raises:
        Malformed: not JSON, NaN or Infinity in it, a key twice in an object, text that is no Unicode, too deep.
    """
    try:
        data = json.loads(text, parse_constant=_constant, object_pairs_hook=_object)
        text.encode()
        if _SURROGATE.search(text):
            _check_unicode(data)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("is nested too deeply.") from None
    except ValueError as error:  # also of numbers with thousands of digits
        raise Malformed(f"cannot be read: {error}") from error
    return data


def _constant(name: str) -> float:
    raise Malformed(f"holds {name}, which is no number.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"holds an object with the field {shown(twice)} twice.")
    return made


def _check_unicode(data: object) -> None:
    # Half a character would break whatever writes the text out again, long after it was taken in.
    left = [data]
    while left:
        value = left.pop()
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Malformed(f"holds the text {shown(value)}, which is no Unicode text.") from None
        elif isinstance(value, dict):
            left += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            left += value


def read(cls: type, data: object, checks: Mapping[type, Check]) -> Any:
    """`data` as a `cls`. `checks` are called with every instance of these dataclasses.

    Raises:
        Malformed: a type does not fit, a field is missing or unknown, a check failed.
    """
    try:
        return _dataclass_reader(cls, tuple(checks.items()))(data)
    except RecursionError:
        raise Malformed("is nested too deeply.") from None


def _reader(hint: Any, checks: tuple[tuple[type, Check], ...]) -> Reader:
    if is_dataclass(hint):
        kind: Any = hint
        return _dataclass_reader(kind, checks)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal_reader(args)
    if origin in (Union, types.UnionType):
        return _union_reader(args, checks)
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return _list_reader(_reader(args[0], checks))
        return _row_reader([_reader(arg, checks) for arg in args])
    return _SCALARS[hint]


def _int(value: object) -> int:
    if type(value) is not int:
        raise Malformed(f"is {shown(value)}; it must be a whole number.")
    if not -_INT64 <= value < _INT64:
        raise Malformed("is a whole number of more than 64 bits.")
    return value


def _float(value: object) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and abs(value) < _INT64:
        return value
    raise Malformed(f"is {shown(value)}; it must be a finite number.")


def _str(value: object) -> str:
    if type(value) is not str:
        raise Malformed(f"is {shown(value)}; it must be text.")
    return value


def _bool(value: object) -> bool:
    if type(value) is not bool:
        raise Malformed(f"is {shown(value)}; it must be true or false.")
    return value


def _none(value: object) -> None:
    if value is not None:
        raise Malformed(f"is {shown(value)}; it must be null.")


_SCALARS: dict[Any, Reader] = {int: _int, float: _float, str: _str, bool: _bool, type(None): _none}


def _literal_reader(allowed: tuple[Any, ...]) -> Reader:
    def literal(value: object) -> Any:
        if type(value) is str and value in allowed:
            return value
        raise Malformed(f"is {shown(value)}; it must be one of {', '.join(allowed)}.")

    return literal


def _union_reader(options: tuple[Any, ...], checks: tuple[tuple[type, Check], ...]) -> Reader:
    # Null, or one other kind: its complaint is the one that helps. Or several scalars, told apart by their type.
    others = [option for option in options if option is not type(None)]
    null = len(others) < len(options)
    if len(others) == 1:
        one = _reader(others[0], checks)
        return lambda value: None if value is None and null else one(value)
    scalars = {option: _SCALARS[option] for option in others}

    def any_of(value: object) -> Any:
        if value is None and null:
            return None
        if type(value) not in scalars:
            raise Malformed(f"is {shown(value)}; it must be a number, text, true or false.")
        return scalars[type(value)](value)

    return any_of


def _list_reader(item: Reader) -> Reader:
    def items(value: object) -> tuple[Any, ...]:
        if type(value) is not list:
            raise Malformed(f"must be a list, not {type(value).__name__}.")
        made: list[Any] = []
        try:
            for one in value:
                made.append(item(one))
        except Malformed as error:
            raise error.within(f"[{len(made)}]") from None
        return tuple(made)

    return items


def _row_reader(columns: list[Reader]) -> Reader:
    def row(value: object) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(columns):
            raise Malformed(f"is {shown(value)}; it must be a list of {len(columns)} values.")
        return tuple(column(one) for column, one in zip(columns, value, strict=True))

    return row


@cache
def _dataclass_reader(cls: Any, checks: tuple[tuple[type, Check], ...]) -> Reader:
    hints = get_type_hints(cls)
    readers = {f.name: _reader(hints[f.name], checks) for f in fields(cls)}
    needed = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    check = dict(checks).get(cls)

    def instance(value: object) -> Any:
        if type(value) is not dict:
            raise Malformed(f"must be an object, not {type(value).__name__}.")
        if unknown := value.keys() - readers.keys():
            raise Malformed(f"has unknown fields: {', '.join(sorted(map(shortened, unknown)))}.")
        if missing := needed - value.keys():
            raise Malformed(f"lacks: {', '.join(sorted(missing))}.")
        made = {}
        name = ""
        try:
            for name, one in value.items():
                made[name] = readers[name](one)
        except Malformed as error:
            raise error.within(name) from None
        try:
            built = cls(**made)
        except ValueError as error:  # a dataclass that validates itself
            raise Malformed(f"is wrong: {error}") from error
        if check is not None:
            check(built)
        return built

    return instance
