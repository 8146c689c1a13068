"""The same run as plain transformers code. It loads nothing, and looks into no folder but those of bundled models.

Where `generate` cannot do what the playground does, the code is the nearest that works, and begins with comments
that say what differs.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from playground.catalogue import ASSETS, CATALOGUE, DEFAULT_TARGET, usual_assistant
from playground.generate_arguments import Part, draft_length, drafting, drafts_by, law
from playground.models import DRAFT_VOCABULARY
from playground.run import settle_verifier
from playground.trace import InvalidRequest, Request
from playground.ui.form import Form, lines
from playground.words import ENGLISH, say
from strategies import STRATEGIES, strategy

WIDTH = 100  # characters of a comment or a piece of text, at most
Note = tuple[str, dict[str, object]]
DtypeOf = Callable[[str], str | None]
Where = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Run:
    """What the code is written from. `request` has a stand-in prompt, `arguments` make `generate` draft."""

    request: Request
    arguments: Mapping[str, Any]
    notes: tuple[Note, ...]
    banned: tuple[str, ...]


def place(name: str) -> str:
    """What `from_pretrained` is given for a catalogue name or a folder: the Hub id, the bundled folder as seen from the
    playground's own, or the folder as it is."""
    entry = CATALOGUE.get(name)
    if entry is None:
        return name
    return entry.hub or f"assets/models/{name}"


def unknown(name: str) -> str | None:
    """The number format of a model where nobody knows: the checkpoint's own."""
    return None


