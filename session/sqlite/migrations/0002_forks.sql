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

-- One row a message: what a user said, or what an agent did in one activation.
-- Both are a run of events, whose id is the message's.
--
-- A message stands with the session in whose own log it began: those of a fork
-- are its own, and its parent's with a first_seq up to parent_seq, and so on.
-- parent_message_id is the message that holds the cause, which can stand with
-- another session of the line: what the run's first event names as parentId. So a
-- user's turn and an edited one in a fork are two rows with one parent_message_id.
--
-- completed says that the run has ended, and last_seq is the position of its end
-- then. agent is NULL for what a user said, and scope in the conversation itself.
CREATE TABLE message (
	session           INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
	id                TEXT    NOT NULL,
	parent_message_id TEXT,
	role              TEXT    NOT NULL CHECK (role IN ('user', 'agent')),
	agent             TEXT,
	scope             TEXT,
	turn_id           TEXT,
	first_seq         INTEGER NOT NULL,
	last_seq          INTEGER,
	completed         INTEGER NOT NULL CHECK (completed IN (0, 1)),
	PRIMARY KEY (session, id),
	CHECK (completed = (last_seq IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- The messages of the logs that are there. An event that is no JSON is passed
-- over: its session cannot be loaded, but all others can.
INSERT INTO message (session, id, parent_message_id, role, agent, scope, turn_id, first_seq, last_seq, completed)
WITH
mark AS MATERIALIZED ( -- the events that begin or end a run
	SELECT session, seq, json ->> 'type' AS type, json ->> 'runId' AS run, coalesce(json ->> 'parentId', '') AS parent,
		coalesce(json ->> 'agent', '') AS agent, coalesce(json ->> 'scope', '') AS scope, coalesce(json ->> 'turnId', '') AS turn
	FROM event
	WHERE iif(json_valid(json), json ->> 'runId' <> ''
		AND (json ->> 'type' IN ('user', 'harness_start', 'harness_end') OR json ->> 'parentId' <> ''), FALSE)
),
begun AS MATERIALIZED ( -- with the values of the event of the least seq
	SELECT session, run, min(seq) AS seq, type, parent, agent, scope, turn FROM mark
	WHERE type IN ('user', 'harness_start') OR parent <> ''
	GROUP BY session, run
),
ended AS MATERIALIZED (
	SELECT session, run, max(seq) AS seq FROM mark WHERE type = 'harness_end' GROUP BY session, run
),
caused AS MATERIALIZED ( -- parentId is RUN:TYPE, RUN:TYPE:NUMBER, the id of an event of the turn, or a run
	SELECT session, run, seq, CASE
		WHEN parent = '' THEN NULL
		WHEN substr(parent, -5) = ':user' THEN substr(parent, 1, length(parent) - 5)
		WHEN substr(parent, -14) = ':harness_start' THEN substr(parent, 1, length(parent) - 14)
		WHEN substr(parent, -12) = ':harness_end' THEN substr(parent, 1, length(parent) - 12)
		WHEN substr(parent, -6) = ':error' THEN substr(parent, 1, length(parent) - 6)
		WHEN rtrim(parent, '0123456789') <> parent AND substr(rtrim(parent, '0123456789'), -7) IN (':usage:', ':error:')
			THEN substr(rtrim(parent, '0123456789'), 1, length(rtrim(parent, '0123456789')) - 7)
		ELSE coalesce((
			SELECT e.json ->> 'runId' FROM event e
			WHERE e.session = b.session AND e.seq < b.seq
				AND e.seq >= b.turn_seq
				AND iif(json_valid(e.json), e.json ->> 'turnId' = b.turn
					AND e.json ->> 'id' = iif(substr(b.parent, -7) = ':result', substr(b.parent, 1, length(b.parent) - 7), b.parent), FALSE)
			ORDER BY e.seq DESC LIMIT 1), parent)
		END AS by
	FROM (SELECT *, max(iif(type = 'user', seq, 0)) OVER (PARTITION BY session ORDER BY seq) AS turn_seq FROM begun) b
)
SELECT b.session, b.run, p.run, iif(b.type = 'user', 'user', 'agent'), iif(b.type = 'user', NULL, nullif(b.agent, '')),
	nullif(b.scope, ''), nullif(b.turn, ''), b.seq, coalesce(e.seq, iif(b.type = 'user', b.seq, NULL)), b.type = 'user' OR e.seq IS NOT NULL
FROM begun b
JOIN caused c ON c.session = b.session AND c.run = b.run
LEFT JOIN begun p ON p.session = b.session AND p.run = c.by AND p.seq < b.seq
LEFT JOIN ended e ON e.session = b.session AND e.run = b.run;
