"""The lease engine: every state change of a lock, as SQL, and nothing else.

`operations` are the verbs, `requests` what they take, `outcomes` what they answer; `execution` runs them on a
database connection, blocking or not. Every verb is one statement, one round trip and one commit, which checks the
token, decides, changes the locks and writes the history together. It is repeated only where two callers met at
a name that neither had seen before.
"""
