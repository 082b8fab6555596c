"""The lease engine: every state change of a lock, as SQL, and nothing else.

`operations` are the verbs, `requests` what they take, `results` what they return; `execution` runs them on a database
connection, blocking or not. Every verb is one statement, one round trip and one commit, which checks the token,
decides, changes the locks and writes the history together. It is repeated only where two requests met at a new
name, and preceded by a second one where a lock has to be handed over.
"""
