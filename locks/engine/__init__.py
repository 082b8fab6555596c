"""The lease engine: every state change of a lock, as SQL, and nothing else.

`operations` takes `requests` and returns `results`; `handover` ends leases and keeps the queue, `maintenance` has the
sweep; `execution` runs all of them on a database connection, blocking or not. An operation is one statement, one round
trip and one commit, which checks the token, decides, changes the locks and writes the history together. The statement
is repeated only if two requests met at a new name; if the lock has to be handed over first, end_and_hand_over.sql runs
before it.
"""
