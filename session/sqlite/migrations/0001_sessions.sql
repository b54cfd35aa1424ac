-- A session's row. key is never used again, so that what a deleted session's
-- writer still holds can never fit a later session.
--
-- parent_key and parent_seq are for forks: a session whose first parent_seq
-- events are those of its parent. Nothing writes them yet.
--
-- lease_token counts the leases of the session; the token that callers see is
-- key * 2^32 + lease_token. lease_expires is NULL while nobody holds the lease.
-- Times are nanoseconds since 1970 by the store's clock; created and updated are
-- NULL until the first events come.
CREATE TABLE session (
	key           INTEGER PRIMARY KEY AUTOINCREMENT CHECK (key < 2147483648),
	app           TEXT    NOT NULL,
	user          TEXT    NOT NULL,
	id            TEXT    NOT NULL,
	seq           INTEGER NOT NULL DEFAULT 0,
	created       INTEGER,
	updated       INTEGER,
	parent_key    INTEGER REFERENCES session (key),
	parent_seq    INTEGER,
	lease_token   INTEGER NOT NULL DEFAULT 0 CHECK (lease_token BETWEEN 0 AND 4294967295),
	lease_host    TEXT,
	lease_pid     INTEGER,
	lease_started INTEGER,
	lease_expires INTEGER,
	UNIQUE (app, user, id),
	CHECK ((parent_key IS NULL) = (parent_seq IS NULL))
) STRICT;

CREATE INDEX session_parent ON session (parent_key) WHERE parent_key IS NOT NULL;

-- One event a row, as the flat JSON object of package agent.
CREATE TABLE event (
	session INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
	seq     INTEGER NOT NULL,
	json    TEXT    NOT NULL,
	PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- State that sessions share, as JSON. scope is 'user' or 'app'; an app's state
-- has an empty user, and so may a user's.
CREATE TABLE state (
	app   TEXT NOT NULL,
	scope TEXT NOT NULL CHECK (scope IN ('user', 'app')),
	user  TEXT NOT NULL,
	name  TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (app, scope, user, name)
) STRICT, WITHOUT ROWID;
