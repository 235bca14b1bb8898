"""Settings from outside a loop file: LL_* variables override it, config files give defaults.

The order is: flag > LL_* variable > loop file > .loops/.config.yaml > the user's config > default.
Commands handle their flags; everything else is applied here, once, when a loop is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from little_loops.authoring.load import Definition, load_data
from little_loops.authoring.yaml.places import Places
from little_loops.errors import UsageError
from little_loops.fsm.schema import PROOF_VERDICTS, Evidence, FSMLoop, HostOptions, keeper_of
from little_loops.light_typing import Any
from little_loops.runs.config_files import FLEET, NOTIFY, TREES, read_mapping
from little_loops.runs.config_files import project_config as project_config
from little_loops.runs.config_files import user_config as user_config

SETTINGS = (
    *("max_iterations", "timeout", "idle_timeout", "backoff", "kill_grace", "shell", "host"),
    *("on_handoff", "max_continuations", "max_cost_usd", "max_tokens", "maintain_interval"),
)
EVIDENCE = "evidence"
"""Allowed only in config files, and merged key by key."""
LIMITS = frozenset(("agents", "budget"))
"""Limits on agents, only allowed in config files."""


def with_settings(definition: Definition, root: str, environ: Mapping[str, str]) -> FSMLoop:
    """Return the loop with all settings from LL_* variables and config files applied.

    Variables override the loop's file; config files set only what it does not. Raises `UsageError`
    for an invalid setting.
    """
    loop = definition.loop
    assert loop is not None, "only a valid loop has settings"
    configs = _configs(root, environ)
    defaults = {**configs[0], **configs[1]}
    loop = _with_evidence(loop, definition.places, [each.get(EVIDENCE) for each in configs])
    defaults.pop(EVIDENCE, None)
    below = {name: value for name, value in defaults.items() if not definition.places.has(name)}
    above = {
        name: environ[variable]
        for name in SETTINGS
        if (variable := f"LL_{name.upper()}") in environ
    }
    if not below and not above:
        return loop
    values = _validated({**below, **above}, "LL_* variables and config files")
    return loop._replace(**values)


def mentions_evidence(definition: Definition) -> bool:
    """Return whether a valid loop's file has any setting that depends on evidence."""
    loop = definition.loop
    assert loop is not None, "only a valid loop has evidence"
    fields = [f"on_{verdict}" for verdict in PROOF_VERDICTS]
    routed = any(getattr(state, field) for state in loop.states.values() for field in fields)
    keeps = keeper_of(loop) is not None
    return definition.places.has(EVIDENCE) or loop.scope_writes == "enforce" or routed or keeps


def _with_evidence(loop: FSMLoop, places: Places, configs: Sequence[Any]) -> FSMLoop:
    """Return the loop with the keys of `evidence` that config files set and its own file does not.

    Unchanged if the loop has switched evidence off, or if it has no agent and `enabled` is not set.
    """
    written: dict[str, Any] = {}
    for each in configs:
        written.update({"enabled": each} if isinstance(each, bool) else each or {})
    if not written or loop.evidence.enabled is False:
        return loop
    from little_loops.fsm.evidence import has_agent  # few projects have this setting

    own = loop.evidence
    # Config files apply to loops with agents, unless `enabled` is set there or in the loop.
    enabled = own.enabled if places.has(EVIDENCE) else written.get("enabled")
    if enabled is None and not has_agent(loop):
        return loop
    defaults: Evidence = _validated({EVIDENCE: written}, "config files")[EVIDENCE]
    kept = {name: getattr(own, name) for name in own._fields if places.has(EVIDENCE, name)}
    if "protect" in kept:
        kept["existing_only"] = own.existing_only
    return loop._replace(evidence=defaults._replace(**{**kept, "enabled": enabled}))


def host_given(host: HostOptions, given: Mapping[str, str]) -> HostOptions:
    """Return the host options with the given `name` or `model`.

    With another program, all other options are dropped, because they belong to the old one.
    """
    if given.get("name", host.host) == host.host:
        return host.under(HostOptions(given.get("name"), given.get("model")))
    other: HostOptions = _validated({"host": dict(given)}, "`--host`")["host"]
    return other


def names_set(root: str, environ: Mapping[str, str]) -> set[str]:
    """Return the names of the settings that a variable or a config file sets."""
    given = {name for name in SETTINGS if f"LL_{name.upper()}" in environ}
    return given.union(*_configs(root, environ))


def _configs(root: str, environ: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the user's and of the project's config file."""
    user = read_config(user_config(environ))
    return user, read_config(project_config(root), of_project=True)


def read_config(path: str, *, of_project: bool = False) -> dict[str, Any]:
    """Return the settings of a config file; {} if there is none.

    Raises `UsageError` or `DefinitionError` for unknown or invalid settings.

    Limits on agents are checked and left out: they are read again before an agent starts.
    """
    values = read_mapping(path)
    if NOTIFY in values:
        values = _without_recipients(values, path, of_project=of_project)
    if TREES in values:
        from little_loops.engine.tree_space import read_cap  # few users have set it

        read_cap(values, path)
        values = {name: value for name, value in values.items() if name != TREES}
    if FLEET in values:
        values = _without_fleet(values, path)
    if LIMITS & values.keys():
        from little_loops.spending.rules import read_rules  # few users have set any

        read_rules(values, path, of_project=of_project)
        values = {name: value for name, value in values.items() if name not in LIMITS}
    if unknown := values.keys() - {*SETTINGS, EVIDENCE}:
        listed = ", ".join(f"`{name}`" for name in sorted(unknown))
        known = ", ".join(
            f"`{name}`" for name in (*SETTINGS, EVIDENCE, *sorted(LIMITS), NOTIFY, TREES, FLEET)
        )
        raise UsageError(f"`{path}` has unknown settings: {listed}", f"known: {known}")
    if values:
        _validated(values, path)
    return values


def _without_fleet(values: dict[str, Any], path: str) -> dict[str, Any]:
    """Check the address of a fleet, and leave it out: commands read it before any loop. Raises
    `UsageError`."""
    if not isinstance(values[FLEET], str):
        raise UsageError(f"`{path}`: `{FLEET}` must be an address", "write `temporal://host:7233`")
    return {name: value for name, value in values.items() if name != FLEET}


def _without_recipients(values: dict[str, Any], path: str, *, of_project: bool) -> dict[str, Any]:
    """Check who is notified, and leave it out: it applies to each run, whatever its loop says.

    Raises `UsageError` for an invalid setting, or in the config file of a project.
    """
    from little_loops.engine.notifying import read_recipients  # few users have set any

    if of_project:
        raise UsageError(
            f"`{path}`: `{NOTIFY}` can be set only in a loop or by the user",
            "set it in the loop's file, or in the user's config file",
        )
    read_recipients(values, path)
    return {name: value for name, value in values.items() if name != NOTIFY}


def _validated(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the validated values, as if they were written in a loop file.

    Raises `UsageError`, which names `where` they come from.
    """
    written = {name: _scalar(value) for name, value in settings.items()}
    frame = {"name": "settings", "initial": "a", "states": {"a": {"terminal": True}}}
    read = load_data({**frame, **written}, "settings")
    if read.loop is None:
        raise UsageError(f"{where}: {read.problems[0].message}", read.problems[0].help)
    return {name: getattr(read.loop, name) for name in written}


def _scalar(value: Any) -> Any:
    """Convert the text of a variable to a number if it looks like one; return others unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return int(value) if value.isascii() and value.isdigit() else float(value)
    except ValueError:
        return value
