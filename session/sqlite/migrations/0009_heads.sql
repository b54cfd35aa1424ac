-- head is the id of the log's last event, and lease_nonce a random number of the last lease, so that a
-- database that went back to an earlier state is noticed: positions and lease tokens come again, and these
-- do not. head is NULL until a write of this version stores events.
ALTER TABLE session ADD COLUMN head TEXT;
ALTER TABLE session ADD COLUMN lease_nonce INTEGER NOT NULL DEFAULT 0;

-- A program of before, which has the file open, sets neither: it gets no lease any more, and the triggers tell it why.
CREATE TRIGGER session_lease_of_schema_8 BEFORE UPDATE OF lease_token ON session
	WHEN NEW.lease_until IS NOT NULL AND NEW.lease_token <> OLD.lease_token AND NEW.lease_nonce = OLD.lease_nonce BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;

CREATE TRIGGER session_of_schema_8 BEFORE INSERT ON session WHEN NEW.lease_until IS NOT NULL BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;

-- Each write sets the lease's columns, mostly to what they are.
DROP TRIGGER held_new;
DROP TRIGGER held_taken;
CREATE TRIGGER held_taken AFTER UPDATE OF lease_token ON session WHEN NEW.lease_until IS NOT NULL AND NEW.lease_token <> OLD.lease_token BEGIN
	INSERT OR IGNORE INTO held (session) VALUES (NEW.key);
END;
