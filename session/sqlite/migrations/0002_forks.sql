-- Forks. The connection that runs this enforces no foreign keys, or dropping the
-- old table would take the events with it; they are checked afterwards.
--
-- A session's row. key is never used again, so that what a deleted session's
-- writer still holds can never fit a later session.
--
-- A fork's first parent_seq events are those of its parent, in whose own log the
-- last of them stands: so a fork's own events are those after parent_seq, and
-- parent_seq is greater than the parent's own, but for a fork that shares nothing
-- with a session that is none. seq counts all events, the shared ones too.
--
-- A row without app, user and id is a deleted session, kept for the sake of the
-- events that forks of it share. It has no events but these, and goes with the
-- last of its forks. Its seq is 0.
--
-- lease_token counts the leases of the session; the token that callers see is
-- key * 2^32 + lease_token. lease_until is NULL while nobody holds the lease.
-- Times are nanoseconds since 1970 by the store's clock; created and updated are
-- NULL until the first events come, or the session is made as a fork.
--
-- lease_expires is always NULL. A program that only knows the first schema, and
-- has had the file open since before this, looks there: it finds its lease lost,
-- and the triggers tell it why it gets no other.
CREATE TABLE new_session (
	key           INTEGER PRIMARY KEY AUTOINCREMENT CHECK (key < 2147483648),
	app           TEXT,
	user          TEXT,
	id            TEXT,
	seq           INTEGER NOT NULL DEFAULT 0,
	created       INTEGER,
	updated       INTEGER,
	parent_key    INTEGER REFERENCES session (key),
	parent_seq    INTEGER,
	lease_token   INTEGER NOT NULL DEFAULT 0 CHECK (lease_token BETWEEN 0 AND 4294967295),
	lease_host    TEXT,
	lease_pid     INTEGER,
	lease_started INTEGER,
	lease_until   INTEGER,
	lease_expires INTEGER,
	UNIQUE (app, user, id),
	CHECK ((parent_key IS NULL) = (parent_seq IS NULL)),
	CHECK ((app IS NULL) = (id IS NULL) AND (user IS NULL) = (id IS NULL))
) STRICT;

INSERT INTO new_session (key, app, user, id, seq, created, updated, parent_key, parent_seq,
		lease_token, lease_host, lease_pid, lease_started, lease_until)
	SELECT key, app, user, id, seq, created, updated, parent_key, parent_seq,
		lease_token, lease_host, lease_pid, lease_started, lease_expires
	FROM session ORDER BY key;

-- Keys of sessions that were deleted must not come again.
DELETE FROM sqlite_sequence WHERE name = 'new_session';
INSERT INTO sqlite_sequence (name, seq) SELECT 'new_session', seq FROM sqlite_sequence WHERE name = 'session';

DROP TABLE session;
ALTER TABLE new_session RENAME TO session;

CREATE INDEX session_parent ON session (parent_key, parent_seq) WHERE parent_key IS NOT NULL;

CREATE TRIGGER session_lease_of_schema_1 BEFORE UPDATE OF lease_expires ON session BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;

CREATE TRIGGER session_of_schema_1 BEFORE INSERT ON session WHEN NEW.lease_expires IS NOT NULL BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;

CREATE TRIGGER session_delete_of_schema_1 BEFORE DELETE ON session WHEN OLD.id IS NOT NULL BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;
