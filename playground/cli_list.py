"""The commands `models`, `strategies` and `verifiers`: what there is to choose from."""

import argparse
import json
import textwrap
from collections.abc import Sequence
from typing import Any

from playground.models import CATALOGUE
from playground.sampling import VERIFIERS
from playground.settings import Choice
from strategies import STRATEGIES


def command(args: argparse.Namespace) -> None:
    """Print the list."""
    rows = {"models": models, "strategies": strategies, "verifiers": verifiers}[args.listing]()
    if args.json:
        print(json.dumps(rows, allow_nan=False))
    else:
        print("\n\n".join(map(_paragraph, rows)))


def models() -> list[dict[str, Any]]:
    """The catalogue, as plain values."""
    return [
        {
            "name": entry.name,
            "title": entry.title,
            "about": entry.about,
            "role": entry.role,
            "license": entry.license,
            "hub": entry.hub,
            "assistants": dict(entry.assistants),
        }
        for entry in CATALOGUE.values()
    ]


def strategies() -> list[dict[str, Any]]:
    """The registry, as plain values."""
    return [
        {
            "name": strategy.name,
            "title": strategy.title,
            "about": strategy.about,
            "wins": strategy.wins,
            "needs_assistant": strategy.needs_assistant,
            "drafts": strategy.drafts,
            "settings": _settings(strategy.settings),
        }
        for strategy in STRATEGIES.values()
    ]


def verifiers() -> list[dict[str, Any]]:
    """The verifiers, as plain values. `lossless`: where tokens are drawn; `lossless_greedy`: at temperature 0."""
    return [
        {
            "name": name,
            "title": info.title,
            "about": info.about,
            "lossless": info.lossless,
            "lossless_greedy": info.lossless_greedy,
            "needs_q": info.mixes,
            "settings": _settings(info.settings),
        }
        for name, info in VERIFIERS.items()
    ]


def _settings(choices: Sequence[Choice]) -> list[dict[str, Any]]:
    return [
        {
            "name": choice.name,
            "help": choice.help,
            "default": choice.default,
            "minimum": choice.minimum,
            "maximum": choice.maximum,
            "options": [value for value, _ in choice.options],
        }
        for choice in choices
    ]


def _paragraph(row: dict[str, Any]) -> str:
    lines = [f"{row['name']}  ({row['title']})"]
    about = [row["about"], row.get("wins", "")]
    lines += textwrap.wrap(" ".join(filter(None, about)), 90, initial_indent="  ", subsequent_indent="  ")
    if "role" in row:
        lines.append(f"  {row['role']}, {row['license']}" + (f", {row['hub']}" if row["hub"] else ""))
    if row.get("assistants"):
        lines.append(f"  assistants: {', '.join(f'{name} ({way})' for way, name in row['assistants'].items())}")
    flag = "--verifier-setting" if "lossless" in row else "--set"
    lines += [f"  {flag} {s['name']}={s['default']}  {_allowed(s)}: {s['help']}" for s in row.get("settings", ())]
    return "\n".join(lines)


def _allowed(setting: dict[str, Any]) -> str:
    if setting["options"]:
        return " | ".join(setting["options"])
    if setting["maximum"] is None:
        return f"{setting['minimum']:g} or more"
    return f"{setting['minimum']:g} to {setting['maximum']:g}"
