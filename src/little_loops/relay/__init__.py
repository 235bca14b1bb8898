"""A relay: one plan, handed from agent to agent until it is implemented.

Each turn a fresh agent works on the plan and leaves a return-metadata file.  `rules` decides what
that file leads to, `contract` says what may stand in it, `turns` does what a turn needs before and
after the agent.

Not here: the machine a relay compiles to (`authoring.paradigms.relay`), running it (`fsm`).
"""
