-- What follows from a session's log, so that it need not be made from it again: parts of
-- one name, in their order. seq is how far the log was. All of it can be deleted at any
-- time, which costs time and nothing else.
CREATE TABLE snapshot (
	session INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
	name    TEXT    NOT NULL,
	part    INTEGER NOT NULL,
	seq     INTEGER NOT NULL,
	data    BLOB    NOT NULL,
	UNIQUE (session, name, part)
) STRICT;

-- A deleted session that forks share keeps its row, and none of its words but those that they share.
CREATE TRIGGER snapshot_of_deleted AFTER UPDATE OF id ON session WHEN NEW.id IS NULL BEGIN
	DELETE FROM snapshot WHERE session = NEW.key;
END;
