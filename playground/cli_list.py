"""The commands `models` and `strategies`: what there is to choose from."""

import argparse
import json
import textwrap
from typing import Any

from playground.models import CATALOGUE
from strategies import STRATEGIES, Strategy


def command(args: argparse.Namespace) -> None:
    """Print the list."""
    rows = models() if args.listing == "models" else strategies()
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
            "assistants": list(entry.assistants),
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
            "settings": _settings(strategy),
        }
        for strategy in STRATEGIES.values()
    ]


def _settings(strategy: Strategy) -> list[dict[str, Any]]:
    return [
        {
            "name": choice.name,
            "help": choice.help,
            "default": choice.default,
            "minimum": choice.minimum,
            "maximum": choice.maximum,
            "options": [value for value, _ in choice.options],
        }
        for choice in strategy.settings
    ]


def _paragraph(row: dict[str, Any]) -> str:
    lines = [f"{row['name']}  ({row['title']})"]
    about = [row["about"], row.get("wins", "")]
    lines += textwrap.wrap(" ".join(filter(None, about)), 90, initial_indent="  ", subsequent_indent="  ")
    if "role" in row:
        lines.append(f"  {row['role']}, {row['license']}" + (f", {row['hub']}" if row["hub"] else ""))
    if row.get("assistants"):
        lines.append(f"  assistants: {', '.join(row['assistants'])}")
    lines += [f"  --set {s['name']}={s['default']}  {_allowed(s)}: {s['help']}" for s in row.get("settings", ())]
    return "\n".join(lines)


def _allowed(setting: dict[str, Any]) -> str:
    if setting["options"]:
        return " | ".join(setting["options"])
    return f"{setting['minimum']:g} to {setting['maximum']:g}"
