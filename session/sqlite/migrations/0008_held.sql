-- The sessions whose lease was taken and not given back: those that are under way, and those whose
-- holder has gone. They are few, so that whoever looks for them reads no others. It begins empty: who
-- was left behind before this is not taken up because a newer program came, and the file is up to date
-- at once, however large it is. The triggers keep it for programs of before, too, which have the file open.
CREATE TABLE held (
	session INTEGER PRIMARY KEY
) STRICT;

CREATE TRIGGER held_new AFTER INSERT ON session WHEN NEW.lease_until IS NOT NULL BEGIN
	INSERT OR IGNORE INTO held (session) VALUES (NEW.key);
END;

CREATE TRIGGER held_taken AFTER UPDATE OF lease_token ON session WHEN NEW.lease_until IS NOT NULL BEGIN
	INSERT OR IGNORE INTO held (session) VALUES (NEW.key);
END;

CREATE TRIGGER held_given_back AFTER UPDATE OF lease_until ON session WHEN NEW.lease_until IS NULL AND OLD.lease_until IS NOT NULL BEGIN
	DELETE FROM held WHERE session = NEW.key;
END;
