"""People who answer gates and send notes, in every order and at every moment.

They have dice of their own, so histories without them stay as they were.  The laws:

10. A note reaches exactly one step: every attempt of it, and no other step whose turn has ended.
    No note is lost: it is delivered, with the run, or in the mailbox; a run that ends names the
    notes that no agent has got.
11. An answer is used once, for the gate it was given to, and the run goes where it leads; a second
    answer is refused with the first one's text.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from little_loops.fsm.commands import RunAgent
from little_loops.fsm.gates import open_gate, refused_target
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Answer, LoopState, Note
from little_loops.runs.mailbox import MOST_WAITING
from tests.simulation.ledger import FINAL, ContractBroken

NOTES, ANSWERS = 10, 11
ENDS = "an ending"
Record = Mapping[str, Any]


def with_choices(loop: FSMLoop, dice: random.Random) -> FSMLoop:
    """The same loop, with a gate that more can be answered to."""
    names = sorted(loop.states)
    gate = loop.states["look"]._replace(
        on_rejected=dice.choice([None, None, None, *names]),
        choices=tuple(dice.sample(names, dice.randrange(3))),
    )
    return loop._replace(states={**loop.states, "look": gate})


def _target(loop: FSMLoop, answered: Record) -> str:
    """The state that an answer leads to."""
    gate = loop.states[answered["state"]]
    if answered.get("to") is not None:
        return str(answered["to"])
    if answered["verdict"] == "rejected":
        return gate.on_rejected or ENDS
    return gate.next or loop.initial


class People:
    """Those who tell a run something, and what they know of it."""

    def __init__(self, dice: random.Random, laws: Sequence[int] = (NOTES, ANSWERS)) -> None:
        self.dice = dice
        self.laws = laws
        self.mail: list[Note] = []  # the files in the mailbox
        self.answers: dict[int, Answer] = {}  # the files with answers, by gate
        self.actors: Counter[str] = Counter()
        self._posted: list[str] = []
        self._received: list[str] = []
        self._delivered: list[str] = []
        self._given: dict[str, int] = {}  # the step whose last turn got the note
        self._heard: dict[str, int] = {}  # the step in which such a turn has ended
        self._turn: tuple[int, frozenset[str]] | None = None  # the turn under way, and its notes
        self._named = False  # whether this ending has named notes
        self._used: dict[int, Answer] = {}
        self._leads_to: str | None = None  # `ENDS` after a rejection that nothing handles

    def hold(self, law: int, is_kept: bool, what: str) -> None:
        if not is_kept and law in self.laws:
            raise ContractBroken(law, what)

    # ── what they do ───────────────────────────────────────────────────────────────────────────

    def tell(self, run: LoopState | None) -> None:
        """`ll-loop tell`: a file in the mailbox, unless there are too many."""
        if run is None or not run.seq or self.dice.random() < 0.85:
            return
        waiting = {note.id for note in (*run.notes, *self.mail)}
        if len(waiting) >= MOST_WAITING:
            return
        number = len(self._posted) + 1
        self.post(Note(f"{number:013}-00000000", f"note {number}"))
        self.actors["tell"] += 1

    def post(self, note: Note) -> None:
        self.mail.append(note)
        self._posted.append(note.id)

    def answer(self, loop: FSMLoop, run: LoopState) -> None:
        """`approve` and `reject`, by up to two people at once: the first file counts."""
        gate = open_gate(run)
        if gate is None:
            return
        for who in range(self.dice.choice([0, 1, 1, 2])):
            mine = self._drawn(loop, run, gate, who)
            first = self.answers.setdefault(gate, mine)
            self.actors[mine.by if first is mine else "answer too late"] += 1
            self.actors["approve --to"] += first is mine and mine.to is not None

    def _drawn(self, loop: FSMLoop, run: LoopState, gate: int, who: int) -> Answer:
        text = f"answer {gate}/{who}"
        if self.dice.random() < 0.4:
            return Answer(gate, "rejected", "reject", text)
        choices = loop.states[run.current_state].choices
        to = self.dice.choice(choices) if choices and self.dice.random() < 0.7 else None
        if to is not None and refused_target(loop, run, to) is not None:
            to = None
        return Answer(gate, "approved", "approve", text, to)

    # ── what the runner finds ──────────────────────────────────────────────────────────────────

    def settled(self, run: LoopState) -> Answer | None:
        """The answer to the open gate; a resume without one approves, and that is stored."""
        gate = open_gate(run)
        if gate is None:
            return None
        return self.answers.setdefault(gate, Answer(gate, "approved", "resume"))

    def unread(self, run: LoopState) -> tuple[Note, ...]:
        """The notes that are not recorded; files of those that are, are removed."""
        known = {note.id for note in run.notes}
        self.mail = [note for note in self.mail if note.id not in known]
        return tuple(self.mail[: max(0, MOST_WAITING - len(known))])

    def discard(self, notes: Sequence[Note]) -> bool:
        """Remove the files of recorded notes; False: the runner was killed before that."""
        if notes and self.dice.random() < 0.2:
            self.actors["crash before mail is removed"] += 1
            return False
        self.mail = [note for note in self.mail if note not in notes]
        return True

    # ── the laws ───────────────────────────────────────────────────────────────────────────────

    def process_begins(self, from_state: str | None) -> None:
        self._turn = None
        self._named = False
        if from_state is not None:
            self._leads_to = None  # `--from` overrides an answer

    def agent_starts(self, command: RunAgent) -> None:
        step = command.job.step
        open_notes = [each for each in self._received if each not in self._delivered]
        texts = [f"note {int(each.partition('-')[0])}" for each in open_notes]
        self.hold(NOTES, list(command.notes) == texts, f"got {command.notes}, not {texts}")
        for each in open_notes:
            before = self._heard.get(each, step)
            self.hold(NOTES, before == step, f"{each} reached step {before} and step {step}")
            self._given[each] = step
        self._turn = step, frozenset(open_notes)

    def record(self, record: Record, loop: FSMLoop, from_state: str | None) -> None:
        """See an event that is in the log; `from_state` is what its process was asked for."""
        match record["event"]:
            case "note_received":
                self.hold(NOTES, record["id"] in self._posted, "a note that nobody sent")
                self.hold(NOTES, record["id"] not in self._received, "a note received twice")
                self._received.append(record["id"])
            case "note_delivered":
                self._deliver(record)
            case "action_complete":
                self._end_turn(record)
            case "action_interrupted":
                self._turn = None
            case "gate_answered":
                self._use(record)
                self._leads_to = None if from_state else _target(loop, record)
            case "transition" if self._leads_to is not None:
                to, self._leads_to = self._leads_to, None
                self.hold(ANSWERS, record["to"] == to, f"led to {record['to']}, not {to}")
            case "warning" if record["message"].startswith("no agent received"):
                self._named = True
            case name if name in FINAL and self._leads_to is not None:
                to, self._leads_to = self._leads_to, None
                # A disk that fails at the last look has priority; a resume opens the gate again.
                is_kept = to == ENDS and record["reason"] in ("rejected", "storage")
                self.hold(ANSWERS, is_kept, f"ended by {record['reason']}, not at {to}")
            case _:
                pass

    def _deliver(self, record: Record) -> None:
        note, step = record["id"], record["step"]
        self.hold(NOTES, note not in self._delivered, f"{note} delivered twice")
        self.hold(NOTES, self._heard.get(note) == step, f"{note}: step {step} never got it")
        self._delivered.append(note)

    def _end_turn(self, record: Record) -> None:
        """A turn that asks for another one (a handoff, a usage limit) has not ended its step."""
        turn, self._turn = self._turn, None
        is_cut = record.get("cut_by", "none") != "none"
        hands_off = (record.get("signal_line") or {}).get("type") == "handoff"
        if turn is None or (not is_cut and (hands_off or record.get("agent") == "wait")):
            return
        step, notes = turn
        self._heard.update(dict.fromkeys(notes, step))

    def _use(self, record: Record) -> None:
        gate = record["gate"]
        stored = self.answers.get(gate)
        self.hold(ANSWERS, stored is not None, f"gate {gate} was answered by nobody")
        self.hold(ANSWERS, gate not in self._used, f"gate {gate} was answered twice")
        if stored is not None:
            same = (record["verdict"], record.get("text", "")) == (stored.verdict, stored.text)
            self.hold(ANSWERS, same, f"gate {gate}: not the first answer")
            self._used[gate] = stored

    def ends(self, run: LoopState, last: Record) -> None:
        """A process has recorded an ending."""
        assert last["event"] in FINAL, last
        unheard = [note.id for note in run.notes if note.id not in self._heard]
        self.hold(NOTES, self._named == bool(unheard), f"{unheard} named: {self._named}")

    def history_ends(self, run: LoopState | None) -> None:
        """Every note is somewhere, and only there."""
        with_run = {note.id for note in run.notes} if run is not None else set()
        in_mail = {note.id for note in self.mail} - with_run
        for each in self._posted:
            places = (each in self._delivered) + (each in with_run) + (each in in_mail)
            self.hold(NOTES, places == 1, f"{each} is in {places} places")
