"""A relay: one plan, handed from agent to agent until it is implemented.

In each turn, a fresh agent works on the plan and leaves a return-metadata file. `rules` decides
what follows from that file, `contract` defines its format, `turns` does what is needed before and
after the agent.

Not here: the machine a relay compiles to (`authoring.paradigms.relay`), running it (`fsm`).
"""
