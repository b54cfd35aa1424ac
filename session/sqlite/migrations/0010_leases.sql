-- lease is the token of the last lease: the time in nanoseconds, so that after a restore the tokens of before do not come
-- again. It takes the place of lease_token, which had no room for it. That column stays because a program of before
-- names it, which has the file open: its next write fails, and the trigger tells it why.
ALTER TABLE session ADD COLUMN lease INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER session_lease_of_schema_8;
CREATE TRIGGER session_lease_of_schema_9 BEFORE UPDATE OF lease_token ON session BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;

DROP TRIGGER held_taken;
CREATE TRIGGER held_taken AFTER UPDATE OF lease ON session WHEN NEW.lease_until IS NOT NULL AND NEW.lease <> OLD.lease BEGIN
	INSERT OR IGNORE INTO held (session) VALUES (NEW.key);
END;
