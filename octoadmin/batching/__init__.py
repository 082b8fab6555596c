"""The fast path: the ASGI application of plain, well-formed acquire, renew, release and inspect calls, of keepalives of
sessions, and of reads and writes of a run's store.

`head` decides from the request's head whether it is plain, `operations` knows the calls, the `batcher` puts all
requests that wait into one statement, `application` connects them. Every other request falls back to Django untouched,
so that DRF alone decides what is wrong with it. A request for which the engine has changed something never falls back.
"""
