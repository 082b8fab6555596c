"""Django on long-lived threads behind ASGI.

Django's own ASGI handler starts a thread for each request of a sync view, and each thread would connect to the database
anew. Here a fixed set of threads keep their connections, and with them their prepared statements.
"""
