"""A setting of a strategy or a verifier: what it is called, what it may be, and the check of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playground.trace import InvalidRequest, Setting

if TYPE_CHECKING:
    from playground.models import Loaded


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting: a number with a range, or one of `options` (value, label). `when` names another setting and the
    value of it that this one needs to mean anything. `maximum_of` gives the maximum for a target, where it depends on
    it; it may refuse the target."""

    name: str
    label: str
    help: str
    default: Setting
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    options: tuple[tuple[str, str], ...] = ()
    when: tuple[str, str] | None = None
    maximum_of: Callable[["Loaded"], int] | None = None

    def check(self, value: object) -> Setting:
        """`value` as the setting's type.

        Raises:
            InvalidRequest: out of range, not an option, or of another type.
        """
        if self.options:
            allowed = [v for v, _ in self.options]
            if value not in allowed:
                raise InvalidRequest(f"{self.name} is {value!r}; it must be one of {', '.join(allowed)}.")
            return str(value)
        whole = isinstance(self.default, int)
        if isinstance(value, bool) or not isinstance(value, int | float) or (whole and not float(value).is_integer()):
            raise InvalidRequest(f"{self.name} is {value!r}; it must be {'a whole number' if whole else 'a number'}.")
        low, high = self.minimum, self.maximum
        if (low is not None and not value >= low) or (high is not None and not value <= high):
            allowed_range = f"{low:g} or more" if high is None else f"from {low:g} to {high:g}"
            raise InvalidRequest(f"{self.name} is {value!r}; it must be {allowed_range}.")
        return int(value) if whole else float(value)

    def check_for(self, target: "Loaded", value: Setting) -> None:
        """Refuse a value that is too large for `target`.

        Raises:
            InvalidRequest: it is.
        """
        if self.maximum_of is not None and isinstance(value, int | float) and value > (high := self.maximum_of(target)):
            raise InvalidRequest(
                f"{self.name} is {value!r}; it must be from {self.minimum or 0:g} to {high} with {target.name}."
            )


def settled(owner: str, choices: Sequence[Choice], values: Mapping[str, object]) -> tuple[tuple[str, Setting], ...]:
    """Every one of `choices`, those of `owner`, checked, defaults filled in, sorted by name.

    Raises:
        InvalidRequest: an unknown name or a bad value.
    """
    unknown = set(values) - {c.name for c in choices}
    if unknown:
        known = ", ".join(c.name for c in choices) or "none"
        raise InvalidRequest(f"{owner} has no setting {sorted(unknown)[0]!r}; it has: {known}.")
    return tuple(sorted((c.name, c.check(values.get(c.name, c.default))) for c in choices))