def snippet(form: Form, language: str = ENGLISH, dtype_of: DtypeOf = unknown, where: Where = place) -> str:
    """The code for what the controls say, comments in `language`. `dtype_of` gives the number format that the
    playground loads a model in, `where` the place of its files, by its name.

    Settings that cannot be run give a comment that says why.
    """
    try:
        run = _run(form)
    except InvalidRequest as error:
        return _comment(say(language, "These settings cannot be run: {reason}", reason=error))
    notes = [*run.notes, *_notes_on_numbers(run, dtype_of(run.request.target))]
    parts = [
        _differences(notes, language),
        _imports(run),
        _models(run, dtype_of, where, language),
        _prompt(form),
        _stops(run, language),
        _generate(run, language),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _run(form: Form) -> _Run:
    numbers: dict[str, Any] = form.numbers()
    chosen = strategy(form.strategy)
    rule = settle_verifier(form.verifier, form.verifier_settings, chosen, form.settings)
    if not (form.prompt or "").strip():
        raise InvalidRequest("The prompt is empty: type something to continue.")
    asked = Request(
        prompt_ids=(0,),
        strategy=form.strategy,
        settings=chosen.settled(form.settings),
        target=form.target or "",
        assistant=(form.assistant or usual_assistant(form.target, form.strategy)) if chosen.needs_assistant else None,
        stop_strings=lines(form.stop_strings),
        verifier=form.verifier,
        verifier_settings=rule,
        **numbers,
    )
    near = nearest(asked)
    arguments = drafting(near)
    if arguments is None:
        near, arguments = replace(near, strategy="plain", settings=(), assistant=None, verifier="exact"), {}
    notes = differences(asked)
    if near.stop_strings and arguments:
        notes.append((_STOPS, {}))
    return _Run(near, arguments, tuple(notes), lines(form.banned))


_STOPS = (
    "generate has no stop strings with drafts. This looks for them after every round, and cuts off what the round "
    "wrote past them."
)


def nearest(asked: Request) -> Request:
    """The request that transformers can do and is like this one."""
    near = asked if asked.verifier == "ensemble" else replace(asked, verifier="exact", verifier_settings=())
    if asked.strategy != "lookup+assistant":
        return near
    kept = tuple(pair for pair in asked.settings if pair[0] in {c.name for c in STRATEGIES["assistant"].settings})
    return replace(near, strategy="assistant", k=int(asked.setting("assistant_k", 3)), settings=kept)


def differences(asked: Request) -> list[Note]:
    """What the nearest that transformers has does otherwise, a sentence each, in English, with its values."""
    return [*_of_strategy(asked), *_of_settings(asked), *_of_verifier(asked), *_of_target(asked)]


def _of_strategy(asked: Request) -> list[Note]:
    sampling = asked.temperature > 0
    if asked.strategy == "eagle":
        return [("transformers has no EAGLE head. This is plain decoding, without drafts.", {})]
    if asked.strategy == "lookup+assistant":
        return [
            (
                "transformers does either prompt lookup or an assistant, never both. Here the assistant drafts "
                "{k} tokens, and nothing is looked up.",
                {"k": asked.setting("assistant_k", 3)},
            )
        ]
    if asked.strategy == "mtp" and asked.k > 1:
        return [
            (
                "use_mtp drafts one token for each prediction layer of the checkpoint. The playground goes on to "
                "K = {k} tokens.",
                {"k": asked.k},
            )
        ]
    if asked.strategy == "mtp-drafter" and sampling:
        return [
            (
                "Measured with transformers 5.24: when sampling with a Gemma 4 drafter, generate takes its likeliest "
                "tokens for drawn ones. The output does not have the target's distribution.",
                {},
            )
        ]
    if asked.strategy == "universal" and (sampling or asked.verifier == "ensemble"):
        return [
            (
                "Measured with transformers 5.24: when sampling with two tokenizers, the output does not have the "
                "target's distribution, and the assistant is changed for good. This is plain decoding, without drafts.",
                {},
            )
        ]
    if asked.strategy == "universal" and asked.setting("method", "text") == "intersection":
        return [("At temperature 0 generate drafts text and tokenises it again; it has no shared tokens there.", {})]
    return []


def _of_settings(asked: Request) -> list[Note]:
    out: list[Note] = []
    if asked.strategy == "prompt-lookup" and asked.setting("take", "longest") != "first":
        out.append(("generate copies from the first match. The playground chooses another: its drafts differ.", {}))
    if asked.setting("vocabulary", "full") == "frequent" and _brings_a_list(asked.assistant):
        out.append(("generate lets the assistant guess among all tokens, which costs it more.", {}))
    schedule = asked.setting("schedule", "constant")
    if schedule == "heuristic":
        out.append(("generate lets a draft grow beyond K = {k}; the playground does not.", {"k": asked.k}))
    if schedule == "confidence" or (asked.strategy == "early-exit" and asked.setting("confidence", 0.0)):
        out.append(("Where scikit-learn is installed, generate changes the confidence threshold as it goes.", {}))
    return out


def _of_verifier(asked: Request) -> list[Note]:
    if asked.strategy == "plain":
        return []
    if asked.verifier == "ensemble" and asked.strategy in ("eagle", "universal"):
        return [("This is the target's own text, which the ensemble's is not.", {})]
    if asked.verifier == "ensemble" and asked.strategy == "mtp-drafter":
        return [("generate mixes in a Gemma 4 drafter in a way of its own: the text differs.", {})]
    if asked.verifier == "ensemble" and asked.strategy == "mtp" and asked.k > 1:
        return [("An ensemble's text depends on the length of the drafts: it differs here.", {})]
    if asked.temperature == 0 or asked.verifier in ("exact", "ensemble"):
        return []
    if asked.verifier == "typical":
        return [("transformers has no typical acceptance. This keeps the target's distribution.", {})]
    return [
        (
            "transformers has no {verifier} verifier. The distribution is the same, the text another.",
            {"verifier": asked.verifier},
        )
    ]


def _of_target(asked: Request) -> list[Note]:
    if asked.target != DEFAULT_TARGET:
        return []
    return [
        (
            "The playground's own copy of this target was made from 4-bit weights. The Hub's has them whole: the text "
            "can differ.",
            {},
        )
    ]


def _notes_on_numbers(run: _Run, dtype: str | None) -> list[Note]:
    if run.request.temperature > 0:
        return [("The same seed draws other random numbers than in the playground: another text.", {})]
    if run.arguments and dtype not in ("float32", None):
        return [
            (
                "In {dtype} a pass over several tokens rounds differently: where two tokens nearly tie, the text "
                "can differ.",
                {"dtype": dtype},
            )
        ]
    return []


def _brings_a_list(assistant: str | None) -> bool:
    if assistant in CATALOGUE:
        return (ASSETS / "models" / assistant / DRAFT_VOCABULARY).is_file()
    return assistant is not None  # a folder that is not looked into may hold one


def _imports(run: _Run) -> str:
    names = ["AutoModelForCausalLM", "AutoTokenizer"] + ["set_seed"] * (run.request.temperature > 0)
    torch = "import torch\n" if _searches(run) else ""
    return f"{torch}from transformers import {', '.join(names)}"


def _models(run: _Run, dtype_of: DtypeOf, where: Where, language: str) -> str:
    def load(variable: str, name: str) -> str:
        dtype = dtype_of(name) or "auto"
        return f"{variable} = AutoModelForCausalLM.from_pretrained({_quoted(where(name))}, dtype={_quoted(dtype)})"

    request, values = run.request, run.arguments.values()
    out = [
        f"tokenizer = AutoTokenizer.from_pretrained({_quoted(where(request.target))})",
        load("model", request.target),
    ]
    if Part.ASSISTANT_TOKENIZER in values:
        out.append(f"assistant_tokenizer = AutoTokenizer.from_pretrained({_quoted(where(request.assistant or ''))})")
    if Part.ASSISTANT in values:
        out.append(load("assistant", request.assistant or ""))
    holder = drafts_by(run.arguments)
    if holder is not None:
        out.append(_comment(say(language, "generate takes the length of a draft from here alone.")))
        out += [
            f"{holder}.generation_config.{name} = {_literal(value)}" for name, value in draft_length(request).items()
        ]
    return "\n".join(out)


def _prompt(form: Form) -> str:
    chat = form.chat and _has_template(form.target)
    out = [f"prompt = {_text(form.prompt)}"]
    applied = [
        'messages = [{"role": "user", "content": prompt}]',
        "inputs = tokenizer.apply_chat_template(",
        '    messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"',
        ")",
    ]
    plain = ['inputs = tokenizer(prompt, return_tensors="pt")']
    if chat is None:
        out += ["if tokenizer.chat_template:", *_indented(applied), "else:", *_indented(plain)]
    else:
        out += applied if chat else plain
    return "\n".join([*out, 'length = inputs["input_ids"].shape[1]'])


def _has_template(target: str) -> bool | None:
    """None: only the loaded tokenizer can tell."""
    if target == DEFAULT_TARGET:
        return True
    if target in CATALOGUE and CATALOGUE[target].hub is None:
        return (ASSETS / "models" / target / "chat_template.jinja").is_file()
    return None


def _searches(run: _Run) -> bool:
    return bool(run.request.stop_strings and run.arguments)


def _stops(run: _Run, language: str) -> str:
    out = []
    if run.banned:
        out += [
            _comment(say(language, "The tokens of these words, at the start of a text and after a space.")),
            f"banned = {_texts(run.banned)}",
            "spellings = [",
            '    tokenizer(text, add_special_tokens=False)["input_ids"]',
            '    for word in banned for text in (word, " " + word)',
            "]",
        ]
    if run.request.stop_strings:
        out.append(f"stop_strings = {_texts(run.request.stop_strings)}")
    if _searches(run):
        out += [
            "",
            "",
            "def stopped(ids, scores, **kwargs):",
            "    written = tokenizer.decode(ids[0, length:])",
            "    return torch.tensor([any(text in written for text in stop_strings)])",
            "",
        ]
    return "\n".join(out)


def _generate(run: _Run, language: str) -> str:
    request = run.request
    off = {"top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}
    arguments = [
        f"max_new_tokens={request.max_new_tokens},",
        *(
            f"{name}={value!r}," + _comment(say(language, "off"), "  ") * (off.get(name) == value)
            for name, value in law(request).items()
        ),
    ]
    if run.banned:
        arguments.append("bad_words_ids=[ids for ids in spellings if len(ids) == 1],")
    if _searches(run):
        arguments.append("stopping_criteria=[stopped],")
    elif request.stop_strings:
        arguments += ["stop_strings=stop_strings,", "tokenizer=tokenizer,"]
    for name, value in run.arguments.items():
        arguments.append(f"{name}={value.value if isinstance(value, Part) else repr(value)},")
    out = [f"set_seed({request.seed})"] if request.temperature > 0 else []
    out += ["output = model.generate(", *_indented(["**inputs,", *arguments]), ")"]
    if _searches(run):
        out += [
            "text = tokenizer.decode(output[0, length:])",
            "text = text[: min((text.find(s) + len(s) for s in stop_strings if s in text), default=len(text))]",
        ]
    else:
        out.append("text = tokenizer.decode(output[0, length:], skip_special_tokens=True)")
    return "\n".join([*out, "print(text)"])


def _indented(code: list[str]) -> list[str]:
    return [f"    {line}" for line in code]


def _differences(notes: Sequence[Note], language: str) -> str:
    if not notes:
        return ""
    items = [_comment(say(language, text, **values), bullet="- ") for text, values in notes]
    return "\n".join([_comment(say(language, "What differs from the run on the page:")), *items])


def _comment(text: str, before: str = "", bullet: str = "") -> str:
    """`text` as comment lines: nothing in it can end a comment."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    rows = textwrap.wrap(plain, WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet))
    return before + "\n".join(f"# {row}" for row in rows)


def _text(text: str) -> str:
    """A literal of `text`, a long one in pieces that end with its lines."""
    if len(text) <= WIDTH - 20:
        return _quoted(text)
    rows = [piece for line in text.splitlines(keepends=True) for piece in _pieces(line)]
    return "\n".join(["(", *_indented([_quoted(row) for row in rows]), ")"])


def _quoted(text: str) -> str:
    """Python's own literal of `text`, between double quotes where it holds no quotes."""
    literal = repr(text)
    return literal if "'" in text or '"' in text else f'"{literal[1:-1]}"'


def _texts(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _literal(value: object) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def _pieces(line: str) -> list[str]:
    """Parts of at most WIDTH characters, cut after a space where there is one."""
    out = []
    while len(line) > WIDTH:
        cut = line.rfind(" ", 0, WIDTH) + 1 or WIDTH
        out.append(line[:cut])
        line = line[cut:]
    return [*out, line] if line else out
