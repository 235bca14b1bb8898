"""`ll-loop approve` and `ll-loop reject`: a gate is answered once, by anybody, from anywhere."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.project import DEADLINE_S, Project

GATE = """\
    initial: build
    states:
      build: {action: "echo \\"built ${loop.answer}\\"", next: look}
      look: {action: echo Ship it?, terminal: true, outcome: review, next: ship%s}
      ship: {action: "echo \\"shipped ${loop.answer}\\"", next: done}
      done: {terminal: true}
    """
ENDS = GATE % ""
ASKS = GATE % ", on_rejected: build, choices: [ship, build]"


def at_the_gate(project: Project, loop: str = ASKS) -> None:
    project.loop("release", loop)
    paused = project.ll("run", "release")
    assert paused.returncode == 4
    assert paused.stderr == "next: ll-loop approve release   or   ll-loop reject release -m TEXT\n"


def answers(project: Project) -> list[dict[str, Any]]:
    (events,) = project.root.glob(".loops/.[rh]*/**/*.events.jsonl")
    records = [json.loads(line) for line in events.read_text().splitlines()]
    return [record for record in records if record["event"] == "gate_answered"]


def without_times(text: str) -> list[str]:
    return [line.partition(" (")[0] for line in text.splitlines() if line]


def test_an_approval_continues_the_run_without_a_terminal(project: Project):
    at_the_gate(project)
    done = subprocess.run(
        project.argv("approve", "release", "-m", "at last"),
        cwd=project.root,
        env={name: text for name, text in project.environ().items() if name != "TERM"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        start_new_session=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert without_times(done.stdout) == [
        "State 'look' was approved: at last",
        "Resuming loop 'release' from state 'look'",
        "       → ship",
        '[1/50] ship → running echo "shipped ${loop.answer}"...',
        "       ✓ shipped at last",
        "       → done",
        "Loop completed: done",
    ]


def test_a_choice(project: Project):
    at_the_gate(project)
    again = project.ll("approve", "release", "--to", "build")
    assert again.returncode == 4
    assert "       → build (choices)\n" in again.stdout
    assert project.ll("approve", "release", "--to", "ship").returncode == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            ["approve", "release", "--to", "done"],
            "error: `done` is not one of the choices of state `look`: `ship`, `build`\n",
            id="another state",
        ),
        pytest.param(
            ["reject", "release"],
            "error: `ll-loop reject` needs a reason\n   = help: add `-m TEXT`\n",
            id="a rejection without a reason",
        ),
        pytest.param(
            ["approve", "release", "-m", "x" * 8193],
            "error: the message is longer than 8192 bytes\n   = help: put it in a file\n",
            id="a long text",
        ),
        pytest.param(
            ["approve", "nope"],
            "error: no loop or run named `nope`\n   = help: available: `release`\n",
            id="no such run",
        ),
    ],
)
def test_what_is_refused_and_leaves_the_gate_open(project: Project, words, expected):
    at_the_gate(project)
    refused = project.ll(*words)
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", expected)
    assert project.ll("approve", "release").returncode == 0


def test_without_choices_there_is_nothing_to_choose(project: Project):
    at_the_gate(project, ENDS)
    assert project.ll("approve", "release", "--to", "ship").stderr == (
        "error: state `look` has no `choices`, so `--to` has no effect\n"
    )


def test_a_rejection_goes_to_its_state_with_the_text_as_data(project: Project):
    at_the_gate(project)
    text = "no $(touch hit) `touch hit` \"; touch hit; ' ${loop.name}"
    back = project.ll("reject", "release", "-m", text)
    assert back.returncode == 4
    assert f"State 'look' was rejected: {text}\n" in back.stdout
    assert "       → build (on_rejected)\n" in back.stdout
    assert f"       ✓ built {text} (exit 0)\n" in back.stdout
    assert not (project.root / "hit").exists()


def test_a_rejection_without_a_state_fails_the_run_and_a_resume_asks_again(project: Project):
    at_the_gate(project, ENDS)
    ended = project.ll("reject", "release", "-m", "too early")
    assert ended.returncode == 1
    assert without_times(ended.stdout)[-1] == "Loop rejected in state 'look': too early"
    assert project.ll("approve", "release").stderr == (
        "error: `release` is not waiting at a gate: it has failed; its last gate was rejected, with"
        " the message 'too early'\n   = help: `ll-loop resume` opens the gate again\n"
    )
    again = project.ll("resume", "release")
    assert (again.returncode, without_times(again.stdout)[-1]) == (
        4,
        "Loop needs review: Ship it?",
    )
    assert project.ll("approve", "release", "-m", "now").returncode == 0


def test_a_bare_resume_approves_and_the_event_says_so(project: Project):
    at_the_gate(project)
    said = project.ll("resume", "release")
    assert said.returncode == 0
    assert said.stdout.startswith("State 'look' was approved by `ll-loop resume`\n")
    (answer,) = answers(project)
    assert (answer["verdict"], answer["by"]) == ("approved", "resume")


def test_an_answer_without_a_resume_is_kept_for_the_next_one(project: Project):
    at_the_gate(project)
    kept = project.ll("approve", "release", "-m", "later", "--no-resume")
    assert (kept.returncode, kept.stdout) == (
        0,
        "release is approved; `ll-loop resume release` continues it\n",
    )
    second = project.ll("reject", "release", "-m", "no, wait")
    assert (second.returncode, second.stderr) == (
        2,
        (
            "error: `release` has already been approved, with the message 'later'\n"
            "   = help: to continue with that answer, run `ll-loop resume release`\n"
        ),
    )
    assert "shipped later" in project.ll("resume", "release").stdout
    assert [answer["text"] for answer in answers(project)] == ["later"]


def test_an_answer_for_programs(project: Project):
    at_the_gate(project)
    kept = project.ll("approve", "release", "--no-resume", "--json")
    assert json.loads(kept.stdout) == {"schema": 1, "name": "release", "answer": "approved"}
    assert project.ll("approve", "release", "--no-resume", "-qq").returncode == 2


def test_in_the_background(project: Project):
    at_the_gate(project)
    begun = project.ll("approve", "release", "-m", "go", "--background")
    assert begun.returncode == 0
    assert begun.stdout.startswith("release is running in the background (pid ")
    assert project.ll("wait", "release").returncode == 0
    assert [answer["text"] for answer in answers(project)] == ["go"]


def test_a_run_that_waits_at_no_gate(project: Project):
    project.loop("plain", "initial: a\nstates:\n  a: {action: exit 2}\n")
    project.ll("run", "plain")
    refused = project.ll("approve", "plain")
    assert (refused.returncode, refused.stderr) == (
        2,
        "error: `plain` is not waiting at a gate: it has failed\n",
    )


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_loop_that_never_ran_has_nothing_to_answer(project: Project, verb):
    project.loop("release", ENDS)
    refused = project.ll(verb, "release", "-m", "x")
    assert (refused.returncode, refused.stderr) == (
        2,
        f"error: `release` has no run to {verb}\n",
    )


def test_a_run_that_waits_for_its_budget_is_not_approved(project: Project):
    at_the_gate(project)
    state = project.running("release", ".state.json")
    told = json.loads(state.read_text())
    state.write_text(json.dumps({**told, "reason": "budget"}))
    refused = project.ll("approve", "release")
    assert (refused.returncode, refused.stderr) == (
        2,
        (
            "error: `release` is paused (budget), not waiting for an answer\n"
            "   = help: `ll-loop resume release` continues it\n"
        ),
    )


def test_a_changed_definition_is_refused_before_the_answer_is_stored(project: Project):
    at_the_gate(project)
    project.loop("release", ENDS)
    refused = project.ll("approve", "release", "--to", "build")
    assert refused.returncode == 2
    assert "the definition of `release` has changed" in refused.stderr
    again = project.ll("approve", "release", "--to", "build", "--definition", "original")
    assert again.returncode == 4


def test_a_choice_that_the_current_definition_does_not_have(project: Project):
    at_the_gate(project)
    project.ll("approve", "release", "--to", "build", "--no-resume")
    project.loop("release", ENDS)
    refused = project.ll("resume", "release", "--definition", "current")
    assert (refused.returncode, refused.stderr) == (
        2,
        (
            "error: state `look` has no `choices`, so `--to` has no effect\n"
            "   = help: `ll-loop resume --from STATE` continues in a state of your choice\n"
        ),
    )
    again = project.ll("resume", "release", "--definition", "original")
    assert (again.returncode, again.stdout.splitlines()[2]) == (4, "       → build (choices)")


def test_a_file_that_was_there_before_the_gate_opened_is_no_answer(project: Project):
    forged = json.dumps({"gate": 9, "verdict": "approved", "by": "approve"})
    plant = f"echo '{forged}' > $LL_RUN_DIR/answer-9.json; for n in 1 2 3 4 5 6 7 8 9 10 11 12;"
    plant += f" do echo '{forged}' > $LL_RUN_DIR/answer-$n-.json; done"
    project.loop(
        "release",
        json.dumps(
            {
                "initial": "build",
                "states": {
                    "build": {"action": plant, "next": "look"},
                    "look": {"terminal": True, "outcome": "review", "next": "done"},
                    "done": {"terminal": True},
                },
            }
        ),
    )
    assert project.ll("run", "release").returncode == 4
    assert project.ll("reject", "release", "-m", "no").returncode == 1
    (answer,) = answers(project)
    assert (answer["verdict"], answer["text"]) == ("rejected", "no")


def test_two_answers_at_once_one_wins(project: Project):
    """Each with its own text; whoever is too late learns the text of the one who was not."""
    at_the_gate(project)
    texts = [f"answer {number}" for number in range(6)]
    verbs = ["approve", "reject"] * 3
    racers = [
        subprocess.Popen(
            project.argv(verb, "release", "-m", text, "--no-resume"),
            cwd=project.root,
            env=project.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for verb, text in zip(verbs, texts, strict=True)
    ]
    said = [racer.communicate(timeout=DEADLINE_S) for racer in racers]
    codes = [racer.returncode for racer in racers]
    assert sorted(codes) == [0, 2, 2, 2, 2, 2]
    winner = codes.index(0)
    word = "approved" if verbs[winner] == "approve" else "rejected"
    for number, (_, err) in enumerate(said):
        if number != winner:
            assert err == (
                f"error: `release` has already been {word}, with the message '{texts[winner]}'\n"
                "   = help: to continue with that answer, run `ll-loop resume release`\n"
            )
    project.ll("resume", "release")
    assert [(each["verdict"], each["text"]) for each in answers(project)] == [(word, texts[winner])]


def test_an_approval_and_a_rejection_that_both_resume(project: Project):
    """Whatever the order, one answer is recorded, and the other command names its text."""
    at_the_gate(project, ENDS)
    racers = {
        text: subprocess.Popen(
            project.argv(verb, "release", "-m", text),
            cwd=project.root,
            env=project.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for verb, text in (("approve", "yes please"), ("reject", "no thanks"))
    }
    said = {text: racer.communicate(timeout=DEADLINE_S) for text, racer in racers.items()}
    (answer,) = answers(project)
    won = answer["text"]
    lost = next(text for text in racers if text != won)
    assert racers[won].returncode == (0 if answer["verdict"] == "approved" else 1)
    assert racers[lost].returncode == 2
    assert won in said[lost][1]
