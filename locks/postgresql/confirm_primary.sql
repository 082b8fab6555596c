-- Whether this server may answer: false on a standby.
--
-- A primary that was frozen or cut off does not know that another server was promoted meanwhile, and would answer from a
-- state that is no longer true. It cannot commit a write, because its synchronous standbys have left it. So with
-- synchronous replication this writes a message to the log, and its commit waits for them. The message is in no table.
SELECT CASE
    WHEN current_setting('transaction_read_only') = 'on' THEN false
    WHEN current_setting('synchronous_standby_names') <> ''
        THEN pg_logical_emit_message(true, 'octoadmin', '') IS NOT NULL
    ELSE true
END
