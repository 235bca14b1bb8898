"""Whether agents may skip permission prompts on a worker: who has agreed to that.

The account of the worker agrees: for every run, with an option of the worker; or for certain actions,
with `ll-loop trust` in its own clone of the repository. What the submitting user has agreed to at home
does not count here.

Not here: which actions need consent (`definitions.consent`), ending a run without it (`seat`).
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.definitions.consent import actions_needing_consent
from little_loops.definitions.trust import Trust, all_trust
from little_loops.fleet.git import WorkspaceError, git
from little_loops.fleet.names import repository_key
from little_loops.fsm.evidence import has_agent
from little_loops.fsm.schema import FSMLoop
from little_loops.hosts.json_lines import one_line
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

SHOWN = 100
"""How much of an action is shown in a refusal."""


class Consent(NamedTuple):
    """Whether agents of a run skip permission prompts; `refusal` is why the run cannot continue."""

    skips: bool
    refusal: str | None = None


def consent_for(
    loop: FSMLoop,
    context: Mapping[str, Any],
    root: str,
    given: Mapping[str, Any],
    environ: Mapping[str, str],
) -> Consent:
    """Return whether the agents of a run, in the project `root` of its clone, skip permission
    prompts. `given` is what the worker has been asked for. Raises `StorageError`."""
    if given["request"]["skip_permissions"]:
        return Consent(skips=True)
    if not has_agent(loop._replace(context={**loop.context, **context})):
        return Consent(skips=False)
    wanted = actions_needing_consent(loop, context, root)
    if not wanted:
        return Consent(skips=False)
    known = [each for each in all_trust(environ) if _is_clone(each, given, environ)]
    missing = [each for each in wanted if not any(trust.covers([each]) for trust in known)]
    if not missing:
        return Consent(skips=True)
    action = one_line(str(missing[0]), SHOWN)
    return Consent(
        skips=False,
        refusal=f"worker `{given['worker']}` does not let agents skip permission prompts: `{action}`"
        " (start the worker with `--allow-skip-permissions`, run `ll-loop trust` in a clone of the"
        " repository under its account, or set a safer `permission_mode`)",
    )


def _is_clone(trust: Trust, given: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    """Return whether consent was given in a clone of the run's repository, for the same project in
    it."""
    try:
        origin = git(trust.project, environ, "remote", "get-url", "origin")
        prefix = git(trust.project, environ, "rev-parse", "--show-prefix").rstrip("/")
    except (WorkspaceError, OSError):
        return False
    same = repository_key(origin) == repository_key(given["repository"])
    return same and prefix == given["prefix"]
