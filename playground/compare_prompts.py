"""The prompt sets of a comparison: the bundled ones, and those that a person pastes or uploads.

What a person gives is a stranger's text: it has limits, is checked line by line, and is only ever shown as text.
"""

from pathlib import Path

from playground.bench import Task, read_tasks, task_of
from playground.compare import Refused, in_turn, shown
from playground.models import ASSETS

PROMPTS = ASSETS / "prompts"
SETS = PROMPTS / "sets"
KINDS = ("chat", "translation", "summarising", "question answering", "mathematics", "retrieval", "code", "rewriting")
ALL_KINDS, OPENINGS, PASTED, FILE = "all", "openings", "pasted", "file"
OWN = "own"  # the kind of a prompt that names none

LARGEST = 2**20  # bytes
MOST_PROMPTS = 500
MOST_KINDS = 20
LONGEST = 20_000  # characters of a prompt
LONGEST_KIND = 40


def tasks_of(
    chosen: str, pasted: str | None = "", file: str | None = None, per_kind: object = None
) -> tuple[Task, ...]:
    """The prompts of a set, at most `per_kind` of each kind (None: all), in a round over the kinds. `chosen` is a kind,
    ALL_KINDS, OPENINGS, PASTED (`pasted` holds them) or FILE (`file` is its path).

    Raises:
        Refused: there is no such set, or what was given holds no prompts that can be used.
    """
    if per_kind is not None and (type(per_kind) not in (int, float) or per_kind < 1 or per_kind % 1):  # type: ignore[operator]
        raise Refused("Prompts per kind is {value}; it must be a whole number of 1 or more.", value=shown(per_kind))
    limit = None if per_kind is None else int(per_kind)  # type: ignore[call-overload]
    if chosen == PASTED:
        found = parse(pasted or "")
    elif chosen == FILE:
        found = read_file(file)
    else:
        found = bundled(chosen)
    kept: dict[str, list[Task]] = {}
    for task in found:
        of_kind = kept.setdefault(task.kind, [])
        if limit is None or len(of_kind) < limit:
            of_kind.append(task)
    return in_turn([task for of_kind in kept.values() for task in of_kind])


def bundled(name: str) -> tuple[Task, ...]:
    """A kind, all of them, or the story openings (held out from the story teller's training).

    Raises:
        Refused: there is no such set.
    """
    if name == OPENINGS:
        return read_tasks(PROMPTS / "openings.jsonl")
    if name != ALL_KINDS and name not in KINDS:
        known = ", ".join((ALL_KINDS, *KINDS, OPENINGS, PASTED, FILE))
        raise Refused("The prompt set is {value}; it must be one of {known}.", value=shown(name), known=known)
    wanted = KINDS if name == ALL_KINDS else (name,)
    return tuple(task for kind in wanted for task in read_tasks(SETS / f"{kind.replace(' ', '-')}.jsonl"))


def read_file(path: str | None) -> tuple[Task, ...]:
    """The prompts of an uploaded file.

    Raises:
        Refused: there is none, it is too large, is no text, or holds no prompts that can be used.
    """
    if not path:
        raise Refused("No file is chosen: choose a text file, or another prompt set.")
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise Refused("The file cannot be read: {error}.", error=type(error).__name__) from error
    if len(data) > LARGEST:
        raise Refused("The file is larger than 1 MB: choose a smaller one.")
    try:
        return parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Refused("The file is no UTF-8 text: save it as one.") from error


def parse(text: str) -> tuple[Task, ...]:
    """The prompts of a text: one a line; or, where its first line begins with a brace, an object a line (JSONL) with
    `kind` and `prompt`.

    Raises:
        Refused: it is too long, or holds no prompts that can be used; a bad line is named by its number.
    """
    if len(text) > LARGEST:
        raise Refused("The prompts are longer than 1 MB: give fewer.")
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise Refused("There is no prompt: write one a line.")
    if len(lines) > MOST_PROMPTS:
        raise Refused("There are {n} prompts, and at most {most} are taken: give fewer.", n=len(lines),
                      most=MOST_PROMPTS)  # fmt: skip
    with_kinds = lines[0][1].startswith("{")
    tasks = [_task(number, line) if with_kinds else Task(OWN, line) for number, line in lines]
    for (number, _), task in zip(lines, tasks, strict=True):
        _check(number, task)
    kinds = {task.kind for task in tasks}
    if len(kinds) > MOST_KINDS:
        raise Refused("There are {n} kinds, and at most {most} are taken: give fewer.", n=len(kinds), most=MOST_KINDS)
    return tuple(tasks)


def _task(number: int, line: str) -> Task:
    try:
        return task_of(line, f"Line {number}")
    except ValueError as error:  # digits by the thousand are no InvalidRequest but a plain ValueError
        reason = str(error).removeprefix(f"Line {number}").lstrip(": ")
        raise Refused("Line {number}: {reason}", number=number, reason=reason) from error


def _check(number: int, task: Task) -> None:
    if len(task.prompt) > LONGEST:
        raise Refused("Line {number} is {n} characters long, and at most {most} are taken: shorten it.",
                      number=number, n=len(task.prompt), most=LONGEST)  # fmt: skip
    if len(task.kind) > LONGEST_KIND:
        raise Refused("Line {number}: the kind is {n} characters long, and at most {most} are taken: shorten it.",
                      number=number, n=len(task.kind), most=LONGEST_KIND)  # fmt: skip
    for text in (task.prompt, task.kind):
        if "\0" in text or not _whole(text):
            raise Refused("Line {number} holds characters that are no text: remove them.", number=number)


def _whole(text: str) -> bool:
    try:
        text.encode("utf-8")  # JSON may hold half of a surrogate pair
    except UnicodeEncodeError:
        return False
    return True
