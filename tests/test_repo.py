"""Rules of the tree: who may import what, sizes, the licence, the registry."""

import ast
import os
import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from strategies import STRATEGIES

ROOT = Path(__file__).resolve().parent.parent
MEGABYTE = 2**20
CODE = sorted([ROOT / "app.py", *(ROOT / "playground").rglob("*.py"), *(ROOT / "strategies").glob("*.py")])
NOT_DRAFTERS = ("__init__", "base")


def _imports(path: Path) -> set[str]:
    """Every module that the file imports, at its top or inside a function, but for those of type checks alone."""
    out: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            out |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return out


def _within(modules: set[str], package: str) -> set[str]:
    return {m for m in modules if m == package or m.startswith(package + ".")}


def _files() -> list[Path]:
    """What git would commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_only_the_page_imports_gradio() -> None:
    ui = ROOT / "playground" / "ui"
    guilty = [p for p in CODE if p.is_file() and ui not in p.parents and _within(_imports(p), "gradio")]
    assert guilty in ([], [ROOT / "app.py"])


@pytest.mark.parametrize("name", ["trace", "engine", "sampling", "metrics", "theory"])
def test_the_core_knows_no_strategy_no_text_and_no_page(name: str) -> None:
    imports = _imports(ROOT / "playground" / f"{name}.py")
    for outside in ("strategies", "playground.text", "playground.ui", "playground.view", "playground.html", "plotly"):
        assert not _within(imports, outside)


def test_the_engine_names_no_strategy() -> None:
    source = (ROOT / "playground" / "engine.py").read_text(encoding="utf-8")
    literals = {
        n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    assert not literals & (set(STRATEGIES) - {"plain"})  # "plain" is a verdict as well


def test_the_trace_needs_nothing_but_the_standard_library() -> None:
    assert not {m.split(".")[0] for m in _imports(ROOT / "playground" / "trace.py")} & {
        "torch",
        "transformers",
        "numpy",
    }


def test_every_strategy_file_is_registered_under_its_own_name() -> None:
    files = [p for p in (ROOT / "strategies").glob("*.py") if p.stem not in NOT_DRAFTERS]
    own = {path.stem: import_module(f"strategies.{path.stem}").STRATEGY for path in files}
    assert {s.name for s in own.values()} == set(STRATEGIES)
    assert all(STRATEGIES[s.name] is s for s in own.values())
    assert all(stem.replace("_", "-") == s.name.replace("+", "-") for stem, s in own.items())


def test_every_setting_of_a_strategy_accepts_its_own_default() -> None:
    for strategy in STRATEGIES.values():
        assert dict(strategy.settled({})) == {c.name: c.default for c in strategy.settings}


def test_no_file_is_over_30_megabytes_and_the_assets_stay_under_150() -> None:
    sizes = {path: path.stat().st_size for path in _files()}
    assert not [p for p, size in sizes.items() if size > 30 * MEGABYTE]
    assert sum(size for p, size in sizes.items() if ROOT / "assets" in p.parents) < 150 * MEGABYTE


def test_no_file_names_a_folder_of_one_machine() -> None:
    places = re.compile(rb"(?<![\w.~])/(?:work|root|opt/pypi|opt/wheels|home/\w+)/")
    text = {".py", ".md", ".txt", ".toml", ".js", ".css", ".json", ".yml", ".sh", ""}
    guilty = [p for p in _files() if p.suffix in text and "vendor" not in p.parts and places.search(p.read_bytes())]
    assert guilty in ([], [Path(__file__)])


def test_where_all_tests_must_run_there_is_a_browser() -> None:
    # Elsewhere the tests of the page are skipped, and say so, where there is none.
    found = any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    assert found or not os.environ.get("CI"), "CI is set and there is no Chromium: apt-get install chromium"


def test_the_licence_is_apache_2_everywhere() -> None:
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence and "Version 2.0, January 2004" in licence
    assert "license: apache-2.0" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_space_runs_the_gradio_that_is_pinned() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    front = readme.split("---")[1]
    pins = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().split() if "==" in line)
    assert f"sdk_version: {pins['gradio']}" in front
    assert "app_file: app.py" in front


def test_every_requirement_is_pinned_exactly() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        loose = [
            x for x in lines if x.strip() and not x.startswith(("#", "-r ")) and not re.fullmatch(r"[\w-]+==[\w.]+", x)
        ]
        assert loose == []


def test_every_path_in_the_readmes_map_exists() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## The map")[1]
    paths = [line.split()[0] for line in section.split("```")[1].splitlines() if line]
    assert paths and not [p for p in paths if not (ROOT / p).exists()]
