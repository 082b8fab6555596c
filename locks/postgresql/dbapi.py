"""psycopg as Django's backend sees it, with our class of connections."""

from psycopg import *  # noqa: F403 -- Django looks for the exceptions here

from locks.postgresql.connections import Connection

connect = Connection.connect
