"""The limits on agents that config files set: slots for the machine, budgets for user and project."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.errors import UsageError
from little_loops.fsm.budgets import Budget, WrongSetting, read_budget, read_slots
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.runs.config_files import project_config, read_mapping, user_config

AGENTS, BUDGET = "agents", "budget"
SETTINGS = (AGENTS, BUDGET)


class SpendingRules(NamedTuple):
    """All limits that apply to the agents of a run."""

    slots: int | None = None
    user: Budget | None = None
    project: Budget | None = None


def rules_of(root: str, environ: Mapping[str, str]) -> SpendingRules | None:
    """Return the limits that the config files of the user and of the project at `root` set, or None
    if they set none. Raises `UsageError` for an invalid setting."""
    user, project = user_config(environ), project_config(root)
    of_user = read_rules(read_mapping(user), user)
    of_project = read_rules(read_mapping(project), project, of_project=True)
    rules = SpendingRules(of_user.slots, of_user.user, of_project.user)
    return None if rules == SpendingRules() else rules


def read_rules(
    settings: Mapping[str, Any], path: str, *, of_project: bool = False
) -> SpendingRules:
    """Return the limits that one file sets; its budget is in `user`, also that of a project.

    `path` is for messages. Raises `UsageError` for an invalid setting, or if a project sets slots.
    """
    if of_project and AGENTS in settings:
        raise UsageError(
            f"`{path}`: `{AGENTS}` is a user setting",
            "slots are shared by all projects on this machine; set it in the user's config file",
        )
    try:
        slots = read_slots(settings[AGENTS]) if AGENTS in settings else None
        budget = read_budget(settings[BUDGET]) if BUDGET in settings else None
    except WrongSetting as refused:
        raise UsageError(f"`{path}`: {refused}", refused.help) from None
    return SpendingRules(slots, budget)
