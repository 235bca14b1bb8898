"""Detect the checks of a JavaScript or TypeScript project: its package manager and scripts."""

from __future__ import annotations

import json
import os

from little_loops.cli.setup.detect import Checks, DetectedCheck, Language, count, need, read
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

PACKAGE = "package.json"
MANAGERS = {
    "pnpm-lock.yaml": "pnpm run",
    "yarn.lock": "yarn run",
    "bun.lock": "bun run",
    "bun.lockb": "bun run",
}
TYPE_SCRIPTS = ("typecheck", "type-check", "check-types", "types", "tsc")
NO_TESTS_YET = "no test specified"  # the text that `npm init` writes


class Package(NamedTuple):
    root: str
    run: str
    scripts: dict[str, str]
    dependencies: frozenset[str]

    @property
    def manager(self) -> str:
        return self.run.split()[0]


def javascript(root: str) -> Language | None:
    """Return the checks of a JavaScript or TypeScript project; None if it is not one."""
    text = read(root, PACKAGE)
    if not text:
        return None
    package = _package(root, text)
    checks = Checks(_tests(package), _lint(package), _types(package))
    typed = os.path.exists(os.path.join(root, "tsconfig.json"))
    return Language("typescript" if typed else "javascript", PACKAGE, checks)


def _package(root: str, text: str) -> Package:
    """Parse a package.json: how to run scripts, the scripts, and the dependencies.

    Invalid JSON counts as an empty file.
    """
    try:
        data = json.loads(text)
    except ValueError:
        data = {}
    data = data if isinstance(data, dict) else {}
    locks = (lock for lock in MANAGERS if os.path.exists(os.path.join(root, lock)))
    lock = next(locks, None)
    scripts = {
        name: line for name, line in _mapping(data, "scripts").items() if isinstance(line, str)
    }
    dependencies = {*_mapping(data, "dependencies"), *_mapping(data, "devDependencies")}
    run = "npm run -s" if lock is None else MANAGERS[lock]
    return Package(root, run, scripts, frozenset(dependencies))


def _mapping(data: dict[str, Any], name: str) -> dict[str, Any]:
    part = data.get(name)
    return part if isinstance(part, dict) else {}


def _tests(package: Package) -> DetectedCheck | None:
    """Return the check for the `test` script; None if there is none."""
    script = package.scripts.get("test", NO_TESTS_YET)
    if NO_TESTS_YET in script:
        return None
    command = f"{package.run} test"
    # Some runners exit with the number of failed tests. With `CI`, none of them waits for changes.
    lines = [*_needs(package, "test"), *_fail_with_1(f"CI=true {command}")]
    return DetectedCheck("test script", command, "\n".join(lines), needs=package.manager)


def _lint(package: Package) -> DetectedCheck | None:
    """Return the check for the `lint` script, which fixes what it can if that is `eslint`; None if
    there is none."""
    if "lint" not in package.scripts:
        return None
    can_fix = "eslint" in package.scripts["lint"]
    separator = " --" if package.manager == "npm" else ""
    command = f"{package.run} lint" + (f"{separator} --fix" if can_fix else "")
    script = "\n".join([*_needs(package, "lint"), command])
    return DetectedCheck("lint script", command, script, needs=package.manager)


def _types(package: Package) -> DetectedCheck | None:
    """Return the check for types: a script, or the project's own `tsc`; None if it has neither."""
    named = next((name for name in TYPE_SCRIPTS if name in package.scripts), None)
    if named is not None:
        command, needs = f"{package.run} {named}", _needs(package, named)
        if "tsc" not in package.scripts[named]:
            lines = [*needs, *_fail_with_1(command)]
            return DetectedCheck(
                f"{named} script", command, "\n".join(lines), needs=package.manager
            )
    elif "typescript" in package.dependencies and os.path.exists(
        os.path.join(package.root, "tsconfig.json")
    ):
        # Not with `npx`, which would download a missing one, or fail as if there were type errors.
        command, needs = "node_modules/.bin/tsc --noEmit", []
    else:
        return None
    # Exit code 2 means errors, too, but that files were written nevertheless.
    script = count(command, "tsc", "error TS[0-9]", "[12]")
    program = package.manager if needs else "node_modules/.bin/tsc"
    return DetectedCheck("tsc", command, "\n".join([*needs, script]), counts=True, needs=program)


def _needs(package: Package, script: str) -> list[str]:
    """Return script lines that check for the script and for installed dependencies."""
    has = f'node -e \'process.exit(require("./{PACKAGE}").scripts["{script}"] ? 0 : 1)\''
    lines = [need(has, f"{PACKAGE} has no script {script}")]
    if package.dependencies and not os.path.exists(os.path.join(package.root, ".pnp.cjs")):
        missing = f"node_modules is missing; run {package.manager} install"
        lines.append(need("[ -d node_modules ]", missing))
    return lines


def _fail_with_1(command: str) -> list[str]:
    """Return script lines that turn every failure of a program that did run into exit code 1."""
    return [f"{command} && exit 0", "code=$?", '[ "$code" -lt 126 ] && exit 1', 'exit "$code"']
