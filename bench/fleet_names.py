"""What the programs of row 22 agree on; it needs nothing of Temporal."""

BARE = "bare"
BARE_QUEUE = "bare"
HEARTBEAT_S = 2.0
